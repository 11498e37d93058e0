# SPDX-License-Identifier: Apache-2.0
"""The operator library: every operator by its name.

    from opgraft import ops
    y = ops.rms_norm(x, weight)

An attention operator runs a plan, which `plan_attention` makes. Classes in the
shape of FlashInfer's wrappers stand in opgraft.flashinfer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch

from ._load.module import Module, load

# The most that a plan without fixed_split asks for as split_bytes.
SPLIT_BYTES_PER_THREAD = 160 * 1024

_functions: dict[str, Callable[..., Any]] = {}
_modules: dict[str, Module] = {}


def _folder() -> Path:
    """Where the modules lie: in the package, or where a build put them."""
    given = os.environ.get("OPGRAFT_OPS_DIR")
    folder = Path(given) if given else Path(__file__).parent / "modules"
    if not any(folder.glob("*.so")):
        raise ImportError(
            f"{folder} holds no operator modules: install the package, or set "
            "OPGRAFT_OPS_DIR to the modules folder of a build"
        )
    return folder


def _load_all() -> None:
    for path in sorted(_folder().glob("*.so")):
        module = load(path)
        _modules[module.name] = module
        for name, function in module._functions.items():
            if not name.endswith("_backward"):
                _functions[name] = function


_load_all()
globals().update(_functions)


class Plan(NamedTuple):
    """A plan and what the operators that run it are given beside it.

        >>> starts = torch.tensor([0, 3, 8])  # two requests, of 3 and 5 tokens
        >>> plan = ops.plan_attention(starts, starts, 2, 2, 32, threads=1)
        >>> plan.plan.dtype, plan.split_bytes, plan.imbalance
        (torch.uint8, 0, 1.0)
    """

    plan: torch.Tensor
    split_bytes: int
    imbalance: float  # the longest thread's work over the mean


def _int32(x: torch.Tensor | None) -> torch.Tensor | None:
    return None if x is None else x.to(device="cpu", dtype=torch.int32)


def plan_attention(
    kv_indptr: torch.Tensor,
    qo_indptr: torch.Tensor | None,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int | None = None,
    *,
    last_page_len: torch.Tensor | None = None,
    page_size: int = 0,
    causal: bool = False,
    window_left: int = -1,
    fixed_split: int = 0,
    heads_first: bool = False,
    threads: int = 0,
    buffer: torch.Tensor | None = None,
) -> Plan:
    """Plans a batch of attention: see ops.attention_plan.

    With `buffer`, a uint8 tensor, the plan is written there; one of
    ops.attention_plan_max bytes serves every smaller batch.

    RuntimeError where two lengths contradict each other.

        >>> starts = torch.tensor([0, 3, 8])
        >>> plan = ops.plan_attention(starts, starts, 2, 2, 32, causal=True)
        >>> q = torch.randn(8, 2, 32)
        >>> y, lse = ops.batch_prefill_ragged(plan.plan, q, q, q)
        >>> y.shape, lse.shape
        (torch.Size([8, 2, 32]), torch.Size([8, 2]))
        >>> ops.plan_attention(starts, starts[:2], 2, 2, 32)
        Traceback (most recent call last):
        RuntimeError: attention_plan_size: qo_indptr[B1]: B1 is 2 here, but ...
    """
    m = _modules["attention_plan"]
    batch = (_int32(kv_indptr), _int32(qo_indptr), _int32(last_page_len))
    problem = (num_qo_heads, num_kv_heads, head_dim_qk,
               head_dim_qk if head_dim_vo is None else head_dim_vo, page_size,
               causal, window_left, fixed_split, heads_first, threads)
    if buffer is None:
        size = int(m.attention_plan_size(*batch, *problem))
        plan = m.attention_plan(*batch, *problem, size=size)
    else:
        plan = buffer
        out = getattr(torch.ops, m.namespace).attention_plan.out
        out(*batch, *problem, size=buffer.numel(), out=buffer)
    info = m.attention_plan_info(plan).tolist()
    return Plan(plan, info[1], info[7] / 1e6)


def __dir__() -> list[str]:
    return sorted([*_functions, "Plan", "plan_attention"])

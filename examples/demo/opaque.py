#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An opaque kernel in a full graph.

Each block of a model calls a C function that PyTorch cannot look into (a
PyCapsule function, as pybind11 makes them), and torch.compile stops there.
opgraft.adopt_module makes it an operator: a schema, a shape rule and a dtype
rule. Kernel and model stay as they are.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

import torch
from common import HERE, difference, show, times

import opgraft

RULES = dict(
    schema="expert_ffn(Tensor(a!) out, Tensor x, Tensor ids, Tensor weights, "
           "Tensor w1, Tensor w2) -> ()",
    shape="out[T, H], x[T, H], ids[T, K], weights[T, K], w1[E, I, H], "
          "w2[E, H, I] ->",
    dtype="out: f32, x: out, ids: i64, weights: out, w1: out, w2: out ->")


def build(folder: str) -> None:
    """The kernel's extension module, where Python finds it."""
    out = f"{folder}/moe_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["cc", "-O3", "-shared", "-fPIC",
                    f"-I{sysconfig.get_paths()['include']}",
                    HERE / "moe_kernel.c", "-o", out, "-lm"], check=True)
    sys.path.insert(0, folder)


def refusal(model: Any, x: torch.Tensor) -> str:
    """Why there is no full graph."""
    try:
        torch.compile(model, fullgraph=True, backend="eager")(x)
    except torch._dynamo.exc.Unsupported as error:
        return str(error).splitlines()[0]
    raise SystemExit("fullgraph=True takes a kernel that it cannot see into")


def compiled(model: Any, x: torch.Tensor, **options: Any) -> tuple[Any, int]:
    """(the compiled model, its graphs)"""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    f = torch.compile(model, **options)
    f(x)
    return f, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        build(folder)
        import moe_kernel
        from moe_model import Model

        model, x = Model(), torch.randn(4, 64)
        eager = model(x)
        print(f"  the kernel is a {type(moe_kernel.expert_ffn.__self__).__name__}"
              f" function; fullgraph=True: {refusal(model, x)}")
        split, before = compiled(model, x)
        shown = times({"eager": lambda: model(x),
                       f"Inductor, {before} graphs": lambda: split(x)})
        with opgraft.adopt_module(moe_kernel, {"expert_ffn": RULES}):
            whole, after = compiled(model, x, fullgraph=True)
            ours, _ = compiled(model, x, fullgraph=True, backend="opgraft")
            worst = max(difference(f(x), eager) for f in (whole, ours))
            shown |= times({f"adopted: Inductor, {after} graph": lambda: whole(x),
                            "adopted: opgraft, 1 graph": lambda: ours(x)})
        show(shown)
        first, *_, last = shown.values()
        print(f"opaque kernel: {before} graphs became {after}; equal to eager "
              f"within {worst}; {first:.0f} -> {last:.0f} us, "
              f"{first / last:.1f} times as fast")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""torch.library.opcheck and gradcheck for every operator of the library."""

from __future__ import annotations

from typing import Any, Callable

import oracle
import pytest
import torch
from torch.library import opcheck

SIZES = (4, 2, 32, 32)  # query and KV heads, head sizes


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def batch_of(q_lens: list[int], kv_lens: list[int]) -> oracle.Batch:
    return oracle.make_batch(q_lens, kv_lens, (4, 2), (32, 32), torch.float32)


def planned(ops: Any, batch: oracle.Batch, **settings: Any) -> torch.Tensor:
    q_indptr = None if settings.pop("decode", False) else batch.qo_indptr
    return ops.plan_attention(
        batch.kv_indptr, q_indptr, *SIZES, fixed_split=-1, **settings).plan


def paged_arguments(ops: Any, decode: bool) -> tuple[Any, ...]:
    """Two requests, of 5 keys in two pages of 4 and of 3 in one."""
    q_lens = [1, 1] if decode else [3, 2]
    batch = batch_of(q_lens, [5, 3])
    plan = ops.plan_attention(
        int32(0, 2, 3), None if decode else batch.qo_indptr, *SIZES,
        last_page_len=int32(1, 3), page_size=4, fixed_split=-1).plan
    cache = rand(6, 4, 2, 32)
    return plan, batch.q, cache, cache.clone(), int32(4, 0, 2)


def scaled_arguments(ops: Any, decode: bool) -> tuple[Any, ...]:
    plan, q, cache, _, pages = paged_arguments(ops, decode)
    return (plan, q, bytes_of(*cache.shape), bytes_of(*cache.shape), pages, rand(1),
            rand(1))


def moe_arguments(ops: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    packed = [ops.fused_moe_prepack(rand(*s)) for s in ((2, 32, 20), (2, 20, 16))]
    ids = int32(0, 1, 1).reshape(3, 1)
    return (rand(3, 20), *packed, rand(3, 1).abs(), ids), {"inner": 16}


def rope_arguments(grad: bool) -> tuple[Any, ...]:
    return (rand(3, 4, 16).requires_grad_(grad),
            rand(3, 2, 16).requires_grad_(grad), torch.tensor([0, 5, 9]))


def table_arguments(grad: bool) -> tuple[Any, ...]:
    return (*rope_arguments(grad), rand(10, 16))


def codes(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 16, sizes, dtype=torch.uint8)


def bytes_of(*sizes: int) -> torch.Tensor:
    """Not of float8, which opcheck cannot compare."""
    return codes(*sizes).view(torch.int8)


def cases(ops: Any) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of each operator: (positional, keyword)."""
    ragged, one = batch_of([3, 2], [5, 3]), batch_of([1, 1], [5, 3])
    plan = planned(ops, ragged)
    problem = (ragged.kv_indptr, ragged.qo_indptr, None, *SIZES)
    x, w = rand(3, 24).requires_grad_(), rand(24).requires_grad_()
    kv = (rand(2, 2, 8), rand(2, 2, 8))
    caches = (rand(3, 4, 2, 8), rand(3, 4, 2, 8))
    narrow = bytes_of(3, 4, 2, 8), bytes_of(3, 4, 2, 8)
    scales = rand(2), rand(2)
    found: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        name: ((x,), {}) for name in oracle.GATED}
    found |= {
        "append_paged_kv_cache": (
            (*kv, int32(0, 1), int32(4, 0), *caches, int32(2, 0, 1),
             int32(0, 2, 3), int32(2, 1)), {}),
        "apply_rope": (rope_arguments(True), {"rotary_dim": 8}),
        "apply_rope_inplace": (rope_arguments(False), {}),
        "apply_rope_with_cos_sin_cache": (table_arguments(True), {}),
        "apply_rope_with_cos_sin_cache_inplace": (table_arguments(False), {}),
        "attention_plan": (problem, {"size": plan.numel(), "fixed_split": -1}),
        "attention_plan_info": ((plan,), {}),
        "attention_plan_max": ((3, 20, 30, *SIZES), {"threads": 2}),
        "attention_plan_size": (problem, {}),
        "batch_decode_paged": (paged_arguments(ops, True), {}),
        "batch_decode_ragged": (
            (planned(ops, one, decode=True), one.q, one.k, one.v), {}),
        "batch_prefill_paged": (paged_arguments(ops, False), {}),
        "batch_prefill_ragged": (
            (plan, *(t.requires_grad_() for t in (ragged.q, ragged.k,
                                                  ragged.v))), {}),
        "fused_add_rms_norm": ((rand(3, 24), rand(3, 24), rand(24)), {}),
        "fused_moe": moe_arguments(ops),
        "fused_moe_prepack": ((rand(2, 32, 20),), {}),
        "gemma_fused_add_rms_norm": (
            (rand(3, 24), rand(3, 24), rand(24)), {}),
        "gemma_rms_norm": ((x, w), {}),
        "layer_norm": ((x, w, rand(24).requires_grad_()), {}),
        "linear": ((x, rand(5, 24).requires_grad_(),
                    rand(5).requires_grad_()), {}),
        "linear_codes": (
            (rand(3, 24), ops.linear_codes_prepack(
                codes(5, 24), rand(5, 1), group_size=32)),
            {"out_features": 5, "group_size": 32}),
        "linear_codes_prepack": ((codes(5, 24), rand(5, 1)), {}),
        "linear_int8": (
            (rand(3, 24), ops.linear_int8_prepack(
                codes(5, 24).view(torch.int8), rand(5))),
            {"out_features": 5}),
        "linear_int8_prepack": (
            (codes(5, 24).view(torch.int8), rand(5)), {}),
        "linear_packed": (
            (rand(3, 24), ops.linear_prepack(rand(5, 24))),
            {"out_features": 5, "activation": "silu"}),
        "linear_prepack": ((rand(5, 24),), {}),
        "merge_state": (
            (rand(3, 2, 8), rand(3, 2), rand(3, 2, 8), rand(3, 2)), {}),
        "merge_states": ((rand(3, 4, 2, 8), rand(3, 4, 2)), {}),
        "packbits": ((rand(19) > 0,), {}),
        "append_paged_kv_cache_scaled": (
            (*kv, int32(0, 1), int32(4, 0), *narrow, int32(2, 0, 1),
             int32(0, 2, 3), int32(2, 1), *scales), {}),
        "batch_decode_paged_scaled": (scaled_arguments(ops, True), {}),
        "batch_prefill_paged_scaled": (scaled_arguments(ops, False), {}),
        "reshape_and_cache_scaled": (
            (*kv, *narrow, torch.tensor([11, -1]), *scales), {}),
        "reshape_and_cache": ((*kv, *caches, torch.tensor([11, -1])), {}),
        "rms_norm": ((x, w), {}),
        "sampling": ((rand(3, 9).softmax(-1), torch.tensor([5])), {}),
        "segment_packbits": ((rand(19) > 0, int32(0, 4, 19)), {}),
        "single_prefill": ((ragged.q.detach(), ragged.k.detach(),
                            ragged.v.detach()), {"causal": True}),
        "topk_softmax": ((rand(3, 9), 2), {}),
    }
    return found


def overload(ops: Any, name: str) -> Any:
    for module in ops._modules.values():
        if name in module._functions:
            return getattr(getattr(torch.ops, module.namespace), name).default
    raise AssertionError(name)


def check(ops: Any, covers: Any, tests: tuple[str, ...], feature: str) -> None:
    given = cases(ops)
    declared = {name for module in ops._modules.values()
                for name in module._descriptions
                if not name.endswith(("_backward", "_gradient"))}
    assert set(given) == declared, "an operator without a case"
    failed = []
    for name, (positional, keyword) in given.items():
        try:
            opcheck(overload(ops, name), positional, keyword,
                    test_utils=tests)
        except Exception as error:  # all of them, then one report
            failed.append(f"{name}: {str(error).splitlines()[-1]}")
            continue
        covers(name, None, feature)
    assert not failed, "\n".join(failed)


def test_opcheck(ops: Any, covers: Any) -> None:
    check(ops, covers, ("test_schema", "test_autograd_registration",
                        "test_faketensor"), "opcheck")


@pytest.mark.full
def test_opcheck_compiled(ops: Any, covers: Any) -> None:
    check(ops, covers, ("test_aot_dispatch_dynamic",), "opcheck, compiled")


# --- Gradients, numerically --------------------------------------------------

# The library has no f64 kernels, so steps are those of f32: 2e-2, with inputs
# of size 1; the second differences that this leaves are below 1e-3.
NUMERIC = {"eps": 2e-2, "atol": 4e-3, "rtol": 2e-2}


def differentiable(ops: Any) -> dict[str, Callable[..., Any]]:
    batch = batch_of([3, 1], [4, 2])
    plan = planned(ops, batch, causal=True)
    positions = torch.tensor([0, 5])
    table = torch.cat([rand(6, 4).cos(), rand(6, 4).sin()], -1)

    def small(*shape: int) -> torch.Tensor:
        return rand(*shape).requires_grad_()

    def attention(q: Any, k: Any, v: Any) -> Any:
        return ops.batch_prefill_ragged(plan, q, k, v, sm_scale=0.3)[0]

    given: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
        name: (getattr(ops, name), (small(2, 12),)) for name in oracle.GATED}
    given |= {
        "rms_norm": (ops.rms_norm, (small(2, 9), small(9))),
        "gemma_rms_norm": (ops.gemma_rms_norm, (small(2, 9), small(9))),
        # Formulas, whose gradients are derived.
        "rms_norm_backward": (
            lambda *of: torch.ops.rms_norm.rms_norm_backward(*of, 1e-6),
            (small(2, 9), small(2, 9), small(9))),
        "gemma_rms_norm_backward": (
            lambda *of: torch.ops.gemma_rms_norm.gemma_rms_norm_backward(
                *of, 1e-6),
            (small(2, 9), small(2, 9), small(9))),
        **{f"{name}_and_mul_backward": (
            getattr(torch.ops.gated_activations, f"{name}_and_mul_backward"),
            (small(2, 6), small(2, 12)))
           for name in ("silu", "gelu", "gelu_tanh")},
        "layer_norm": (ops.layer_norm, (small(2, 9), small(9), small(9))),
        "linear": (ops.linear, (small(3, 9), small(4, 9), small(4))),
        "apply_rope": (
            lambda q, k: ops.apply_rope(q, k, positions, rotary_dim=8),
            (small(2, 2, 10), small(2, 1, 10))),
        "apply_rope_with_cos_sin_cache": (
            lambda q, k: ops.apply_rope_with_cos_sin_cache(
                q, k, positions, table),
            (small(2, 2, 8), small(2, 1, 8))),
        "batch_prefill_ragged": (
            attention, tuple(t.requires_grad_()
                             for t in (batch.q, batch.k, batch.v))),
    }
    return given


@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not")
def test_gradcheck(ops: Any, covers: Any) -> None:
    given = differentiable(ops)
    trained = {name for module in ops._modules.values()
               for name, d in module._descriptions.items()
               if d.tables["grad"]["kind"] == "operator"}
    assert set(given) == trained, "a gradient without a case"
    for name, (call, inputs) in given.items():
        assert torch.autograd.gradcheck(
            call, inputs, fast_mode=name == "batch_prefill_ragged", **NUMERIC)
        covers(name, None, "gradcheck, f32")

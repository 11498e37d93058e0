# SPDX-License-Identifier: Apache-2.0
"""A call of every operator of the library that takes tensors, with sizes that
two and four machines can share."""

from __future__ import annotations

from typing import Any, Callable

import torch

T = torch.Tensor
HQ, HK, D = 8, 4, 16  # heads of queries, of keys; their size

Call = Callable[[int], tuple[list[Any], dict[str, Any]]]
"""Arguments of the whole; `parts` > 1: a plan is for that part of the heads."""

CALLS: dict[str, Call] = {}


def call(*names: str) -> Callable[[Call], Call]:
    def add(make: Call) -> Call:
        for name in names:
            CALLS[name] = make
        return make

    return add


def floats(*sizes: int) -> T:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(
        sum(s * 31 ** i for i, s in enumerate(sizes))))


def ints(*values: int) -> T:
    return torch.tensor(values, dtype=torch.int32)


@call("rms_norm.rms_norm", "gemma_rms_norm.gemma_rms_norm")
def norm(parts: int) -> Any:
    return [floats(4, 8, 16), floats(16)], {}


@call("rms_norm.rms_norm_backward", "gemma_rms_norm.gemma_rms_norm_backward")
def norm_backward(parts: int) -> Any:
    return [floats(4, 8, 16), floats(4, 8, 16) + 1, floats(16), 1e-6], {}


@call("layer_norm.layer_norm")
def layer_norm(parts: int) -> Any:
    return [floats(4, 8, 16), floats(16), floats(16)], {}


@call("layer_norm.layer_norm_backward")
def layer_norm_backward(parts: int) -> Any:
    return [floats(4, 8, 16), floats(4, 8, 16) + 1, floats(16), 1e-5], {}


@call("fused_add_rms_norm.fused_add_rms_norm",
      "fused_add_rms_norm.gemma_fused_add_rms_norm")
def fused_add(parts: int) -> Any:
    return [floats(4, 8, 16), floats(4, 8, 16) + 1, floats(16)], {}


@call("linear.linear")
def linear(parts: int) -> Any:
    return [floats(4, 8, 16), floats(8, 16), floats(8)], {}


@call("linear.linear_backward")
def linear_backward(parts: int) -> Any:
    return [floats(4, 8, 8), floats(4, 8, 16), floats(8, 16)], {}


@call("linear.linear_prepack")
def linear_prepack(parts: int) -> Any:
    return [floats(64, 16)], {}


@call("linear.linear_packed")
def linear_packed(parts: int) -> Any:
    from opgraft import ops

    return ([floats(4, 8, 16), ops.linear_prepack(floats(20, 16)), floats(20)],
            {"out_features": 20, "activation": "silu"})


def codes() -> T:
    return floats(20, 16).mul(4).abs().to(torch.uint8)


@call("linear.linear_int8_prepack")
def linear_int8_prepack(parts: int) -> Any:
    return [codes().view(torch.int8), floats(20)], {}


@call("linear.linear_int8")
def linear_int8(parts: int) -> Any:
    from opgraft import ops

    packed = ops.linear_int8_prepack(codes().view(torch.int8), floats(20))
    return [floats(4, 8, 16), packed], {"out_features": 20}


@call("linear.linear_codes_prepack")
def linear_codes_prepack(parts: int) -> Any:
    return [codes(), floats(20, 1), floats(20, 1)], {}


@call("linear.linear_codes")
def linear_codes(parts: int) -> Any:
    from opgraft import ops

    packed = ops.linear_codes_prepack(codes(), floats(20, 1))
    return [floats(4, 8, 16), packed], {"out_features": 20}


GATED = ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul")


@call(*(f"gated_activations.{name}" for name in GATED),
      "gated_activations.swigluoai_and_mul")
def gated(parts: int) -> Any:
    return [floats(4, 8, 16)], {}


@call(*(f"gated_activations.{name}_backward" for name in GATED))
def gated_backward(parts: int) -> Any:
    return [floats(4, 8, 8), floats(4, 8, 16)], {}


@call("gated_activations.swigluoai_and_mul_backward")
def swiglu_backward(parts: int) -> Any:
    return [floats(4, 8, 8), floats(4, 8, 16), 1.7, 7.0], {}


ROPE = [None, False, 1.0, 1e4, 1.0, 4.0, 0]


@call("apply_rope.apply_rope", "apply_rope.apply_rope_inplace")
def rope(parts: int) -> Any:
    return [floats(8, HQ, D), floats(8, HK, D), torch.arange(8).int()], {}


@call("apply_rope.apply_rope_backward")
def rope_backward(parts: int) -> Any:
    args, _ = rope(parts)
    return [*args, *ROPE], {}


def rope_table() -> list[T]:
    return [floats(8, HQ, D), floats(8, HK, D), torch.arange(8).int(),
            floats(10, D)]


@call("apply_rope.apply_rope_with_cos_sin_cache",
      "apply_rope.apply_rope_with_cos_sin_cache_inplace")
def rope_cached(parts: int) -> Any:
    return rope_table(), {}


@call("apply_rope.apply_rope_with_cos_sin_cache_backward")
def rope_cached_backward(parts: int) -> Any:
    return [*rope_table(), True], {}


@call("merge_states.merge_state")
def merge_state(parts: int) -> Any:
    return [floats(8, 4, 16), floats(8, 4), floats(8, 4, 16) + 1,
            floats(8, 4) - 1], {}


@call("merge_states.merge_states")
def merge_states(parts: int) -> Any:
    return [floats(8, 3, 4, 16), floats(8, 3, 4)], {}


@call("topk_softmax.topk_softmax")
def topk(parts: int) -> Any:
    return [floats(8, 12), 3], {}


@call("packbits.packbits")
def packbits(parts: int) -> Any:
    return [floats(64) > 0], {}


@call("sampling.sampling")
def sampling(parts: int) -> Any:
    return [floats(8, 16).softmax(-1), torch.arange(8), ints(*range(1, 9))], {}


@call("fused_moe.fused_moe_prepack")
def moe_prepack(parts: int) -> Any:
    return [floats(4, 64, 16)], {}


@call("fused_moe.fused_moe")
def moe(parts: int) -> Any:
    from opgraft import ops

    ids = torch.stack([torch.randperm(
        6, generator=torch.Generator().manual_seed(i))[:4] for i in range(8)])
    return ([floats(8, 16), ops.fused_moe_prepack(floats(6, 16, 16)),
             ops.fused_moe_prepack(floats(6, 16, 8)),
             floats(8, 4).softmax(-1), ids.int()], {"inner": 8})


@call("kv_cache.append_paged_kv_cache")
def append_kv(parts: int) -> Any:
    return [floats(3, HK, D), floats(3, HK, D) + 1, ints(0, 0, 1),
            ints(0, 1, 0), floats(4, 2, HK, D), floats(4, 2, HK, D) + 1,
            ints(2, 0), ints(0, 1, 2), ints(2, 1)], {}


@call("kv_cache.reshape_and_cache")
def reshape_kv(parts: int) -> Any:
    return [floats(3, HK, D), floats(3, HK, D) + 1, floats(4, 2, HK, D),
            floats(4, 2, HK, D) + 1, torch.tensor([5, 0, -1])], {}


def narrow(*sizes: int) -> T:
    return (floats(*sizes) * 40).to(torch.int8)


@call("kv_cache.append_paged_kv_cache_scaled")
def append_scaled(parts: int) -> Any:
    key, value, owner, at, _, _, *pages = append_kv(parts)[0]
    return [key, value, owner, at, narrow(4, 2, HK, D), narrow(4, 2, HK, D) + 1,
            *pages, floats(1).abs(), floats(1).abs() + 1], {}


@call("kv_cache.reshape_and_cache_scaled")
def reshape_scaled(parts: int) -> Any:
    key, value, _, _, slots = reshape_kv(parts)[0]
    return [key, value, narrow(4, 2, HK, D), narrow(4, 2, HK, D) + 1, slots,
            floats(1).abs(), floats(1).abs() + 1], {}


# --- Attention ---------------------------------------------------------------


def plan(parts: int, q: list[int] | None, k: list[int], **more: Any) -> Any:
    from opgraft import ops

    return ops.plan_attention(
        ints(*k), ints(*q) if q else None, HQ // parts, HK // parts, D, D,
        **more)


@call("single_prefill.single_prefill")
def single(parts: int) -> Any:
    return [floats(6, HQ, D), floats(9, HK, D), floats(9, HK, D) + 1], {
        "causal": True}


def ragged(parts: int, q: list[int] | None) -> Any:
    p = plan(parts, q, [0, 4, 10], causal=q is not None)
    rows = q[-1] if q else 2
    return [p.plan, floats(rows, HQ, D), floats(10, HK, D),
            floats(10, HK, D) + 1], {"split_bytes": p.split_bytes}


@call("batch_prefill_ragged.batch_prefill_ragged")
def prefill_ragged(parts: int) -> Any:
    return ragged(parts, [0, 3, 7])


@call("batch_decode_ragged.batch_decode_ragged")
def decode_ragged(parts: int) -> Any:
    return ragged(parts, None)


@call("batch_prefill_ragged.batch_prefill_ragged_backward")
def prefill_backward(parts: int) -> Any:
    from opgraft import ops

    (_, q, k, v), more = ragged(1, [0, 3, 7])
    out, lse = ops.batch_prefill_ragged(plan(1, [0, 3, 7], [0, 4, 10],
                                             causal=True).plan, q, k, v, **more)
    own = plan(parts, [0, 3, 7], [0, 4, 10], causal=True).plan
    return [floats(7, HQ, D) + 1, out, lse, own, q, k, v, None, None, 0.0,
            "NONE", 1.0, 1e4, "2"], {}


def paged(parts: int, q: list[int] | None) -> Any:
    p = plan(parts, q, [0, 2, 5], last_page_len=ints(1, 2), page_size=2,
             causal=q is not None)
    rows = q[-1] if q else 2
    return [p.plan, floats(rows, HQ, D), floats(6, 2, HK, D),
            floats(6, 2, HK, D) + 1, ints(5, 0, 3, 1, 2)], {
                "split_bytes": p.split_bytes}


@call("batch_prefill_paged.batch_prefill_paged")
def prefill_paged(parts: int) -> Any:
    return paged(parts, [0, 2, 4])


@call("batch_decode_paged.batch_decode_paged")
def decode_paged(parts: int) -> Any:
    return paged(parts, None)


def scaled(parts: int, q: list[int] | None) -> Any:
    (plan_, rows, _, _, pages), more = paged(parts, q)
    return [plan_, rows, narrow(6, 2, HK, D), narrow(6, 2, HK, D) + 1, pages,
            floats(1).abs() / 40, floats(1).abs()], more


@call("batch_prefill_paged.batch_prefill_paged_scaled")
def prefill_scaled(parts: int) -> Any:
    return scaled(parts, [0, 2, 4])


@call("batch_decode_paged.batch_decode_paged_scaled")
def decode_scaled(parts: int) -> Any:
    return scaled(parts, None)


@call("attention_plan.attention_plan_size")
def plan_size(parts: int) -> Any:
    return [ints(0, 4, 10), None, None, HQ, HK, D, D], {"threads": 1}


@call("attention_plan.attention_plan")
def plan_make(parts: int) -> Any:
    from opgraft import ops

    args, more = plan_size(parts)
    return args, {**more, "size": int(ops.attention_plan_size(*args, **more))}


@call("attention_plan.attention_plan_info")
def plan_info(parts: int) -> Any:
    return [plan(1, None, [0, 4, 10], threads=1).plan], {}

# SPDX-License-Identifier: Apache-2.0
"""What ATen's operators do at their borders, as the engine's rows have it.

A newer torch may compute otherwise what the engine computes as the torches do
that it was tested with (host.TESTED). Before the first node of an operator is
imported, the calls of it below are made on the CPU; where one differs, that
operator is ATen's in every graph, and OPGRAFT_LOG says so.

Infinity and NaN, signs of zero, bounds, numbers that a type lacks, tensors
without dims beside others, division by zero, what raises. No call's digits
depend on the instruction set.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

import torch

from .._base.host import no_modes
from .._base.log import say

# operator, arguments -> elements of the results, or the exception. What #NAME
# asks is a flag of the node (targets.py), and the row stays.
_CALLS = """
clamp F,-1,3 -> -1 -1 -0.5 -0 0.5 3 nan
clamp F,3,-1 -> -1 -1 -1 -1 -1 -1 nan
clamp F,nan -> nan nan nan nan nan nan nan
clamp.Tensor B,S -> 255 255 255 255 255
clamp.Tensor F,-G,G -> -1 -1 -0.5 -0 0.5 1 nan
clamp_min F,0.5 -> 0.5 0.5 0.5 0.5 0.5 3 nan
clamp_min.Tensor B,S -> 255 255 255 255 255
clamp_max F,0.5 -> -inf -3 -0.5 -0 0.5 0.5 nan
clamp_max.Tensor B,S -> 0 1 5 200 255
_foreach_clamp_min.Scalar [B],-1 -> 255 255 255 255 255
_foreach_clamp_max.Scalar [B],-1 -> 0 1 5 200 255
maximum F,F.flip(0) -> nan 3 0.5 -0 0.5 3 nan
maximum B,S -> 255 255 255 255 255
minimum F,F.flip(0) -> nan -3 -0.5 -0 -0.5 -3 nan
minimum B,S -> 0 1 5 200 255
lt.Tensor B,S -> 1 1 1 1 0
lt.Scalar B,-1 -> 1 1 1 1 0
eq.Tensor B,S -> 0 0 0 0 1
ne.Tensor F,F -> 0 0 0 0 0 0 1
hardtanh F,-1,3 -> -1 -1 -0.5 -0 0.5 3 nan
relu F -> 0 0 0 -0 0.5 3 nan
hardswish F -> nan -0 -0.2083 -0 0.2917 3 nan
hardsigmoid F -> 0 0 0.4167 0.5 0.5833 1 nan
leaky_relu F,0.25 -> -inf -0.75 -0.125 -0 0.5 3 nan
threshold F,0.5,7 -> 7 7 7 7 7 3 nan
hardtanh_backward G,F,-1,3 -> 0 0 1 1 1 0 1
hardswish_backward G[:6],F[:6] -> 0 0 0.3333 0.5 0.6667 1
hardsigmoid_backward G,F -> 0 0 0.1667 0.1667 0.1667 0 0
leaky_relu_backward G,F,0.25,False -> 0.25 0.25 0.25 0.25 1 1 0.25
threshold_backward G,F,0.5 -> 0 0 0 0 0 1 1
add.Tensor B,S -> 255 0 4 199 254
sub.Tensor B,S -> 1 2 6 201 0
mul.Tensor B,S -> 0 255 251 56 1
rsub.Scalar B,-1 -> 255 254 250 55 0
div.Tensor F,S*0 -> -inf -inf -inf nan inf inf nan
div.Tensor I,I -> 1 1 nan 1 1
div.Tensor_mode I,J,rounding_mode="floor" -> -4 0 0 -1 -1
div.Tensor_mode I,J,rounding_mode="trunc" -> -3 0 0 -1 -1
div.Tensor_mode I,S*0,rounding_mode="floor" -> RuntimeError
div.Tensor_mode F,2.5,rounding_mode="floor" -> nan -2 -1 -0 0 1 nan
floor_divide I,J -> -4 0 0 -1 -1
floor_divide F,S*0 -> -inf -inf -inf nan inf inf nan
floor_divide I,S*0 -> RuntimeError
remainder.Tensor I,J -> 1 -1 0 0 0
remainder.Tensor B,S -> 0 1 5 200 0
remainder.Tensor I,S*0 -> RuntimeError
remainder.Scalar F,-2.5 -> nan -0.5 -0.5 -0 -2 -2 nan
remainder.Scalar F,0 -> nan nan nan nan nan nan nan
fmod.Tensor I,J -> -1 -1 0 0 0
fmod.Tensor B,S -> 0 1 5 200 0
fmod.Tensor I,S*0 -> RuntimeError
fmod.Scalar F,-2.5 -> nan -0.5 -0.5 -0 0.5 0.5 nan
pow.Tensor_Scalar I,3 -> -343 -1 0 8 343
pow.Tensor_Scalar I,-1 -> RuntimeError
pow.Tensor_Scalar F,0.5 -> nan nan nan -0 0.7071 1.732 nan
pow.Tensor_Scalar F,0 -> 1 1 1 1 1 1 1
pow.Tensor_Tensor I,J.abs() -> 49 -1 0 4 8.235e+05
atan2 F*0,F -> nan -3.142 -3.142 -3.142 0 0 nan
copysign.Scalar F,-0.0 -> -inf -3 -0.5 -0 -0.5 -3 nan
sign F -> -1 -1 -1 0 1 1 0
signbit F -> 1 1 1 1 0 0 0
floor F -> -inf -3 -1 -0 0 3 nan
round F -> -inf -3 -0 -0 0 3 nan
rsqrt F -> nan nan nan -inf 1.414 0.5774 nan
reciprocal F -> -0 -0.3333 -2 -inf 2 0.3333 nan
neg B -> 0 255 251 56 1
bitwise_not B -> 255 254 250 55 0
bitwise_not T -> 0 1 0
bitwise_left_shift.Tensor_Scalar I,33 -> 0 0 0 0 0
bitwise_right_shift.Tensor_Scalar I,33 -> -1 -1 0 0 0
logical_not F -> 0 0 0 1 0 0 0
logical_xor F,G -> 0 0 0 1 0 0 0
masked_fill.Scalar B,B>4,-1 -> 0 1 255 255 255
masked_fill.Scalar B,B>4,300 -> RuntimeError
lerp.Scalar G,F,0.5 -> nan -1 0.25 0.5 0.75 2 nan
lerp.Scalar F,G,0.5 -> -inf -1 0.25 0.5 0.75 2 nan
addcdiv F,G,G*0 -> nan inf inf inf inf inf nan
full [2],-1,dtype=u8 -> 255 255
full [2],300,dtype=u8 -> RuntimeError
fill.Scalar B,-1 -> 255 255 255 255 255
arange.start_step 0,1,0.3,dtype=f32 -> 0 0.3 0.6 0.9
arange.start_step 0.5,2.9,1.5,dtype=i64 -> 0 1
_to_copy F,dtype=b8 -> 1 1 1 0 1 1 1
sum B -> 461
sum T -> 2
sum.dim_IntList F[:0],[0] -> 0
mean F[:0] -> nan
amax F -> nan
max F -> nan
max F[:0] -> RuntimeError
max.dim F,0 -> nan | 6
argmax F -> 6
argmax G -> 0
any F -> 1
cumsum B,0 -> 0 1 6 206 461
cumsum T,0 -> 1 1 2
addmm nan*M,M,M,beta=0 -> 2 2 2 2
sum I*0.5,dtype=i64 -> 1
index_fill.int_Scalar B,0,S[None]*-1,300 -> RuntimeError
_softmax -inf*G,0,False -> nan nan nan nan nan nan nan
sort.stable F,stable=True,dim=0 -> -inf -3 -0.5 -0 0.5 3 nan | 0 1 2 3 4 5 6
gather I,0,S -> RuntimeError
index.Tensor I,[S] -> 7
index_select I,0,S -> IndexError
index_put I,[S],I[:1] -> RuntimeError
scatter.value I,0,S,9 -> RuntimeError
embedding F[:,None],S -> IndexError
topk F,2 -> nan 3 | 6 5
max_pool2d_with_indices F[None,:6,None],[2,1],[2,1] -> -3 -0 3 | 1 3 5
avg_pool2d F[None,1:6,None],[2,1],[2,1],[1,0] -> -1.5 -0.25 1.75
softplus_backward G,F,1,0.5 -> 0 0.04743 0.3775 0.5 0.6225 1 nan
fake_quantize_per_tensor_affine_cachemask F[1:-2],1,0,-1,2 -> -1 0 0 0 | 0 1 1 1
gelu F+0 -> nan -0.00405 -0.1543 0 0.3457 2.996 nan
gelu_backward G,F -> nan -0.01195 0.1325 0.5 0.8675 1.012 nan
silu_backward G,F -> nan -0.0881 0.26 0.5 0.74 1.088 nan
clamp.default#wraps B,-1 -> 255 255 255 255 255
"""


def _arguments() -> dict[str, Any]:
    def on_cpu(values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device="cpu")

    inf, nan = float("inf"), float("nan")
    floats = on_cpu([-inf, -3, -0.5, -0.0, 0.5, 3, nan], torch.float32)
    return {
        "F": floats, "G": torch.ones_like(floats), "inf": inf, "nan": nan,
        "M": torch.ones_like(floats)[:4].view(2, 2), "i64": torch.int64,
        "B": on_cpu([0, 1, 5, 200, 255], torch.uint8),
        "I": on_cpu([-7, -1, 0, 2, 7], torch.int32),
        "J": on_cpu([2, -3, 5, -2, -7], torch.int32),
        "S": torch.tensor(-1, device="cpu"),
        "T": on_cpu([True, False, True], torch.bool),
        "u8": torch.uint8, "b8": torch.bool, "f32": torch.float32,
    }


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " | ".join(map(_text, value))
    return " ".join(f"{float(x):.4g}" for x in value.flatten().tolist())


@functools.cache
def calls() -> dict[str, list[tuple[str, str]]]:
    """By "aten.NAME.OVERLOAD": arguments and what they give."""
    found = defaultdict(list)
    for line in _CALLS.strip().splitlines():
        call, wanted = line.split(" -> ")
        name, arguments = call.split(" ", 1)
        overload = name if "." in name else f"{name}.default"
        found[f"aten.{overload}"].append((arguments, wanted))
    return dict(found)


def call(name: str, arguments: str, **values: Any) -> Any:
    """What torch gives, on the arguments' names in `values` or the table's."""
    _, packet, overload = name.partition("#")[0].split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    return eval(f"op({arguments})", _arguments() | values, {"op": op})


@functools.cache
def is_kept(name: str) -> bool:
    """Whether this torch computes the operator as the engine's row does."""
    from torch._functorch.pyfunctorch import (
        temporarily_clear_interpreter_stack,
    )

    for arguments, wanted in calls().get(name, ()):
        try:
            with (temporarily_clear_interpreter_stack(), no_modes(),
                  torch.no_grad()):
                found = _text(call(name, arguments))
        except (RuntimeError, IndexError) as error:
            found = type(error).__name__
        if found != wanted:
            say(f"{name}({arguments}) is {found} in torch {torch.__version__}, "
                f"{wanted} in the engine: ATen runs it")
            return False
    return True


def changed() -> list[str]:
    """The operators of the table that this torch computes otherwise."""
    return [name for name in calls() if not is_kept(name)]

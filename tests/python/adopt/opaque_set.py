# SPDX-License-Identifier: Apache-2.0
"""The opaque set: each callable adopted, and written out with torch.library's
custom_op as its documentation says. tools/adopt_cost.py counts the lines of
both; test_opaque_set.py runs them.

`f` is the callable as its owner ships it, `space` a namespace.
"""

from __future__ import annotations

import ctypes

import torch
from torch.library import custom_op

import opgraft


class Launcher:
    """As Triton's kernels are called: fn[grid](pointers, sizes, constants)."""

    def __getitem__(self, grid):
        def launch(x, out, count, *, BLOCK):
            for program in range(grid[0]):
                at = slice(program * BLOCK, min((program + 1) * BLOCK, count))
                out.view(-1)[at] = x.view(-1)[at] * 2
        return launch


def reference(x, gate):
    return torch.nn.functional.silu(x) * gate


def silu_grads(grad, x, gate):
    s = torch.sigmoid(x)
    return grad * gate * (s + x * s * (1 - s)), grad * x * s


# --- pybind11 -----------------------------------------------------------------


def adopt_positional(f, space):
    return opgraft.adopt(
        f, schema="silu_mul(Tensor x, Tensor gate) -> Tensor",
        shape="x[*N], gate[*N] -> [*N]", dtype="x: f32, gate: x -> x",
        backward=silu_grads, name=f"{space}::silu_mul")


def custom_positional(f, space):
    @custom_op(f"{space}::silu_mul", mutates_args=())
    def op(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return f(x.contiguous(), gate.contiguous())

    @op.register_fake
    def _(x, gate):
        torch._check(x.shape == gate.shape)
        return x.new_empty(x.shape)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        return silu_grads(grad, *ctx.saved_tensors)

    op.register_autograd(backward, setup_context=setup)
    return op


def adopt_keywords(f, space):
    return opgraft.adopt(
        f, schema="scale_add(Tensor x, float[] factors, Tensor? bias=None, *, "
                  'float eps=0.5, str mode="sum") -> Tensor',
        shape="x[*N], bias?[*N] -> [*N]", dtype="x: f32, bias: x -> x",
        name=f"{space}::scale_add")


def custom_keywords(f, space):
    @custom_op(f"{space}::scale_add", mutates_args=())
    def op(x: torch.Tensor, factors: list[float],
           bias: torch.Tensor | None = None, *, eps: float = 0.5,
           mode: str = "sum") -> torch.Tensor:
        b = bias if bias is None else bias.contiguous()
        return f(x.contiguous(), factors, b, eps=eps, mode=mode)

    @op.register_fake
    def _(x, factors, bias=None, *, eps=0.5, mode="sum"):
        torch._check(bias is None or x.shape == bias.shape)
        return x.new_empty(x.shape)

    return op


def adopt_mutating(f, space):
    return opgraft.adopt(
        f, schema="decay_(Tensor(a!) x, float rate=0.5) -> ()",
        shape="x[*N] ->", dtype="x: f32 ->", name=f"{space}::decay_")


def custom_mutating(f, space):
    @custom_op(f"{space}::decay_", mutates_args=("x",))
    def op(x: torch.Tensor, rate: float = 0.5) -> None:
        dense = x.contiguous()
        f(dense, rate)
        if dense is not x:
            x.copy_(dense)

    return op


def adopt_other_shape(f, space):
    return opgraft.adopt(
        f, schema="repeat_rows(Tensor x, int times) -> Tensor",
        shape="x[R, W] -> [R * times, W]", where="times > 0",
        dtype="x: f32 -> x", name=f"{space}::repeat_rows")


def custom_other_shape(f, space):
    @custom_op(f"{space}::repeat_rows", mutates_args=())
    def op(x: torch.Tensor, times: int) -> torch.Tensor:
        return f(x.contiguous(), times)

    @op.register_fake
    def _(x, times):
        torch._check(times > 0)
        return x.new_empty((x.shape[0] * times, x.shape[1]))

    return op


def adopt_two_results(f, space):
    return opgraft.adopt(
        f, schema="sum_max(Tensor x) -> (Tensor sums, Tensor most)",
        shape="x[R, W] -> [R], [R]", dtype="x: f32 -> x, x",
        name=f"{space}::sum_max")


def custom_two_results(f, space):
    @custom_op(f"{space}::sum_max", mutates_args=())
    def op(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return f(x.contiguous())

    @op.register_fake
    def _(x):
        return x.new_empty(x.shape[:1]), x.new_empty(x.shape[:1])

    return op


def adopt_writes_result(f, space):
    return opgraft.adopt(
        f, schema="add(Tensor a, Tensor b) -> Tensor", call="out, a, b",
        shape="a[*N], b[*N] -> [*N]", dtype="a: f32, b: a -> a",
        name=f"{space}::add")


def custom_writes_result(f, space):
    @custom_op(f"{space}::add", mutates_args=())
    def op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a, memory_format=torch.contiguous_format)
        f(out, a.contiguous(), b.contiguous())
        return out

    @op.register_fake
    def _(a, b):
        torch._check(a.shape == b.shape)
        return a.new_empty(a.shape)

    return op


# --- nanobind, launchers ------------------------------------------------------


def adopt_nanobind(f, space):
    return opgraft.adopt(
        f, schema="relu(Tensor x) -> Tensor", call="out, x",
        shape="x[*N] -> [*N]", dtype="x: f32 -> x", name=f"{space}::relu")


def custom_nanobind(f, space):
    @custom_op(f"{space}::relu", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        f(out, x.contiguous())
        return out

    @op.register_fake
    def _(x):
        return x.new_empty(x.shape)

    return op


def adopt_launcher(f, space):
    return opgraft.adopt(
        f, schema="twice(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
        dtype="x: f32 -> x", grid="(-(-x.numel() // 64),)",
        call="x, out, x.numel(), BLOCK=64", name=f"{space}::twice")


def custom_launcher(f, space):
    @custom_op(f"{space}::twice", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        f[(-(-x.numel() // 64),)](x, out, x.numel(), BLOCK=64)
        return out

    @op.register_fake
    def _(x):
        return x.new_empty(x.shape)

    return op


# --- C ------------------------------------------------------------------------

SILU = "void silu_mul(float *out, const float *x, const float *gate, int64_t n)"
SILU_CALL = "out.data, x.data, gate.data, x.numel"


def adopt_c_symbol(f, space):
    return opgraft.adopt(
        SILU, library=f, shape="x[*N], gate[*N] -> [*N]", call=SILU_CALL,
        name=f"{space}::c_silu_mul")


def custom_c_symbol(f, space):
    silu_mul = ctypes.CDLL(str(f)).silu_mul
    silu_mul.restype = None
    silu_mul.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64]

    @custom_op(f"{space}::c_silu_mul", mutates_args=())
    def op(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        silu_mul(out.data_ptr(), x.data_ptr(), gate.data_ptr(), x.numel())
        return out

    @op.register_fake
    def _(x, gate):
        torch._check(x.shape == gate.shape)
        return x.new_empty(x.shape)

    return op


NINE = ("void nine(float *out, int8_t a, int16_t b, int32_t c, int64_t d, "
        "uint8_t e, uint16_t f, float g, uint32_t h, double i)")


def adopt_many_arguments(f, space):  # more than go by register: libffi
    return opgraft.adopt(
        NINE, library=f, shape="x[N] -> [1]", dtype="x: f32 -> f32",
        schema="nine(Tensor x, int a, float g) -> Tensor",
        call="out.data, a, 1, 2, N, 3, 4, g, 5, 0.5", name=f"{space}::nine")


def custom_many_arguments(f, space):
    nine = ctypes.CDLL(str(f)).nine
    nine.restype = None
    nine.argtypes = [
        ctypes.c_void_p, ctypes.c_int8, ctypes.c_int16, ctypes.c_int32,
        ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_float,
        ctypes.c_uint32, ctypes.c_double]

    @custom_op(f"{space}::nine", mutates_args=())
    def op(x: torch.Tensor, a: int, g: float) -> torch.Tensor:
        out = x.new_empty(1)
        nine(out.data_ptr(), a, 1, 2, x.numel(), 3, 4, g, 5, 0.5)
        return out

    @op.register_fake
    def _(x, a, g):
        return x.new_empty(1)

    return op


def adopt_ctypes(f, space):
    f.restype, f.argtypes = ctypes.c_uint32, [ctypes.c_void_p, ctypes.c_size_t]
    return opgraft.adopt(
        f, schema="add_bytes(Tensor x) -> Tensor", shape="x[*N] -> []",
        dtype="x: u8 -> i32", call="x.data, x.numel", returns="out",
        name=f"{space}::add_bytes")


def custom_ctypes(f, space):
    f.restype, f.argtypes = ctypes.c_uint32, [ctypes.c_void_p, ctypes.c_size_t]

    @custom_op(f"{space}::add_bytes", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        return torch.tensor(f(x.data_ptr(), x.numel()), dtype=torch.int32)

    @op.register_fake
    def _(x):
        return x.new_empty((), dtype=torch.int32)

    return op


def adopt_capsule(f, space):
    return opgraft.adopt(
        f, prototype=SILU, shape="x[*N], gate[*N] -> [*N]", call=SILU_CALL,
        name=f"{space}::capsule_silu_mul")


def custom_capsule(f, space):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_int64)
    silu_mul = kind(pointer(f, b"kernels.silu_mul"))

    @custom_op(f"{space}::capsule_silu_mul", mutates_args=())
    def op(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        silu_mul(out.data_ptr(), x.data_ptr(), gate.data_ptr(), x.numel())
        return out

    @op.register_fake
    def _(x, gate):
        torch._check(x.shape == gate.shape)
        return x.new_empty(x.shape)

    return op


def adopt_tvm_ffi(f, space):
    return opgraft.adopt(
        f, schema="scale(Tensor x, float factor) -> Tensor",
        shape="x[*N] -> [*N]", dtype="x: f32 -> x", name=f"{space}::scale")


def custom_tvm_ffi(f, space):
    @custom_op(f"{space}::scale", mutates_args=())
    def op(x: torch.Tensor, factor: float) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        f(x, factor, out)
        return out

    @op.register_fake
    def _(x, factor):
        return x.new_empty(x.shape)

    return op

# SPDX-License-Identifier: Apache-2.0
"""Behaviours of autograd and of autocast."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from on_npu import same

BACKENDS = ["aot_eager", "opgraft"]


class Same(torch.autograd.Function):
    """Its result is its argument; the gradient is halved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 0.5


class Alias(Same):
    """Its result is a view of its argument; the gradient is halved."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)


@pytest.mark.behaviour("autograd", "backward uses a thread of the device")
def test_threads_of_autograd(npu: Any) -> None:
    """Autograd has a thread for each device, pt_autograd_INDEX."""
    x = torch.ones(2, requires_grad=True, device="npu")
    x.sum().backward()
    assert x.grad is not None
    same(x.grad, torch.ones(2))
    names = {path.read_text().strip()
             for path in Path("/proc/self/task").glob("*/comm")}
    assert {f"pt_autograd_{i}" for i in range(npu.count)} <= names


@pytest.mark.behaviour("autograd", "a Function may return its own argument")
def test_function_that_returns_its_argument(npu: Any) -> None:
    """The result has the argument's values; the gradient is the Function's."""
    x = torch.arange(4.0).npu().requires_grad_()
    y = Same.apply(x)
    assert y.requires_grad and y.data_ptr() == x.data_ptr()
    same(y.detach(), torch.arange(4.0))
    y.sum().backward()
    assert x.grad is not None
    same(x.grad, torch.full((4,), 0.5))


@pytest.mark.behaviour("autograd", "a Function may return a view")
def test_function_that_returns_a_view(npu: Any) -> None:
    """A view as a result shares memory; the gradient is the Function's."""
    x = torch.arange(4.0).npu().requires_grad_()
    y = Alias.apply(x)
    assert y.requires_grad and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad is not None
    same(x.grad, torch.full((4,), 0.5))


@pytest.mark.behaviour("autograd", "a Function without gradients records none")
@pytest.mark.parametrize("function", [Same, Alias])
def test_function_without_gradients(npu: Any, function: Any) -> None:
    """The result needs no gradient where the argument needs none."""
    x = torch.arange(4.0).npu()
    y = function.apply(x)
    assert not y.requires_grad and y.grad_fn is None
    same(y, torch.arange(4.0))


@pytest.mark.behaviour("autograd", "a compiled Function has eager's gradients")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Same, Alias])
def test_compiled_function(npu: Any, function: Any, backend: str) -> None:
    """Compiled, a Function gives the values and gradients of eager mode."""
    torch._dynamo.reset()
    x = torch.arange(4.0).npu().requires_grad_()
    y = torch.compile(lambda t: function.apply(t) * 3, backend=backend)(x)
    same(y.detach(), torch.arange(4.0) * 3)
    y.sum().backward()
    assert x.grad is not None
    same(x.grad, torch.full((4,), 1.5))


# --- Autocast ----------------------------------------------------------------


@pytest.mark.behaviour("autocast", "a dtype that autocast lacks is warned of")
def test_unsupported_dtype(npu: Any) -> None:
    """Autocast with float32 warns, and products keep their type."""
    x = torch.ones(2, 2).npu().to(torch.float64)
    with pytest.warns(UserWarning, match="In npu autocast, but the target "
                                         "dtype.* not supported"):
        with torch.autocast("npu", dtype=torch.float32):
            assert (x @ x).dtype == torch.float64


@pytest.mark.behaviour("autocast", "products are of the lower type")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lower_type(npu: Any, dtype: torch.dtype) -> None:
    """Under autocast mm of float32 tensors computes in the lower type."""
    x, y = torch.randn(2, 3), torch.randn(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast("npu", dtype=dtype):
            found = torch.mm(x.npu(), y.npu())
    assert found.dtype == dtype
    same(found, torch.mm(x.to(dtype), y.to(dtype)))


@pytest.mark.behaviour("autocast", "dot products are of float32")
def test_higher_type(npu: Any) -> None:
    """Under autocast dot of float16 tensors computes in float32."""
    x, y = torch.randn(2).half(), torch.randn(2).half()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast("npu"):
            found = torch.dot(x.npu(), y.npu())
    assert found.dtype == torch.float32
    same(found, torch.dot(x.float(), y.float()), 1e-6)


@pytest.mark.behaviour("autocast", "autocast is of float16 unless it is told")
def test_type_of_autocast(npu: Any) -> None:
    """get_autocast_dtype gives float16 for the device."""
    assert torch.get_autocast_dtype("npu") == torch.float16


@pytest.mark.behaviour("autocast", "the operators of torch's lists are cast")
@pytest.mark.parametrize("group", [
    "torch_fp16", "torch_fp32", "torch_need_autocast_promote",
    "torch_expect_builtin_promote", "nn_fp16", "nn_fp32", "linalg_fp16",
    "methods_fp16", "methods_fp32"])
def test_lists(npu: Any, group: str) -> None:
    """Each has the type that torch's own tests of CUDA expect."""
    from torch.testing._internal.autocast_test_lists import AutocastTestLists

    lists = AutocastTestLists(torch.device("npu:0"))
    kind = torch.float16 if group.endswith("fp16") else torch.float32
    home = {"nn": torch._C._nn, "linalg": torch._C._linalg,
            "torch": torch, "methods": torch.Tensor}[group.split("_")[0]]
    for name, args, *others in getattr(lists, group):
        if "cudnn" in name or name == "einsum" or not hasattr(home, name):
            continue  # einsum is called by its Python function below
        wanted = next((o for o in others if isinstance(o, torch.dtype)), kind)
        options = next((o for o in others if isinstance(o, dict)), {})
        with torch.autocast("npu"):
            found = getattr(home, name)(*args, **options)
        found = found[0] if isinstance(found, (list, tuple)) else found
        assert not isinstance(found, torch.Tensor) or found.dtype == wanted, \
            name


@pytest.mark.behaviour("autocast", "an explicit type, double and the CPU stay")
def test_not_cast(npu: Any) -> None:
    """Autocast leaves them alone, as it does where it is disabled."""
    x = torch.ones(2, 2)
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch.einsum("ij,jk->ik", x.npu(), x.npu()).dtype == \
            torch.bfloat16
        assert (x @ x).dtype == torch.float32
        assert (x.double().npu() @ x.double().npu()).dtype == torch.float64
        assert x.npu().half().sum(dtype=torch.half).dtype == torch.half
        assert torch.cat([x.npu(), x.npu().half()]).dtype == torch.float32
        with torch.autocast("npu", enabled=False):
            assert (x.npu() @ x.npu()).dtype == torch.float32


@pytest.mark.behaviour("autocast", "a step of training has the CPU's numbers")
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_training_step(npu: Any, backend: str | None) -> None:
    """Loss and gradients under bfloat16, eager and compiled."""
    torch._dynamo.reset()
    torch.manual_seed(4)
    here = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(18, 8),
        torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    there = copy.deepcopy(here).npu()

    def loss(module: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return torch.nn.functional.cross_entropy(module(x), y)

    run = torch.compile(loss, backend=backend, fullgraph=True) if backend \
        else loss
    x, y = torch.randn(4, 1, 5, 5), torch.tensor([0, 1, 2, 0])
    wanted, found = loss(here, x, y), run(there, x.npu(), y.npu())
    wanted.backward()
    found.backward()
    same(found.detach(), wanted.detach(), 0.02)
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        same(a.grad, b.grad, 0.02)

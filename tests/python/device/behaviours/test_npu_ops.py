# SPDX-License-Identifier: Apache-2.0
"""Behaviours of operators: factories, copies, views, the fallback, OpInfo."""

from __future__ import annotations

import warnings
from typing import Any, Callable

import pytest
import torch
from on_npu import same
from torch.nn import functional as F

# --- Factories ---------------------------------------------------------------


@pytest.mark.behaviour("ops", "factories make tensors of the device")
@pytest.mark.parametrize("make", [
    lambda device: torch.zeros(3, 4, device=device),
    lambda device: torch.ones(3, 4, device=device),
    lambda device: torch.full((3, 4), 5.0, device=device),
    lambda device: torch.tensor((), device=device),
    lambda device: torch.tensor([[1, 2], [3, 4]], device=device),
    lambda device: torch.ones_like(torch.empty(3, 4, device=device)),
    lambda device: torch.zeros_like(torch.empty(2, device=device)),
    lambda device: torch.arange(2, 9, 3, device=device),
    lambda device: torch.eye(3, device=device)])
def test_factories(npu: Any, make: Callable[[str], torch.Tensor]) -> None:
    """Each factory gives the CPU's values, shape and type."""
    same(make("npu"), make("cpu"))


@pytest.mark.behaviour("ops", "random factories make tensors of the device")
@pytest.mark.parametrize("make", [torch.randn, torch.rand])
def test_random_factories(npu: Any, make: Any) -> None:
    """The shape is the one asked for; a seed gives the CPU's values."""
    torch.manual_seed(3)
    found = make(3, 4, device="npu")
    torch.manual_seed(3)
    same(found, make(3, 4))


@pytest.mark.behaviour("ops", "empty tensors have shape, strides and format")
def test_empty(npu: Any) -> None:
    """empty and empty_strided lay out memory as they are told."""
    x = torch.empty(3, device="npu")
    assert x.device.type == "npu" and x.shape == (3,)
    y = torch.empty(1, 2, 3, 4, device="npu",
                    memory_format=torch.channels_last)
    assert y.shape == (1, 2, 3, 4) and y.stride() == (24, 1, 8, 2)
    z = torch.empty_strided((3, 4), (1, 3), device="npu")
    assert z.shape == (3, 4) and z.stride() == (1, 3)
    assert z.untyped_storage().nbytes() == 48


@pytest.mark.behaviour("ops", "results have the dtypes of the CPU's")
def test_dtypes(npu: Any) -> None:
    """Types of factories, of results and of casts are those of the CPU."""
    x = torch.randn(3, 4, device="npu")
    assert x.dtype == (x + x).dtype == torch.float32
    assert (x.double() * 2).dtype == torch.float64
    y = x.to(dtype=torch.float64)
    assert y.dtype == torch.float64 and y.device.type == "npu"
    i = torch.randint(0, 100, (3, 4), device="npu")
    assert i.dtype == torch.int64 and (i >= 0).all() and (i < 100).all()
    b = torch.zeros(3, 4, device="npu", dtype=torch.bool)
    assert b.dtype == torch.bool and torch.all(~b)


# --- Copies ------------------------------------------------------------------


@pytest.mark.behaviour("ops", "a tensor goes to the device and back")
def test_round_trip(npu: Any) -> None:
    """to, cpu and copy_ in both directions keep the values."""
    x = torch.randn(3, 4)
    there = x.to(device="npu")
    same(there, x)
    assert torch.equal(there.to("cpu"), x)
    to_device = torch.empty(3, 4, device="npu").copy_(x)
    same(to_device, x)
    assert torch.equal(torch.empty(3, 4).copy_(to_device), x)
    assert torch.equal(x.npu().add(2).cpu(), x + 2)


@pytest.mark.behaviour("ops", "to() copies only where it must")
def test_to_the_same_device(npu: Any) -> None:
    """to() of a tensor that is there is the tensor; copy=True copies."""
    x = torch.randn(3, 4).npu()
    assert x.to("npu") is x and x.to("npu:0") is x
    y = x.to("npu", copy=True)
    assert y.data_ptr() != x.data_ptr()
    same(y, x.cpu())


@pytest.mark.behaviour("ops", "copies on the device have memory of their own")
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_on_the_device(npu: Any, non_blocking: bool) -> None:
    """clone and copy_ give equal values at another address."""
    x = torch.arange(12.0).reshape(3, 4).npu()
    y = torch.empty(3, 4, device="npu").copy_(x, non_blocking=non_blocking)
    for copy in (y, x.clone()):
        assert copy.data_ptr() != x.data_ptr()
        same(copy, torch.arange(12.0).reshape(3, 4))
    x.zero_()
    same(y, torch.arange(12.0).reshape(3, 4))


@pytest.mark.behaviour("ops", "copies change the dtype")
def test_copy_of_another_dtype(npu: Any) -> None:
    """copy_ into a tensor of another type converts the values."""
    x = torch.randn(3, 4)
    y = torch.empty(3, 4, dtype=torch.float64, device="npu").copy_(x.npu())
    same(y, x.double())
    same(torch.empty(3, 4, dtype=torch.int32, device="npu").copy_(x.npu()),
         x.int())


# --- Views and single elements -----------------------------------------------


@pytest.mark.behaviour("ops", "views have shape, strides and address")
def test_views(npu: Any) -> None:
    """view, reshape, expand and as_strided copy nothing."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    there = x.npu()
    for f in (lambda t: t.view(6, 4), lambda t: t.reshape(4, 6),
              lambda t: t[:, :1].expand(2, 5, 4), lambda t: t.transpose(0, 2),
              lambda t: torch.as_strided(t, (2, 2), (4, 1), 1)):
        view, wanted = f(there), f(x)
        assert view.stride() == wanted.stride()
        assert view.data_ptr() - there.data_ptr() == (
            wanted.data_ptr() - x.data_ptr())
        same(view, wanted)


@pytest.mark.behaviour("ops", "resize_ keeps the storage where it has room")
def test_resize(npu: Any) -> None:
    """4x4 becomes 2x2x2x2 in the same storage."""
    x = torch.randn(4, 4)
    y = x.npu()
    address = y.data_ptr()
    y.resize_(2, 2, 2, 2)
    assert y.data_ptr() == address and y.untyped_storage().nbytes() == 64
    same(y, x.view(2, 2, 2, 2))


@pytest.mark.behaviour("ops", "item gives an element as a number")
def test_item(npu: Any) -> None:
    """Elements become Python's numbers of the right type."""
    assert torch.tensor([5.0], device="npu").item() == 5.0
    assert torch.tensor(7, device="npu").item() == 7
    assert torch.tensor(True, device="npu").item() is True
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(2, device="npu").item()


# --- Kernels and the fallback ------------------------------------------------


@pytest.mark.behaviour("ops", "arithmetic has the CPU's values")
def test_arithmetic(npu: Any) -> None:
    """Sums, products, quotients, with tensors and with numbers."""
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    for f in (torch.add, torch.mul, torch.sub, torch.div, torch.maximum,
              torch.minimum):
        same(f(a.npu(), b.npu()), f(a, b))
    same(a.npu() + 1.0, a + 1.0)
    same(a.npu() * 2.0, a * 2.0)


@pytest.mark.behaviour("ops", "out= writes the tensor that is given")
@pytest.mark.parametrize("f", [torch.maximum, torch.minimum, torch.add])
def test_out(npu: Any, f: Any) -> None:
    """The result is the tensor given, at its address."""
    x, y = torch.tensor([1.0, 5, 3]), torch.tensor([4.0, 2, 6])
    out = torch.empty(3, device="npu")
    address = out.data_ptr()
    assert f(x.npu(), y.npu(), out=out) is out
    assert out.data_ptr() == address
    same(out, f(x, y))


@pytest.mark.behaviour("ops", "abs takes any strides, also of out=")
def test_abs(npu: Any) -> None:
    """Contiguous, transposed, and into every second or third column."""
    x, out = torch.randn(2, 2, 3), torch.randn(2, 2, 6)
    same(torch.abs(x.npu()), torch.abs(x))
    same(torch.abs(x.npu().transpose(0, 2)), torch.abs(x.transpose(0, 2)))
    there = out.npu()
    torch.abs(x, out=out[:, :, 0:6:2])
    torch.abs(x.npu(), out=there[:, :, 0:6:2])
    same(there, out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # out= has another size
        torch.abs(x, out=out[:, :, 0:6:3])
        torch.abs(x.npu(), out=there[:, :, 0:6:3])
    same(there, out)


@pytest.mark.behaviour("ops", "a mask selects elements on the device")
def test_masked_select(npu: Any) -> None:
    """masked_select's size depends on the data."""
    x = torch.randn(10)
    found = torch.masked_select(x.npu(), x.npu().gt(0))
    same(found, x[x > 0])


@pytest.mark.behaviour("fallback", "the fallback takes tensors and indices")
def test_fallback_of_tensors(npu: Any) -> None:
    """sub and an index run on copies, and are counted."""
    x = torch.tensor([[1.0, 2, 3], [2, 3, 4]]).npu()
    same(torch.sub(x, torch.tensor([1.0, 0, 2]).npu()),
         torch.tensor([[0.0, 2, 1], [1, 3, 2]]))
    y = torch.tensor([1, 0]).npu()
    same(x[y, y], torch.tensor([3.0, 1]))
    found = npu.stats()["fallbacks"]
    assert found["aten.sub.out"] == 1 and len(found) == 2


@pytest.mark.behaviour("fallback", "the fallback takes numbers alone")
def test_fallback_of_numbers(npu: Any) -> None:
    """A factory without tensor arguments makes a tensor of the device."""
    same(torch.triu_indices(3, 3, device="npu"),
         torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]))
    assert npu.stats()["fallbacks"] == {"aten.triu_indices.default": 1}


@pytest.mark.behaviour("fallback", "the fallback takes lists of tensors")
def test_fallback_of_lists(npu: Any) -> None:
    """_foreach_add gives a list of tensors of the device."""
    x = torch.tensor([1.0, 2, 3]).npu()
    found = torch._foreach_add((x, x), (x, x))
    assert len(found) == 2
    for tensor in found:
        same(tensor, torch.tensor([2.0, 4, 6]))


@pytest.mark.behaviour("fallback", "a kernel of the device is not a fallback")
def test_a_kernel_is_no_fallback(
    npu: Any, scaling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator with a kernel runs on the device, also where the fallback
    is forbidden; another operator is refused."""
    monkeypatch.setenv("OPGRAFT_FALLBACK", "error")
    x = torch.arange(4.0).npu()
    same(scaling.scale(x, 2.0), torch.arange(4.0) * 2)
    assert npu.stats()["fallbacks"] == {}
    with pytest.raises(NotImplementedError, match="abs.*OPGRAFT_FALLBACK"):
        torch.abs(x)


@pytest.mark.behaviour("ops", "an operator of a module has gradients there")
def test_custom_operator(npu: Any, scaling: Any) -> None:
    """An operator of one's own computes and differentiates on the device."""
    x = torch.arange(4.0).npu().requires_grad_()
    y = scaling.scale(x, -3.0)
    y.sum().backward()
    same(y.detach(), torch.arange(4.0) * -3)
    assert x.grad is not None
    same(x.grad, torch.full((4,), -3.0))


@pytest.mark.behaviour("ops", "tensors are quantized on the device")
@pytest.mark.xfail(
    strict=True, raises=TypeError,
    reason="PyTorch: at::new_qtensor, which makes a quantized tensor, has no "
           "Python form")
@pytest.mark.parametrize("dtype, zero", [(torch.qint8, 10),
                                         (torch.quint8, 128)])
def test_quantize(npu: Any, dtype: torch.dtype, zero: int) -> None:
    """quantize_per_tensor keeps scale and zero point; dequantize reads it."""
    x = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.quantize_per_tensor(x.npu(), 0.1, zero, dtype)
        wanted = torch.quantize_per_tensor(x, 0.1, zero, dtype)
    assert found.device == torch.device("npu:0") and found.dtype == dtype
    assert found.q_scale() == 0.1 and found.q_zero_point() == zero
    same(found.dequantize(), wanted.dequantize())


@pytest.mark.behaviour("ops", "a loss warns of nothing")
@pytest.mark.parametrize("loss", [
    F.l1_loss, F.huber_loss, F.mse_loss, F.smooth_l1_loss])
def test_losses(npu: Any, loss: Any) -> None:
    """Losses have the CPU's values, without a warning."""
    x, y = torch.randn(8, 10), torch.randn(8, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(loss(x.npu(), y.npu()), loss(x, y))


# --- OpInfo ------------------------------------------------------------------


def samples(name: str, requires_grad: bool = False) -> Any:
    from torch.testing._internal.common_methods_invocations import op_db

    [op] = [op for op in op_db if op.name == name]
    return op, op.sample_inputs("npu", torch.float32,
                                requires_grad=requires_grad)


def gradients(op: Any, sample: Any, weights: list[torch.Tensor]) -> Any:
    """Result and gradients of one call; `weights` has the result's once."""
    result = op(sample.input, *sample.args, **sample.kwargs)
    if not weights:
        weights.append(torch.rand_like(result))
    leaves = [t for t in (sample.input, *sample.args)
              if isinstance(t, torch.Tensor) and t.requires_grad]
    return result, torch.autograd.grad(result, leaves, weights[0])


@pytest.mark.behaviour("ops", "PyTorch's samples of operators run there")
@pytest.mark.parametrize("name", ["add", "mul"])
def test_samples(npu: Any, name: str) -> None:
    """Results of OpInfo's samples are on the device, with the CPU's values."""
    op, found = samples(name)
    for sample in list(found)[:10]:
        here = sample.transform(
            lambda t: t.cpu() if isinstance(t, torch.Tensor) else t)
        same(op(sample.input, *sample.args, **sample.kwargs),
             op(here.input, *here.args, **here.kwargs))


@pytest.mark.behaviour("ops", "PyTorch's samples of factories run there")
@pytest.mark.parametrize("name, value", [("empty", None), ("zeros", 0),
                                         ("ones", 1)])
def test_samples_of_factories(
    npu: Any, name: str, value: int | None
) -> None:
    """The tensors are on the device; zeros and ones have their value."""
    op, found = samples(name)
    for sample in found:
        result = op(sample.input, *sample.args, **sample.kwargs)
        assert result.device == torch.device("npu:0")
        assert value is None or torch.all(result == value)


@pytest.mark.behaviour("ops", "samples write the tensor of out=")
@pytest.mark.parametrize("name", ["add", "mul"])
def test_samples_with_out(npu: Any, name: str) -> None:
    """out= gets the values, at its address."""
    op, found = samples(name)
    for sample in list(found)[:5]:
        wanted = op(sample.input, *sample.args, **sample.kwargs)
        out = torch.empty_like(wanted)
        address = out.data_ptr()
        assert op(sample.input, *sample.args, **sample.kwargs, out=out) is out
        assert out.data_ptr() == address
        same(out, wanted.cpu())


@pytest.mark.behaviour("ops", "samples with gaps have the same results")
@pytest.mark.parametrize("name", ["add", "mul"])
def test_samples_with_gaps(npu: Any, name: str) -> None:
    """Results and gradients do not depend on the arguments' strides."""
    op, found = samples(name, requires_grad=True)
    for sample in list(found)[:5]:
        weights: list[torch.Tensor] = []
        wanted = gradients(op, sample, weights)
        gaps = gradients(op, sample.noncontiguous(), weights)
        same(gaps[0].detach(), wanted[0].detach().cpu())
        assert len(gaps[1]) == len(wanted[1]) > 0
        for a, b in zip(gaps[1], wanted[1], strict=True):
            same(a, b.cpu())


# --- Sparse tensors ----------------------------------------------------------


@pytest.mark.behaviour("ops", "sparse tensors of the device are refused")
@pytest.mark.parametrize("make", [
    lambda: torch.sparse_coo_tensor(torch.tensor([[0, 1]]).npu(),
                                    torch.ones(2).npu(), (3,)),
    lambda: torch.eye(2).npu().to_sparse(),
    lambda: torch.eye(2).npu().to_sparse_csr(),
    lambda: torch.eye(2).to_sparse().npu(),
    lambda: torch.empty(2, 2, device="npu", layout=torch.sparse_coo)])
def test_sparse(npu: Any, make: Callable[[], torch.Tensor]) -> None:
    """The error names the operator, the layout, and what to do."""
    with pytest.raises(NotImplementedError, match=(
            "aten.*needs a tensor of npu with .*layout.*expected "
            "torch.strided: .*no sparse tensors; use one of the CPU")):
        make()

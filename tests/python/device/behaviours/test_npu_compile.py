# SPDX-License-Identifier: Apache-2.0
"""Behaviours of torch.compile on the device, with the backend opgraft."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from on_npu import alone, same
from torch._dynamo.testing import CompileCounterWithBackend

T = torch.Tensor


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(f: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(f, backend="opgraft", **options)


def counted(f: Callable[..., Any]) -> tuple[Any, Any]:
    counter = CompileCounterWithBackend("opgraft")
    return torch.compile(f, backend=counter), counter


def plus_one(x: T) -> T:
    return x + 1


@pytest.mark.behaviour("compile", "the backend is listed")
def test_backend_is_listed(npu: Any) -> None:
    """torch.compile knows the backend by its name."""
    backends = torch._dynamo.list_backends(exclude_tags=())
    assert "opgraft" in backends


@pytest.mark.behaviour("compile", "a compiled function has eager's values")
def test_simple(npu: Any) -> None:
    """x + 1 on the device."""
    x = torch.randn(4)
    same(compiled(plus_one)(x.npu()), x + 1)


@pytest.mark.behaviour("compile", "several operations are one graph")
def test_several_operations(npu: Any) -> None:
    """A chain of operations compiles with fullgraph=True."""
    x = torch.randn(4)
    f = compiled(lambda t: torch.relu((t + 1) * 2), fullgraph=True)
    same(f(x.npu()), torch.relu((x + 1) * 2))


@pytest.mark.behaviour("compile", "the graph's inputs are on the device")
def test_graph_metadata(npu: Any) -> None:
    """A backend sees fake inputs of the device, with their sizes."""
    seen: list[T] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.extend(node.meta["example_value"] for node in graph.graph.nodes
                    if node.op == "placeholder")
        return graph.forward

    x = torch.randn(4)
    same(torch.compile(plus_one, backend=backend)(x.npu()), x + 1)
    [fake] = seen
    assert fake.device == torch.device("npu:0") and fake.shape == (4,)


@pytest.mark.behaviour("compile", "fake tensors have the device")
def test_fake_tensors(npu: Any) -> None:
    """Operations on fake tensors keep the device and allocate nothing."""
    before = npu.stats()["memory"]["live"]
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(3, 3, device="npu")
        y = x + torch.empty(3, 3, device="npu:0")
        assert x.device.type == y.device.type == "npu"
        assert y.shape == (3, 3)
    assert npu.stats()["memory"]["live"] == before
    assert npu.stats()["fallbacks"] == {}


@pytest.mark.behaviour("compile", "a second call compiles nothing")
def test_no_recompilation(npu: Any) -> None:
    """The same sizes use the first compilation."""
    f, counter = counted(plus_one)
    for _ in range(3):
        f(torch.randn(4).npu())
        assert counter.frame_count == 1


@pytest.mark.behaviour("compile", "another size compiles anew")
def test_recompilation(npu: Any) -> None:
    """Other sizes compile once more, and have the right values."""
    f, counter = counted(plus_one)
    for size, frames in ((4, 1), (8, 2)):
        x = torch.randn(size)
        same(f(x.npu()), x + 1)
        assert counter.frame_count == frames


@pytest.mark.behaviour("compile", "another device compiles anew")
def test_recompilation_for_a_device(npu: Any) -> None:
    """A call on the CPU does not use what was compiled for the device."""
    f, counter = counted(plus_one)
    x = torch.randn(4)
    same(f(x.npu()), x + 1)
    found = f(x)
    assert found.is_cpu and torch.equal(found, x + 1)
    assert counter.frame_count == 2


@pytest.mark.behaviour("compile", "a compiled function has gradients")
def test_autograd(npu: Any) -> None:
    """The gradient of sum(2 x) is 2."""
    x = torch.randn(4).npu().requires_grad_()
    compiled(lambda t: (t * 2).sum())(x).backward()
    assert x.grad is not None
    same(x.grad, torch.full((4,), 2.0))


@pytest.mark.behaviour("compile", "a compiled module has eager's values")
def test_module(npu: Any) -> None:
    """A linear layer on the device."""
    module, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    wanted = module(x).detach()
    same(compiled(module.npu())(x.npu()).detach(), wanted, 1e-6)


@pytest.mark.behaviour("compile", "sizes may be dynamic")
def test_dynamic_sizes(npu: Any) -> None:
    """dynamic=True computes with several sizes."""
    f = compiled(plus_one, dynamic=True)
    for size in (4, 8, 5):
        x = torch.randn(size)
        same(f(x.npu()), x + 1)


@pytest.mark.behaviour("compile", "a copy to the CPU stays in the graph")
def test_transfer(npu: Any) -> None:
    """cpu() inside compiles with fullgraph=True."""
    x = torch.randn(4)
    found = compiled(lambda t: (t + 1).cpu() * 2, fullgraph=True)(x.npu())
    assert found.is_cpu and torch.equal(found, (x + 1) * 2)


@pytest.mark.behaviour("compile", "a graph break keeps the values")
def test_graph_break(npu: Any) -> None:
    """Two graphs, with the code between them in Python."""
    def broken(x: T) -> T:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    f, counter = counted(broken)
    x = torch.randn(4)
    same(f(x.npu()), (x + 1) * 2)
    assert counter.frame_count == 2


@pytest.mark.behaviour("compile", "autocast works in a compiled function")
def test_autocast(npu: Any) -> None:
    """mm under autocast is of float16."""
    def product(x: T, y: T) -> T:
        with torch.autocast("npu", dtype=torch.float16):
            return torch.mm(x, y)

    x, y = torch.randn(2, 3), torch.randn(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compiled(product)(x.npu(), y.npu())
    assert found.dtype == torch.float16
    same(found, torch.mm(x.half(), y.half()))


@pytest.mark.behaviour("compile", "factories use the default device")
def test_default_device(npu: Any) -> None:
    """A tensor made inside is on the default device."""
    def f(x: T) -> T:
        return x + torch.ones(4)

    with torch.device("npu"):
        found = compiled(f)(torch.arange(4.0))
    same(found, torch.arange(4.0) + 1)


@pytest.mark.behaviour("compile", "dynamo has an interface of the device")
def test_interface(npu: Any) -> None:
    """The interface tells that the device is available."""
    from torch._dynamo.device_interface import get_interface_for_device

    assert get_interface_for_device("npu").is_available()
    assert get_interface_for_device("npu:0") is get_interface_for_device("npu")


@pytest.mark.behaviour("compile", "dynamo's interface counts devices")
def test_interface_counts(npu: Any) -> None:
    """The interface has one device, which is the current one."""
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("npu")
    assert interface.device_count() == 1
    assert interface.current_device() == 0
    assert interface.get_device_properties("npu:0").name == npu.model
    assert interface.is_dtype_supported(torch.bfloat16)
    with interface.device(0):
        assert interface.exchange_device(0) == 0


@pytest.mark.behaviour("compile", "the device does not import dynamo")
def test_dynamo_is_imported_late(npu_path: Path) -> None:
    """load_device leaves torch._dynamo to the first who imports it."""
    text = ("import sys\n"
            "print('torch._dynamo' in sys.modules)\n"
            "from torch._dynamo import device_interface\n"
            "found = device_interface.get_interface_for_device('npu:0')\n"
            "print(found.device_count())\n")
    assert alone(npu_path, text) == "False\n1\n"

# SPDX-License-Identifier: Apache-2.0
"""Operators of opgraft whose kernels are for a device."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

import opgraft


def test_the_devices_kernel_runs_there(npu: Any, scaling: Any) -> None:
    x = torch.arange(6.0)
    assert scaling.scale(x, 2.0).tolist() == (2 * x + 1000).tolist()
    for f in (scaling.scale, torch.ops.scaling.scale):
        y = f(x.npu(), 2.0)
        assert y.device.type == "npu" and y.cpu().tolist() == (2 * x).tolist()
    assert npu.stats()["fallbacks"] == {}


def python_calls(run: Callable[[], Any]) -> list[str]:
    """The functions of Python that ran, but `run` itself."""
    seen: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen[1:]


def test_a_plain_call_runs_no_python(npu: Any, scaling: Any) -> None:
    """Nor the dispatcher; what is not plain takes the slow path, with the same
    values."""
    x, out = torch.arange(6.0).npu(), torch.empty(6).npu()
    y, z = x.clone(), torch.zeros(2).npu()
    main, other = torch.npu.current_stream(), torch.npu.Stream()
    scale, scale_, gather = scaling.scale, scaling.scale_, scaling.gather
    for run in (lambda: scale(x, 2.0), lambda: scale_(y, 2.0),
                lambda: scale(x, 2.0, out=out), lambda: gather(z, [x], [1])):
        run()
        assert python_calls(run) == []
        other.wait_stream(main)
        with other:
            assert python_calls(run) == []
        main.wait_stream(other)
    leaf = torch.arange(6.0).npu().requires_grad_()
    for given in (leaf, x.reshape(2, 3).t(), torch._neg_view(x)):
        run = lambda: scale(given, 2.0)  # noqa: B023, E731
        assert python_calls(run) != []
        assert run().cpu().tolist() == (given.detach().cpu() * 2).tolist()
    version = x._version
    scaling.scale_(x, 2.0)
    assert x._version == version + 1
    with torch.inference_mode():
        frozen = torch.ones(2).npu()
    with pytest.raises(RuntimeError, match="[Ii]nference tensor"):
        scaling.scale_(frozen, 2.0)


def test_many_launches_in_order(npu: Any, scaling: Any) -> None:
    x = torch.ones(8).npu()
    for _ in range(10):
        x = scaling.scale(x, 2.0)
    assert x.cpu().tolist() == [1024.0] * 8


def test_strides_are_made_dense(npu: Any, scaling: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3).npu()
    assert scaling.scale(x.t(), 3.0).cpu().tolist() == \
        (x.cpu().t() * 3).tolist()


def test_forms_and_gradient(npu: Any, scaling: Any) -> None:
    x = torch.arange(3.0).npu()
    out = torch.empty(3, device="npu")
    assert scaling.scale(x, 2.0, out=out) is out
    assert out.cpu().tolist() == [0, 2, 4]
    assert scaling.scale_(x, 5.0) is x
    assert x.cpu().tolist() == [0, 5, 10]
    leaf = torch.ones(3).npu().requires_grad_()
    scaling.scale(leaf, 4.0).sum().backward()
    assert leaf.grad.cpu().tolist() == [4.0] * 3


def test_lists_workspace_and_mutation(npu: Any, scaling: Any) -> None:
    y = torch.zeros(2).npu()
    xs = [torch.ones(3).npu(), torch.full((2,), 10.0).npu()]
    made = scaling.gather(y, xs, [1, 2])
    assert y.cpu().tolist() == [23.0, 23.0]
    assert [t.cpu().tolist() for t in made] == [[3.0], [40.0]]


def test_kernels_that_are_missing(
    npu: Any, scaling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(1)
    with pytest.raises(RuntimeError, match="gather.* are on cpu, .* for ext;"):
        scaling.gather(x, [x.clone()], [1])
    assert scaling.only_cpu(x.npu()).cpu().tolist() == [2.0]
    assert npu.stats()["fallbacks"] == {"scaling.only_cpu.default": 1}
    monkeypatch.setenv("OPGRAFT_FALLBACK", "error")
    with pytest.raises(NotImplementedError, match="scaling.only_cpu"):
        scaling.only_cpu(x.npu())


def test_a_formula_runs_as_pytorch_s_operators(npu: Any) -> None:
    softcap = opgraft.define("softcap(Tensor x, float cap=5.0) -> Tensor",
                             row="y = cap * tanh(x / cap)")
    x = torch.randn(4, 8)
    torch.testing.assert_close(softcap(x.npu()).cpu(), softcap(x))
    assert set(npu.stats()["fallbacks"]) == {
        "aten.div.out", "aten.tanh.out", "aten.mul.out"}


def test_a_reference_leaves_the_kernel_on_copies(
    npu: Any, build: Callable[..., Path]
) -> None:
    m = opgraft.load(build("tests/python/references.c"))
    x, w = torch.randn(3, 4), torch.randn(4)
    assert m.norm(x.npu(), w.npu()).cpu().equal(m.norm(x, w))
    assert npu.stats()["fallbacks"] == {"with_reference.norm.default": 1}


def test_a_kernel_that_fails_is_raised_at_the_wait(
    npu: Any, scaling: Any
) -> None:
    y = scaling.scale(torch.ones(2).npu(), -1.0)
    with pytest.raises(RuntimeError, match="scale: a is -1"):
        y.cpu()
    torch.npu.synchronize()


def test_a_kernel_that_fails_is_raised_where_memory_is_short(
    npu: Any, scaling: Any
) -> None:
    """By an allocation that waits for the device before it trims."""
    torch.npu.empty_cache()
    x, out = torch.ones(2).npu(), torch.empty(2, device="npu")
    torch.empty(150 << 20, dtype=torch.uint8, device="npu")
    scaling.scale(x, -1.0, out=out)
    with pytest.raises(RuntimeError, match="scale: a is -1"):
        torch.empty(200 << 20, dtype=torch.uint8, device="npu")
    big = torch.empty(200 << 20, dtype=torch.uint8, device="npu")
    assert big.numel() == 200 << 20
    del big
    torch.npu.empty_cache()


def test_other_threads_run_while_an_unload_waits(
    npu: Any, write_module: Callable[..., Path]
) -> None:
    """Their Python code did not: the unload held the interpreter."""
    source = Path(__file__).with_name("scale.c").read_text()
    m = opgraft.load(write_module(
        source.replace("OG_MODULE(scaling", "OG_MODULE(unloaded"), "unloaded"))
    x, out = torch.ones(8).npu(), torch.empty(8, device="npu")
    count, is_over = 0, threading.Event()

    def work() -> None:
        nonlocal count
        while not is_over.is_set():
            count += 1

    other = threading.Thread(target=work)
    other.start()
    for _ in range(3000):
        m.scale(x, 2.0, out=out)
    before = count
    m.unload()
    after = count
    is_over.set()
    other.join()
    assert after > before
    assert out.cpu().tolist() == [2.0] * 8


def test_compiled(npu: Any, scaling: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return scaling.scale(x, 2.0) + 1

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(2).npu()).cpu().tolist() == [3.0, 3.0]

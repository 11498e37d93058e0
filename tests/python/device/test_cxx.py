# SPDX-License-Identifier: Apache-2.0
"""The C++ part of a device: what it adds, when it is compiled, and a device
without it. Each test's processes have a cache of their own, or the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

LOAD = """
import opgraft, torch, sys
device = opgraft.load_device(sys.argv[1])
x = torch.arange(4.0).npu()
assert (x + x).tolist() == [0, 2, 4, 6]
"""
SAY = LOAD + "print(device.cxx_missing)\n"


@pytest.fixture
def cxx(npu: Any) -> Any:
    """The device, with its C++ part."""
    if npu.cxx_missing is not None:
        pytest.skip(npu.cxx_missing)
    return npu


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def started(npu_path: Path, text: str, **environ: Any) -> Any:
    kept = {k: v for k, v in os.environ.items() if k != "OPGRAFT_DEVICE_CXX"}
    return subprocess.Popen(
        [sys.executable, "-c", text, str(npu_path)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={**kept, **{k: str(v) for k, v in environ.items()}})


def ended(process: Any) -> tuple[str, str]:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, (process.returncode, error)
    return out, error


def said(npu_path: Path, text: str, **environ: Any) -> tuple[str, str]:
    """What the process writes to its two streams."""
    return ended(started(npu_path, text, **environ))


def compiler(folder: Path, line: str) -> tuple[Path, Callable[[], int]]:
    """A compiler that runs `line`, and how often it was called."""
    calls, path = folder / "calls", folder / "compiler"
    path.write_text(f'#!/bin/sh\necho >> "{calls}"\n{line}\n')
    path.chmod(0o755)
    return path, lambda: (len(calls.read_text().splitlines())
                          if calls.exists() else 0)


# --- Without it --------------------------------------------------------------


def test_it_is_turned_off(npu_path: Path, cache: Path) -> None:
    text = SAY + ("try:\n    torch.accelerator.memory_stats()\n"
                  "except RuntimeError as error: print(error)\n")
    out, error = said(npu_path, text, OPGRAFT_DEVICE_CXX=0,
                      XDG_CACHE_HOME=cache)
    first, second = out.splitlines()
    assert first == "OPGRAFT_DEVICE_CXX=0 turns it off; unset it"
    assert second.startswith("torch.accelerator has no statistics of npu's "
                             "memory without the C++ part of opgraft: " + first)
    assert error == "" and not cache.exists()


def test_there_is_no_compiler(npu_path: Path, cache: Path) -> None:
    out, error = said(npu_path, SAY, PATH=cache, CXX="", XDG_CACHE_HOME=cache)
    assert out == ("there is no C++ compiler: c++ is not in PATH; install g++ "
                   "or clang++, or name one with CXX\n")
    assert error == ""


def test_there_is_no_cache(npu_path: Path) -> None:
    out, error = said(npu_path, SAY, XDG_CACHE_HOME="", HOME="")
    assert out == ("neither XDG_CACHE_HOME nor HOME says where the cache is\n")
    assert error == ""


def test_a_cache_that_cannot_be_written(npu_path: Path, cache: Path) -> None:
    cache.write_text("a file")
    out, error = said(npu_path, SAY, XDG_CACHE_HOME=cache)
    assert out.startswith("it cannot be compiled: ")
    assert str(cache) in out and error == ""


@pytest.mark.full
def test_a_compiler_that_fails(
    npu_path: Path, cache: Path, tmp_path: Path
) -> None:
    """One warning with the log's path; no second try while the log is there."""
    path, calls = compiler(tmp_path, "echo what is wrong >&2; exit 3")
    for _ in range(2):
        out, error = said(npu_path, SAY, CXX=path, XDG_CACHE_HOME=cache)
        [log] = (cache / "opgraft").iterdir()
        assert f"the C++ compiler failed, see {log}; delete that file" in out
        assert error.count("RuntimeWarning: opgraft: a device without its") == 1
        assert calls() == 1
    text = log.read_text()
    assert str(path) in text and "what is wrong\nstatus 3" in text
    log.unlink()
    said(npu_path, SAY, CXX=path, XDG_CACHE_HOME=cache)
    assert calls() == 2


def test_a_library_that_is_damaged(
    npu_path: Path, cache: Path, tmp_path: Path
) -> None:
    """A compiler's output that cannot be loaded costs the C++ part alone."""
    line = 'for a; do test "$b" = -o && echo text > "$a"; b=$a; done; true'
    path, _ = compiler(tmp_path, line)
    out, _ = said(npu_path, SAY, CXX=path, XDG_CACHE_HOME=cache)
    assert ".so: " in out and out.startswith(str(cache))


# --- Compiled once -----------------------------------------------------------


@pytest.mark.full
def test_two_processes_compile_at_once(
    npu_path: Path, cache: Path, tmp_path: Path, cxx: Any
) -> None:
    """Both work, and what comes later compiles nothing."""
    path, calls = compiler(tmp_path, 'exec c++ -O0 "$@"')
    both = [started(npu_path, SAY, CXX=path, XDG_CACHE_HOME=cache)
            for _ in range(2)]
    assert [ended(process) for process in both] == [("None\n", "")] * 2
    before = calls()
    assert before in (1, 2)  # 1: the other one came too late for a race
    [library] = (cache / "opgraft").iterdir()
    assert library.suffix == ".so"
    assert said(npu_path, SAY, CXX=path, XDG_CACHE_HOME=cache) == (
        "None\n", "")
    assert calls() == before


# --- What it adds ------------------------------------------------------------


def test_statistics_of_memory(cxx: Any) -> None:
    accelerator = torch.accelerator
    x = torch.empty(1000, device="npu")
    before = accelerator.memory_stats()
    assert accelerator.memory_allocated() == torch.npu.memory_allocated()
    assert accelerator.memory_reserved() == torch.npu.memory_reserved()
    y = torch.empty(1000, device="npu")
    found = accelerator.memory_stats()
    for name, grown in (("allocation", 1), ("allocated_bytes", 4096)):
        name += ".all.current"
        assert found[name] == before[name] + grown
    del y
    accelerator.reset_accumulated_memory_stats()
    accelerator.reset_peak_memory_stats()
    found = accelerator.memory_stats()
    assert found["allocated_bytes.all.allocated"] == 0
    assert (found["allocated_bytes.all.peak"]
            == found["allocated_bytes.all.current"])
    assert x.shape == (1000,)


@pytest.mark.parametrize("is_inference", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool,
                                   torch.complex128])
@pytest.mark.parametrize("sizes, strides", [
    ((), ()), ((0, 3), (3, 1)), ((3, 4), (8, 2)), ((2, 5), (0, 1)),
    ((2, 1, 2, 1, 2, 1, 2), (8, 8, 4, 4, 2, 2, 1))])
def test_a_new_tensor_is_as_torch_makes_one(
        cxx: Any, sizes: tuple[int, ...], strides: tuple[int, ...],
        dtype: torch.dtype, is_inference: bool) -> None:
    before = torch.npu.memory_allocated(), torch.accelerator.memory_stats()
    with torch.inference_mode(is_inference):
        x = torch.empty_strided(sizes, strides, dtype=dtype, device="npu")
        like = torch.empty_strided(sizes, strides, dtype=dtype)
    assert x.device == torch.device("npu:0") and x.dtype == dtype
    assert x.size() == like.size() and x.stride() == like.stride()
    assert x.untyped_storage().nbytes() == like.untyped_storage().nbytes()
    assert x.untyped_storage().resizable() and x.storage_offset() == 0
    assert x.is_inference() == is_inference and x.grad_fn is None
    assert (x.data_ptr() == 0) == (like.numel() == 0)
    if not is_inference and like.numel() > 0 and 0 not in strides:
        assert x.fill_(1).cpu().equal(like.fill_(1)) and x._version == 1
    del x
    after = torch.npu.memory_allocated(), torch.accelerator.memory_stats()
    name = "allocation.all.current"
    assert (after[0], after[1][name]) == (before[0], before[1][name])


def test_a_storage_grows_and_shrinks(cxx: Any) -> None:
    x = torch.arange(6.0).npu()
    storage = x.untyped_storage()
    storage.resize_(48)
    assert storage.nbytes() == 48 and x.tolist() == list(range(6))
    storage.resize_(8)
    assert x[:2].tolist() == [0, 1] and storage.nbytes() == 8
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_a_storage_of_torch_itself(cxx: Any) -> None:
    """torch's C++ makes and copies storages with the device's allocator."""
    made = torch._C.StorageBase.__new__(
        torch.UntypedStorage, 16, device=torch.device("npu"))
    x = torch.empty(0, device="npu").set_(made, 0, (4,))
    x.copy_(torch.arange(4.0))
    assert made.device == torch.device("npu:0") and x.tolist() == [0, 1, 2, 3]


def test_streams_of_torch_are_those_of_the_device(cxx: Any) -> None:
    own, generic = torch.npu.Stream(), torch.Stream("npu")
    with own:
        assert torch.accelerator.current_stream().stream_id == own.stream_id
        with generic:
            assert torch.npu.current_stream() == generic
        assert torch.npu.current_stream() is own
    with torch.npu.stream(generic):
        assert torch.accelerator.current_stream() == generic
        x = torch.ones(8, device="npu")
    own.wait_stream(generic)
    torch.npu.record_stream(x, own)
    event = torch.npu.Event()
    event.record(generic)
    event.wait(own)
    event.synchronize()
    torch.npu.synchronize()
    assert generic.query()


def test_a_stream_that_ended_is_the_default_one(cxx: Any) -> None:
    stream = torch.npu.Stream()
    number = stream.stream_id
    again = torch.Stream(stream_id=number, device_index=0,
                         device_type=stream.device_type)
    assert torch.npu.Stream._of(again) is stream
    del stream
    with again:
        assert (torch.ones(4, device="npu") * 2).tolist() == [2] * 4
    again.synchronize()


def test_streams_of_torch_are_shared_in_turn(cxx: Any) -> None:
    """A torch.Stream lives for ever, so a device has 32."""
    numbers = [torch.Stream("npu").stream_id for _ in range(65)]
    assert len(set(numbers[:33])) == 32 == len(set(numbers))
    assert numbers[33:] == numbers[1:33]


def test_a_backward_uses_the_streams_of_its_forward(
    cxx: Any, build: Callable[..., Path]
) -> None:
    """As on CUDA, autograd orders them: no race is reported."""
    import opgraft

    scaling = opgraft.load(build("tests/python/device/scale.c"))
    x = torch.arange(8.0).npu().requires_grad_()
    for _ in range(10):
        x.grad = None
        with torch.Stream("npu"):
            torch.npu.current_stream().wait_stream(torch.npu.default_stream())
            y = scaling.scale(scaling.scale(x, 2.0), 3.0)
        grad = torch.ones(8).npu()
        y.backward(grad)
        assert torch.equal(x.grad.cpu(), torch.full((8,), 6.0))


def test_threads_have_a_current_device(cxx: Any) -> None:
    with pytest.raises(RuntimeError, match="there is no device npu:7, expected"
                                           " npu:0 to npu:0"):
        torch.accelerator.set_device_index(7)
    with pytest.raises(RuntimeError, match="there is no device npu:7"):
        torch.Stream("npu:7")


def test_a_generator_and_its_state(cxx: Any) -> None:
    generator = torch.Generator("npu").manual_seed(3)
    wanted = torch.rand(4, generator=torch.Generator().manual_seed(3))
    state = generator.get_state()
    assert torch.rand(4, device="npu", generator=generator).tolist() == (
        wanted.tolist())
    other = generator.clone_state()
    other.set_state(state)
    x = torch.empty(4, device="npu").uniform_(generator=other)
    assert x.tolist() == wanted.tolist()


TWO = """
import opgraft, torch, sys, threading
device = opgraft.load_device(sys.argv[1])
assert device.cxx_missing is None, device.cxx_missing
assert torch.accelerator.device_count() == device.count == 2
x = torch.arange(4.0).to("twin:1")
assert x.device == torch.device("twin:1")
y = (x + x).sort(descending=True).values
assert y.device == x.device and y.tolist() == [6, 4, 2, 0]
z = y.to("twin:0")
assert z.device == torch.device("twin:0") and z.tolist() == y.tolist()
assert y.twin(0).device == z.device and z.twin(1).device == x.device
with torch.twin.device(1):
    assert torch.empty(2, device="twin").device == x.device
    assert torch.accelerator.current_device_index() == 1
    found = []
    thread = threading.Thread(target=lambda: found.append(
        torch.twin.current_device()))
    thread.start(); thread.join()
    assert found == [0]
assert torch.empty(2, device="twin").device == z.device
before = torch.twin.memory_allocated(1)
kept = torch.empty(1 << 10, device="twin:1")
assert torch.twin.memory_allocated(1) == before + (4 << 10)
assert torch.accelerator.memory_stats(1)["allocated_bytes.all.current"] == (
    before + (4 << 10))
w = torch.ones(3, device="twin:1", requires_grad=True)
(w * 2).sum().backward()
assert w.grad.device == w.device and w.grad.tolist() == [2, 2, 2]
model = torch.nn.Sequential(torch.nn.Linear(4, 4).to("twin:0"),
                            torch.nn.Linear(4, 2).to("twin:1"))
out = model[1](model[0](z).to("twin:1"))
out.sum().backward()
assert model[0].weight.grad.device == z.device
assert model[1].weight.grad.device == x.device
try:
    torch.empty(1, device="twin:2")
except RuntimeError as error:
    print(error)
"""


def test_a_model_on_two_devices(
    tmp_path: Path, write_module: Callable[..., Path], cxx: Any
) -> None:
    """With the driver that `opgraft new --device` writes, for two devices."""
    build = os.environ.get("OPGRAFT_BUILD")
    if build is None:
        pytest.skip("the program is not built: set OPGRAFT_BUILD")
    subprocess.run([Path(build, "bin/opgraft"), "new", "--device", "twin"],
                   cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "twin/twin.c").read_text()
    one, two = "*out_count = 1;", "*out_count = 2;"
    assert text.count(one) == 1
    path = write_module(text.replace(one, two), "twin_driver")
    out, _ = said(path, TWO)
    assert out == "there is no device twin:2, expected twin:0 to twin:1\n"

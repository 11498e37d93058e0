# SPDX-License-Identifier: Apache-2.0
"""devices/cuda on a real GPU, beside PyTorch: torch's memory, streams and
events are the driver's, and back.

Run where the GPU is, from the root of the repository, with build/devices/cuda.so
there: `python3 tests/gpu/test_driver.py`, or with pytest. tests/gpu/driver.c has
captures, updates and times; this runs it too where a C compiler or
build/tests/gpu/driver is there.
"""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = ROOT / "build" / "devices" / "cuda.so"
REQUIRED = ("open close device_count properties memory_allocate memory_free "
            "memory_set copy_to_device copy_to_host copy_on_device "
            "stream_create stream_destroy stream_synchronize").split()
OPTIONAL = ("memory_label event_create event_destroy event_record event_wait "
            "event_synchronize event_elapsed host_function launch "
            "capture_begin capture_end graph_destroy graph_instantiate "
            "exec_destroy exec_update exec_launch host_access").split()
FLOATS = 1 << 16
BYTES = FLOATS * 4

if "pytest" in sys.modules:
    import pytest
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        pytest.skip(f"no GPU here: {error}", allow_module_level=True)

REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32,
                          ctypes.c_char_p)
HEAD: list[tuple[str, Any]] = [
    ("struct_size", ctypes.c_uint32), ("abi_version", ctypes.c_uint32),
    ("name", ctypes.c_char_p), ("device_type", ctypes.c_int32),
    ("flags", ctypes.c_uint32)]


class Table(ctypes.Structure):
    """og_device_driver"""
    _fields_ = HEAD + [(name, ctypes.c_void_p) for name in REQUIRED + OPTIONAL]


class Host(ctypes.Structure):
    """og_device_host"""
    _fields_ = [("struct_size", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("options", ctypes.c_char_p),
                ("report", REPORT), ("user", ctypes.c_void_p)]


def told(_user: int, code: int, text: bytes) -> None:
    print(f"report: status {code}: {text.decode()}")


class Driver:
    """Each function of the table by its name; a status that is not 0 raises."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(DRIVER))
        query = self.library.opgraft_device
        query.restype = ctypes.POINTER(Table)
        self.table = query(1).contents
        self.host = Host(ctypes.sizeof(Host), 0, b"", REPORT(told), None)
        state = ctypes.c_void_p()
        self.call("open", ctypes.byref(self.host), ctypes.byref(state),
                  has_state=False)
        self.state = state

    def call(self, name: str, *given: Any, has_state: bool = True) -> None:
        error = ctypes.create_string_buffer(512)
        words = ([self.state] if has_state else []) + list(given) + [error]
        fn = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(words))(
            getattr(self.table, name))
        status = fn(*[w if isinstance(w, (int, ctypes.c_void_p, type(None)))
                      else ctypes.cast(w, ctypes.c_void_p) for w in words])
        if status != 0:
            raise RuntimeError(f"{name}: status {status}: "
                               f"{error.value.decode()}")

    def made(self, name: str, *given: Any) -> int:
        out = ctypes.c_void_p()
        self.call(name, *given, ctypes.byref(out))
        assert out.value, f"{name} wrote no output"
        return out.value


_driver: Driver | None = None


def driver() -> Driver:
    global _driver
    if _driver is None:
        _driver = Driver()
    return _driver


def test_device() -> None:
    count = ctypes.c_int32()
    driver().call("device_count", ctypes.byref(count))
    print(f"{count.value} devices; {DRIVER}")
    assert count.value >= 1


def test_torch_reads_what_the_driver_wrote() -> None:
    import torch
    d = driver()
    x = torch.arange(FLOATS, dtype=torch.float32, device="cuda")
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        handle = stream.cuda_stream  # 0: the legacy default stream
        with torch.cuda.stream(stream):
            y = torch.zeros_like(x)
            d.call("copy_on_device", handle, y.data_ptr(), x.data_ptr(), BYTES)
            z = y * 2
        d.call("stream_synchronize", handle, -1)
        assert torch.equal(z, x * 2), handle
        host = torch.empty(FLOATS)
        d.call("copy_to_host", handle, host.data_ptr(), z.data_ptr(), BYTES)
        d.call("stream_synchronize", handle, -1)
        assert torch.equal(host, x.cpu() * 2), handle


def test_pinned_memory() -> None:
    import torch
    d = driver()
    host = torch.arange(FLOATS, dtype=torch.float32).pin_memory()
    back = torch.zeros(FLOATS).pin_memory()
    stream = d.made("stream_create", 0)
    x = d.made("memory_allocate", 0, BYTES)
    d.call("copy_to_device", stream, x, host.data_ptr(), BYTES)
    d.call("copy_to_host", stream, back.data_ptr(), x, BYTES)
    d.call("stream_synchronize", stream, -1)
    assert torch.equal(host, back)
    d.call("memory_free", 0, x)
    d.call("stream_destroy", stream)


def test_allocations_during_a_capture_of_torchs() -> None:
    """In its strictest mode: what the driver allocates is not part of it."""
    import torch
    d = driver()
    x = torch.ones(FLOATS, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        address = d.made("memory_allocate", 0, BYTES)
        d.call("memory_free", 0, address)
        d.call("copy_on_device", torch.cuda.current_stream().cuda_stream,
               x.data_ptr(), y.data_ptr(), BYTES)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, torch.full_like(x, 4)), x[:4]


def test_events_beside_torchs() -> None:
    import torch
    d = driver()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    begin, end = d.made("event_create", 0), d.made("event_create", 0)
    handle = torch.cuda.current_stream().cuda_stream
    d.call("event_record", begin, handle)
    x = torch.randn(2048, 2048, device="cuda")
    for _ in range(20):
        x = x @ x / 50
    d.call("event_record", end, handle)
    d.call("event_synchronize", end, -1)
    ns = ctypes.c_int64()
    d.call("event_elapsed", begin, end, ctypes.byref(ns))
    print(f"20 products took {ns.value / 1e3:.0f} us")
    assert ns.value > 0
    stream = d.made("stream_create", 0)
    d.call("event_wait", event.cuda_event, stream)
    d.call("stream_synchronize", stream, -1)
    for made in (begin, end):
        d.call("event_destroy", made)
    d.call("stream_destroy", stream)


def test_program() -> None:
    """tests/gpu/driver.c: built here where that can be, else as it came."""
    program = ROOT / "build" / "tests" / "gpu" / "driver"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))),
                    None)
    with tempfile.TemporaryDirectory() as folder:
        if compiler:
            program = pathlib.Path(folder) / "driver"
            subprocess.run([compiler, "-O2", "-std=c11", "-Iinclude", "-I.",
                            "-o", str(program), "tests/gpu/driver.c",
                            "devices/cuda/api.c", "-ldl", "-lpthread"],
                           cwd=ROOT, check=True)
        done = subprocess.run([str(program), str(DRIVER)], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240)
    print(done.stdout)
    assert done.returncode == 0, f"ended with {done.returncode}"


def main() -> int:
    tests = [(name, fn) for name, fn in sorted(globals().items())
             if name.startswith("test_") and callable(fn)]
    failed = 0
    for name, fn in tests:
        try:
            fn()
            print(f"{name}: passed", flush=True)
        except Exception:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"{name}: failed", flush=True)
    print(f"gpu test_driver: {len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

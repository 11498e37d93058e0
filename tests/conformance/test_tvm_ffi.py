# SPDX-License-Identifier: Apache-2.0
"""TVM-FFI: calls from Python and C, errors, metadata, ownership."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import build

tvm_ffi = pytest.importorskip(
    "tvm_ffi", reason="apache-tvm-ffi is not in this environment")

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = pathlib.Path(tvm_ffi.__file__).parent / "lib/libtvm_ffi.so"
INCLUDES = [f"-I{build.ROOT / 'include'}", f"-I{build.ROOT / 'hosts'}"]


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return tvm_ffi.load_module(str(modules / "scale.so"))


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return tvm_ffi.load_module(str(modules / "kinds.so"))


@pytest.fixture(scope="module")
def basics(modules: pathlib.Path) -> Any:
    return tvm_ffi.load_module(str(modules / "basics.so"))


@pytest.fixture(scope="module")
def limits(modules: pathlib.Path) -> Any:
    return tvm_ffi.load_module(str(modules / "limits.so"))


@pytest.fixture(scope="module")
def corners(modules: pathlib.Path) -> Any:
    return tvm_ffi.load_module(str(modules / "corners.so"))


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


def array(value: Any) -> Any:
    return np.from_dlpack(value)


def test_a_result_of_its_own(scale: Any) -> None:
    x, w = drawn(3, 4), drawn(4)
    for n in (0, 1, 3):
        assert np.array_equal(array(scale.scale(x[:n], w)), x[:n] * w)


def test_a_result_that_is_given(scale: Any, basics: Any) -> None:
    x, w, y = drawn(3, 4), drawn(4), np.empty((3, 4), "f")
    assert scale.scale(x, w, y) is None
    assert np.array_equal(y, x * w)
    wide = np.zeros((3, 8), "f")
    scale.scale(x, w, wide[:, ::2])
    assert np.array_equal(wide[:, ::2], x * w) and not wide[:, 1::2].any()
    with pytest.raises(ValueError, match=r"scale: out: result 0 is f32\[4, 3\]"):
        scale.scale(x, w, np.empty((4, 3), "f"))
    with pytest.raises(ValueError, match="scale: .*overlap|scale: .*memory"):
        scale.scale(x, w, x[::-1])
    with pytest.raises(TypeError, match="halves: found 3 arguments, expected at "
                                        "most 2"):
        basics.halves(x[0], 2, y)


def test_strides_and_offsets(scale: Any) -> None:
    x, w = drawn(8, 6), drawn(12)
    for view in (x[2:5, 1:5], x[::2, ::-1][:, :4], x.T[:4, :4], x[:0, :4]):
        assert np.array_equal(array(scale.scale(view, w[4:8])), view * w[4:8])
    assert np.array_equal(array(scale.scale(x[:, :4], w[::3])),
                          x[:, :4] * w[::3])


def test_an_argument_that_is_written(basics: Any, kinds: Any, limits: Any
                                     ) -> None:
    x = drawn(4, 6)
    before = x.copy()
    basics.add_to_(x[:, 1:3], 1.5)
    before[:, 1:3] += 1.5
    assert np.array_equal(x, before)
    a, b = drawn(3), drawn(3, seed=1)
    limits.bump_([a, b])
    assert np.array_equal(a, drawn(3) + 1)
    assert np.array_equal(b, drawn(3, seed=1) + 1)
    y = np.zeros(3, "f")
    assert np.array_equal(array(limits.touch(a, y)), a) and (y == 1).all()
    assert np.array_equal(array(limits.touch(a)), a)
    with pytest.raises(ValueError, match="two_writes: "):
        basics.two_writes(a, a)


def test_lists_texts_and_defaults(kinds: Any, limits: Any) -> None:
    x = drawn(2)
    plain = array(kinds.digest(x, [3, 2], [0.5, 0.25], True))
    assert plain.shape == (3, 2)
    shape = array(kinds.digest(x, tvm_ffi.Shape((3, 2)), (0.5, 0.25), 1))
    assert np.array_equal(plain, shape)
    long = array(kinds.digest(x, [1], [], False, "a longer text"))
    short = array(kinds.digest(x, [1], [], False, "text"))
    wanted = [0.0, 0.0]
    for i, text in enumerate(("a longer text", "text")):
        total = 1.0
        for letter in text.encode():
            total = 3 * total + letter
        wanted[i] = total + 2 * 8
    assert [long[0], short[0]] == [np.float32(w) for w in wanted]
    typed = array(kinds.digest(x, [1], [], False, "", np.dtype("float16")))
    assert typed[0] == 2 * 1 + 16 + 16
    assert array(limits.lengths(drawn(4), ["ab", "", "a longer text"])
                 ).tolist() == [2, 0, 13, -1]
    for text in ("a\0b", "a longer text\0"):
        with pytest.raises(TypeError, match="lengths: texts: found a str with "
                                            "a NUL character"):
            limits.lengths(x, [text, "de"])


def test_several_results(kinds: Any, basics: Any) -> None:
    x = drawn(3, 5)
    least, most = kinds.spread(x)
    assert np.array_equal(array(least), x.min(1))
    assert np.array_equal(array(most), x.max(1))
    given = np.empty(3, "f"), np.empty(3, "f")
    kinds.spread(x, *given)
    assert np.array_equal(given[0], x.min(1)) and np.array_equal(given[1],
                                                                 x.max(1))
    halves = basics.halves(drawn(7), 3)
    assert np.array_equal(np.concatenate([array(h) for h in halves]), drawn(7))
    found = array(basics.positives(drawn(12)))
    assert np.array_equal(found, np.flatnonzero(drawn(12) > 0))


def test_wrong_calls(kinds: Any, scale: Any) -> None:
    x = drawn(3, 4)
    for error, text, call in (
        (ValueError, r"scale: weight\[D\]: D is 5 here, but x\[..., D\] has 4",
         lambda: scale.scale(x, drawn(5))),
        (TypeError, "scale: weight is missing", lambda: scale.scale(x)),
        (TypeError, "scale: weight: found a float, expected Tensor",
         lambda: scale.scale(x, 2.0)),
        (TypeError, "found 4 arguments, expected at most 2, or 3 with its "
                    "results", lambda: scale.scale(x, x, x, x)),
        (TypeError, "tilt: a: found a str, expected float",
         lambda: kinds.tilt(x, "a")),
        (TypeError, "tilt: a: found None, expected float",
         lambda: kinds.tilt(x, None)),
        (TypeError, r"total: xs: found a tensor, expected Tensor\[\]",
         lambda: kinds.total(x)),
        (TypeError, r"total: xs: found an int, expected Tensor\[\]",
         lambda: kinds.total([x, 1])),
        (TypeError, r"digest: sizes: found a float, expected int\[\]",
         lambda: kinds.digest(x, [1.5], [], True)),
        (ValueError, "have more than 64 tensors",
         lambda: kinds.total([x] * 65)),
        (ValueError, "refuse: level is above 3", lambda: kinds.refuse(x, 4)),
        (ValueError, "affine: x is i32 here, expected f16", lambda: kinds.affine(
            x.astype(np.int32), x.astype(np.int32))),
    ):
        with pytest.raises(error, match=text):
            call()
    assert np.array_equal(array(kinds.total([x] * 64)), sum([x] * 64))


def test_a_device_that_is_not_the_cpu(corners: Any) -> None:
    assert array(corners.zeros(3, tvm_ffi.device("cpu"))).tolist() == [0, 0, 0]
    text = "zeros: device has device type 2; in TVM-FFI calls run on the CPU"
    with pytest.raises(ValueError, match=text):
        corners.zeros(3, tvm_ffi.device("cuda", 0))
    with pytest.raises(ValueError, match=text):
        corners.zeros(3)  # its default


def test_metadata(kinds: Any, limits: Any, scale: Any) -> None:
    from tvm_ffi.core import TypeSchema

    def types(module: Any, name: str) -> str:
        metadata = module.get_function_metadata(name)
        assert metadata["opgraft"]["name"] == name
        return repr(TypeSchema.from_json_str(metadata["type_schema"]))

    assert types(scale, "scale") == "Callable[[Tensor, Tensor], Tensor]"
    assert types(kinds, "spread") == "Callable[[Tensor], tuple[Tensor, Tensor]]"
    assert types(kinds, "maybe") == (
        "Callable[[Tensor, Tensor | None, Tensor | None], Tensor]")
    assert types(kinds, "put_rows_") == "Callable[[Tensor, Tensor, int], None]"
    assert types(limits, "lengths") == "Callable[[Tensor, Array[str]], Tensor]"
    digest = types(kinds, "digest")
    for part in ("Array[int]", "Array[float]", "bool", "str", "dtype | None",
                 "int | None", "int | float | bool"):
        assert part in digest


def test_a_result_outlives_its_module(modules: pathlib.Path,
                                      tmp_path: pathlib.Path) -> None:
    script = f"""
import gc, numpy as np, tvm_ffi
try:
    m = tvm_ffi.load_module({str(modules / 'scale.so')!r}, keep_module_alive=False)
except TypeError:  # a release without the choice
    m = tvm_ffi.load_module({str(modules / 'scale.so')!r})
y = m.scale(np.full((400, 400), 3, 'f'), np.full(400, 2, 'f'))
del m
gc.collect()
assert np.from_dlpack(y).min() == 6
del y
gc.collect()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_memory_is_given_back(scale: Any) -> None:
    x, w = np.ones((500, 1000), "f"), np.ones(1000, "f")

    def pages() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

    for _ in range(5):
        scale.scale(x, w)
    gc.collect()
    before = pages()
    for _ in range(200):
        scale.scale(x, w)
    gc.collect()
    assert (pages() - before) * os.sysconf("SC_PAGE_SIZE") < 40 << 20


def test_calls_from_many_threads(scale: Any, kinds: Any) -> None:
    x, w = drawn(50, 40), drawn(40)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(200):
            if not np.array_equal(array(scale.scale(x, w)), x * w):
                wrong.append("scale")
            try:
                kinds.refuse(x, 4)
                wrong.append("refuse")
            except ValueError as error:
                if "level is above 3" not in str(error):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pytorch_s_tensors(scale: Any, kinds: Any) -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(3, 4), torch.randn(4)
    y = scale.scale(x, w)
    assert isinstance(y, torch.Tensor) and torch.equal(y, x * w)
    half = torch.randn(5).bfloat16()
    out = torch.empty(5).bfloat16()
    kinds.affine(half, half, 0.5, out)
    assert torch.equal(out, (half.float() * 1.5).bfloat16())


def test_without_opgraft_and_torch(modules: pathlib.Path) -> None:
    script = f"""
import sys
sys.modules['torch'] = None
import numpy as np, tvm_ffi
m = tvm_ffi.load_module({str(modules / 'scale.so')!r})
x = np.array([3, 4], 'f')
assert np.from_dlpack(m.scale(x, x)).tolist() == [9, 16]
assert 'opgraft' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


def compile_c(source: pathlib.Path, out: pathlib.Path, *flags: str
              ) -> pathlib.Path:
    done = subprocess.run(
        ["cc", "-std=c11", "-g", "-Wall", "-Wextra", "-Werror", *INCLUDES,
         str(source), "-o", str(out), *flags, "-ldl"],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_structs_are_those_of_the_wheel(tmp_path: pathlib.Path) -> None:
    include = pathlib.Path(tvm_ffi.__file__).parent / "include"
    dlpack = next(include.parent.rglob("dlpack/dlpack.h")).parents[1]
    compile_c(HERE / "abi_tvm_ffi.c", tmp_path / "abi.o", "-c", f"-I{include}",
              f"-I{dlpack}")


def test_example_in_plain_c(modules: pathlib.Path,
                            tmp_path: pathlib.Path) -> None:
    program = compile_c(build.ROOT / "examples/tvm_ffi/run.c", tmp_path / "run")
    done = subprocess.run(
        [str(program), str(LIBRARY), str(modules / "scale.so")],
        capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first == "10 200 30 400", done.stderr
    assert second == ("ValueError: scale: weight[D]: D is 3 here, but x[..., D] "
                      "has 2")


CALLS = """\
affine: 15 36 27 48 of rank 2
affine: 5.5 7.5 8 10 of rank 2
affine: None
15 27 36 48
affine: TypeError: affine: y is missing
affine: TypeError: affine: found 5 arguments, expected at most 3, or 4 with its results
affine: TypeError: affine: x: found a float, expected Tensor
"""


def test_calls_in_plain_c(modules: pathlib.Path, tmp_path: pathlib.Path
                          ) -> None:
    """Under ASan and UBSan, which see what the module allocates."""
    asan = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    library = compile_c(HERE / "stub_tvm_ffi.c", tmp_path / "libtvm_ffi.so",
                        "-shared", "-fPIC", "-Wl,-soname,libtvm_ffi.so", *asan)
    program = compile_c(HERE / "calls_tvm_ffi.c", tmp_path / "calls", *asan)
    done = subprocess.run([str(program), str(library),
                           str(modules / "kinds.so")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(CALLS), done.stdout
    for text in (
        "affine: ValueError: affine: y[*N]: N is [3] here, but x[*N] has [2, 2]",
        "affine: of rank 1",
        "affine: x has device type 2; in TVM-FFI calls run on the CPU",
        "affine: result 0 has device type 2; in TVM-FFI calls run on the CPU",
        "tilt: None\n1 1 1 1 and still the caller's",
        "refuse: ValueError: refuse: level is above 3, expected 0 to 3",
        "maybe: 5 6 7 8 of rank 2",
        "spread: TypeError: spread: this release of TVM-FFI cannot make",
        "total: TypeError: total: xs: found a tensor, expected Tensor[]",
        "affine: 1.5 4.5 3 6 of rank 2\naffine: 1.5 3 4.5 6 of rank 2",
        "_metadata_affine: a text of metadata",
    ):
        assert text in done.stdout, (text, done.stdout)
    assert done.stdout.endswith("alive: 0\n")


def test_a_process_that_ends_during_a_call(tmp_path: pathlib.Path) -> None:
    """Destructors run while another thread is inside a kernel."""
    shared = ["-shared", "-fPIC", "-pthread"]
    library = compile_c(HERE / "stub_tvm_ffi.c", tmp_path / "libtvm_ffi.so",
                        "-Wl,-soname,libtvm_ffi.so", *shared)
    gate = compile_c(HERE / "gate.c", tmp_path / "libgate.so", *shared)
    module = build.module(HERE / "waits.c", tmp_path / "waits.so", "tvm_ffi",
                          str(gate))
    script = f"""
import ctypes
library = ctypes.CDLL({str(library)!r})
module = ctypes.CDLL({str(module)!r})
gate = ctypes.CDLL({str(gate)!r})
gate.gate_run(ctypes.cast(module.__tvm_ffi_waits, ctypes.c_void_p))
"""
    # Memory that is freed gets other bytes.
    freed = "glibc.malloc.tcache_count=0:glibc.malloc.perturb=90"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        env={**os.environ, "GLIBC_TUNABLES": freed}, timeout=60)
    assert (done.returncode, done.stdout) == (0, "status 0, sum 65536\n"), \
        done.stderr


def test_a_release_with_another_abi_is_refused(modules: pathlib.Path,
                                               tmp_path: pathlib.Path) -> None:
    library = compile_c(HERE / "stub_tvm_ffi.c", tmp_path / "libtvm_ffi.so",
                        "-shared", "-fPIC", "-Wl,-soname,libtvm_ffi.so",
                        "-DVERSION={0,2,7}")
    program = compile_c(HERE / "calls_tvm_ffi.c", tmp_path / "calls")
    done = subprocess.run([str(program), str(library),
                           str(modules / "kinds.so")],
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert "ImportError: opgraft operators know the C ABI of TVM-FFI 0.1, " \
        "found 0.2.7" in lines[0]
    assert lines[-1] == "alive: 0"

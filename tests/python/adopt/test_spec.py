# SPDX-License-Identifier: Apache-2.0
"""Libraries adopted by a file of a few lines, and modules replaced in place."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import time
import types
import zlib

import pytest
import torch
from conftest import build_library  # type: ignore[import-not-found]

import opgraft

SYSTEM = """\
- library: libz.so.1
  namespace: zlib
  operators:
    crc32:
      prototype: unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned size)
      call: 0, x.data, x.numel
      returns: out
      shape: "x[*N] -> []"
      dtype: "x: u8 -> i64"
- library: libm.so.6
  namespace: libm
  operators:
    erf: {prototype: double erf(double x), call: "x[i]", returns: "out[i]", shape: "x[*N] -> [*N]"}
    hypot: {prototype: "double hypot(double x, double y)", call: "x[i], y[i]", returns: "out[i]", shape: "x[*N], y[*N] -> [*N]"}
"""
TVM = """\
tvm: ./libtvm.so
operators:
  scale: {schema: "scale(Tensor x, float factor) -> Tensor", shape: "x[*N] -> [*N]", dtype: "x: f32 -> x"}
"""
OWN = """\
library: ./libown.so
operators:
  silu_mul:
    prototype: void silu_mul(float *out, const float *x, const float *gate, int64_t n)
    call: out.data, x.data, gate.data, x.numel
    shape: "x[*N], gate[*N] -> [*N]"
"""


@pytest.fixture
def write(tmp_path):
    def make(text, name="spec.yaml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return make


def full(f, *args):
    return torch.compile(f, fullgraph=True, backend="aot_eager")(*args)


def test_libraries_of_the_system(write):
    made = opgraft.adopt_spec(write(SYSTEM))
    assert list(made) == ["crc32", "erf", "hypot"]
    data = torch.arange(100, dtype=torch.uint8)
    assert full(lambda d: made.crc32(d) + 1, data).item() == zlib.crc32(
        bytes(range(100))) + 1
    x, y = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(full(made.erf, x), torch.erf(x))
    torch.testing.assert_close(made.hypot(x, y), torch.hypot(x, y))
    assert torch.ops.libm.erf(x).shape == x.shape
    assert all(made.check(calls=6, torch=False))
    with pytest.raises(AttributeError, match="adopts no 'cosh'; it has crc32"):
        made.cosh(x)
    made.unadopt()
    assert not hasattr(torch.ops.libm, "erf")


def test_a_library_of_tvm_ffi(write, tvm_library, tmp_path):
    shutil.copy(tvm_library, tmp_path / "libtvm.so")
    with opgraft.adopt_spec(write(TVM)) as made:
        x = torch.randn(3)
        torch.testing.assert_close(full(lambda x: made.scale(x, 2.0) + 1, x),
                                   x * 2 + 1)
    with pytest.raises(ValueError, match=r"spec.yaml:3: .*no TVM-FFI function "
                                         "nowhere"):
        opgraft.adopt_spec(write(TVM.replace("scale: {", "nowhere: {")))


def test_operators_of_torch_are_completed_by_a_file(write):
    library = torch.library.Library("adopt_spec_test", "DEF")
    library.define("mul2(Tensor x) -> Tensor")
    library.impl("mul2", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")
    text = ("torch: adopt_spec_test\noperators:\n  mul2: {shape: "
            '"x[*N] -> [*N]", dtype: "x: f32 -> x", backward: "none"}\n')
    with opgraft.adopt_spec(write(text)):
        assert full(lambda x: torch.ops.adopt_spec_test.mul2(x) + 1,
                    torch.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match=r"spec.yaml:3: torch.ops.adopt_spec_"
                                         "test has no operator mul3; import"):
        opgraft.adopt_spec(write(text.replace("mul2:", "mul3:")))
    library._destroy()


def is_mapped(path):
    with open("/proc/self/maps") as maps:
        return any(str(path) in line for line in maps)


def test_unload_and_reload(write, native, tmp_path):
    shutil.copy(native, tmp_path / "libown.so")
    spec = write(OWN)
    made = opgraft.adopt_spec(spec)
    x, gate = torch.randn(2, 4)
    want = torch.nn.functional.silu(x) * gate
    torch.testing.assert_close(made.silu_mul(x, gate), want)
    build_library(tmp_path / "part.so", "-Dnothing=other").replace(
        tmp_path / "libown.so")
    with pytest.raises(ValueError, match="spec.yaml:1: .*changed since it was "
                                         "loaded"):
        opgraft.adopt_spec(spec)
    made.unadopt()
    gc.collect()
    assert not is_mapped(tmp_path / "libown.so")
    again = opgraft.adopt_spec(spec)
    torch.testing.assert_close(again.silu_mul(x, gate), want)


@pytest.mark.parametrize("old, new, text", [
    ("silu_mul(float", "nothere(float", "spec.yaml:4: .*exports no nothere"),
    ("const float *gate, int64_t n", "int64_t n", "takes 3"),
    ("void silu_mul", "float silu_mul", "say what it is"),
    ("float *out", "double *out", None),
    ("libown.so", "libgone.so", "spec.yaml:1: .*no such library"),
    ("shape:", "shapes:", "6: 'shapes' means nothing here"),
    ("library:", "shared:", "'shared' means nothing here"),
    ("    shape", "  shape", "spec.yaml:[0-9]+: "),
    ("x.data, gate", "x.data, gates", "4: silu_mul: call writes out, gates"),
])
def test_files_that_are_wrong(write, native, tmp_path, old, new, text):
    shutil.copy(native, tmp_path / "libown.so")
    changed = OWN.replace(old, new)
    assert changed != OWN
    if text is None:  # what no reader can know, the verifier finds
        made = opgraft.adopt_spec(write(changed))
        assert not made.check(calls=4, torch=False)[0]
        return
    with pytest.raises(ValueError, match=text):
        opgraft.adopt_spec(write(changed))
    assert not hasattr(torch.ops.libown, "silu_mul")


# --- Modules ------------------------------------------------------------------


@pytest.fixture
def kernels(opaque):
    module = types.ModuleType("kernels_of_someone")
    module.silu_mul = opaque.silu_mul
    sys.modules[module.__name__] = module
    user = types.ModuleType("model_of_someone")
    exec("from kernels_of_someone import silu_mul\n"
         "def model(x, g): return silu_mul(x, g) + 1", vars(user))
    sys.modules[user.__name__] = user
    yield module, user
    del sys.modules[module.__name__], sys.modules[user.__name__]


RULES = {"silu_mul": dict(schema="silu_mul(Tensor x, Tensor gate) -> Tensor",
                          shape="x[*N], gate[*N] -> [*N]",
                          dtype="x: f32, gate: x -> x")}


def is_full(user):
    x, gate = torch.randn(2, 3)
    want = torch.nn.functional.silu(x) * gate + 1
    torch._dynamo.reset()
    try:
        got = full(user.model, x, gate)
    except torch._dynamo.exc.Unsupported:
        return False
    torch.testing.assert_close(got, want)
    return True


def test_a_module_s_functions_are_replaced_where_models_call_them(kernels):
    module, user = kernels
    original = module.silu_mul
    assert not is_full(user)
    with opgraft.adopt_module(module, RULES) as made:
        assert module.silu_mul is user.silu_mul is made.silu_mul
        assert is_full(user)
    assert module.silu_mul is user.silu_mul is original
    assert not is_full(user)


def test_a_module_by_samples_and_by_file(kernels, write):
    module, user = kernels
    with opgraft.adopt_module(module, {"silu_mul": dict(
            samples=[(torch.ones(2, 3), torch.ones(2, 3))])}):
        assert is_full(user)
    spec = write("module: kernels_of_someone\noperators:\n  silu_mul: {schema: "
                 '"silu_mul(Tensor x, Tensor gate) -> Tensor", shape: '
                 '"x[*N], gate[*N] -> [*N]", dtype: "x: f32, gate: x -> x"}\n')
    with opgraft.adopt_module(module, spec):
        assert is_full(user)


def test_all_of_a_module_or_nothing(kernels):
    module, user = kernels
    original = module.silu_mul
    with pytest.raises(AttributeError, match="has no function 'relu_mul'; it "
                                             "has silu_mul"):
        opgraft.adopt_module(module, {**RULES, "relu_mul": RULES["silu_mul"]})
    assert module.silu_mul is user.silu_mul is original
    assert not is_full(user)


def test_what_was_set_since_stays(kernels):
    module, user = kernels
    original = module.silu_mul
    made = opgraft.adopt_module(module, RULES)
    user.silu_mul = None
    made.unadopt()
    assert user.silu_mul is None and module.silu_mul is original


@pytest.mark.full
def test_the_command(write):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "opgraft._adopt.spec", *map(str, words)],
            capture_output=True, text=True, timeout=300)

    done = run(write(SYSTEM), "--check", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [o["op"] for o in told["operators"]] == ["crc32", "erf", "hypot"]
    assert told["operators"][0]["calls"] == "C, without Python"
    assert "zlib::crc32(Tensor x) -> Tensor" in told["operators"][0]["schema"]
    assert len(told["checks"]) == 3
    gone = run(write(SYSTEM.replace("erf(", "erfff("), "gone.yaml"))
    assert gone.returncode == 2 and "gone.yaml:13" in gone.stderr


# --- What somebody else's file may hold (tests/fuzz/specifications.py) --------

CALLS = [
    ("x.size(1e999)", "has a dim that is not a number, or above 64"),
    ("x.size(-99999999999999999999)", "has a dim that is not a number"),
    ("x.shape[1.9]", "has a dim that is not a number"),
    ("-'a'", "has a constant that is not a number"),
    # Which of the two depends on how deep the stack is already.
    ("-" * 5000 + "x.numel", "is not an expression, or nested too deeply"),
    ("x.numel" + " + 1" * 2000, "is not an expression, or nested too deeply"),
    ("9" * 8193, "call has 8193 characters, expected at most 8192"),
]


@pytest.mark.parametrize(("call", "text"), CALLS)
@pytest.mark.parametrize("prototype", ["int usleep(unsigned n)",
                                       "int puts(const char *s)"])
def test_calls_that_are_refused(write, call, text, prototype):
    path = write(json.dumps({"library": "libc.so.6", "operators": {"f": {
        "prototype": prototype, "call": call, "returns": "status",
        "schema": "f(Tensor(a!) x) -> ()", "shape": "x[*N] ->",
        "dtype": "x: f32"}}}))
    with pytest.raises(ValueError) as caught:
        opgraft.adopt_spec(path)
    assert str(caught.value).startswith(f"{path}:1: ")
    assert text in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(("call", "text"), [
    ("(mode)", "found a pointer, expected a number"),
    ("(eps)", "found a float, expected an int")])
def test_arguments_in_parentheses(write, call, text):
    path = write(json.dumps({"library": "libc.so.6", "operators": {"f": {
        "prototype": "int usleep(unsigned n)", "call": call,
        "returns": "status", "shape": "x[*N] ->", "dtype": "x: f32",
        "schema": "f(Tensor(a!) x, str mode, float eps) -> ()"}}}))
    with pytest.raises(ValueError, match=text):
        opgraft.adopt_spec(path)


def test_a_call_that_python_cannot_compile(write):
    path = write(json.dumps({"module": "operator", "operators": {"neg": {
        "schema": "neg(Tensor x) -> Tensor", "shape": "x[*N] -> [*N]",
        "call": "-" * 8000 + "x"}}}))
    with pytest.raises(ValueError, match="spec.yaml:1: neg: call: .* is not an "
                                         "expression, or nested too deeply"):
        opgraft.adopt_spec(path)


def test_a_prototype_of_spaces_takes_no_time(write):
    path = write(json.dumps({"library": "libc.so.6", "operators": {
        "f": {"prototype": "int f(int) x" + " " * 8000, "shape": "x[N] ->"}}}))
    begin = time.process_time()
    with pytest.raises(ValueError, match="is not a C prototype"):
        opgraft.adopt_spec(path)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("source", ["module: ''", "module: ..", "library: ''",
                                    "module: spec_that_raises"])
def test_what_importing_raises_has_a_place(write, monkeypatch, tmp_path, source):
    write("raise KeyError('own')", "spec_that_raises.py")
    monkeypatch.syspath_prepend(tmp_path)
    path = write(f"{source}\noperators:\n  f: {{prototype: int f(int)}}\n")
    with pytest.raises(ValueError) as caught:
        opgraft.adopt_spec(path)
    assert str(caught.value).startswith(f"{path}:")


@pytest.mark.parametrize("backward", ["spec_that_raises:f", ":", "os:nothing"])
def test_a_gradient_that_cannot_be_imported(write, monkeypatch, tmp_path,
                                            backward):
    write("raise KeyError('own')", "spec_that_raises.py")
    monkeypatch.syspath_prepend(tmp_path)
    path = write(json.dumps({"module": "operator", "operators": {"neg": {
        "schema": "neg(Tensor x) -> Tensor", "shape": "x[*N] -> [*N]",
        "backward": backward}}}))
    with pytest.raises(ValueError, match=f"spec.yaml:1: backward is '{backward}'"
                                         ", expected a map or a function"):
        opgraft.adopt_spec(path)


def test_what_was_adopted_anew_is_taken_back_once(write):
    path = write(json.dumps({"module": "operator", "operators": {
        name: {"function": "neg", "schema": "neg(Tensor x) -> Tensor",
               "shape": "x[*N] -> [*N]"} for name in ("first", "second")}}))
    made = opgraft.adopt_spec(path)
    assert list(made) == ["first", "second"]
    made.unadopt()
    assert not hasattr(torch.ops.operator, "neg")

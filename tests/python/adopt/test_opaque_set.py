# SPDX-License-Identifier: Apache-2.0
"""The opaque set: adopted, in a full graph under both backends, checked; and
the same by custom_op, whose cost tools/adopt_cost.py counts."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import opaque_set  # type: ignore[import-not-found]
import pytest
import torch

import opgraft

R = torch.randn

# name: fixture, attribute, arguments, what comes back (and of mutated ones)
CASES = {
    "positional": ("opaque", "silu_mul", lambda: (R(3, 4), R(3, 4)),
                   opaque_set.reference),
    "keywords": ("opaque", "scale_add", lambda: (R(3, 4), [1.5, 2.0], R(3, 4)),
                 lambda x, f, b: x * sum(f) + b + 0.5),
    "mutating": ("opaque", "decay_", lambda: (R(3, 4), 0.25),
                 lambda x, r: x * r),
    "other_shape": ("opaque", "repeat_rows", lambda: (R(3, 4), 2),
                    lambda x, n: x.repeat_interleave(n, 0)),
    "two_results": ("opaque", "sum_max", lambda: (R(3, 4),),
                    lambda x: (x.sum(1), x.max(1).values)),
    "writes_result": ("opaque", "add_into", lambda: (R(3), R(3)), torch.add),
    "nanobind": ("nano", "relu", lambda: (R(3, 4),), torch.relu),
    "launcher": ("launcher", None, lambda: (R(30, 5),), lambda x: x * 2),
    "c_symbol": ("native", None, lambda: (R(3, 4), R(3, 4)),
                 opaque_set.reference),
    "many_arguments": ("native", None, lambda: (R(7), 3, 0.5),
                       lambda x, a, g: torch.tensor([a + 22.5 + g])),
    "ctypes": ("library", "add_bytes",
               lambda: (torch.arange(9, dtype=torch.uint8),),
               lambda x: x.sum().int()),
    "capsule": ("capsule", None, lambda: (R(3, 4), R(3, 4)),
                opaque_set.reference),
    "tvm_ffi": ("tvm", "scale", lambda: (R(3, 4), 2.0), torch.mul),
}
SLOW = ("nanobind",)  # half a minute to build
ALL = [pytest.param(name, marks=pytest.mark.full if name in SLOW else [])
       for name in CASES]


@pytest.fixture(scope="session")
def nano(tmp_path_factory):
    """The nanobind module."""
    nanobind = pytest.importorskip("nanobind")
    source = Path(nanobind.source_dir())
    out = tmp_path_factory.mktemp("nano") / "nano.so"
    subprocess.run(
        ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden",
         f"-I{nanobind.include_dir()}",
         f"-I{source.parent / 'ext/robin_map/include'}",
         f"-I{sysconfig.get_paths()['include']}",
         str(source / "nb_combined.cpp"),
         str(Path(__file__).with_name("nano.cpp")), "-o", str(out)],
        check=True)
    spec = importlib.util.spec_from_file_location("nano", out)
    module = importlib.util.module_from_spec(spec)
    sys.modules["nano"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def launcher():
    return opaque_set.Launcher()


@pytest.fixture
def library(native):
    return ctypes.CDLL(str(native))


@pytest.fixture
def capsule(library):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    address = ctypes.cast(library.silu_mul, ctypes.c_void_p).value
    return new(address, b"kernels.silu_mul", None)


@pytest.fixture
def tvm(tvm_library):
    import tvm_ffi

    module = tvm_ffi.load_module(str(tvm_library))

    class Functions:
        scale = module.get_function("scale")

    return Functions


def callable_of(request, name):
    fixture, attribute, make, want = CASES[name]
    f = request.getfixturevalue(fixture)
    return (getattr(f, attribute) if attribute else f), make, want


def outcome(f, args):
    """What a call gives, or leaves in its first argument."""
    own = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    result = f(*own)
    return own[0] if result is None else result


@pytest.mark.parametrize("name", ALL)
def test_adopted_in_a_full_graph_and_checked(request, name):
    fn, make, want = callable_of(request, name)
    f = getattr(opaque_set, f"adopt_{name}")(fn, "set")
    torch.manual_seed(0)
    args = make()
    wanted = want(*args)

    def model(*values):
        x = values[0] + 0  # a node before it, and a mutation that stays inside
        result = f(x, *values[1:])
        return x if result is None else result

    torch.testing.assert_close(outcome(f, args), wanted)
    for backend in ("aot_eager", "opgraft"):
        torch._dynamo.reset()
        got = torch.compile(model, fullgraph=True, backend=backend)(*args)
        torch.testing.assert_close(got, wanted)
    report = opgraft.check(f, calls=6, torch=False)
    assert report, str(report)


@pytest.mark.full
def test_all_of_them_in_one_graph_of_inductor(request):
    made = {}
    for name in CASES:
        fn, make, want = callable_of(request, name)
        torch.manual_seed(0)
        args = make()
        made[name] = (getattr(opaque_set, f"adopt_{name}")(fn, "set"), args,
                      want(*args))

    def model(inputs):
        out = {}
        for name, values in inputs.items():
            x = values[0] + 0
            result = made[name][0](x, *values[1:])
            out[name] = x if result is None else result
        return out

    got = torch.compile(model, fullgraph=True, backend="inductor")(
        {name: args for name, (_, args, _) in made.items()})
    for name, (_, _, wanted) in made.items():
        torch.testing.assert_close(got[name], wanted)


@pytest.mark.full
@pytest.mark.parametrize("name", list(CASES))
def test_custom_op_does_the_same(request, name):
    fn, make, want = callable_of(request, name)
    f = getattr(opaque_set, f"custom_{name}")(fn, "custom_set")
    torch.manual_seed(0)
    args = make()
    torch.testing.assert_close(outcome(f, args), want(*args))


@pytest.mark.parametrize("name, kind", [
    ("sneaky_relu", "undeclared_mutation"), ("counted", "not_repeatable")])
def test_the_liars_are_found(opaque, name, kind):
    f = opgraft.adopt(getattr(opaque, name), schema="f(Tensor x) -> Tensor",
                      shape="x[*N] -> [*N]", dtype="x: f32 -> x")
    assert {found.kind for found in opgraft.check(
        f, calls=6, torch=False).faults} == {kind}

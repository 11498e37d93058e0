# SPDX-License-Identifier: Apache-2.0
"""What `opgraft gen --target ge` writes, in the real TorchAir.

    python tests/peers/torchair.py [--build build] WHEEL

WHEEL is torch-npu's (`pip download --no-deps torch-npu==2.13.0`, 44 MB). Its
Python and CANN's headers are unpacked; the four native modules are stubs, of
which one answers what is registered from the REG_OP text. Then:

- every prototype and InferShape function compiles against the wheel's
  operator_reg.h;
- every converter builds its GE graph, with and without its optionals: inputs,
  outputs and attributes are in order what the prototype has;
- whole functions are compiled by TorchAir's own backend up to the native load:
  no TensorMove stands before an operator that writes.

It needs torch, numpy and protobuf, no device. What only one shows: that GE
takes the graphs, and what they compute. Ends with `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import zipfile
from typing import Any, Callable
from unittest import mock

import torch

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("tests/python/basics.c", "tests/python/corners.c",
           "tests/conformance/kinds.c")
NATIVE = ("_torchair", "_npu_graph_executor", "_npu_utils",
          "_abi_compat_ge_apis")
Prototype = dict[str, list[tuple[str, str]]]  # kind -> (name, what)
tally = {True: 0, False: 0}


def note(name: str, is_right: bool, said: str = "") -> None:
    tally[is_right] += 1
    if not is_right:
        print(f"wrong: {name}: {said}", flush=True)


# --- The wheel ----------------------------------------------------------------


def unpacked(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [
            name for name in archive.namelist()
            if name.startswith(("torch_npu/dynamo/", "torch_npu/include/"))
            and not name.endswith(".so")])


def prototypes_read(text: str) -> dict[str, Prototype]:
    """The REG_OP text as CANN's registry would tell it."""
    found: dict[str, Prototype] = {}
    for type_, body in re.findall(
            r"REG_OP\((\w+)\)(.*?)\.OP_END_FACTORY_REG", text, re.DOTALL):
        prototype: Prototype = {"input": [], "output": [], "attr": []}
        for word, name, what in re.findall(
                r"\.(\w+)\((\w+), (\w+)", body):
            kind = word.lower().rpartition("_")[2]
            prototype[kind].append((name, what if kind == "attr" else word))
        found[type_] = prototype
    return found


class Graph:
    """The native graph: it keeps what it is to load, and ends there."""

    loaded: list[bytes] = []

    def __init__(self, name: str) -> None:
        pass

    def load(self, graph: bytes, *others: Any) -> None:
        self.loaded.append(graph)
        raise Loaded


class Loaded(Exception):
    pass


def torchair_import(folder: pathlib.Path, registered: dict[str, Prototype]
                    ) -> Any:
    def definition(type_: str) -> tuple[str, Any, Any, Any]:
        p = registered.get(type_)
        if p is None:
            return "UNREGISTERED", [], [], []
        return "SUCCESS", p["input"], p["output"], p["attr"]

    class Names:
        def __getattr__(self, name: str) -> str:
            return name

    sys.path.insert(0, str(folder / "torch_npu/dynamo"))
    for name in NATIVE:
        stub = types.ModuleType(f"torchair.core.{name}")
        stub.__dict__.update(
            get_registered_ir_def=definition, TorchNpuGraphBase=Graph,
            TorchDataType=Names(), check_cann_compat=lambda *_: "",
            InitializeGraphEngine=lambda *_: None,
            FinalizeGraphEngine=lambda *_: None,
            InitDeviceStdoutChannel=lambda *_: None)
        sys.modules[stub.__name__] = stub
    torchair = importlib.import_module("torchair")
    core = importlib.import_module("torchair.core")
    for name in NATIVE:
        setattr(core, name, sys.modules[f"torchair.core.{name}"])
    return torchair


# --- Generated files ----------------------------------------------------------


def generated(build: pathlib.Path, module: pathlib.Path, folder: pathlib.Path
              ) -> bool:
    done = subprocess.run(
        [build / "bin/opgraft", "gen", "--target", "ge", module, "-o",
         folder / module.stem], capture_output=True, text=True)
    note(f"gen {module.name}", done.returncode == 0, done.stderr)
    return done.returncode == 0


def text_compiles(folder: pathlib.Path, name: str) -> None:
    """The prototypes, and what gives types and shapes of results."""
    include = folder / "torch_npu/include"
    done = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", f"-I{include}",
         f"-I{include}/third_party/acl/inc", f"-I{ROOT}/include",
         folder / f"{name}.cc"], capture_output=True, text=True)
    note(f"{name}.cc", done.returncode == 0, done.stderr[:2000])


def converters_import(folder: pathlib.Path, name: str) -> list[Any]:
    """The module and its converters, in order."""
    spec = importlib.util.spec_from_file_location(
        f"ge_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, n) for n in vars(module) if n.startswith("convert_")]


# --- Single converters --------------------------------------------------------

PLAIN = {"int": 3, "SymInt": 3, "float": 0.5, "bool": True, "str": "word"}


def argument_of(argument: Any, data: Callable[[], Any]) -> Any:
    """A value that the schema takes."""
    text = str(argument.type).replace("Optional[", "").rstrip("]")
    inner = text.removeprefix("List[")
    value = data() if inner == "Tensor" else PLAIN[inner]
    return [value] * 2 if inner != text else value


def graph_check(convert: Any, registered: dict[str, Prototype],
                has_optionals: bool) -> None:
    from torchair.ge._ge_graph import Data, GeGraph

    op = convert._aten_op
    count = 0

    def data() -> Any:
        nonlocal count
        count += 1
        return Data(index=count - 1, dtype=0, shape=[2, 2], placement="NPU")

    name = f"{op}{'' if has_optionals else ', without optionals'}"
    try:
        with GeGraph() as graph:
            given = {
                a.name: None if not has_optionals
                and str(a.type).startswith("Optional") else argument_of(a, data)
                for a in op._schema.arguments}
            op._ge_converter(**given)
    except Exception as error:  # whatever TorchAir says is a finding
        note(name, False, f"{type(error).__name__}: {error}")
        return
    made = [node for node in graph.op if node.type in registered]
    problems = [] if len(made) == 1 else [f"{len(made)} nodes"]
    for node in made:
        p = registered[node.type]
        inputs = [re.sub(r"\d+$", "", d.name) if kind == "DYNAMIC_INPUT"
                  else d.name for d, (_, kind) in zip(
                      node.input_desc, expanded(p["input"]))]
        for what, found, wanted in (
                ("inputs", inputs, [n for n, _ in expanded(p["input"])]),
                ("outputs", [d.name for d in node.output_desc],
                 [n for n, _ in p["output"]]),
                ("attributes", sorted(k for k in node.attr if k[0] != "_"),
                 sorted(n for n, _ in p["attr"]))):
            if found != wanted or (what == "inputs"
                                   and len(node.input) != len(wanted)):
                problems.append(f"{what} {found}, expected {wanted}")
    note(name, not problems, "; ".join(problems))


def expanded(inputs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Lists have two entries here."""
    return [pair for pair in inputs
            for _ in range(2 if pair[1] == "DYNAMIC_INPUT" else 1)]


# --- Whole functions ----------------------------------------------------------


def compiled(torchair: Any, f: Callable[..., Any], args: Any, dynamic: bool
             ) -> tuple[list[Any], list[str]]:
    """The nodes of the graph that the native part would load, and what a copy
    gives to an operator of ours."""
    from torchair._ge_concrete_graph.ge_ir_pb2 import ModelDef

    torch._dynamo.reset()
    Graph.loaded.clear()
    try:
        torch.compile(f, backend=torchair.get_npu_backend(), dynamic=dynamic)(
            *(a.clone() for a in args))
    except Exception as error:
        if not Graph.loaded:
            raise error
    model = ModelDef()
    model.ParseFromString(Graph.loaded[0])
    nodes = list(model.graph[0].op)
    moved = {f"{node.name}:0" for node in nodes if node.type == "TensorMove"}
    return nodes, [i for node in nodes if node.type not in (
        "Assign", "NetOutput") for i in node.input if i in moved]


def functions_check(torchair: Any, modules: pathlib.Path,
                    registered: dict[str, Prototype]) -> None:
    from torchair._ge_concrete_graph import graph_pass

    m = {name: opgraft.load(modules / f"{name}.so") for name in (
        "rms_norm", "kv_cache", "fused_add_rms_norm")}
    x, w = torch.randn(4, 64), torch.randn(64)
    cache = torch.zeros(2, 8, 16, 2, 32)
    k, v = torch.randn(2, 5, 2, 32)
    slots = torch.arange(5)
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "rms_norm": (lambda x, w: m["rms_norm"].rms_norm(x, w) + 1, (x, w)),
        "fused_add_rms_norm": (
            lambda x, r, w: m["fused_add_rms_norm"].fused_add_rms_norm(x, r, w),
            (x, x, w)),
        "reshape_and_cache": (
            lambda k, v, a, b, s: m["kv_cache"].reshape_and_cache(
                k, v, a, b, s), (k, v, *cache, slots)),
    }
    for (name, (f, args)), dynamic in itertools.product(
            functions.items(), (False, True)):
        title = name + ", dynamic" * dynamic
        try:
            nodes, copies = compiled(torchair, f, args, dynamic)
        except Exception as error:
            note(title, False, f"{type(error).__name__}: {error}")
            continue
        ours = [node.type for node in nodes if node.type in registered]
        note(title, len(ours) == 1, f"{[n.type for n in nodes]}")
        note(f"{title}: no copy", not copies, f"{copies}")
        if name == "rms_norm":
            continue
        with mock.patch.object(graph_pass, "_get_output_to_input_ref_idx",
                               lambda op: {}):
            _, copies = compiled(torchair, f, args, dynamic)
        note(f"{title}: two copies without our rows", len(copies) == 2,
             f"{copies}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("wheel", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    modules = [*sorted((build / "modules").glob("*.so")),
               *sorted((build / "tests/modules").glob("check_right.so"))]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        unpacked(args.wheel, folder)
        for source in SOURCES:
            to = folder / f"{pathlib.Path(source).stem}.so"
            subprocess.run([build / "bin/opgraft", "build", ROOT / source, "-o",
                            to], check=True, capture_output=True)
            modules.append(to)
        modules = [m for m in modules if generated(build, m, folder)]
        registered: dict[str, Prototype] = {}
        for module in modules:
            text_compiles(folder, module.stem)
            registered |= prototypes_read(
                (folder / f"{module.stem}.h").read_text())
        torchair = torchair_import(folder, registered)
        for module in modules:
            opgraft.load(module)
            for convert in converters_import(folder, module.stem):
                for has_optionals in (True, False):
                    graph_check(convert, registered, has_optionals)
        functions_check(torchair, build / "modules", registered)
    print(f"torch-npu {args.wheel.name.split('-')[1]}, torch "
          f"{torch.__version__}: {len(registered)} prototypes")
    print(f"{tally[True]} passed, {tally[False]} failed")
    return int(tally[False] > 0)


if __name__ == "__main__":
    sys.exit(main())

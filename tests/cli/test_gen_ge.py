# SPDX-License-Identifier: Apache-2.0
"""gen --target ge: prototypes through a C++ compiler and a header of ours with
GE's words, converters through a torchair of ours that writes down its calls;
both are held against PyTorch's reading of the schemas."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
opgraft = pytest.importorskip("opgraft")

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = sorted((pathlib.Path(opgraft.__file__).parent / "modules").glob("*.so"))
DTYPES = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
          "bool", "c64", "c128"]  # as the header of ours counts them
NOTE = "GE: without "

# One operator of each kind of argument, and one for each thing that GE lacks.
MIXED = r"""
#include <opgraft/op.h>
static og_status none(const og_call *call) {
  return og_fail(call, OG_UNSUPPORTED, "not called");
}
static const og_kernel kernels[] = {{OG_CPU, .run = none}};
#define OP(s, ...) {.schema = s, __VA_ARGS__, .kernels = OG_KERNELS(kernels)}
static const og_op ops[] = {
    OP("kinds(Tensor x, Tensor? bias=None, *, int n, float eps=1e-05, bool is_on=True, str mode=\"a b\", "
       "int[] sizes=[1, -2], float[2] scales=0.1, bool[] masks, str[] names, "
       "SymInt k=3) -> Tensor",
       .shape = "x[*N], bias?[D] -> [*N]", .dtype = "x: f32|bf16, bias: x -> x"),
    OP("append_.list(Tensor(a!) cache, Tensor[] rows) -> (Tensor(a!), Tensor cache_size)",
       .shape = "cache[M], rows[][K~] -> []", .dtype = "cache: any, rows: cache -> i64"),
    OP("write(Tensor(a!) x, Tensor y) -> ()", .shape = "x[N], y[N]", .dtype = "x: f32, y: i64|u8"),
    OP("mix(Tensor x, Tensor y) -> (Tensor, Tensor)", .shape = "x[N], y[N] -> [N], [N]",
       .dtype = "x: f32|f64, y: f16|f64 -> promote(x, y), bool"),
    OP("may_be(Tensor x, int? n=None, float? f=0.5, str? s=None, int[]? ns=None) -> Tensor",
       .shape = "x[N] -> [N]", .dtype = "x: f32 -> x"),
    OP("clash(Tensor x, int? n=None, bool has_n=False) -> Tensor", .shape = "x[N] -> [N]", .dtype = "x: f32 -> x"),
    OP("number(Tensor x, Scalar s) -> Tensor", .shape = "x[N] -> [N]", .dtype = "x: f32 -> x"),
    OP("endless(Tensor x, float top=inf) -> Tensor", .shape = "x[N] -> [N]", .dtype = "x: f32 -> x"),
    OP("keyword(Tensor x, int lambda) -> Tensor", .shape = "x[N] -> [N]", .dtype = "x: f32 -> x"),
};
OG_MODULE(mixed_ge, ops)
"""
LIMITS = {
    "clash": "attribute n may be None, and has_n is there already",
    "number": "attribute s is a Scalar, for which GE has no kind",
    "endless": "attribute top has a default that is not finite",
    "keyword": "argument lambda has a name that a converter cannot have",
}


def prototypes(folder: pathlib.Path, headers: list[pathlib.Path]) -> dict[str, Any]:
    source = folder / "all.cpp"
    source.write_text("#include <cstdio>\n" + "".join(f'#include "{h}"\n' for h in headers) +
                      'int main() { for (auto &p : ge::prototypes()) puts(p.c_str()); }\n')
    subprocess.run([shutil.which("c++") or "g++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
                    f"-I{HERE / 'ge'}", str(source), "-o", str(folder / "all")], check=True)
    lines = subprocess.run([str(folder / "all")], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert all(p["type"] == p["end"] for p in found)
    return {p["type"]: p["entries"] for p in found}


@pytest.fixture
def converters(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Any, Callable[..., Any]]]:
    """A torchair whose operators give what they were asked for."""
    found: dict[Any, Callable[..., Any]] = {}

    class Attr:
        def __init__(self, kind: str) -> None:
            self.kind = kind

        def __call__(self, value: Any) -> tuple[str, Any]:
            return self.kind, value

    def custom_op(type_: str, **words: Any) -> Any:
        calls.append((type_, words))
        made = tuple(f"{type_}.{name}" for name in words["outputs"])
        return made if len(made) > 1 else made[0]

    def register(op: Any) -> Callable[..., Any]:
        assert isinstance(op, torch._ops.OpOverload)
        return lambda f: found.setdefault(op, f)

    calls: list[Any] = []
    torchair, ge = types.ModuleType("torchair"), types.ModuleType("torchair.ge")
    kinds = ["Int", "Float", "Bool", "Str", "ListInt", "ListFloat", "ListBool", "ListStr"]
    ge.attr = types.SimpleNamespace(**{k: Attr(k) for k in kinds})  # type: ignore[attr-defined]
    ge.custom_op, ge.Tensor = custom_op, object  # type: ignore[attr-defined]
    ge.TensorMove = lambda x: ("moved", x)  # type: ignore[attr-defined]
    ge.calls = calls  # type: ignore[attr-defined]
    torchair.ge, torchair.register_fx_node_ge_converter = ge, register  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchair", torchair)
    monkeypatch.setitem(sys.modules, "torchair.ge", ge)
    yield found


def loaded(path: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


KINDS = {"int": "Int", "SymInt": "Int", "float": "Float", "bool": "Bool", "str": "String",
         "List[int]": "ListInt", "List[SymInt]": "ListInt", "List[float]": "ListFloat",
         "List[bool]": "ListBool", "List[str]": "ListString"}


EMPTY: dict[str, Any] = {"Int": 0, "Float": 0.0, "Bool": False, "String": ""} | {
    kind: [] for kind in KINDS.values() if kind.startswith("List")}


def kind_of(argument: Any) -> tuple[str, bool]:
    text = str(argument.type)
    inner = text.removeprefix("Optional[")
    return KINDS[inner[:-1] if inner != text else text], inner != text


def declared(op: Any) -> Any:
    """The operator of which `op` is the functional form, or itself."""
    space, name = op._schema.name.split("::")
    if not name.endswith("functional"):
        return op
    name = name.removesuffix("functional")
    space = getattr(torch.ops, space)
    packet = getattr(space, name if hasattr(space, name) else name.removesuffix("_"))
    return getattr(packet, op._schema.overload_name or "default")


def agree(op: Any, entries: list[dict[str, Any]], convert: Callable[..., Any],
          calls: list[Any]) -> None:
    """The prototype, the converter and what PyTorch reads in the schema."""
    arguments = op._schema.arguments
    tensors = [a for a in arguments if "Tensor" in str(a.type)]
    attrs = [a for a in arguments if a not in tensors]
    inputs = [e for e in entries if e["what"].endswith("INPUT")]
    assert [(e["what"], e["name"]) for e in inputs] == [
        ({"Tensor": "INPUT", "Optional[Tensor]": "OPTIONAL_INPUT"}.get(
            str(a.type), "DYNAMIC_INPUT"), a.name) for a in tensors]
    outputs = [e["name"] for e in entries if e["what"] == "OUTPUT"]
    written = [a.name for a in declared(op)._schema.arguments
               if a.alias_info is not None and a.alias_info.is_write]
    is_functional = op is not declared(op)
    assert outputs[:len(written)] == written
    assert not {a.name for a in arguments} & set(outputs[len(written):])
    assert len(set(outputs)) == len(outputs)
    in_ge = {e["name"]: e for e in entries if e["what"].endswith("ATTR")}
    expected = []
    for a in attrs:
        kind, is_optional = kind_of(a)
        default = EMPTY[kind] if a.default_value is None else a.default_value
        expected.append((a.name, kind, a.has_default_value(), default))
        if is_optional:
            expected.append((f"has_{a.name}", "Bool", a.has_default_value(),
                             a.default_value is not None))
    assert [(e["name"], e["kind"], e["what"] == "ATTR",
             e.get("default", EMPTY[e["kind"]])) for e in in_ge.values()] == [
        (name, kind, has, value if has else EMPTY[kind]) for name, kind, has, value in expected]
    # The parameters are the schema's, with one more.
    parameters = list(inspect.signature(convert).parameters.values())
    assert [p.name for p in parameters] == [a.name for a in arguments] + ["meta_outputs"]
    for p, a in zip(parameters, arguments):
        assert (p.kind == p.KEYWORD_ONLY) == a.kwarg_only
        assert p.default == (a.default_value if a.has_default_value() else p.empty)
    given = {a.name: object() for a in arguments}
    result = convert(*[given[a.name] for a in arguments if not a.kwarg_only],
                     **{a.name: given[a.name] for a in arguments if a.kwarg_only},
                     meta_outputs=object())
    type_, words = calls.pop()
    assert words["inputs"] == {
        a.name: ("moved", given[a.name]) if is_functional and a.name in written else given[a.name]
        for a in tensors}
    assert list(words["inputs"]) == [a.name for a in tensors]
    assert words["outputs"] == outputs
    assert list(words["attrs"]) == [name for name, *_ in expected]
    for a in attrs:
        kind, is_optional = kind_of(a)
        assert words["attrs"][a.name] == (kind.replace("String", "Str"), given[a.name])
        if is_optional:
            assert words["attrs"][f"has_{a.name}"] == ("Bool", True)
    # PyTorch gets what is new; a functional form gives what it wrote to copies as well.
    result = () if result is None else result if isinstance(result, tuple) else (result,)
    assert len(result) == len(op._schema.returns)
    assert list(result) == [f"{type_}.{name}" for name in outputs[len(written):]] + (
        [f"{type_}.{name}" for name in written] if is_functional else [])


@pytest.mark.full
def test_the_operator_library(program: Any, converters: dict[Any, Any]) -> None:
    headers = []
    for path in LIBRARY:
        opgraft.load(path)
        done = program.run("gen", "--target", "ge", path, "-o", path.stem)
        assert done.returncode == 0 and NOTE not in done.stderr
        headers.append(program.folder / f"{path.stem}.h")
        loaded(program.folder / f"{path.stem}.py")
    found = prototypes(program.folder, headers)
    calls = sys.modules["torchair.ge"].calls
    for op, convert in converters.items():
        convert(**{a.name: None for a in op._schema.arguments})
        agree(op, found[calls.pop()[0]], convert, calls)
    assert len(found) == len({declared(op) for op in converters}) > len(LIBRARY) > 0


def test_every_kind(program: Any, converters: dict[Any, Any]) -> None:
    (program.folder / "mixed_ge.c").write_text(MIXED)
    # PyTorch has no infinity in a schema, so it gets all but that operator.
    (program.folder / "loaded.c").write_text(
        "".join(line for line in MIXED.splitlines(True) if "endless" not in line))
    program.ok("build", "loaded.c")
    opgraft.load(program.folder / "loaded.so")
    done = program.run("gen", "--target", "ge", "mixed_ge.c", "-o", "out")
    assert done.returncode == 0
    notes = dict(line[len(NOTE):].split(": ", 1) for line in done.stderr.splitlines()
                 if line.startswith(NOTE))
    assert notes == LIMITS
    assert "out.h, out.py, out.cc: 5 operators" in done.stderr
    found = prototypes(program.folder, [program.folder / "out.h"])
    assert list(found) == ["MixedGeKinds", "MixedGeAppend_List", "MixedGeWrite", "MixedGeMix",
                           "MixedGeMayBe"]
    loaded(program.folder / "out.py")
    space = torch.ops.mixed_ge
    assert list(converters) == [
        space.kinds.default, space.append_.list, space.append_functional.list,
        space.write.default, space.write_functional.default, space.mix.default,
        space.may_be.default]
    calls = sys.modules["torchair.ge"].calls
    for op, convert in converters.items():
        convert(**{a.name: None for a in op._schema.arguments})
        agree(op, found[calls.pop()[0]], convert, calls)

    converters[space.may_be.default](object())
    assert calls.pop()[1]["attrs"] == {
        "n": ("Int", 0), "has_n": ("Bool", False), "f": ("Float", 0.5), "has_f": ("Bool", True),
        "s": ("Str", ""), "has_s": ("Bool", False), "ns": ("ListInt", []), "has_ns": ("Bool", False)}

    def types_of(type_: str) -> dict[str, list[str]]:
        return {e["name"]: [DTYPES[t] for t in e["types"]] for e in found[type_] if "types" in e}

    assert types_of("MixedGeKinds") == {"x": ["f32", "bf16"], "bias": ["f32", "bf16"],
                                        "y": ["f32", "bf16"]}
    assert types_of("MixedGeAppend_List")["cache_size"] == ["i64"]
    assert types_of("MixedGeWrite") == {"x": ["f32"], "y": ["i64", "u8"]}
    # `y` is an argument: the results have other names.
    assert types_of("MixedGeMix") == {"x": ["f32", "f64"], "y": ["f64", "f16"],
                                      "y1": ["f32", "f64", "f16"], "y2": ["bool"]}


# Reads a call a line: its operator, then `name type dims,` of each input, `name=n` of
# each number; prints the outputs alike.
DRIVER = r"""
#include <iostream>
#include <sstream>
#include "out.h"
static ge::TensorDesc read(std::istream &from) {
  int64_t type, size;
  std::vector<int64_t> dims;
  from >> type;
  while (from >> size) dims.push_back(size);
  ge::TensorDesc desc;
  desc.SetDataType(static_cast<ge::DataType>(type));
  desc.SetShape(ge::Shape(dims));
  return desc;
}
int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream words(line);
    std::string type, part;
    std::getline(words, type, ';');
    ge::Operator op;
    while (std::getline(words, part, ';')) {
      const size_t equals = part.find('=');
      if (equals != std::string::npos) {
        op.ints[part.substr(0, equals)] = std::stoll(part.substr(equals + 1));
        continue;
      }
      std::stringstream entry(part);
      std::string name;
      entry >> name;
      op.inputs[name].push_back(read(entry));
    }
    if (ge::infer_functions().at(type)(op) != ge::GRAPH_SUCCESS) {
      std::cout << "refused\n";
      continue;
    }
    const char *before = "";
    for (auto &[name, descs] : op.outputs) {
      std::cout << before << name << ' ' << descs[0].GetDataType();
      for (int64_t size : descs[0].GetShape().GetDims()) std::cout << ' ' << size;
      before = ";";
    }
    std::cout << '\n';
  }
}
"""
F32, BF16, I64, U8 = (DTYPES.index(name) for name in ("f32", "bf16", "i64", "u8"))
SHAPES = {
    # Optionals given and missing, written arguments, lists, promotion.
    f"MixedGeKinds;x {F32} 2 3 5;bias {F32} 5;n=2": f"y {F32} 2 3 5",
    f"MixedGeKinds;x {BF16} 4 5;n=2": f"y {BF16} 4 5",
    f"MixedGeAppend_List;cache {F32} 7;rows {F32} 3;rows {F32} 4": f"cache {F32} 7;cache_size {I64}",
    f"MixedGeWrite;x {F32} 9;y {U8} 9": f"x {F32} 9",
    f"MixedGeWrite;x {F32} 9;y {U8} 8": "refused",
    f"MixedGeMix;x {F32} 4;y {DTYPES.index('f64')} 4": f"y1 {DTYPES.index('f64')} 4;y2 {DTYPES.index('bool')} 4",
    # Sizes that are not known yet.
    f"MixedGeKinds;x {F32} -1 3 5;n=2": f"y {F32} -1 3 5",
    f"MixedGeMayBe;x {F32} -1;has_n=0": f"y {F32} -1",
}


def test_types_and_shapes(program: Any) -> None:
    (program.folder / "mixed_ge.c").write_text(MIXED)
    program.ok("build", "mixed_ge.c")
    program.ok("gen", "--target", "ge", "mixed_ge.so", "-o", "out")
    (program.folder / "driver.cc").write_text(DRIVER)
    package = pathlib.Path(opgraft.__file__).parent
    library = next(package.glob("lib*/libopgraft.so"), None) or next(
        pathlib.Path(os.environ["OPGRAFT_BUILD"]).rglob("libopgraft.so"))
    subprocess.run(
        [shutil.which("c++") or "g++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
         f"-I{HERE / 'ge'}", f"-I{HERE.parents[1] / 'include'}", "driver.cc", "out.cc", library,
         f"-Wl,-rpath,{library.parent}", f'-DOPGRAFT_MODULE="{program.folder}/mixed_ge.so"',
         "-o", "driver"], check=True, cwd=program.folder)
    done = subprocess.run([program.folder / "driver"], input="\n".join(SHAPES) + "\n",
                          capture_output=True, text=True, check=True)
    assert dict(zip(SHAPES, done.stdout.splitlines())) == SHAPES
    assert "y[N]: N is 8 here" in done.stderr


def test_a_file_of_the_operator_library(program: Any) -> None:
    """It needs more than its own text: what was built of it is taken, by the
    program of the build folder, beside which it stands."""
    build = pathlib.Path(os.environ.get("OPGRAFT_BUILD", HERE.parents[1] / "build"))
    program.path = str(build / "bin" / "opgraft")
    program.ok("gen", "--target", "ge", HERE.parents[1] / "ops" / "rms_norm.c", "-o", "norm")
    assert "REG_OP(RmsNormRmsNorm)" in (program.folder / "norm.h").read_text()


def test_a_c_file_is_built_first(program: Any) -> None:
    shutil.copy(HERE.parent / "conformance" / "scale.c", program.folder)
    program.ok("gen", "--target", "ge", "scale.c", "-o", "scale_ge")
    header = (program.folder / "scale_ge.h").read_text()
    assert "REG_OP(ScaleScale)\n    .INPUT(x, TensorType({DT_FLOAT}))" in header


def test_what_is_refused(program: Any) -> None:
    shutil.copy(HERE.parent / "conformance" / "scale.c", program.folder)
    assert "--target is 'mlir', expected ge, stablehlo or c" in program.fails(
        2, "gen", "--target", "mlir", "scale.c", "-o", "x")
    assert "with -o OUT they are OUT.h, OUT.py and OUT.cc" in program.fails(
        2, "gen", "--target", "ge", "scale.c")
    (program.folder / "none.c").write_text(MIXED[:MIXED.index("    OP(\"kinds")] +
                                           MIXED[MIXED.index("    OP(\"number"):])
    assert "GE can have none of its operators" in program.fails(
        2, "gen", "--target", "ge", "none.c", "-o", "x")
    assert not (program.folder / "x.h").exists()


def test_what_is_written_is_told(program: Any, converters: dict[Any, Any],
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchAir's table of operators that write gets rows; its own stay."""
    table = types.ModuleType("torchair._ge_concrete_graph.graph_pass")
    table._get_output_to_input_ref_idx = (  # type: ignore[attr-defined]
        lambda op: {0: 0} if op.type == "Scatter" else {})
    room = types.ModuleType("torchair._ge_concrete_graph")
    room.graph_pass = table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setitem(sys.modules, table.__name__, table)
    path = next(p for p in LIBRARY if p.stem == "kv_cache")
    opgraft.load(path)
    assert program.run("gen", "--target", "ge", path, "-o", "kv").returncode == 0
    loaded(program.folder / "kv.py")

    def told(type_: str, *inputs: str) -> dict[int, int]:
        op = types.SimpleNamespace(type=type_, input_desc=[
            types.SimpleNamespace(name=name) for name in inputs])
        return table._get_output_to_input_ref_idx(op)  # type: ignore[no-any-return]

    assert told("KvCacheReshapeAndCache", "k", "v", "k_cache", "v_cache", "at"
                ) == {0: 2, 1: 3}
    assert told("Scatter", "x") == {0: 0}
    assert told("Add", "x", "y") == {}

# SPDX-License-Identifier: Apache-2.0
"""The reference has every public symbol, and each has a text: C's by what the
libraries export and how structs are laid out, Python's by what the modules
offer, the program's by its commands."""

from __future__ import annotations

import functools
import importlib
import inspect
import pathlib
import re
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import api_docs  # noqa: E402

# Functions whose names and types say all, or the struct that they fill.
UNDERSTOOD = {
    "opgraft_driver_name", "opgraft_driver_device_type",
    "opgraft_driver_device_count", "opgraft_driver_properties",
    "og_bfloat_to_float", "og_half_to_float", "opgraft_graph_create",
    "opgraft_graph_retain", "opgraft_graph_release", "opgraft_graph_size",
    "opgraft_graph_add_input", "opgraft_graph_input_count",
    "opgraft_graph_output_count", "opgraft_call_step_count",
    "opgraft_op_get_info", "opgraft_op_get_param", "opgraft_op_get_tensor",
    "opgraft_op_get_result", "opgraft_op_get_dim", "opgraft_op_get_grad",
    "og_numel", "og_is", "og_range_task", "og_parallel_for",
    "opgraft_frame_init",
}
# Called by others alone, whose bodies are in their headers.
INNER = {"og_range_task", "og_float8_size_"}
# Returned by public functions: who uses them need not name them.
RETURNED = {"Adoption", "Plan", "Profile", "Report"}
# Modules that need a package which the main environment lacks.
OF_OTHER_HOSTS = ("jax", "onnx", "tensorflow", "doctor.pytest_plugin")


@pytest.fixture(scope="module")
def headers() -> dict[str, api_docs.Header]:
    return {path.name: api_docs.read_header(path)
            for path in sorted(api_docs.HEADERS.glob("*.h"))}


@pytest.fixture(scope="module")
def names(headers: dict[str, api_docs.Header]) -> set[str]:
    return {name for header in headers.values() for part in header.parts
            if isinstance(part, api_docs.Entry) for name in part.names()}


def golden(name: str) -> list[str]:
    return (ROOT / "tests" / "abi" / name).read_text().splitlines()


def test_every_exported_function(names: set[str]) -> None:
    exported = {*golden("symbols_check.golden"), *golden("symbols_graph.golden")}
    assert len(exported) > 80
    assert exported - names == set()


def test_every_struct(names: set[str]) -> None:
    structs = {line.split()[1] for line in golden("layout.golden")
               if line.startswith(("struct ", "union "))}
    assert len(structs) > 30
    assert structs - names == set()


def test_every_macro_and_inline_function(names: set[str]) -> None:
    missing = set()
    for path in api_docs.HEADERS.glob("*.h"):
        text = path.read_text()
        found = set(re.findall(r"^#define (O\w+)", text, re.M))
        found |= set(re.findall(r"^static inline [\w *]*?\b(og_\w+)\(", text,
                                re.M))
        gone = set(re.findall(r"^#undef (\w+)", text, re.M))
        guard = {f"OPGRAFT_{path.stem.upper()}_H"}
        missing |= {f"{path.name}: {n}" for n in found - names - gone - guard}
    assert missing == set()


def test_every_line_of_a_header_is_shown(
        headers: dict[str, api_docs.Header]) -> None:
    """No declaration and no comment is lost by the reader of headers."""
    for name, header in headers.items():
        page = api_docs.header_page(header)
        for comment in re.findall(r"^// ?(.*)", (api_docs.HEADERS / name)
                                  .read_text(), re.M)[1:]:
            if comment and not comment.startswith("---") \
                    and "clang-format" not in comment:
                shown = comment if comment.startswith(" ") \
                    else api_docs.escape(comment)
                assert shown.rstrip() in page, (name, comment)


def offered(module: types.ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, v in vars(module).items() if not n.startswith("_")
                 and getattr(v, "__module__", "") == module.__name__]
    return [n for n in names if not n.startswith("__")]


@pytest.mark.parametrize("name", [
    m for m in api_docs.MODULES if m not in OF_OTHER_HOSTS])
def test_every_name_of_python(name: str) -> None:
    module = importlib.import_module(".".join(
        x for x in ("opgraft", name) if x))
    page = api_docs.python_page()
    public = offered(module)
    assert public or name == "ops"  # its names are those of its modules
    for public_name in public:
        entry = page.split(f"### `{module.__name__}.{public_name}`\n")[1]
        value = getattr(module, public_name)
        if callable(value):
            assert "\nThreads: " in entry.split("\n### ")[0]
            assert inspect.getdoc(value), f"{module.__name__}.{public_name}"


def test_every_module_is_public_or_a_part_of_the_program() -> None:
    package = api_docs.PACKAGE
    found = set()
    for path in [*package.glob("*.py"), *package.glob("*/__init__.py"),
                 *(package / "doctor").glob("*.py")]:
        parts = path.relative_to(package).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(p.startswith("_") and p != "__main__" for p in parts):
            found.add(".".join(parts))
    assert found == {*api_docs.MODULES, *api_docs.PROGRAM_PARTS}


def undocumented() -> list[str]:
    """Public classes, functions and methods without a docstring."""
    missing = []
    for module in api_docs.MODULES:
        path = api_docs.module_file(module)
        tree = api_docs.ast.parse(path.read_text())
        if not api_docs.ast.get_docstring(tree):
            missing.append(module)
        for name in api_docs.public_names(tree):
            node = api_docs.definition(path, name)
            if node is None:
                continue
            missing += [f"{module}.{name}"] * (
                not api_docs.ast.get_docstring(node))
            if isinstance(node, api_docs.ast.ClassDef):
                missing += [f"{module}.{name}.{m.name}"
                            for m in api_docs.members(node)
                            if m.name != "__init__"
                            and not api_docs.ast.get_docstring(m)]
    return missing


def test_every_public_name_has_a_docstring() -> None:
    assert undocumented() == []


def test_every_command() -> None:
    program = pathlib.Path(sys.executable).with_name("opgraft")
    page = api_docs.program_page(program)
    commands = re.findall(r"^COMMAND\((\w+)\)",
                          (ROOT / "cli" / "commands.def").read_text(), re.M)
    assert len(commands) > 10
    for name in commands:
        section = page.split(f"## opgraft {name}\n")[1].split("\n## ")[0]
        assert f"usage: opgraft {name}" in section


def test_every_code_and_finding() -> None:
    page = api_docs.codes_page()
    op = (api_docs.HEADERS / "op.h").read_text()
    codes = re.findall(r"X\((OG_\w+), \d+,", op)
    check = (api_docs.HEADERS / "check.h").read_text()
    body = check[check.index("#define OPGRAFT_FINDING_LIST"):]
    body = body[:body.index("#define OPGRAFT_FINDING_ENUM")]
    findings = re.findall(r'X\(\w+,\s*"(\w+)"', body)
    assert len(codes) == 12 and len(findings) > 30
    for word in [*codes, *findings]:
        assert f"| `{word}` |" in page


def test_every_header_says_who_may_call_and_how_it_fails(
        headers: dict[str, api_docs.Header]) -> None:
    for name, header in headers.items():
        about = " ".join(header.about)
        assert "thread" in about.lower(), name
        code = "\n".join(line for part in header.parts
                         if isinstance(part, api_docs.Entry)
                         for line in part.code)
        if re.search(r"^(?:OPGRAFT_API|static inline) og_status", code, re.M):
            assert re.search(r"[Ee]rror|status|OG_", about), name


KERNELS = "cuda_kernel.h"


@functools.cache
def kernels() -> str:
    """The header for CUDA kernels, and the operators' kernels."""
    return "\n".join(path.read_text() for path in (
        api_docs.HEADERS / KERNELS, *sorted((ROOT / "ops/cuda").iterdir())))


def test_every_function_of_c_is_explained_and_used(
        headers: dict[str, api_docs.Header]) -> None:
    """Its types are the declaration's; an entry has a comment, or stands behind
    one that has; something that CI runs calls each function."""
    count, missing = 0, []
    for name, header in headers.items():
        for part in header.parts:
            found = api_docs.functions(part) \
                if isinstance(part, api_docs.Entry) else []
            if name == KERNELS:  # no host calls these: kernels, and each other
                missing += [f"{name}: no kernel uses {f}" for f in found
                            if len(re.findall(rf"\b{f}\(", kernels())) < 2]
                continue
            count += len(found)
            missing += [f"{name}: {f} has no comment" for f in found
                        if not part.comment and f not in UNDERSTOOD]
            missing += [f"{name}: nothing that is run uses {f}" for f in found
                        if f not in INNER
                        and not api_docs.api_examples.place_of(f, ".c")]
            if found and not set(found) <= INNER:
                missing += [f"{name}: {found[0]} has no line on {title}"
                            for title in ("Errors", "Threads", "Example")
                            if f"- **{title}" not in "\n".join(
                                api_docs.rules(headers[name], part)
                                + api_docs.example(part))]
    assert count > 130
    assert missing == []


def test_every_name_of_python_has_types_and_is_used() -> None:
    missing = []
    for module in api_docs.MODULES:
        path = api_docs.module_file(module)
        for name in api_docs.public_names(
                api_docs.ast.parse(path.read_text())):
            node = api_docs.definition(path, name)
            if node is None:
                continue
            missing += [f"{module}.{where} lacks a type"
                        for where in untyped(node, name)]
            if name not in RETURNED and not api_docs.api_examples.place_of(
                    name, ".py"):
                missing.append(f"{module}.{name}: nothing that is run uses it")
    assert missing == []


def untyped(node: api_docs.ast.AST, name: str) -> list[str]:
    """Functions and public methods with an argument or result that has none."""
    ast = api_docs.ast
    nodes = list(api_docs.members(node)) if isinstance(node, ast.ClassDef) \
        else [node]
    found = []
    for function in nodes:
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args,
                 *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        bare = [a.arg for a in named if a is not None and a.annotation is None
                and a.arg not in ("self", "cls")]
        if bare or function.returns is None:
            found.append(f"{name} ({function.name}: {bare or 'result'})")
    return found


def test_every_key_of_a_schedule() -> None:
    """docs/engine.md has what src/exec/replay/schedule.c writes, and no more."""
    code = (ROOT / "src/exec/replay/schedule.c").read_text()
    keys = set(re.findall(r'(?:og_json_\w+|ids_add)\([^,]*, "(\w+)"', code))
    page = (ROOT / "docs" / "engine.md").read_text()
    section = page.split("## The schedule as JSON")[1].split("\n## ")[0]
    said = set(re.findall(r"`(\w+)`", section.split("|---|---|")[1]))
    words = set(re.findall(r'= "(\w+)"', code))  # kinds and places
    assert len(keys) > 20 and keys - said == set()
    assert said - keys - words == set()


def test_each_page_has_its_place_on_the_site() -> None:
    """The start page's lists, and those of pages with pages below them, name
    each page: `make docs` refuses others."""
    docs = ROOT / "docs"
    def below(page: pathlib.Path) -> list[str]:
        return [line for tree in re.findall(r"```{toctree}\n(.*?)```",
                                            page.read_text(), re.S)
                for line in tree.splitlines() if line and line[0] != ":"]
    assert len(below(docs / "index.md")) <= 25
    listed = [line for page in docs.glob("*.md") for line in below(page)]
    assert len(listed) == len(set(listed))
    pages = {path.stem for path in docs.glob("*.md")} - {"index"}
    assert len(pages) > 20
    assert pages - set(listed) == set()


def test_links_out_of_docs_stay_names() -> None:
    """The site has docs/ alone: no link of a page's copy leads elsewhere."""
    docs = ROOT / "docs"
    count = 0
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text()
        count += len(re.findall(r"\]\((?:\.\./)+", text))
        for link in re.findall(r"\]\(([^)#:]+)[^)]*\)",
                               api_docs.OF_EXAMPLES.sub(
                                   "", api_docs.OF_REPOSITORY.sub(r"\1", text))):
            assert docs in (page.parent / link).resolve().parents, (page, link)
    assert count > 50

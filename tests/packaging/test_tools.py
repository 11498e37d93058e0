# SPDX-License-Identifier: Apache-2.0
"""The checks check: each finds what it is there to find."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
import sys
import types
from collections import Counter

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path: str) -> types.ModuleType:
    name = "tool_" + pathlib.Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for folder in ("src/base", "src/decl", "src/check/run",
                   "src/kernel", "ops", "cli", "include/opgraft"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


CIRCLE_FILES = {
    "a.h": "int og_a(int x);\ntypedef struct og_one { int x; } og_one;\n",
    "b.h": "int og_b(int x);\n",
    "a.c": '#include "base/a.h"\nint og_a(int x) { return x; }\n',
    "b.c": '#include "base/a.h"\nint og_b(int x) { return og_a(x); }\n',
}


@pytest.mark.parametrize("name, text, said", [
    ("c.c", "int og_c(void) { return 0; }", ""),
    # A function that another one's rows use, by a name that is pasted.
    ("a.c", '#define CALL(n) og_##n\n#include "base/b.h"\n'
     "int og_a(int x) { return x ? CALL(b)(x) : 0; }",
     "circle of 2 files:\n  src/base/a -> src/base/b (og_b)"),
    ("a.c", '#include "base/b.h"\nint (*const og_rows[])(int) = {og_b};\n'
     "int og_a(int x) { return x; }", "circle of 2 files"),
    # A static function of the same name is another one, and so is a word.
    ("a.c", "static int og_b(int x) { return x; }\n"
     'int og_a(int x) { return og_b(x) + sizeof "og_b"; }', ""),
    ("c.h", "typedef struct og_one { int y; } og_one;",
     "og_one: two types of one name"),
    ("c.c", '#include "base/c.h"\n', ""),
])
def test_circles(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                 capsys: pytest.CaptureFixture[str],
                 name: str, text: str, said: str) -> None:
    circles = load("tools/circles.py")
    monkeypatch.setattr(circles, "ROOT", tree)
    monkeypatch.setattr(circles, "PACKAGE", tree / "python/opgraft")
    for file, content in {**CIRCLE_FILES, "c.h": "", name: text}.items():
        (tree / "src/base" / file).write_text(content)
    if name == "c.h":
        (tree / "src/base/c.c").write_text('#include "base/c.h"\n')
    assert circles.report(circles.read_units()) == (1 if said else 0)
    assert said in capsys.readouterr().out


def test_circles_finds_wide_headers_and_python_s(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    circles = load("tools/circles.py")
    package = tree / "python/opgraft"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .a import f\n")
    (package / "a.py").write_text("def f():\n    from . import b\n")
    (package / "b.py").write_text("from .a import f\n")
    names = "pqrst"
    (tree / "src/base/all.h").write_text(
        "".join(f"int og_{n}(void);\n" for n in names))
    for n in names:
        (tree / f"src/base/{n}.c").write_text(
            f'#include "base/all.h"\nint og_{n}(void) {{ return 0; }}\n')
    monkeypatch.setattr(circles, "ROOT", tree)
    monkeypatch.setattr(circles, "PACKAGE", package)
    assert circles.report(circles.read_units()) == 1
    out = capsys.readouterr().out
    assert "opgraft.a -> opgraft.b" in out
    assert "src/base/all.h: declares what 5 files define" in out


@pytest.mark.parametrize("file, line, problems", [
    ("src/decl/a.c", '#include "base/text.h"', 0),
    ("src/decl/a.c", "#include <opgraft/op.h>", 0),
    ("src/base/a.c", '#include "decl/decl.h"', 1),
    ("src/decl/a.c", '#include "decl.h"', 1),
    ("src/decl/a.c", '#include "elsewhere/x.h"', 1),
    ("src/check/run/a.c", '#include "check/sample/a.h"', 0),
    ("src/check/run/a.c", '#include "check/probe/a.h"', 1),
    ("src/check/run/a.c", '#include "check/check.h"', 1),
    ("src/check/a.c", '#include "check/probe/a.h"', 0),
    ("src/kernel/a.c", "int f(const og_kernel_env *env);", 0),
    ("src/kernel/a.c", "int f(const og_call *call);", 1),
    ("src/kernel/a.c", "int f(const og_sample_call *call);", 1),
    ("src/check/a.c", "int f(const og_call *call);", 0),
    ("ops/a.c", "#include <opgraft/op.h>", 0),
    ("ops/a.c", '#include "kernel/gemm.h"', 0),
    ("ops/a.c", "#include <opgraft/opgraft.h>", 1),
    ("ops/a.c", '#include "base/cpu.h"', 1),
    ("ops/a.c", '#include "base/grain.h"', 0),
    ("ops/a.c", "og_parallel_for(call, n, 1, rows);", 0),
    ("ops/a.c", "og_parallel_for(call, f(n, 8), og_grain(LIGHT, 2 * d), g);",
     0),
    ("ops/a.c", "og_parallel_for(call, n,\n  1 + 8192 / d, rows);", 1),
    ("src/base/a.c", "enum { BLOCK = 256, GRAIN = 4096 };", 1),
    ("src/base/a.c", "const int64_t grain = 1 + 65536 / n;", 1),
    ("src/base/a.c", "og_team_run(team, n, 64, fn, &s);", 1),
    ("src/base/grain.h", "enum { OG_GRAIN_LIGHT = 16384 };", 0),
    ("cli/a.c", "#include <opgraft/opgraft.h>", 0),
    ("cli/a.c", '#include "call/call.h"', 1),
    ("include/opgraft/a.h", "#include <stdint.h>", 0),
    ("include/opgraft/a.h", '#include "base/cpu.h"', 1),
])
def test_layers(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                file: str, line: str, problems: int) -> None:
    layers = load("tools/layers.py")
    monkeypatch.setattr(layers, "ROOT", tree)
    (tree / file).write_text(f"// A file.\n{line}\n")
    assert layers.main() == (1 if problems else 0)


def test_measure_counts_functions() -> None:
    measure = load("tools/measure.py")
    text = ('static const int table[] = {\n  1,\n};\n\n'
            'int f(int a,\n      int b) {\n  // a brace: {\n'
            '  if (a) {\n    return b;\n  }\n  return \'{\';\n}\n\n'
            'struct s {\n  int x;\n};\n')
    found = measure.functions_c("x.c", text)
    assert [(f.name, f.line, f.lines, f.nesting) for f in found] == [
        ("f", 5, 8, 1)]
    python = "def g(a):\n    \"\"\"What it\n    does.\"\"\"\n    for x in a:\n        if x:\n            pass\n"
    found = measure.functions_python("x.py", python)
    assert [(f.name, f.lines, f.nesting) for f in found] == [("g", 4, 2)]


def test_measure_finds_a_heading_that_was_broken_in_two() -> None:
    measure = load("tools/measure.py")
    rule = "// " + "-" * 60 + "\n"
    text = "int a;\n// --- Words ----------\n\n// --- Words\n" + rule
    assert measure.broken_headings("x.c", text) == ["x.c:5"]
    assert measure.broken_headings("x.c", "  " + rule) == ["x.c:1"]


def fake_build(tmp_path: pathlib.Path, script: str) -> pathlib.Path:
    tool = tmp_path / "build" / "tests" / "tools" / "echo"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return tmp_path / "build"


def text_runner(build: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                *words: str) -> int:
    run = load("tests/text/run.py")
    monkeypatch.setattr(sys, "argv",
                        ["run.py", "--build", str(build), *words])
    return int(run.main())


GOOD = """\
A comment.
# run: echo a {input}
one
two
# expect
a <input>
one
two

# run: echo b
x
# expect
b
x
"""


def test_text_passes_fails_and_updates(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = fake_build(tmp_path, 'echo "$*"; cat')
    case = tmp_path / "case.txt"
    case.write_text(GOOD)
    assert text_runner(build, monkeypatch, str(case)) == 0
    case.write_text(GOOD.replace("\nb\nx", "\nb\ny"))
    assert text_runner(build, monkeypatch, str(case)) == 1
    assert text_runner(build, monkeypatch, "--update", str(case)) == 0
    assert case.read_text() == GOOD


def test_text_keeps_exit_status(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = fake_build(tmp_path, "exit 3")
    case = tmp_path / "case.txt"
    case.write_text("# run: echo\n# expect\n# exit: 3\n")
    assert text_runner(build, monkeypatch, str(case)) == 0
    case.write_text("# run: echo\n# expect\n")
    assert text_runner(build, monkeypatch, str(case)) == 1


def test_text_finds_a_crash_under_faults(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = fake_build(
        tmp_path, 'case "$OPGRAFT_TEST_FAIL_ALLOC" in "") ;; '
        '2) kill -SEGV $$;; 5) exit 77;; *) exit 1;; esac')
    case = tmp_path / "case.txt"
    case.write_text("# run: echo\n# expect\n")
    assert text_runner(build, monkeypatch, str(case)) == 0
    assert text_runner(build, monkeypatch, "--faults", "32", str(case)) == 1


def test_abi_sees_every_field() -> None:
    abi = load("tools/abi.py")
    assert abi.fields("\n int32_t a;\n union {\n  int b;\n  char *const *c;\n"
                      " };\n int (*d)(int x, int y);\n char e[64];\n") == [
        "a", "b", "c", "d", "e"]


def test_operators_that_are_mutated_load(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    mutate = load("tools/mutate.py")
    build = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    judge = mutate.Judge(str(build / "tests/tools/check_main"), tmp_path, 1)
    sources = [s for s in mutate.default_sources() if s.parent == ROOT / "ops"]
    assert len(sources) > 10
    for source in sources:
        module = tmp_path / f"{source.stem}.so"
        assert judge.build(source, source.read_text(), module), source
        ctypes.CDLL(str(module))


def test_no_two_test_files_have_one_name() -> None:
    # pytest imports them by name: `pytest tests` would refuse the second.
    names = Counter(p.name for p in (ROOT / "tests").rglob("test_*.py"))
    assert [n for n, count in names.items() if count > 1] == []


CALLERS_FILES = {
    "src/base/a.h": "int og_a(void);\nint og_alone(void);\n",
    "src/base/a.c": '#include "base/a.h"\nint og_a(void) { return 1; }\n'
                    "int og_alone(void) { return og_a(); }\n",
    "src/base/b.c": '#include "base/a.h"\nint og_b(void);\n'
                    "int og_b(void) { return og_a(); }\n",
    "src/base/isa.def": "OG_ISA(scalar, SCALAR, OG_ANY, true)\n",
    "include/opgraft/o.h": "int opgraft_tested(void);\n"
                           "int opgraft_untested(void);\n",
    "tests/t.c": "int t(void) { return opgraft_tested() + og_b(); }\n",
}


@pytest.mark.parametrize("name,text,said", [
    ("src/base/c.c", "", ""),
    ("src/base/c.c", "// og_a and a.h are there, og_gone is not.\n",
     "src/base/c.c:1: og_gone stands in no code"),
    ("src/base/c.c", "\n// See base/gone.c.\n",
     "src/base/c.c:2: there is no file base/gone.c"),
    ("src/base/c.c", "/* og_a, and\nog_gone. */\n",
     "src/base/c.c:1: og_gone stands in no code"),
    ("python/c.py", '"""As went_away() does; x.went_away() is another\'s."""\n',
     "python/c.py:1: went_away stands in no code"),
    ("python/c.py", "# OG_GONE is here alone\n",
     "python/c.py:1: OG_GONE stands in no code"),
])
def test_callers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                 capsys: pytest.CaptureFixture[str], name: str, text: str,
                 said: str) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    callers = load("tools/callers.py")
    for module in (callers, callers.circles):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for file, content in {**CALLERS_FILES, name: text}.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert callers.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "src/base/a: og_alone is used by no other file; make it "
        "static or drop it",
        "opgraft_untested: exported, and no test names it"]
    own = [line for line in lines[2:] if not line.startswith("circles: ")]
    assert own == [*([said] if said else []),
                   f"callers: {2 + bool(said)} problems"]
    assert len(lines) - len(own) == 4  # circles' two lines

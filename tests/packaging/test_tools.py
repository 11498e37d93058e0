# SPDX-License-Identifier: Apache-2.0
"""The checks check: each finds what it is there to find."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

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
    for folder in ("src/base", "src/decl", "ops", "cli", "include/opgraft"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("file, line, problems", [
    ("src/decl/a.c", '#include "base/text.h"', 0),
    ("src/decl/a.c", "#include <opgraft/op.h>", 0),
    ("src/base/a.c", '#include "decl/decl.h"', 1),
    ("src/decl/a.c", '#include "decl.h"', 1),
    ("src/decl/a.c", '#include "elsewhere/x.h"', 1),
    ("ops/a.c", "#include <opgraft/op.h>", 0),
    ("ops/a.c", '#include "kernel/gemm.h"', 0),
    ("ops/a.c", "#include <opgraft/opgraft.h>", 1),
    ("ops/a.c", '#include "base/cpu.h"', 1),
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
    python = "def g(a):\n    for x in a:\n        if x:\n            pass\n"
    found = measure.functions_python("x.py", python)
    assert [(f.name, f.lines, f.nesting) for f in found] == [("g", 4, 2)]


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
    assert text_runner(build, monkeypatch, "--faults", str(case)) == 1


def test_abi_sees_every_field() -> None:
    abi = load("tools/abi.py")
    assert abi.fields("\n int32_t a;\n union {\n  int b;\n  char *const *c;\n"
                      " };\n int (*d)(int x, int y);\n char e[64];\n") == [
        "a", "b", "c", "d", "e"]

# SPDX-License-Identifier: Apache-2.0
"""What commands write: nothing that is read, no device, no link, and whole or
not at all."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import Program

GRAPH = "graph g(%x: f32[4]) {\n  %y: f32[4] = add(%x, 1)\n  return %y, %x\n}\n"
SPEC = 'module: m\nops:\n  - schema: "f(Tensor x) -> Tensor"\n    shape: "x[*N] -> [*N]"\n' \
       '    dtype: "x: f32 -> x"\n'


@pytest.fixture
def graph(program: Program) -> Program:
    program.write("m.og", GRAPH)
    np.save(program.folder / "x.npy", np.arange(4, dtype="f4"))
    return program


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def is_right(path: pathlib.Path) -> bool:
    return np.array_equal(np.load(path), np.arange(4, dtype="f4") + 1)


@pytest.mark.parametrize("words", [
    ["run", "m.og", "--in", "x.npy", "--out", "x.npy"],
    ["run", "m.og", "--in", "x.npy", "--out", "m.og"],
    ["run", "m.og", "--in", "x=x.npy", "--out", "./x.npy"],
    ["run", "m.og", "--in", "x.npy", "--out", "hard.npy"],
    ["run", "m.og", "--in", "link.npy", "--out", "x.npy"],
    ["build", "a.c", "-o", "a.c"],
    ["build", "b.c", "a.c", "-o", "link.c"],
    ["gen", "s.yaml", "-o", "s.yaml", "--force"],
    ["report", "e.events", "--json", "e.events"],
    ["report", "e.events", "--html", "base.events", "--baseline", "base.events"],
    ["doctor", "--events", "train.py", "train.py"],
    ["doctor", "--apply", "train.py", "train.py"],
    ["doctor", "--html", "train.py", "train.py"],
])
def test_no_output_replaces_an_input(graph: Program, words: list[str]) -> None:
    for name in ("a.c", "b.c", "e.events", "base.events", "train.py"):
        graph.write(name, f"{name}\n")
    graph.write("s.yaml", SPEC)
    os.link(graph.folder / "x.npy", graph.folder / "hard.npy")
    (graph.folder / "link.npy").symlink_to("x.npy")
    (graph.folder / "link.c").symlink_to(graph.folder / "a.c")
    before = contents(graph.folder)
    assert "is read and would be overwritten" in graph.fails(2, *words)
    assert contents(graph.folder) == before


@pytest.mark.parametrize("words", [
    ["run", "m.og", "--in", "x.npy", "--out", "y.npy", "--out", "y.npy"],
    ["run", "m.og", "--in", "x.npy", "--out", "y.npy", "-o", "./sub/../y.npy"],
    ["report", "e.events", "--json", "r", "--html", "r"],
])
def test_no_output_is_written_twice(graph: Program, words: list[str]) -> None:
    (graph.folder / "sub").mkdir()
    graph.write("e.events", "")
    assert "would be written twice" in graph.fails(2, *words)
    assert not (graph.folder / "y.npy").exists()


def test_a_link_stays_and_its_target_is_replaced(graph: Program) -> None:
    (graph.folder / "sub").mkdir()
    for link, target in (("y.npy", "sub/real.npy"), ("z.npy", "y.npy")):
        (graph.folder / link).symlink_to(target)
    for _ in range(2):  # a name that is free, then a file
        graph.ok("run", "m.og", "--in", "x.npy", "--out", "z.npy")
        assert (graph.folder / "y.npy").is_symlink() and (graph.folder / "z.npy").is_symlink()
        assert is_right(graph.folder / "sub" / "real.npy")
    (graph.folder / "ring").symlink_to("ring")
    assert "leads back to itself" in graph.fails(2, "run", "m.og", "--in", "x.npy", "-o", "ring")
    assert [p.name for p in (graph.folder / "sub").iterdir()] == ["real.npy"]


def test_a_device_and_a_pipe_are_written_into(graph: Program) -> None:
    graph.ok("run", "m.og", "--in", "x.npy", "--out", "/dev/null", "--out", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    graph.ok("new", "gate")
    graph.ok("build", "gate/gate.c", "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = graph.folder / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    graph.ok("run", "m.og", "--in", "x.npy", "--out", "pipe")
    reader.join(60)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    (graph.folder / "y.npy").write_bytes(found[0])
    assert is_right(graph.folder / "y.npy")
    err = graph.fails(2, "run", "m.og", "--in", "x.npy", "--out", "/dev/full")
    assert "No space left" in err and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_the_programs_own_output_is_written_into(graph: Program) -> None:
    with open(graph.folder / "all.npy", "wb") as to:
        subprocess.run([graph.path, "run", "m.og", "--in", "x.npy", "-o", "/dev/stdout",
                        "-o", "y.npy"], cwd=graph.folder, stdout=to, check=True, timeout=60)
    assert is_right(graph.folder / "all.npy")


def test_a_folder_is_refused(graph: Program) -> None:
    (graph.folder / "sub").mkdir()
    graph.write("a.c", "")
    graph.write("s.yaml", SPEC)
    for words in (["run", "m.og", "--in", "x.npy", "-o", "sub"], ["build", "a.c", "-o", "sub"],
                  ["gen", "s.yaml", "-o", "sub"]):
        assert "sub: is a folder, expected the name of a file" in graph.fails(2, *words)
    assert list((graph.folder / "sub").iterdir()) == []


@pytest.mark.parametrize("words", [
    ["run", "m.og", "--in", "x.npy", "-o"], ["pack", "m.og", "-o"], ["build", "a.c", "-o"],
    ["gen", "s.yaml", "-o"], ["report", "e.events", "--json"], ["tune", "--export"],
    ["doctor", "train.py", "--html"], ["doctor", "train.py", "--apply"],
], ids=lambda words: words[0])
def test_a_folder_that_is_missing_is_told_before_anything_runs(
        graph: Program, words: list[str]) -> None:
    """By the name that was given, not by that of a temporary file."""
    graph.write("a.c", "")
    graph.write("s.yaml", SPEC)
    graph.write("e.events", "opgraft-events 1\n")
    graph.write("train.py", "open('it_ran', 'w')\n")
    if words[0] == "doctor":
        words = [words[0], *words[2:], "no/y", words[1]]
    else:
        words = [*words, "no/y"]
    assert graph.fails(2, *words).splitlines()[-1] == (
        "opgraft: no/y: could not create a file: there is no folder no/")
    assert not (graph.folder / "no").exists() and not (graph.folder / "it_ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_temporary(program: Program, number: int, tmp_path: pathlib.Path
                                      ) -> None:
    """The compiler is a script that writes its output again after a while, as a
    linker that outlives its parent would."""
    folder = program.folder / "out"
    folder.mkdir()
    program.write("a.c", "int x;\n")
    compiler = program.write("slow-cc", f"""#!{sys.executable}
import pathlib, sys, time
out = sys.argv[sys.argv.index("-o") + 1]
pathlib.Path({str(tmp_path / "begun")!r}).write_text("x")
for _ in range(30):
    pathlib.Path(out).write_text("half")
    time.sleep(0.1)
""")
    compiler.chmod(0o755)
    child = subprocess.Popen([program.path, "build", "a.c", "-o", "out/a.so", "--cc",
                              str(compiler)], cwd=program.folder, stderr=subprocess.PIPE)
    while not (tmp_path / "begun").exists() and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(number)
    assert child.wait(60) == -number
    time.sleep(0.5)
    assert list(folder.iterdir()) == []


def test_a_signal_while_an_output_is_written(program: Program) -> None:
    program.write("m.og", "graph g(%x: f32[1]) {\n  %v: f32[300000000]{0} = view(%x)\n"
                          "  return %v\n}\n")
    np.save(program.folder / "x.npy", np.ones(1, "f4"))
    before = contents(program.folder)
    child = subprocess.Popen([program.path, "run", "m.og", "--in", "x.npy", "-o", "y.npy"],
                             cwd=program.folder)
    while len(list(program.folder.iterdir())) == len(before) and child.poll() is None:
        time.sleep(0.01)
    child.terminate()
    assert child.wait(60) == -signal.SIGTERM
    assert contents(program.folder) == before

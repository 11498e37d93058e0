# SPDX-License-Identifier: Apache-2.0
"""opgraft tune: the file of tuned kernels is shown, exported, imported,
cleared; a damaged one is an error that is said."""

from __future__ import annotations

import re

import pytest
from conftest import Program

NODE = "matmul f32[8,16] f32[16,4] -> f32[8,4]; ,; fast/host; 1 thread, avx2, torch 2"
OTHER = NODE.replace("[8,", "[9,")


@pytest.fixture
def machine(program: Program) -> str:
    """What the file of this processor is called."""
    err = program.run("tune", env=cache(program)).stderr
    found = re.search(r"/cache/opgraft/tune-([\w-]+)\.txt: 0 results", err)
    assert found, err
    return found[1]


def cache(program: Program) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(program.folder / "cache")}


def text(machine: str, *lines: str) -> str:
    return f"# opgraft tune 1, {machine}\n" + "".join(
        f"{line}\n" for line in lines) + f"# end {len(lines)}\n"


def test_results_go_in_and_out(program: Program, machine: str) -> None:
    env = cache(program)
    program.write("a.txt", text(machine, f"{NODE}: fast  # fast 1.0 us"))
    program.write("b.txt", text(machine, f"{OTHER}: packed  # packed 1.0 us",
                                f"{NODE}: host  # host 1.0 us"))
    program.ok("tune", "--import", "a.txt", env=env)
    assert program.ok("tune", env=env) == f"{NODE}: fast  # fast 1.0 us\n"
    program.ok("tune", "--import", "b.txt", env=env)  # it counts before
    assert program.ok("tune", env=env).splitlines() == [
        f"{NODE}: host  # host 1.0 us", f"{OTHER}: packed  # packed 1.0 us"]
    program.ok("tune", "--export", "c.txt", env=env)
    assert program.ok("tune", "--file", "c.txt") == program.ok("tune", env=env)
    program.ok("tune", "--clear", env=env)
    assert program.ok("tune", env=env) == ""
    program.ok("tune", "--clear", env=env)


@pytest.mark.parametrize("change, wanted", [
    (lambda t: t.replace("tune 1", "tune 2"), "line 1: it is not a file of tuned"),
    (lambda t: t.replace(", Auth", ", Xuth").replace(", Genu", ", Xenu"),
     "line 1: it is of processor X"),
    (lambda t: t.replace(": fast", ": fats"), "line 2: it is not a result"),
    (lambda t: t.replace(": fast", " fast"), "line 2: it is not a result"),
    (lambda t: t.replace("# end 1\n", ""), "its end is missing"),
    (lambda t: t.replace("# end 1", "# end 2"), "its end is missing"),
    (lambda t: t + "x\n", "it goes on behind its end"),
    (lambda t: t[:20] + "\0" + t[20:], "it is not text"),
    (lambda t: "", "line 1: it is not a file of tuned"),
])
def test_damaged_files(program: Program, machine: str, change: object,
                       wanted: str) -> None:
    right = text(machine, f"{NODE}: fast  # fast 1.0 us")
    program.write("bad.txt", change(right))  # type: ignore[operator]
    if change(right) == right:  # type: ignore[operator]
        pytest.skip("another vendor's processor")
    assert wanted in program.fails(2, "tune", "--file", "bad.txt")
    assert wanted in program.fails(2, "tune", "--import", "bad.txt",
                                   env=cache(program))
    # What is added to it replaces it.
    program.write("good.txt", right)
    program.ok("tune", "--file", "bad.txt", "--import", "good.txt")
    assert program.ok("tune", "--file", "bad.txt").startswith(NODE)


def test_wrong_command_lines(program: Program) -> None:
    program.write("here.txt", "")
    env = {"XDG_CACHE_HOME": "", "HOME": ""}
    assert "give --file" in program.fails(2, "tune", env=env)
    assert "expected options only" in program.fails(2, "tune", "x")
    assert "do not go together" in program.fails(
        2, "tune", "--clear", "--export", "x")
    assert "no such file" in program.fails(
        2, "tune", "--import", "none.txt", env=cache(program))
    assert "none.txt: there is no such file" in program.fails(
        2, "tune", "--file", "none.txt")
    program.fails(2, "tune", "--file", "here.txt", "--export", "here.txt")

# SPDX-License-Identifier: Apache-2.0
"""inspect of graphs in mode max-autotune: what is fused, and its code."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

GRAPH = """graph g(%x: f32[s0, 40], %b: f32[40]) {
  %a: f32[s0, 40] = add(%x, %b) @ model.py:7
  %c: f32[s0, 40] = exp(%a) @ model.py:8
  %s: f32[s0, 40] = softmax(%c; dim=-1) @ model.py:9
  %m: f32[1, 40] = amax(%c; dims=[0]) @ model.py:10
  return %s, %m
}
"""
LINE = re.compile(r"^ *([0-9a-f]+)  ((?:[0-9a-f]{2} )+) *(.*)$")


@pytest.fixture
def graph(program):
    program.write("g.og", GRAPH)
    return program


def code_of(text):
    """The instructions of a listing by their offsets."""
    rows = [LINE.match(line) for line in text.splitlines()]
    return [(int(r[1], 16), bytes.fromhex(r[2]), r[3]) for r in rows if r]


def test_what_is_fused(graph):
    text = graph.ok("inspect", "g.og", "--fused")
    assert "model.py:9: a row program of 3 nodes\n  t0 = add(x0, x1)\n" in text
    assert "model.py:10: amax is unfused: it works on another dim than the last" in text
    assert "1 row program of 3 nodes, 1 node unfused" in text


def test_the_mode_s_passes(graph):
    assert "fused(" not in graph.ok("inspect", "g.og", "--passes")
    assert "fused(" in graph.ok("inspect", "g.og", "--passes", "--mode", "max-autotune")
    assert "fused" in graph.ok("inspect", "g.og", "--why", "--mode", "max-autotune", "s0=3")


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_code_is_what_objdump_reads(graph, isa):
    text = graph.ok("inspect", "g.og", "--asm", "--isa", isa, "s0=3")
    assert f"\n{isa}, 3 passes, " in text
    rows = code_of(text)
    assert [at for at, _, _ in rows] == [
        sum(len(b) for _, b, _ in rows[:k]) for k in range(len(rows))]
    assert f"{sum(len(b) for _, b, _ in rows)} bytes of code" in text
    if shutil.which("objdump") is None:
        pytest.skip("there is no objdump to compare with")
    (graph.folder / "code").write_bytes(b"".join(b for _, b, _ in rows))
    done = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "code"],
        cwd=graph.folder, capture_output=True, text=True, check=True)
    read = re.findall(r"^ *([0-9a-f]+):\t[0-9a-f ]+\t(.*)$", done.stdout, re.M)
    found = [(int(at, 16), " ".join(word.split("#")[0].split())) for at, word in read]
    assert found == [(at, word) for at, _, word in rows]


def test_each_step_has_its_code(graph):
    """The code below a step computes it: an addition below an addition."""
    text = graph.ok("inspect", "g.og", "--asm", "--isa", "avx2", "s0=3")
    parts = re.split(r"^; ", text, flags=re.M)[1:]
    words = {"add": "vaddps", "sub": "vsubps", "max": "vmaxps", "fma": "vfmadd",
             "scale": "vmulps"}
    seen = set()
    for part in parts:
        title, *lines = part.splitlines()
        found = re.match(r"pass \d, elements: v\d+ = (\w+)", title)
        if found and found[1] in words:
            assert any(words[found[1]] in line for line in lines), part
            seen.add(found[1])
    assert seen >= {"add", "sub", "fma", "scale"}
    stores = [p for p in parts if p.startswith("pass 2, elements: store y1")]
    assert stores and all("vmovups" in p or "vmaskmovps" in p for p in stores)


def test_a_set_without_code_shows_the_steps(graph):
    text = graph.ok("inspect", "g.og", "--asm", "--isa", "scalar", "s0=3")
    assert "scalar, 3 passes" in text
    assert "no code: the interpreter runs it\npass 0, row:\n" in text
    assert not code_of(text)
    other = graph.ok("inspect", "g.og", "--asm", "s0=3", env={"OPGRAFT_ISA": "scalar"})
    assert other == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--asm", "--isa", "neon", "s0=3"], 'isa is "neon", expected scalar, avx2, avx512, avx512_bf16 or amx_bf16'),
        (["--asm"], "s0"),
        (["--asm", "--fused"], "--asm and --fused exclude each other"),
        (["--fused", "--why"], "--fused and --why exclude each other"),
        (["--why", "--dot", "s0=3"], "--why and --dot exclude each other"),
        (["--isa", "avx2"], "--isa is for --asm"),
        (["--passes", "--mode", "fast"], "--mode is 'fast', expected reduce-overhead or max-autotune"),
        (["--passes", "s0=3"], "takes sizes with --why, --asm or --html only"),
    ],
)
def test_wrong_use_is_explained(graph, words, text):
    assert text in graph.fails(2, "inspect", "g.og", *words)

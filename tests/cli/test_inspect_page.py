# SPDX-License-Identifier: Apache-2.0
"""inspect --html: every node with who runs it, in one file, whatever the graph
calls its parts. What the page does is in tests/docs/test_site_browser.py."""

from __future__ import annotations

import json
import re

import pytest

GRAPH = """graph g(%x: f32[s0, 40], %w: f32[40, 40]) {
  %a: f32[s0, 40] = matmul(%x, %w) @ model.py:7
  %c: f32[s0, 40] = exp(%a) @ model.py:8
  %v: f32[40, s0]{1, 40} = view(%c)
  %t: f32[s0, 40] = matmul(%c, %w) @ model.py:10
  %q: f32[s0, 40] = foreign "aten.foo.default"(%t) {why "there is no row for it"} @ model.py:11
  %z: f32[s0, 40] = add(%q, %c) @ model.py:12
  return %z, %v
}
"""
NODES = {"%a matmul", "%c exp", "%v view", "%t matmul", "%q aten.foo.default",
         "%z add"}


def page_of(program, *words):
    """The page, and the data of its one graph."""
    text = program.ok("inspect", *words, "--html")
    given = re.search(r"const given = (.*);\n", text)
    graph, = json.loads(given[1])["graphs"]
    return text, graph["schedule"]


def shown(plan):
    """Each node as the page names it."""
    names = {v["id"]: v["name"] for v in plan["values"]}
    return {f"{names[n['makes'][0]]} {n['operator']}": n
            for n in plan["nodes"]}


@pytest.fixture
def graph(program):
    program.write("g.og", GRAPH)
    return program


def test_who_runs_a_node_is_what_why_says(program):
    program.write("g.og", GRAPH.replace(
        '%q: f32[s0, 40] = foreign "aten.foo.default"(%t) {why "there is no row'
        ' for it"}', "%q: f32[s0, 40] = tanh(%t)"))
    rules = re.findall(r"^(\w+) .*: (\w+)  # (.*)$",
                       program.ok("inspect", "g.og", "--why", "s0=3"), re.M)
    _, plan = page_of(program, "g.og", "s0=3")
    assert rules == [(n["operator"], n["by"], n["reason"])
                     for n in plan["nodes"] if n["step"] >= 0]


def test_the_page_says_sizes_and_reasons(graph):
    text, plan = page_of(graph, "g.og", "s0=3")
    assert plan["symbols"] == [{"name": "s0", "value": 3}]
    nodes = shown(plan)
    assert set(nodes) == NODES
    assert nodes["%v view"]["step"] == -1
    foreign = nodes["%q aten.foo.default"]
    assert foreign["by"] == "host" and foreign["line"] == 11
    assert foreign["reason"] == "there is no row for it"
    # One file: it fetches nothing, and follows the reader's colours and width.
    assert "default-src 'none'" in text and "<link" not in text
    assert not re.search(r"<script [^>]*src|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert 'content="width=device-width' in text


def test_hostile_names_are_text(program):
    program.write("h.og", GRAPH.replace("aten.foo.default", "<script>&'x").replace(
        "there is no row for it", "</title>]]>\\x01<b \u202e").replace(
        "model.py:11", "<i>.py:11"))
    text, plan = page_of(program, "h.og", "s0=3")
    assert "<script>&'x" in {n["operator"] for n in plan["nodes"]}
    assert text.count("<script>") == text.count("</script>") == 3
    assert "<b" not in text.split("const given")[1].split("\n")[0]


def test_an_empty_graph(program):
    program.write("e.og", "graph e(%x: f32[2]) {\n  return %x\n}\n")
    assert page_of(program, "e.og")[1]["nodes"] == []


def test_two_thousand_nodes_stay_small(program):
    lines = [f"  %n{i + 1}: f32[8, 8] = "
             + (f"add(%n{i}, %n{max(0, i - 40)})" if i % 3 else f"exp(%n{i})")
             + f" @ some/where/model.py:{i}" for i in range(2000)]
    program.write("big.og", "graph big(%n0: f32[8, 8]) {\n" + "\n".join(lines)
                  + "\n  return %n2000\n}\n")
    text, plan = page_of(program, "big.og")
    assert len(plan["nodes"]) == 2000
    assert len(text) < 3_000_000


@pytest.mark.parametrize(("words", "text"), [
    (["--html"], "s0"),
    (["--fused", "--html", "s0=3"], "--fused and --html exclude each other"),
    (["--html", "--dot", "s0=3"], "--html and --dot exclude each other"),
])
def test_wrong_use_is_explained(graph, words, text):
    assert text in graph.fails(2, "inspect", "g.og", *words)


def test_modules_have_no_picture(program):
    program.write("m.c", "")
    assert "--html is for graphs" in program.fails(2, "inspect", "m.c", "--html")

# SPDX-License-Identifier: Apache-2.0
"""inspect --svg and --html: every node with who runs it, edges, and memory over
time against its bound, in one file, whatever the graph calls its parts. What
the page does is in tests/docs/test_site_browser.py."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

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
SVG = "{http://www.w3.org/2000/svg}"


def svg_of(program, *words):
    return ET.fromstring(program.ok("inspect", *words, "--svg"))


def page_of(program, *words):
    """The page, and the data of its one graph."""
    text = program.ok("inspect", *words, "--html")
    given = re.search(r"const given = (.*);\n", text)
    graph, = json.loads(given[1])["graphs"]
    return text, graph


def rows_of(svg):
    """(text, title, class of the mark, height) of each node."""
    found = []
    for g in svg.iter(f"{SVG}g"):
        rect, text = g.find(f"{SVG}rect"), g.find(f"{SVG}text")
        found.append((text.text, g.find(f"{SVG}title").text, rect.get("class"),
                      float(text.get("y"))))
    return found


@pytest.fixture
def graph(program):
    program.write("g.og", GRAPH)
    return program


def test_every_node_is_named_with_who_runs_it(graph):
    rows = rows_of(svg_of(graph, "g.og", "s0=3"))
    assert {text for text, *_ in rows} == NODES
    by = {text: kind for text, _, kind, _ in rows}
    assert by["%q aten.foo.default"] == "host" and by["%v view"] == "view"
    assert by["%c exp"] in ("plain", "fast")
    titles = {text: title for text, title, *_ in rows}
    assert titles["%t matmul"].startswith("%t = matmul(%c, %w), ")
    assert titles["%t matmul"].endswith("; model.py:10")
    assert "there is no row for it" in titles["%q aten.foo.default"]


def test_who_runs_a_node_is_what_why_says(program):
    program.write("g.og", GRAPH.replace(
        '%q: f32[s0, 40] = foreign "aten.foo.default"(%t) {why "there is no row'
        ' for it"}', "%q: f32[s0, 40] = tanh(%t)"))
    rules = re.findall(r"^(\w+) .*: (\w+)  # (.*)$",
                       program.ok("inspect", "g.og", "--why", "s0=3"), re.M)
    rows = [(text.split()[1], kind, title) for text, title, kind, _ in
            rows_of(svg_of(program, "g.og", "s0=3")) if kind != "view"]
    assert [(op, by) for op, by, _ in rules] == [(op, by) for op, by, _ in rows]
    for (_, _, reason), (_, _, title) in zip(rules, rows):
        assert reason in title


def test_edges_lead_from_maker_to_reader(graph):
    svg = svg_of(graph, "g.og", "s0=3")
    at = {text.split()[0]: y - 4 for text, _, _, y in rows_of(svg)}
    assert sorted(at.values()) == list(at.values()), "in the order of the run"
    edges = set()
    for path in svg.iter(f"{SVG}path"):
        if path.get("class") == "a":
            numbers = [float(n) for n in re.findall(r"[\d.]+", path.get("d"))]
            edges.add((numbers[1], numbers[-1]))
    assert edges == {(at[a], at[b]) for a, b in (
        ("%a", "%c"), ("%c", "%v"), ("%c", "%t"), ("%t", "%q"), ("%q", "%z"),
        ("%c", "%z"))}


def test_memory_is_drawn_against_its_bound(graph):
    """Bars are apart, where two are in use at once; none is wider than the
    arena; their sum is largest at the dashed line."""
    svg = svg_of(graph, "g.og", "s0=64")
    bars = [[float(r.get(k)) for k in ("x", "y", "width", "height")]
            for r in svg.iter(f"{SVG}rect") if r.get("class") == "b"]
    assert len(bars) >= 2
    for i, (x, y, w, h) in enumerate(bars):
        for x2, y2, w2, h2 in bars[:i]:
            assert (x + w <= x2 + .02 or x2 + w2 <= x + .02 or y + h <= y2
                    or y2 + h2 <= y)
    lines = {p.get("class"): [float(n) for n in re.findall(r"[\d.]+", p.get("d"))]
             for p in svg.iter(f"{SVG}path") if p.get("class") in "mle"}
    left, arena, bound = 250, lines["e"][0], lines["l"][0]
    assert max(x + w for x, _, w, _ in bars) <= arena + .02
    assert left < bound <= arena
    live = lines["m"][::3]
    assert max(live) == pytest.approx(bound, abs=.02)
    for row, x in enumerate(live):
        y = lines["m"][1] + 16 * row + 8
        total = sum(w for _, top, w, h in bars if top < y < top + h)
        assert left + total == pytest.approx(x, abs=.05), row
    words = "".join(svg.itertext())
    assert "arena " in words and "lower bound " in words


def test_the_page_says_sizes_and_reasons(graph):
    text, page = page_of(graph, "g.og", "s0=3")
    plan = page["schedule"]
    assert plan["symbols"] == [{"name": "s0", "value": 3}]
    assert page["notes"] == ["5 steps, 1 views"]
    names = {v["id"]: v["name"] for v in plan["values"]}
    assert {f"{names[n['makes'][0]]} {n['operator']}"
            for n in plan["nodes"]} == NODES
    foreign, = [n for n in plan["nodes"] if n["operator"] == "aten.foo.default"]
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
    svg = svg_of(program, "h.og", "s0=3")
    assert "%q <script>&'x" in {text for text, *_ in rows_of(svg)}
    tags = {e.tag.removeprefix(SVG) for e in svg.iter()}
    assert tags <= {"svg", "title", "style", "g", "rect", "text", "path"}
    said = "".join(svg.itertext())
    assert "</title>]]>" in said
    assert "\u202e" not in said and "\x01" not in said
    text, page = page_of(program, "h.og", "s0=3")
    assert "<script>&'x" in {n["operator"] for n in page["schedule"]["nodes"]}
    assert text.count("<script>") == text.count("</script>") == 3
    assert "<b" not in text.split("const given")[1].split("\n")[0]


def test_an_empty_graph(program):
    program.write("e.og", "graph e(%x: f32[2]) {\n  return %x\n}\n")
    assert "no node runs" in "".join(svg_of(program, "e.og").itertext())
    assert page_of(program, "e.og")[1]["notes"] == ["0 steps, 0 views"]


def test_two_thousand_nodes_stay_small(program):
    lines = [f"  %n{i + 1}: f32[8, 8] = "
             + (f"add(%n{i}, %n{max(0, i - 40)})" if i % 3 else f"exp(%n{i})")
             + f" @ some/where/model.py:{i}" for i in range(2000)]
    program.write("big.og", "graph big(%n0: f32[8, 8]) {\n" + "\n".join(lines)
                  + "\n  return %n2000\n}\n")
    text, page = page_of(program, "big.og")
    assert len(page["schedule"]["nodes"]) == 2000
    assert len(rows_of(svg_of(program, "big.og"))) == 2000
    assert len(text) < 3_000_000


@pytest.mark.parametrize(("words", "text"), [
    (["--svg"], "s0"),
    (["--svg", "--html", "s0=3"], "--svg and --html exclude each other"),
    (["--html", "--dot", "s0=3"], "--html and --dot exclude each other"),
])
def test_wrong_use_is_explained(graph, words, text):
    assert text in graph.fails(2, "inspect", "g.og", *words)


def test_modules_have_no_picture(program):
    program.write("m.c", "")
    assert "--svg is for graphs" in program.fails(2, "inspect", "m.c", "--svg")

# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser, on a desk and on a phone: the site, and the pages of
inspect, doctor, stats and timeline. None scrolls sideways, requests what is missing or
throws, in light or dark."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from browser import CHROMIUM, Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
SITE = ROOT / "build" / "docs"
EVENTS = sorted((ROOT / "tests/fuzz/corpus/events").glob("seed-*"))
DESK, PHONE = 1280, 390
GRAPH = """graph block(%x: f32[s0, 64], %w: f32[64, 64]) {
  %a: f32[s0, 64] = matmul(%x, %w) @ a/rather/long/path/to/the/model.py:7
  %b: f32[s0, 64] = relu(%a) @ model.py:8
  %c: f32[s0, 64] = foreign "a_module.with_a_long_name.default"(%b) {why "there is no row for it"}
  %d: f32[s0, 64] = matmul(%c, %w)
  %e: f32[s0, 64] = add(%d, %b)
  return %e
}
"""
BAD = {
    "wide": ('<div style="width:900px">wide</div>', "pixels wide"),
    "request": ('<img src="missing.png" alt="x">text', "request failed"),
    "error": ("text<script>nothing.at.all()</script>", "nothing is not defined"),
    "empty": ("", "it shows no text"),
}

pytestmark = pytest.mark.skipif(CHROMIUM is None,
                                reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def program(*words: object) -> str:
    path = BUILD / "bin" / "opgraft"
    if not path.exists():
        pytest.skip("the program is not built")
    done = subprocess.run([path, *map(str, words)], text=True,
                          capture_output=True)
    assert done.stdout, done.stderr
    return done.stdout


def problems(browser: Browser, page: pathlib.Path) -> list[str]:
    """At both widths, in light and dark."""
    found = []
    for width in (DESK, PHONE):
        for colours in ("light", "dark"):
            look = browser.look(page.as_uri(), width, colours)
            found += [f"{width}, {colours}: {p}" for p in look.problems()]
    return found


def write(folder: pathlib.Path, text: str) -> pathlib.Path:
    (folder / "page.html").write_text(text)
    return folder / "page.html"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_page_is_found(browser: Browser, tmp_path: pathlib.Path,
                             name: str) -> None:
    body, said = BAD[name]
    page = write(tmp_path, '<!doctype html><meta name="viewport" content="width'
                 f'=device-width"><body>{body}')
    found = browser.look(page.as_uri(), PHONE).problems()
    assert len(found) >= 1 and any(said in p for p in found), found


@pytest.mark.skipif(not (SITE / "index.html").exists(),
                    reason="no site: make docs")
def test_the_site(browser: Browser) -> None:
    pages = [path for path in sorted(SITE.rglob("*.html"))
             if "_static" not in path.parts]
    assert len(pages) > 20
    found = []
    for path in pages:
        for width in (DESK, PHONE):
            look = browser.look(path.as_uri(), width)
            found += [f"{path.relative_to(SITE)}, {width}: {p}"
                      for p in look.problems()]
    assert found == []


def test_the_page_of_a_graph(browser: Browser, tmp_path: pathlib.Path) -> None:
    (tmp_path / "g.og").write_text(GRAPH)
    page = write(tmp_path, program("inspect", tmp_path / "g.og", "s0=32",
                                   "--html"))
    assert problems(browser, page) == []
    for width in (DESK, PHONE):
        browser.look(page.as_uri(), width)
        # Five nodes, each high enough to be read and to be met by a finger.
        heights = browser.run("[...document.querySelectorAll('.node rect')].map("
                              "e => e.getBoundingClientRect().height)")
        assert len(heights) == 5 and min(heights) >= 24
    colours = set()
    for scheme in ("light", "dark"):
        browser.look(page.as_uri(), DESK, scheme)
        colours.add(browser.run("getComputedStyle(document.body).color + "
                                "getComputedStyle(document.body)"
                                ".backgroundColor"))
    assert len(colours) == 2


def test_doctor_s_page(browser: Browser, tmp_path: pathlib.Path) -> None:
    for events in EVENTS[:2]:
        page = write(tmp_path, program("report", events, "--html", "-"))
        assert problems(browser, page) == []


ZOOMED = """(() => {
  const before = d3.zoomTransform(svg.node()).k;
  svg.node().dispatchEvent(new WheelEvent("wheel", {deltaY: -300, clientX: 200,
    clientY: 200, bubbles: true, view: window}));
  return d3.zoomTransform(svg.node()).k / before;
})()"""
CLICKED = """(() => {
  document.querySelectorAll(".node")[%d].dispatchEvent(new MouseEvent("click",
    {bubbles: true, view: window}));
  return document.querySelector("aside").innerText;
})()"""
SEARCHED = """(() => {
  const field = document.querySelector("#search");
  field.value = "%s";
  field.dispatchEvent(new Event("input"));
  field.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
  return [document.querySelector("#found").innerText,
          document.querySelectorAll(".node.found").length,
          document.querySelector("aside h1").innerText];
})()"""


def test_a_graph_zooms_tells_and_is_searched(browser: Browser,
                                             tmp_path: pathlib.Path) -> None:
    (tmp_path / "g.og").write_text(GRAPH)
    page = write(tmp_path, program("inspect", tmp_path / "g.og", "s0=32",
                                   "--html"))
    browser.look(page.as_uri(), DESK)
    assert browser.run(ZOOMED) > 1.1
    nodes = browser.run("shown.nodes.map(n => [n.operator, n.reason, n.line])")
    for i, (operator, reason, line) in enumerate(nodes):
        told = browser.run(CLICKED % i)
        assert told.startswith(operator) and reason in told
        assert line <= 0 or f":{line}" in told
    operator = nodes[-1][0]
    same = sum(n[0] == operator for n in nodes)
    assert browser.run(SEARCHED % operator) == [f"{same} found", same, operator]
    assert browser.run(SEARCHED % "no such thing")[:2] == ["0 found", 0]
    # Each node stands below those that it reads.
    assert browser.run("shown.nodes.every(n => [...n.from].every("
                       "f => f.y + HIGH < n.y))")


def test_a_graph_of_two_thousand_nodes_opens(browser: Browser,
                                             tmp_path: pathlib.Path) -> None:
    lines = [f"  %n{i + 1}: f32[8, 8] = "
             + (f"add(%n{i}, %n{max(0, i - 40)})" if i % 3 else f"exp(%n{i})")
             for i in range(2000)]
    (tmp_path / "g.og").write_text(
        "graph big(%n0: f32[8, 8]) {\n" + "\n".join(lines)
        + "\n  return %n2000\n}\n")
    page = write(tmp_path, program("inspect", tmp_path / "g.og", "--html"))
    assert problems(browser, page) == []
    browser.look(page.as_uri(), DESK)
    assert browser.run("document.querySelectorAll('.node').length") == 2000


def module_of(path: str) -> Any:
    """A file of the package, without the package."""
    spec = importlib.util.spec_from_file_location(
        pathlib.Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_of_stats(browser: Browser, tmp_path: pathlib.Path) -> None:
    made = module_of("python/opgraft/_graph/graph_page.py")
    graph: dict[str, Any] = {
        "name": "graph_0", "kind": "forward", "nodes": 12, "native": 9,
        "host_nodes": 3, "replays": 7, "fallbacks": [
            {"operator": "aten._embedding_bag_forward_only.default",
             "file": "/a/rather/long/path/to/some/model/file.py", "line": 12,
             "reason": "</script> there is no row for it"}]}
    node = {"ns": 2500.0, "operator": "aten.relu.default", "by": "fast", "step": 0,
            "reason": "it is", "file": "", "line": 0, "reads": [0], "makes": [1]}
    plan = {"values": [{"id": i, "name": f"%{i}", "type": "f32[2]",
                        "place": "output"} for i in range(2)],
            "nodes": [node], "arenas": [], "buffers": []}
    text = made.page("t", [(graph, plan), (graph, None)])
    page = write(tmp_path, text)
    assert problems(browser, page) == []
    browser.look(page.as_uri(), DESK)
    told = browser.run("document.querySelector('aside').innerText")
    assert "Time by operator: 2.5 µs a call" in told
    assert "</script> there is no row for it" in told
    assert problems(browser, write(tmp_path, made.page("t", []))) == []


class Timeline(SimpleNamespace):
    def __str__(self) -> str:
        return "a summary"


def timeline(rows: int, works: int) -> Timeline:
    """Each row waits for the one above."""
    step, made = 1000, []
    for r in range(rows):
        begin = r * step
        first = SimpleNamespace(
            id=r * works + 1, kind="event_wait", name="event_wait", engine=None,
            bytes=0, replay=0, start_ns=0, end_ns=begin,
            waits=[(r - 1) * works + 2] if r else [])
        made.append(SimpleNamespace(
            label=f"npu:0 stream {r + 1}", busy_ns=step * (works - 1),
            works=[first, *(SimpleNamespace(
                id=r * works + n + 1, kind="launch", name="scale",
                engine="core 1", bytes=512, replay=0, waits=[],
                start_ns=begin + (n - 1) * step, end_ns=begin + n * step)
                for n in range(1, works))]))
    return Timeline(rows=made, makespan_ns=(rows + works - 2) * step)


SHADES = """(() => {
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  const shades = new Set(new Uint32Array(pixels.buffer));
  return shades.size;
})()"""
TIP = """tell({offsetX: %s, offsetY: TOP + ROW / 2, clientX: 9, clientY: 9});
tip.textContent"""


def test_the_page_of_a_timeline(browser: Browser, tmp_path: pathlib.Path
                                ) -> None:
    made = module_of("python/opgraft/_device/timeline_page.py")
    assert problems(browser, write(tmp_path, made.page(
        Timeline(rows=[], makespan_ns=0)))) == []
    page = write(tmp_path, made.page(timeline(3, 5)))
    assert problems(browser, page) == []
    browser.look(page.as_uri(), DESK)
    assert browser.run(SHADES) > 4  # boxes, text, arrows
    assert browser.run(TIP % "at(1500)").startswith("scale\nnpu:0 stream 1, core")
    assert browser.run("view(1200, 1300); from") == 1200
    assert browser.run("view(-5000, 1e9); from") == 0


def test_a_timeline_of_many_works(browser: Browser, tmp_path: pathlib.Path
                                  ) -> None:
    made = module_of("python/opgraft/_device/timeline_page.py")
    page = write(tmp_path, made.page(timeline(5, 20_000)))
    assert browser.look(page.as_uri(), PHONE).problems() == []
    assert browser.run(SHADES) > 4
    assert browser.run("""(() => {
      const begin = performance.now();
      draw();
      return performance.now() - begin;
    })()""") < 2000  # milliseconds; 25 where it was written

# SPDX-License-Identifier: Apache-2.0
"""Reports on event files: schemas, pages, limits. Neither runs PyTorch."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from opgraft.doctor._run import program

ROOT = Path(__file__).resolve().parents[3]
SEEDS = sorted((ROOT / "tests/fuzz/corpus/events").glob("seed-*"))
# The parts of SARIF 2.1.0 that a result viewer reads, as the standard has them.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["tool", "results"],
            "properties": {
                "tool": {"required": ["driver"], "properties": {
                    "driver": {"required": ["name"], "properties": {
                        "rules": {"type": "array", "uniqueItems": True,
                                  "items": {"required": ["id"]}}}}}},
                "results": {"type": "array", "items": {
                    "required": ["message", "ruleId", "locations"],
                    "properties": {
                        "level": {"enum": ["none", "note", "warning",
                                           "error"]},
                        "message": {"required": ["text"]},
                        "locations": {"items": {"properties": {
                            "physicalLocation": {
                                "required": ["artifactLocation"],
                                "properties": {"region": {"properties": {
                                    "startLine": {"type": "integer",
                                                  "minimum": 1}}}}}}}},
                    }}}}}},
    },
}


def report(events: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), "report", str(events), *options],
                          capture_output=True, text=True)


@pytest.mark.parametrize("events", SEEDS, ids=lambda p: p.name)
def test_json_keeps_its_schema(events: Path, tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs/doctor.schema.json").read_text())
    data = json.loads(report(events, "--json", "-").stdout)
    # A hostile file may name an id that no registry has.
    if "evil" not in events.read_text() and "alert" not in events.read_text():
        jsonschema.validate(data, schema)


@pytest.mark.parametrize("events", SEEDS, ids=lambda p: p.name)
def test_sarif(events: Path) -> None:
    data = json.loads(report(events, "--sarif", "-").stdout)
    jsonschema.validate(data, SARIF)
    for result in data["runs"][0]["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert re.fullmatch(r"[A-Za-z0-9._~/:%-]*", uri["uri"])


class Page(html.parser.HTMLParser):
    """The elements of a page, and that each is closed."""

    VOID = {"meta", "br"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("events", SEEDS, ids=lambda p: p.name)
def test_html_is_one_safe_page(events: Path) -> None:
    page = Page()
    page.feed(report(events, "--html", "-").stdout)
    assert not page.open
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert not {a for a in page.attributes if a.startswith("on")}
    assert "src" not in page.attributes
    assert all(re.fullmatch(r"https://meta-pytorch\.github\.io/compile-graph-"
                            r"break-site/gb/gb\d+\.html", link)
               for link in page.links)
    assert "width=device-width" in report(events, "--html", "-").stdout


def test_text_is_short(tmp_path: Path) -> None:
    lines = ["opgraft-events 1", "end\tstatus=raised\ttext=x",
             "hook\tname=a\tstate=gone", "note\ttext=a", "note\ttext=b",
             "note\ttext=c"]
    lines += [f"cause\tstage=dynamo\tid=GB{n:04}\tfile=a.py\tline={n}\tcode=x"
              for n in range(100)]
    events = tmp_path / "many.events"
    events.write_text("\n".join(lines) + "\n")
    text = report(events).stdout
    assert len(text.splitlines()) <= 40
    assert "and 95 more" in text


def test_why_a_fix_did_not_hold_stands_beside_it(tmp_path: Path) -> None:
    """In every form; and the last line says what is left."""
    why = "another came in its place: GB0025 at a.py:9, " + "long " * 12
    lines = ["opgraft-events 1"]
    lines += [f"cause\tstage=dynamo\tid=GB{n:04}\tfile=/m/a.py\tline={n}\tcode=x"
              for n in (3, 5, 7, 8, 9)]
    lines += ["fix\tfile=/m/a.py\tline=3\tid=GB0003\tclass=flag\ttitle=a flag\t"
              "status=verified\ttext=the root is gone",
              "fix\tfile=/m/a.py\tline=5\tid=GB0005\tclass=rewrite\ttitle=a form\t"
              f"status=refuted\ttext={why}",
              "fix\tfile=/m/a.py\tline=9\tid=GB0009\tclass=rewrite\ttitle=a form\t"
              f"status=refuted\ttext={why}",
              "note\ttext=patch: mended.patch has the verified fixes",
              "ops\tentry=1\tinside=3\toutside=0", "end\tstatus=ok"]
    events = tmp_path / "three.events"
    events.write_text("\n".join(lines) + "\n")
    text = report(events).stdout
    assert f"   fix (rewrite, refuted): a form\n     refuted: {why.strip()}" in text
    assert text.splitlines()[-2:] == [
        "note: patch: mended.patch has the verified fixes",
        f"1 of 5 mended, 4 left: a.py:5, a.py:9: refuted: {why}; a.py:7, a.py:8: "
        "nothing to try"]
    assert text.index("root causes") < text.index("operators captured: 100.0 %")
    for form in ("--json", "--sarif", "--html"):
        assert why.strip() in report(events, form, "-").stdout, form


def test_lines_are_whole_in_pipes(tmp_path: Path) -> None:
    """What a terminal cuts to its width; and the page leads to torch's own of a
    break."""
    long = "word " * 100 + "end"
    events = tmp_path / "long.events"
    events.write_text(
        f"opgraft-events 1\nrun\tscript=/{'d' * 300}/train.py\ttorch=2.13.0\n"
        f"cause\tstage=dynamo\tid=GB0124\tfile=/{'e' * 300}.py\tline=3\t"
        f"code=code {long}\ttitle=title {long}\n"
        f"fix\tfile=/{'e' * 300}.py\tline=3\tid=GB0124\tclass=rewrite\t"
        f"title=fix {long}\tstatus=refuted\ttext=why {long}\n"
        f"note\ttext=note {long}\nend\tstatus=raised\ttext=raised {long}\n")
    lines = report(events).stdout.splitlines()
    for text in ("/" + "d" * 300 + "/train.py (torch", "/" + "e" * 300 + ".py:3",
                 *(f"{part} {long}" for part in
                   ("code", "title", "fix", "why", "note", "raised"))):
        assert any(text in line for line in lines), text
    page = Page()
    page.feed(report(events, "--html", "-").stdout)
    assert page.links == ["https://meta-pytorch.github.io/compile-graph-break-"
                          "site/gb/gb0124.html"]


def test_baseline_goes_by_site(tmp_path: Path) -> None:
    def write(name: str, *causes: tuple[str, int, str]) -> Path:
        path = tmp_path / name
        path.write_text("".join([
            "opgraft-events 1\n",
            *(f"cause\tstage=dynamo\tid={id}\tfile=m.py\tline={line}\t"
              f"function=f\tcode={code}\n" for id, line, code in causes),
            "end\tstatus=ok\n"]))
        return path

    before = write("before", ("GB0124", 3, "x.item()"), ("GB0170", 9, "if x:"))
    moved = write("moved", ("GB0124", 5, "x.item()"))
    worse = write("worse", ("GB0124", 3, "x.item()"), ("GB0007", 4, "g(x)"))
    assert report(moved, "--baseline", str(before)).returncode == 0
    done = report(worse, "--baseline", str(before))
    assert done.returncode == 1
    assert "gate: new root m.py:4 GB0007" in done.stderr
    assert report(worse, "--baseline", str(tmp_path / "no")).returncode == 2
    compared = subprocess.run(
        [program(), "doctor", "--compare", str(before), str(worse)],
        capture_output=True, text=True).stdout
    assert "- m.py:9 GB0170" in compared and "+ m.py:4 GB0007" in compared
    assert "= m.py:3 GB0124" in compared

# SPDX-License-Identifier: Apache-2.0
"""Traces of the simulated NPU, and the page that `python -m opgraft.timeline`
makes of one."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opgraft import timeline

TRACED = """
import sys, torch, opgraft
opgraft.load_device(sys.argv[1], "races=1,trace=" + sys.argv[3])
scaling = opgraft.load(sys.argv[2])
x = torch.arange(4096.0).npu()
streams = torch.npu.Stream(), torch.npu.Stream()
for stream in streams:
    stream.wait_stream(torch.npu.current_stream())
for stream in streams:
    with stream:
        y = scaling.scale(scaling.scale(x, 2.0), 3.0)
for stream in streams:
    torch.npu.current_stream().wait_stream(stream)
torch.npu.record_stream(y, torch.npu.current_stream())
print(float(scaling.scale(y, 1.0).cpu()[2]))
"""


def line(number: int, stream: object, start_ns: int, end_ns: int,
         **more: Any) -> dict[str, Any]:
    return {"id": number, "device": "npu:0", "stream": stream, "lane": 0,
            "replay": 0, "kind": "launch", "name": "axpy", "engine": "core 0",
            "bytes": 512, "start_ns": start_ns, "end_ns": end_ns, "waits": [],
            **more}


def text(*lines: Any) -> list[bytes]:
    return [(each if isinstance(each, str) else json.dumps(each)).encode()
            for each in lines]


TWO = (line(1, 1, 0, 100), line(2, 1, 100, 100, kind="event_record"),
       line(3, 2, 0, 100, kind="event_wait", engine=None, waits=[2]),
       line(4, 2, 100, 150), line(5, 1, 100, 200),
       line(6, 1, 200, 220, lane=1))


class Page(html.parser.HTMLParser):
    """Text, and what the page's script reads; an end without a begin fails."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.data: dict[str, Any] = {}
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str,
                        attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        if ("id", "data") in attrs:
            self.open[-1] = "data"

    def handle_endtag(self, tag: str) -> None:
        last = self.open.pop()
        assert tag == ("script" if last == "data" else last)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "data":
            self.data = json.loads(data)
        elif self.open[-1:] not in (["script"], ["style"]):
            self.text += data


def test_what_overlaps() -> None:
    found = timeline.summary(timeline.parse(text(*TWO)))
    assert [row.label for row in found.rows] == [
        "npu:0 stream 1", "npu:0 stream 1, lane 1", "npu:0 stream 2"]
    assert [row.busy_ns for row in found.rows] == [200, 20, 50]
    assert (found.makespan_ns, found.overlap) == (220, 270 / 220)
    assert str(found) == "6 works on 3 rows, 220 ns, overlap 1.23"


def test_a_page_has_rows_works_and_arrows() -> None:
    page = Page(timeline.page(timeline.parse(text(*TWO))))
    assert "overlap 1.23" in page.text and "npu:0 stream 1, lane 1" in page.text
    assert "90.9 %" in page.text  # of stream 1
    assert (page.data["begin"], page.data["end"]) == (0, 220)
    assert [len(row["works"]) for row in page.data["rows"]] == [3, 1, 2]
    assert page.data["arrows"] == [[0, 100, 2, 100]]
    start, end, kind, name, engine, size, number, _ = (
        page.data["rows"][2]["works"][1])
    assert (start, end, size, number) == (100, 150, 512, 4)
    assert page.data["kinds"][kind] == "kernel"
    assert page.data["names"][name] == "axpy"
    assert page.data["names"][engine] == "core 0"


def test_a_page_fetches_nothing_and_escapes_names() -> None:
    name = "</script><img src=x>&\"'"
    made = timeline.page(timeline.parse(text(line(1, 1, 0, 1, name=name,
                                                  device=name))))
    page = Page(made)
    assert "img" not in page.tags and name in page.data["names"]
    assert name in page.text
    assert not re.search(r"https?:|//\w|url\(|import", made)


def test_no_works() -> None:
    page = Page(timeline.page(timeline.parse([])))
    assert "The trace has no works." in page.text
    assert "0 works on 0 rows, 0 ns, overlap 0.00" in page.text


def test_many_works() -> None:
    works = timeline.parse(text(*(
        line(n + 1, n % 4, n // 4 * 10, n // 4 * 10 + 9)
        for n in range(100_000))))
    made = timeline.page(works)
    page = Page(made)
    assert sum(len(row["works"]) for row in page.data["rows"]) == 100_000
    assert "overlap 3.60" in page.text
    assert len(made) < 8_000_000


@pytest.mark.parametrize("bad, why", [
    ("{", "expected JSON: "),
    ("", "expected JSON: "),
    ("[" * 100_000, "expected JSON: "),
    ("[]", "expected an object, {...}"),
    ({"id": 2}, "'device' is missing"),
    (line(2, "1", 3, 4), "'stream' is \"1\", expected an integer"),
    (line(2, 1, 3, 4, bytes=True), "'bytes' is true, expected an integer"),
    (line(2, 1, 3, 4, engine=3), "'engine' is 3, expected a string or null"),
    (line(2, 1, 3, 4, lane=-1), "'lane' is -1, expected 0 to"),
    (line(2, 1, 3, 2**60), "'end_ns' is 1152921504606846976, expected 0 to 90071992"),
    (line(2, 1, 4, 3), "'end_ns' is 3, before 'start_ns', 4"),
    (line(1, 1, 3, 4), "'id' is 1, as of a line before"),
    (line(2, 1, 3, 4, waits=[7]), "'waits' has 7, expected the id of a line"),
    (line(2, 1, 3, 4, waits=["1"]), "'waits' has something else"),
    (line(2, 1, 1, 4), "work 2 starts at 1 ns, before work 1 of its row ends"),
])
def test_lines_that_are_wrong(bad: Any, why: str) -> None:
    with pytest.raises(timeline.TraceError) as caught:
        timeline.parse(text(line(1, 1, 0, 2), bad), "t.jsonl")
    assert str(caught.value).startswith(f"t.jsonl:2: {why}")


def test_a_line_that_is_not_utf_8() -> None:
    with pytest.raises(timeline.TraceError, match="^trace:1: expected "):
        timeline.parse([b'{"id": "\xff"}'])


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "opgraft.timeline",
                           *map(str, words)], text=True, capture_output=True)


def test_a_trace_of_the_device(tmp_path: Path, npu_path: Path, build: Any
                               ) -> None:
    """Two streams that wait for the first overlap; the page has all of it."""
    trace = tmp_path / "trace.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", TRACED, npu_path,
         build("tests/python/device/scale.c"), trace], text=True,
        capture_output=True)
    assert done.stdout == "12.0\n", done.stderr
    works = timeline.read(trace)
    scales = [work for work in works if work.name == "scale"]
    assert len(scales) == 5 and all(work.kind == "launch" for work in scales)
    assert scales[0].start_ns == scales[2].start_ns  # on two streams
    assert scales[0].stream != scales[2].stream
    assert scales[4].start_ns == scales[3].end_ns
    assert all(work.waits for work in works if work.kind == "event_wait")
    found = timeline.summary(works)
    assert len(found.rows) == 3
    out = command(trace)
    page = Page((tmp_path / "trace.html").read_text())
    assert out.stdout == f"{tmp_path}/trace.html: {found}\n"
    assert len(page.data["arrows"]) == 4
    assert "scale" in page.data["names"]


@pytest.mark.full
def test_the_command(tmp_path: Path) -> None:
    assert "option trace=FILE" in command("--help").stdout
    assert "trace.jsonl: No such file" in command(
        tmp_path / "trace.jsonl").stderr
    bad = tmp_path / "bad.html"
    bad.write_text("{}\n")
    done = command(bad, "-o", tmp_path / "out.html")
    assert done.returncode == 1
    assert done.stderr == f"timeline: {bad}:1: 'id' is missing\n"
    bad.write_text("")
    done = command(bad)
    assert done.returncode == 1 and "is the trace itself" in done.stderr
    assert bad.read_text() == "" and not (tmp_path / "out.html").exists()

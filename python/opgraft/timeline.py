# SPDX-License-Identifier: Apache-2.0
"""A trace of the simulated NPU (its option trace=FILE) as a page: a row for each
stream, a box for each work, an arrow for each event that a stream waited for.

    python -m opgraft.timeline trace.jsonl [-o timeline.html]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._device import timeline_page

_IDLE = ("event_record", "event_wait")  # a stream that waits is not busy
_FIELDS: dict[str, tuple[type, ...]] = {
    "id": (int,), "device": (str,), "stream": (int,), "lane": (int,),
    "replay": (int,), "kind": (str,), "name": (str,),
    "engine": (str, type(None)), "bytes": (int,), "start_ns": (int,),
    "end_ns": (int,), "waits": (list,),
}
_TYPES = {int: "an integer", str: "a string", list: "a list",
          type(None): "null"}
_MOST = 2**53  # a page's numbers are exact up to there


class TraceError(ValueError):
    """A line that is not a work; the message begins with file and line."""


class Work(NamedTuple):
    """One line of a trace: docs/devices.md says what each field means."""

    id: int
    device: str
    stream: int
    lane: int
    replay: int
    kind: str
    name: str
    engine: str | None
    bytes: int
    start_ns: int
    end_ns: int
    waits: list[int]

    @property
    def row(self) -> tuple[str, int, int]:
        """Works of a row do not overlap."""
        return self.device, self.stream, self.lane


@dataclass
class Row:
    """What a stream, or a lane of its replays, did."""

    label: str
    works: list[Work]
    busy_ns: int = 0


@dataclass
class Summary:
    """`makespan_ns` is from the first start to the last end; `overlap` the sum of
    the rows' busy times over that: 1 where one row works at a time."""

    rows: list[Row]
    work_count: int
    makespan_ns: int
    busy_ns: int

    @property
    def overlap(self) -> float:
        return self.busy_ns / self.makespan_ns if self.makespan_ns else 0.0

    def __str__(self) -> str:
        return (f"{timeline_page.count(self.work_count, 'work')} on "
                f"{timeline_page.count(len(self.rows), 'row')}, "
                f"{timeline_page.time(self.makespan_ns)}, "
                f"overlap {self.overlap:.2f}")


# --- Reading -----------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _fields_check(fields: Any) -> str | None:
    """What is wrong with a line; None: nothing."""
    if not isinstance(fields, dict):
        return "expected an object, {...}"
    for key, types in _FIELDS.items():
        if key not in fields:
            return f"'{key}' is missing"
        if type(fields[key]) not in types:
            wanted = " or ".join(_TYPES[t] for t in types)
            return f"'{key}' is {json.dumps(fields[key])[:40]}, expected {wanted}"
        if types == (int,) and not _is_number(fields[key]):
            return f"'{key}' is {fields[key]}, expected 0 to {_MOST}"
    if not all(_is_number(wait) for wait in fields["waits"]):
        return "'waits' has something else than the ids of works"
    if fields["end_ns"] < fields["start_ns"]:
        return (f"'end_ns' is {fields['end_ns']}, before 'start_ns', "
                f"{fields['start_ns']}")
    return None


def _work(line: bytes) -> Work:
    try:
        fields = json.loads(line)
    except UnicodeDecodeError:
        raise TraceError("expected UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"expected JSON: {error}") from None
    wrong = _fields_check(fields)
    if wrong:
        raise TraceError(wrong)
    return Work(**{key: fields[key] for key in _FIELDS})


class _Reader:
    """Works so far, to compare the next one with."""

    def __init__(self) -> None:
        self.works: dict[int, Work] = {}
        self._last: dict[tuple[str, int, int], Work] = {}

    def add(self, work: Work) -> None:
        if work.id in self.works:
            raise TraceError(f"'id' is {work.id}, as of a line before")
        for wait in work.waits:
            if wait not in self.works:
                raise TraceError(f"'waits' has {wait}, expected the id of a "
                                 "line before")
        last = self._last.get(work.row)
        if last is not None and work.start_ns < last.end_ns:
            raise TraceError(
                f"work {work.id} starts at {work.start_ns} ns, before work "
                f"{last.id} of its row ends, at {last.end_ns} ns")
        self._last[work.row] = self.works[work.id] = work


def parse(lines: Iterable[bytes], name: str = "trace") -> list[Work]:
    """The works of a trace's lines. TraceError where a line is wrong."""
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        try:
            reader.add(_work(line))
        except TraceError as error:
            raise TraceError(f"{name}:{number}: {error}") from None
    return list(reader.works.values())


def read(path: str | os.PathLike[str]) -> list[Work]:
    """The works of a file, in its order. OSError, TraceError."""
    with open(path, "rb") as file:
        return parse(file, os.fspath(path))


def summary(works: Iterable[Work]) -> Summary:
    """Rows in the order of device, stream and lane, and how they overlap."""
    found: dict[tuple[str, int, int], Row] = {}
    count, begin, end = 0, _MOST, 0
    for work in works:
        label = f"{work.device} stream {work.stream}"
        if work.lane:
            label += f", lane {work.lane}"
        row = found.setdefault(work.row, Row(label, []))
        row.works.append(work)
        if work.kind not in _IDLE:
            row.busy_ns += work.end_ns - work.start_ns
        count += 1
        begin, end = min(begin, work.start_ns), max(end, work.end_ns)
    rows = [found[key] for key in sorted(found)]
    return Summary(rows, count, max(end - begin, 0),
                   sum(row.busy_ns for row in rows))


def page(works: Iterable[Work]) -> str:
    """A whole document that fetches nothing."""
    return timeline_page.page(summary(works))


# --- The command -------------------------------------------------------------


def _output(trace: str, given: str | None) -> str:
    out = given or os.path.splitext(trace)[0] + ".html"
    if os.path.exists(out) and os.path.samefile(trace, out):
        raise SystemExit(f"timeline: {out} is the trace itself; name another "
                         "file with -o")
    return out


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m opgraft.timeline", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="what the option trace=FILE wrote")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="the page; else the trace's name with .html")
    args = parser.parse_args(words)
    try:
        found = summary(read(args.trace))
        out = _output(args.trace, args.output)
        with open(out, "w", encoding="utf-8") as file:
            file.write(timeline_page.page(found))
    except TraceError as error:
        raise SystemExit(f"timeline: {error}") from None
    except OSError as error:
        raise SystemExit(f"timeline: {error.filename}: {error.strerror}"
                         ) from None
    print(f"{out}: {found}")


if __name__ == "__main__":
    main()

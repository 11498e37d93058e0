# SPDX-License-Identifier: Apache-2.0
"""A table over many scripts, and a page of it: how many graphs each stage makes
of a model, where they part, and what that costs."""

from __future__ import annotations

import argparse
import html
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import _run, _trial

Report = dict[str, Any]
_HEAD = (f"{'script':32}  frames skipped      fx backend  breaks  roots "
         "captured eager       now   compile")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="opgraft doctor --suite")
    parser.add_argument("list")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--backend")
    parser.add_argument("--json")
    parser.add_argument("--html")
    args = parser.parse_args(words)
    try:
        lines = Path(args.list).read_text().splitlines()
    except OSError as error:
        print(f"opgraft doctor: {args.list}: {error.strerror}",
              file=sys.stderr)
        return _run.CANNOT_RUN
    if args.backend is not None and not _run.choose(args.backend):
        return _run.CANNOT_RUN
    scripts = [line.split() for line in lines
               if line.split() and line.split()[0][0] != "#"]
    print(_HEAD, flush=True)
    _trial.prepare()
    found = {" ".join(script): _row(script, args.runs) for script in scripts}
    reports = {name: report for name, report in found.items() if report}
    if args.json:
        _write(args.json, json.dumps(reports, indent=1) + "\n")
    if args.html:
        _write(args.html, page(reports, args.backend or ""))
    return 0 if len(reports) == len(scripts) else _run.CANNOT_RUN


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text, end="")
    else:
        Path(path).write_text(text, encoding="utf-8")


def _row(script: list[str], runs: int) -> Report:
    """Runs one script, and prints its line; {} where it could not run."""
    print(f"{' '.join(script)[-32:]:32} ", end="", flush=True)
    with tempfile.TemporaryDirectory() as name:
        events = Path(name, "run.events")
        done = subprocess.run(
            [_run.program(), "report", str(events), "--row", "-", "--json",
             str(events) + ".json"], capture_output=True, text=True) \
            if _ran(script, str(events), runs) else None
        if done is None or done.returncode == _run.CANNOT_RUN:
            print(done.stderr if done else "", end="\n", flush=True)
            return {}
        print(done.stdout, end="", flush=True)
        return json.loads(Path(str(events) + ".json").read_text())


def _ran(script: list[str], events: str, runs: int) -> bool:
    """In a forked child, since this process has imported what takes long."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _trial.torch.set_num_threads(_trial.THREADS)
            status = _run.script(script[0], script[1:], events, runs)
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]
                                     ) != _run.CANNOT_RUN


# --- The page -----------------------------------------------------------------

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:1rem auto;
max-width:70rem;padding:0 1rem;color:#1c1e21;background:#fff}
table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right;
border-top:1px solid #d5d8de}td:first-child,th:first-child,td:last-child{
text-align:left}code{font-size:.85rem}"""
_COLUMNS = ("model", "FX graphs", "HLO or backend graphs", "by LazyTensor",
            "fall back", "compiled, s", "eager or LazyTensor, ms", "now, ms",
            "where they part")
_BARS = (("FX graphs", "#2471a3"), ("graphs of the backend", "#e59866"),
         ("graphs by LazyTensor tracing", "#909497"))


def page(reports: dict[str, Report], backend: str) -> str:
    """One page that needs nothing beside it."""
    head = "".join(f"<th>{word}</th>" for word in _COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in _cells(name, report))
        + "</tr>\n" for name, report in reports.items())
    title = f"opgraft doctor: two stages, {html.escape(backend or 'as is')}"
    return (f"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            f"<title>{title}</title><style>{_STYLE}</style></head><body>\n"
            f"<h1>{title}</h1>\n{plot(reports)}<table><tr>{head}</tr>\n{body}"
            "</table></body></html>\n")


def counts(report: Report) -> tuple[int, int, int | None]:
    """Graphs of Dynamo, of the backend, and by LazyTensor tracing."""
    hlo = report.get("hlo")
    return (report["graphs"]["fx"], report["graphs"]["backend"],
            hlo["lazy_graphs"] if hlo else None)


def parts(report: Report) -> list[str]:
    """Where the stages part: site, stage and what."""
    return [f"{Path(root['file']).name}:{root['line']} {root['stage']}: "
            f"{root['title'] if root['stage'] != 'backend' else root['text']}"
            for root in report["roots"]]


def _cells(name: str, report: Report) -> list[str]:
    hlo, verdict = report.get("hlo") or {}, report["verdict"]
    fx, backend, lazy = counts(report)
    seconds = hlo.get("compile_s", report["compile"]["backend_s"])
    return [html.escape(short(name)), str(fx), str(backend),
            "-" if lazy is None else str(lazy), str(hlo.get("fallbacks", "-")),
            _figure(seconds), _figure(verdict["eager_ms"]),
            _figure(verdict["compiled_ms"]),
            "<br>".join(f"<code>{html.escape(p[:120])}</code>"
                        for p in parts(report))]


def short(name: str) -> str:
    """A script without its folder, and its arguments."""
    first, _, rest = name.partition(" ")
    return f"{Path(first).stem} {rest}".strip()


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def plot(reports: dict[str, Report]) -> str:
    """A row for each model, a bar for each stage."""
    most = max([n or 0 for r in reports.values() for n in counts(r)], default=0)
    scale, left, out = 420 / max(most, 1), 220, []
    for i, (what, colour) in enumerate(_BARS):
        out.append(f'<rect x="{left + 190 * i}" y="4" width="10" height="10" '
                   f'fill="{colour}"/><text x="{left + 14 + 190 * i}" y="13">'
                   f"{what}</text>")
    for row, (name, report) in enumerate(reports.items()):
        y = 28 + 30 * row
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">'
                   f"{html.escape(short(name)[:32])}</text>")
        for i, (n, (_, colour)) in enumerate(zip(counts(report), _BARS)):
            if n is not None:
                out.append(f'<rect x="{left}" y="{y + 8 * i}" height="7" '
                           f'width="{max(n * scale, 1):.1f}" fill="{colour}"/>'
                           f'<text x="{left + n * scale + 4:.1f}" '
                           f'y="{y + 7 + 8 * i}" font-size="8">{n}</text>')
    height = 36 + 30 * len(reports)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}"'
            ' font-family="sans-serif" font-size="12" fill="currentColor">'
            + "\n".join(out) + "</svg>\n")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What doctor mends in the models of transformers, by configuration alone.

Each architecture of tests/doctor/architectures.txt (tiny, random weights) is
compiled and called, in a process of its own. A first pass only looks; where a
root stands, the second tries fixes as `opgraft doctor` tries them. A root site
counts as fixed when its fix is verified: equal numbers, the root gone, a step
timed before and after. Flags are counted apart.

Rows are appended to --store, so that a sweep that was cut short goes on where
it stood, as long as neither doctor nor the list has changed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCTOR = ROOT / "tests" / "doctor"
PACKAGE = ROOT / "python" / "opgraft" / "doctor"
MEASURED = [PACKAGE, DOCTOR / "architectures.txt"]
# What a first look does not depend on.
FIXES = ("_adoption.py", "_numbers.py", "_opaque.py", "_outputs.py",
         "_propose.py", "_trial.py", "_values.py", "_verify.py")
SMOKE = ("AriaTextConfig", "BertConfig")
BEST_PUBLISHED = 107 / 147  # GraphMend
WANTED = 0.75
LOOK_S = 300.0  # of processor time, for one model
PATIENCE = 8  # wall time for each second of processor time
# Imported once for all; not a model's own file, which a fix may change.
IMPORTED = ("transformers", "transformers.modeling_utils")
SCRIPT = """\
import sys
sys.path.insert(0, {folder!r})
import architectures
import torch

one = next(a for a in architectures.listed() if a.config == {config!r})
model = one.build()
compiled = torch.compile(model, backend={backend!r})
with torch.no_grad():
    for seed in range(2):
        compiled(**one.arguments(seed))
"""
Row = dict[str, Any]


def look(config: str, script: Path) -> Row:
    """What breaks; nothing is tried."""
    from opgraft.doctor import _trial

    seen = _trial.attempt(str(script), [], {}, 0, LOOK_S, LOOK_S)
    return {"config": config, "error": seen.error, "roots": _roots(seen.report)
            if seen.report else []}


def mend(config: str, script: Path, runs: int, budget_s: float) -> Row:
    """The roots of one model, and what became of each."""
    from opgraft.doctor import _run, _trial, _verify

    events = script.with_name("run.events")
    child = os.fork()
    if child == 0:
        with open(os.devnull, "r+b") as nothing:
            for to in (0, 1, 2):
                os.dup2(nothing.fileno(), to)
        signal.setitimer(signal.ITIMER_PROF, LOOK_S)
        os._exit(_run.script(str(script), [], str(events), runs))
    status = os.waitpid(child, 0)[1]
    report = _trial.report_of(events) if status == 0 else None
    if report is None:
        return {"config": config, "roots": [], "error":
                f"ended with status {os.waitstatus_to_exitcode(status)}"}
    if report["roots"]:
        _verify.Search(events, str(script), [], runs, budget_s).go(report)
        report = _trial.report_of(events) or report
    verdict = report["verdict"]
    return {"config": config, "error": report["run"]["error"],
            "roots": _roots(report), "graphs": report["graphs"]["fx"],
            "unexplained": report["frames"]["unexplained"],
            "notes": report["run"]["notes"],
            **{k: verdict[k] for k in ("eager_ms", "compiled_ms",
                                       "reachable_ms")}}


def _roots(report: Row) -> list[Row]:
    found = []
    for root in report["roots"]:
        at = root.get("at") or root
        found.append({
            "site": f"{re.sub('.*site-packages/', '', at['file'])}:"
                    f"{at['line']}",
            "id": root["id"], "stage": root["stage"], "code": root["code"],
            "hits": root["hits"],
            **{k: root["fix"][k] for k in ("class", "status", "title", "text",
                                           "gain_ms")}})
    return found


class Store:
    """Rows of one pass, for one hash of what they depend on."""

    def __init__(self, path: Path, kind: str, hash: str) -> None:
        self.path, self.key = path, {"pass": kind, "hash": hash}
        self.rows: dict[str, Row] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            row = json.loads(line)
            if {k: row.pop(k) for k in self.key} == self.key:
                self.rows[row["config"]] = row

    def add(self, row: Row) -> None:
        self.rows[row["config"]] = row
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**self.key, **row}) + "\n")


def in_processes(configs: list[str], work: Any, store: Store, jobs: int,
                 limit_s: float) -> None:
    """work(config, script) in a child for each that the store lacks."""
    waiting = [c for c in configs if c not in store.rows]
    total = len(waiting)
    running: dict[int, tuple[str, float, Any]] = {}
    done = 0
    while waiting or running:
        while waiting and len(running) < jobs:
            config = waiting.pop(0)
            folder = tempfile.TemporaryDirectory()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _child(config, work, Path(folder.name))
            running[child] = config, time.monotonic() + limit_s, folder
        time.sleep(0.05)
        for child, (config, end, folder) in list(running.items()):
            if not os.waitpid(child, os.WNOHANG)[0]:
                if time.monotonic() < end:
                    continue
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            del running[child]
            written = Path(folder.name) / "row"
            store.add(json.loads(written.read_text()) if written.exists()
                      else {"config": config, "roots": [],
                            "error": "took too long, or died"})
            folder.cleanup()
            done += 1
            say(store.rows[config], f"{done}/{total}")


def _child(config: str, work: Any, folder: Path) -> None:
    try:
        os.setpgid(0, 0)  # so that its own children end with it
        script = folder / "model.py"
        script.write_text(SCRIPT.format(folder=str(DOCTOR), config=config,
                                        backend=BACKEND))
        part = folder / "part"
        part.write_text(json.dumps(work(config, script)))
        part.rename(folder / "row")
    finally:
        os._exit(0)


BACKEND = "eager"


def say(row: Row, progress: str) -> None:
    fixed = sum(r["status"] == "verified" for r in row["roots"])
    bought = f", bought {bought_ms(row):.2f} ms a step" if fixed else ""
    print(f"[{progress}] {row['config']:<28} {fixed}/{len(row['roots'])} roots"
          f"{bought} {row['error']}", flush=True)


def bought_ms(row: Row) -> float:
    """What the fixes of a model gain, each timed against the one before."""
    return sum(r["gain_ms"] or 0 for r in row["roots"])


def summary(rows: list[Row]) -> Row:
    roots = [r for row in rows for r in row["roots"]]
    fixed = [r for r in roots if r["status"] == "verified"]
    broken = [row for row in rows if row["roots"]]
    return {
        "models": len(rows), "errors": sum(bool(r["error"]) for r in rows),
        "broken": len(broken), "roots": len(roots), "fixed": len(fixed),
        "by_flag": sum(r["class"] == "flag" for r in fixed),
        "by_class": dict(collections.Counter(r["class"] for r in fixed)),
        "statuses": dict(collections.Counter(r["status"] for r in roots)),
        "whole": sum(all(r["status"] == "verified" for r in row["roots"])
                     for row in broken),
        "unexplained": sum(row.get("unexplained", 0) for row in rows),
        "bought_ms": round(sum(map(bought_ms, rows)), 3),
    }


def main() -> int:
    global BACKEND
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="two models")
    parser.add_argument("--only", help="architectures that match this")
    parser.add_argument("--first", type=int,
                        help="so many of the list, in its order")
    parser.add_argument("--look", action="store_true",
                        help="the first pass alone")
    parser.add_argument("--backend", default=BACKEND)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--budget", type=float, default=600.0,
                        help="processor seconds for the trials of one model")
    parser.add_argument("--store", type=Path,
                        default=ROOT / "build" / "doctor_models.jsonl")
    args = parser.parse_args()
    BACKEND = args.backend
    sys.path[:0] = [str(DOCTOR), str(ROOT / "tools")]
    try:
        import transformers
    except ImportError:
        print("skipped: transformers is not installed")
        return 0
    import architectures
    import results

    from opgraft.doctor import _trial

    _trial.prepare()
    for name in IMPORTED:
        __import__(name)
    wanted = [a.config for a in architectures.listed()
              if (not args.only or re.search(args.only, a.config))
              and (not args.smoke or a.config in SMOKE)]
    listed = len(wanted)
    wanted = wanted[:args.first]
    args.store.parent.mkdir(parents=True, exist_ok=True)
    seen = Store(args.store, "look " + BACKEND, results.hash_of(
        [str(p.relative_to(ROOT)) for p in PACKAGE.glob("*.py")
         if p.name not in FIXES] + [str(MEASURED[1].relative_to(ROOT))]))
    in_processes(wanted, look, seen, args.jobs, LOOK_S * PATIENCE)
    rows = {c: seen.rows[c] for c in wanted}
    if not args.look:
        tried = Store(args.store, "mend " + BACKEND, results.hash_of(
            [str(p.relative_to(ROOT)) for p in MEASURED]))
        broken = [c for c in wanted if rows[c]["roots"]]
        in_processes(broken, lambda config, script: mend(
            config, script, args.runs, args.budget), tried, args.jobs,
            (args.budget + LOOK_S) * PATIENCE)
        rows |= {c: tried.rows[c] for c in broken}
    for row in rows.values():
        row["bought_ms"] = round(bought_ms(row), 3)
    found = summary(list(rows.values()))
    print(json.dumps(found))
    if args.look:
        return int(found["errors"] > 0)
    share = found["fixed"] / max(1, found["roots"])
    holds = share >= WANTED and found["roots"] > 0
    if listed > len(wanted):
        print(f"the first {len(wanted)} of {listed} architectures were run")
    print(f"goal: root sites fixed and verified {found['fixed']} of "
          f"{found['roots']} (>= {100 * WANTED:.0f} %, best published "
          f"{100 * BEST_PUBLISHED:.0f} %) "
          f"{'holds' if holds else 'falls short'}")
    if not args.smoke and not args.only:
        results.write("doctor_models", MEASURED, {
            "transformers": transformers.__version__,
            "backend": BACKEND, "listed": listed, **found, "rows": list(rows.values())})
    print(f"{found['models'] - found['errors']} passed, {found['errors']} "
          "failed")
    return int(found["errors"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())

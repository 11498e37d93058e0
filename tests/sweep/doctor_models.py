#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What doctor mends in the models of transformers, by configuration alone.

Each architecture of tests/doctor/architectures.txt (tiny, random weights) is
compiled and called; where a root stands, fixes are tried as `opgraft doctor`
tries them. A root site counts as fixed when its fix is verified: equal
numbers, the root gone, a step timed before and after. Flags are counted apart.
With --store a sweep that was cut short goes on where it stood.
"""

from __future__ import annotations

import argparse
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
SMOKE = ("AriaTextConfig",)
BEST_PUBLISHED = 107 / 147  # GraphMend
WANTED = 0.75
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


def record(script: Path, events: Path, runs: int, timeout_s: float) -> bool:
    from opgraft.doctor import _run

    child = os.fork()
    if child == 0:
        with open(os.devnull, "r+b") as nothing:
            for to in (0, 1, 2):
                os.dup2(nothing.fileno(), to)
        os._exit(_run.script(str(script), [], str(events), runs))
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def sweep_one(config: str, backend: str, runs: int, budget_s: float
              ) -> dict[str, Any]:
    """The roots of one model, and what became of each."""
    from opgraft.doctor import _trial, _verify

    with tempfile.TemporaryDirectory() as name:
        script, events = Path(name) / "model.py", Path(name) / "run.events"
        script.write_text(SCRIPT.format(folder=str(DOCTOR), config=config,
                                        backend=backend))
        row: dict[str, Any] = {"config": config, "roots": []}
        if not record(script, events, runs, budget_s):
            return row | {"error": f"took more than {budget_s:.0f} s"}
        report = _trial.report_of(events)
        if report is None or report["run"]["error"]:
            return row | {"error": report["run"]["error"] if report
                          else "no report"}
        if report["roots"]:
            _verify.BUDGET_S = budget_s
            _verify.Search(events, str(script), [], runs).go(report)
            report = _trial.report_of(events) or report
        for root in report["roots"]:
            at = root.get("at") or root
            row["roots"].append({
                "site": f"{re.sub('.*site-packages/', '', at['file'])}:"
                        f"{at['line']}",
                "id": root["id"], "stage": root["stage"],
                "code": root["code"], "hits": root["hits"],
                **{k: root["fix"][k] for k in ("class", "status", "title",
                                               "text", "gain_ms")}})
        verdict = report["verdict"]
        return row | {"graphs": report["graphs"]["fx"],
                      "unexplained": report["frames"]["unexplained"],
                      **{k: verdict[k] for k in ("eager_ms", "compiled_ms",
                                                 "reachable_ms")}}


def say(row: dict[str, Any]) -> None:
    fixed = sum(r["status"] == "verified" for r in row["roots"])
    bought = ""
    if row.get("reachable_ms"):
        bought = (f", {row['compiled_ms']:.2f} ms -> "
                  f"{row['reachable_ms']:.2f} ms")
    print(f"{row['config']:<30} {fixed}/{len(row['roots'])} roots{bought} "
          f"{row.get('error', '')}", flush=True)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    roots = [r for row in rows for r in row["roots"]]
    fixed = [r for r in roots if r["status"] == "verified"]
    broken = [row for row in rows if row["roots"]]
    return {
        "models": len(rows), "errors": sum("error" in r for r in rows),
        "broken": len(broken), "roots": len(roots), "fixed": len(fixed),
        "by_flag": sum(r["class"] == "flag" for r in fixed),
        "whole": sum(all(r["status"] == "verified" for r in row["roots"])
                     for row in broken),
        "unexplained": sum(row.get("unexplained", 0) for row in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="one model")
    parser.add_argument("--only", help="architectures that match this")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--budget", type=float, default=600.0,
                        help="seconds for the trials of one model")
    parser.add_argument("--store", type=Path)
    args = parser.parse_args()
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
    known = {r["config"]: r for r in json.loads(args.store.read_text())
             } if args.store and args.store.exists() else {}
    for config in wanted:
        if config not in known:
            known[config] = sweep_one(config, args.backend, args.runs,
                                      args.budget)
            say(known[config])
            if args.store:
                args.store.write_text(json.dumps(list(known.values())))
    rows = [known[c] for c in wanted]
    found = summary(rows)
    print(json.dumps(found))
    share = found["fixed"] / max(1, found["roots"])
    holds = share >= WANTED and found["roots"] > 0
    print(f"goal: root sites fixed and verified {found['fixed']} of "
          f"{found['roots']} (>= {100 * WANTED:.0f} %, best published "
          f"{100 * BEST_PUBLISHED:.0f} %) "
          f"{'holds' if holds else 'falls short'}")
    if not args.smoke:
        results.write("doctor_models", [
            "python/opgraft/doctor", DOCTOR / "architectures.txt"], {
                "transformers": transformers.__version__,
                "backend": args.backend, **found, "rows": rows})
    print(f"{len(rows) - found['errors']} passed, {found['errors']} failed")
    return int(found["errors"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())

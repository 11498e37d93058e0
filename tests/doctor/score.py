#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores doctor on the labelled cases (README.md), beside its first run.

Each case runs in a child of its own, forked from a process that has imported
torch and its compilers, and compiled nothing. A root counts as found when its
line agrees (or one of `also`), as identified when its id does too, as right
when its stage does as well; a root that is neither in `roots` nor in `allowed`
is false. With --store a run that was cut short goes on where it stood.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIRST = HERE / "first_run.json"
SMOKE = ("item_loss", "loop_item", "recompile_rank", "two_files", "clean_mlp")
TIMEOUT_S = 900  # one case, on a machine that others use too
# What a compile imports, once for all cases: it takes longer than most of them.
IMPORTED = ("torch._dynamo", "torch._inductor.compile_fx",
            "torch._functorch.aot_autograd", "torch._inductor.codecache")


def prepare() -> None:
    # A graph that comes from a cache is not lowered; read at import.
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
    os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # forked children
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("opgraft.doctor._run")


@dataclasses.dataclass
class Child:
    """A case under way: its process, its folder, when it began."""

    case: dict[str, Any]
    folder: tempfile.TemporaryDirectory[str]
    begin: float = dataclasses.field(default_factory=time.monotonic)
    pid: int = 0

    @property
    def events(self) -> Path:
        return Path(self.folder.name) / "run.events"

    def start(self, runs: int) -> None:
        from opgraft.doctor import _run

        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        with open(Path(self.folder.name) / "log", "wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        status = 1
        try:
            script = HERE / self.case["file"]
            status = _run.script(str(script), [], str(self.events), runs)
        finally:
            os._exit(status)

    def status(self) -> int | None:
        """None while it runs, -1 when it took too long."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - self.begin < TIMEOUT_S:
            return None
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return -1


def report(events: Path) -> dict[str, Any] | None:
    from opgraft.doctor import _run

    done = subprocess.run([_run.program(), "report", str(events), "--json",
                           "-"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode != 2 else None


def names(root: dict[str, Any], label: dict[str, Any], case: dict[str, Any]
          ) -> bool:
    """Whether a reported root is at the line of a label."""
    lines = {label["line"], *label.get("also", ())}
    wanted = (HERE / "cases" / label.get("file", case["file"])).name
    at = root.get("at") or {}
    if Path(root["file"]).name == wanted and root["line"] in lines:
        return True
    library = label.get("library")
    return bool(library and root["file"].endswith(library)
                and at.get("line") in lines)


def judge(case: dict[str, Any], found: dict[str, Any] | None
          ) -> dict[str, Any]:
    """What a report got right of one case."""
    roots = found["roots"] if found else []
    out: dict[str, Any] = {
        "file": case["file"], "labels": len(case["roots"]), "found": 0,
        "identified": 0, "right": 0, "false": [], "missed": [],
        "unexplained": found["frames"]["unexplained"] if found else 1,
        "hook_errors": [n for n in found["run"]["notes"]
                        if n.startswith("a hook failed")] if found else [],
    }
    for label in case["roots"]:
        here = [r for r in roots if names(r, label, case)]
        ids = [r for r in here if label["id"] in (None, r["id"])]
        stages = [r for r in ids if r["stage"] == label["stage"]]
        out["found"] += bool(here)
        out["identified"] += bool(ids)
        out["right"] += bool(stages)
        if not stages:
            out["missed"].append(
                {"wanted": [label["line"], label["id"], label["stage"]],
                 "found": [[r["line"], r["id"], r["stage"]] for r in here]})
    known = case["roots"] + case.get("allowed", [])
    for root in roots:
        if not any(names(root, label, case) for label in known):
            out["false"].append([root["file"], root["line"], root["id"],
                                 root["stage"]])
    return out


def total(results: list[dict[str, Any]], clean: set[str]) -> dict[str, int]:
    def add(key: str) -> int:
        return sum(r[key] for r in results)

    return {
        "cases": len(results), "labels": add("labels"), "found": add("found"),
        "identified": add("identified"), "right": add("right"),
        "unexplained": add("unexplained"),
        "false": sum(len(r["false"]) for r in results),
        "clean": sum(r["file"] in clean for r in results),
        "false_on_clean": sum(bool(r["false"]) for r in results
                              if r["file"] in clean),
    }


def show(name: str, t: dict[str, int]) -> None:
    print(f"{name:10} {t['cases']:5} {t['labels']:6} {t['found']:5} "
          f"{t['identified']:8} {t['right']:5} {t['false']:5} "
          f"{t['false_on_clean']:3}/{t['clean']:<3} {t['unexplained']:5}")


def goal(what: str, figure: str, bound: str, holds: bool) -> None:
    print(f"goal: {what} {figure} ({bound}) "
          f"{'holds' if holds else 'falls short'}")


def known_results(store: Path | None) -> dict[str, dict[str, Any]]:
    """What a run that was cut short has scored; what died runs again."""
    if store is None or not store.exists():
        return {}
    return {r["file"]: r for r in json.loads(store.read_text())["cases"]
            if r["status"] == 0}


def keep(store: Path, done: dict[str, dict[str, Any]],
         cases: list[dict[str, Any]]) -> None:
    results = [done[c["file"]] for c in cases if c["file"] in done]
    head = json.loads(store.read_text()) if store.exists() else {}
    head |= {"of": len(cases), "is_complete": len(results) == len(cases),
             "total": total(results, {c["file"] for c in cases
                                      if c.get("clean")}), "cases": results}
    whole = store.with_suffix(".new")
    whole.write_text(json.dumps(head, indent=1) + "\n")
    whole.replace(store)


def say(result: dict[str, Any], seconds: float, is_verbose: bool) -> None:
    is_right = result["right"] == result["labels"] and not result["false"]
    if is_verbose or not is_right or result["status"]:
        print(f"{result['file']:40} {result['right']}/{result['labels']} "
              f"missed {result['missed']} false {result['false'][:5]} "
              f"({len(result['false'])}) status {result['status']}, "
              f"{seconds:.0f} s", flush=True)


def run_all(cases: list[dict[str, Any]], args: argparse.Namespace
            ) -> list[dict[str, Any]]:
    """Every case that is not scored yet, `jobs` at a time."""
    done = known_results(args.store)
    waiting = [c for c in cases if c["file"] not in done]
    running: list[Child] = []
    if waiting:
        prepare()
    while waiting or running:
        while waiting and len(running) < args.jobs:
            child = Child(waiting.pop(0), tempfile.TemporaryDirectory())
            child.start(args.runs)
            running.append(child)
        time.sleep(0.05)
        for child in list(running):
            status = child.status()
            if status is None:
                continue
            running.remove(child)
            found = report(child.events) if child.events.exists() else None
            result = judge(child.case, found) | {"status": status}
            if args.events:
                args.events.mkdir(exist_ok=True)
                name = Path(child.case["file"]).stem
                shutil.copy(child.events, args.events / f"{name}.events")
            child.folder.cleanup()
            done[child.case["file"]] = result
            say(result, time.monotonic() - child.begin, args.verbose)
            if args.store:
                keep(args.store, done, cases)
    return [done[c["file"]] for c in cases]


def rivals_show(now: dict[str, int]) -> None:
    """What PyTorch itself says of the same cases (score_rivals.py)."""
    path = ROOT / "docs/results/doctor_rivals.json"
    if not path.exists():
        return
    found = json.loads(path.read_text())["stages"]["all"]
    for name in ("explain", "logs"):
        print(f"{name:10} {found['roots']:12} {found[name]['lines']:5} "
              f"{found[name]['ids']:8}")
    best = max(found[name]["lines"] for name in ("explain", "logs"))
    goal("lines found, and PyTorch's own tools' at best",
         f"{now['found']} and {best}", "more", now["found"] > best)


def results_write(now: dict[str, int], found: list[dict[str, Any]]) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    import results

    package = "python/opgraft/doctor/"
    results.write("doctor_cases", [
        *(package + f"{n}.py" for n in ("_adapter", "_guards", "_inductor",
                                        "_places", "_record")),
        "src/trace", HERE / "cases", HERE / "cases.json"], {
            "first_run": json.loads(FIRST.read_text())["total"],
            "this_run": now, "cases": found})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="five cases")
    parser.add_argument("--only", help="cases whose name matches this")
    parser.add_argument("--runs", type=int, default=0,
                        help="timed runs of a step; 0: no times")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", type=Path,
                        help="write the results there, and go on from them")
    parser.add_argument("--events", type=Path,
                        help="keep the event files in this folder")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    cases = json.loads((HERE / "cases.json").read_text())["cases"]
    if args.smoke:
        cases = [c for c in cases if Path(c["file"]).stem in SMOKE]
    if args.only:
        cases = [c for c in cases if re.search(args.only, c["file"])]
    clean = {c["file"] for c in cases if c.get("clean")}
    results = run_all(cases, args)
    now = total(results, clean)
    print("run        cases labels found identified right false clean unexpl")
    if FIRST.exists() and not args.smoke and not args.only:
        show("first run", json.loads(FIRST.read_text())["total"])
    show("this run", now)
    share = now["identified"] / max(1, now["labels"])
    goal("root line and id right", f"{100 * share:.1f} %", ">= 97 %",
         share >= 0.97)
    goal("false findings on clean controls",
         f"{now['false_on_clean']} of {now['clean']}", "0",
         now["false_on_clean"] == 0)
    goal("unexplained frames", str(now["unexplained"]), "0",
         now["unexplained"] == 0)
    rivals_show(now)
    if not args.smoke and not args.only:
        results_write(now, results)
    # The figures are reported, not tested: only a case that could not be
    # scored at all, or on which a hook failed, is a failure.
    bad = sum(r["status"] != 0 or bool(r.get("hook_errors"))
              for r in results)
    print(f"{len(results) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

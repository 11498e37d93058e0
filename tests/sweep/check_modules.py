#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `opgraft check --host torch` on every right module of the project: the
operator library, the operators of tests/ops, and the examples.

    tests/sweep/check_modules.py [--smoke] [--no-torch] [NAME ...]

Ends with 0 if every module was checked whole and none has a finding. A full
run writes docs/results/check.json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import results  # noqa: E402

MEASURED = ("src/check", "python/opgraft/check_torch.py", "ops", "tests/ops",
            "examples")
SMOKE = ("merge_states", "linear")  # one of the library, one of tests/ops
TIMEOUT_S = 3600  # a module that takes longer is stuck


@dataclass
class Subject:
    name: str
    source: pathlib.Path
    is_library: bool


@dataclass
class Outcome:
    subject: Subject
    seconds: float = 0.0
    trouble: str = ""  # why there is no report
    operators: list[dict[str, Any]] = field(default_factory=list)
    torch_calls: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def unchecked(self) -> list[str]:
        """Operators that a part of the check did not see whole."""
        found = [f"{o['op']}: time was up after {o['calls']} calls"
                 for o in self.operators if o["cut_short"]]
        return found + [f"{name}: not one call in PyTorch"
                        for name, calls in self.torch_calls.items()
                        if not calls]

    def is_good(self) -> bool:
        return not (self.trouble or self.findings or self.unchecked())


def subjects(names: list[str]) -> list[Subject]:
    found = [Subject(p.stem, p, folder == "ops")
             for folder in ("ops", "tests/ops", "examples")
             for p in sorted((ROOT / folder).rglob("*.c"))
             if "OG_MODULE(" in p.read_text()]
    chosen = [s for s in found if not names or s.name in names]
    if not chosen:
        raise SystemExit("no module has such a name")
    return chosen


def module_of(subject: Subject, folder: pathlib.Path) -> pathlib.Path:
    """The library's as the package has it; others are built as a user would."""
    if subject.is_library:
        package = importlib.util.find_spec("opgraft")
        assert package is not None and package.origin is not None
        return (pathlib.Path(package.origin).parent / "modules"
                / f"{subject.name}.so")
    out = folder / subject.source.parent.name / f"{subject.name}.so"
    out.parent.mkdir(exist_ok=True)
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-fPIC", "-shared",
         f"-I{ROOT / 'include'}", str(subject.source), "-o", str(out), "-lm"],
        check=True)
    return out


def check(subject: Subject, folder: pathlib.Path,
          options: argparse.Namespace) -> Outcome:
    outcome = Outcome(subject)
    begin = time.monotonic()
    words = [options.opgraft, "check", str(module_of(subject, folder)),
             "--json"]
    if options.smoke:
        words += ["--calls", "4", "--limit", "20"]
    words += [] if options.no_torch else ["--host", "torch"]
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=env,
                              errors="replace", timeout=TIMEOUT_S, check=False)
        read(outcome, done, options.no_torch)
    except subprocess.TimeoutExpired:
        outcome.trouble = f"no report within {TIMEOUT_S} s"
    outcome.seconds = time.monotonic() - begin
    return outcome


def read(outcome: Outcome, done: subprocess.CompletedProcess[str],
         no_torch: bool) -> None:
    if done.returncode not in (0, 1):
        said = done.stderr.strip().splitlines()
        outcome.trouble = f"exit {done.returncode}: {said[-1] if said else ''}"
        return
    report = json.loads(done.stdout)
    core = report if no_torch else report["core"]
    outcome.operators = core["operators"]
    outcome.findings = [f for o in core["operators"] for f in o["findings"]
                        if not f["note"]]
    if not no_torch:
        outcome.torch_calls = {o["operator"]: o["calls"]
                               for o in report["torch"]["operators"]}
        outcome.findings += [{"op": f["operator"], **f}
                             for f in report["torch"]["findings"]]
    if bool(outcome.findings) != (done.returncode == 1):
        outcome.trouble = f"exit {done.returncode} does not fit the findings"


def show(outcome: Outcome, done: int, total: int) -> None:
    calls = sum(o["calls"] for o in outcome.operators)
    runs = sum(o["runs"] for o in outcome.operators)
    print(f"[{done}/{total}] {outcome.subject.name:<24}"
          f"{len(outcome.operators):3} operators {calls:5} calls {runs:7} runs"
          f" {sum(outcome.torch_calls.values()):5} in PyTorch"
          f" {len(outcome.findings):3} findings {outcome.seconds:6.1f} s",
          flush=True)
    for line in [outcome.trouble, *outcome.unchecked()]:
        if line:
            print(f"    {line}")
    for f in outcome.findings:
        print(f"    {f['op']}: {f['kind']}: {f.get('argument', '')}: "
              f"{f['text']}\n      {f['call']}", flush=True)


def run(options: argparse.Namespace) -> list[Outcome]:
    chosen = subjects(options.names or (list(SMOKE) if options.smoke else []))
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="check-") as name, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(check, s, pathlib.Path(name), options)
                   for s in chosen]
        for future in concurrent.futures.as_completed(waiting):
            outcomes.append(future.result())
            show(outcomes[-1], len(outcomes), len(chosen))
    return sorted(outcomes, key=lambda o: str(o.subject.source))


def kept(outcome: Outcome) -> dict[str, Any]:
    calls = outcome.torch_calls
    return {
        "source": str(outcome.subject.source.relative_to(ROOT)),
        "seconds": round(outcome.seconds, 1),
        **({"trouble": outcome.trouble} if outcome.trouble else {}),
        "operators": [
            {"operator": o["op"], "calls": o["calls"], "runs": o["runs"],
             "calls_in_torch": calls.get(o["op"], 0),
             "notes": sum(f["note"] for f in o["findings"])}
            for o in outcome.operators],
        "findings": [{k: f[k] for k in ("op", "kind", "text", "call")}
                     for f in outcome.findings],
        "not_whole": outcome.unchecked(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these modules")
    beside = pathlib.Path(sys.executable).with_name("opgraft")
    parser.add_argument("--opgraft", default=str(beside),
                        help="the program (default: beside this Python)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-torch", action="store_true",
                        help="only what needs no PyTorch")
    parser.add_argument("--smoke", action="store_true",
                        help="two modules, a few calls, nothing written")
    options = parser.parse_args()
    if shutil.which(options.opgraft) is None:
        print(f"{options.opgraft}: found no such program; say where it is "
              "with --opgraft", file=sys.stderr)
        return 2
    outcomes = run(options)
    operators = sum(len(o.operators) for o in outcomes)
    findings = sum(len(o.findings) for o in outcomes)
    bad = [o.subject.name for o in outcomes if not o.is_good()]
    holds = "falls short" if bad else "holds"
    print(f"goal: findings of check in {operators} right operators of "
          f"{len(outcomes)} modules: {findings} (0, each checked whole) "
          f"{holds}")
    if not (options.smoke or options.names or options.no_torch):
        results.write("check", MEASURED, {
            "operators": operators, "findings": findings,
            "modules": [kept(o) for o in outcomes]})
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

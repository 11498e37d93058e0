#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `opgraft check` on the operators of this folder.

Builds every module, runs check on it alone and with its reference, prints the
score by kind, and writes docs/results/check_blind.json, whose `first` is never
overwritten, if all of it was checked in both modes. See README.md for how a
module is judged. With --keep FILE what is done is kept there, and a later run
with the same program goes on behind it. Exit status: 0 if all was checked and
no right operator has a finding, else 1.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import importlib.util
import json
import pathlib
import statistics
import sys
import tempfile
import threading
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tools")]
import expected  # noqa: E402
import results  # noqa: E402


def load_judge() -> ModuleType:
    """tests/mistakes/score.py: building, running, and reading a report."""
    spec = importlib.util.spec_from_file_location(
        "mistakes_score", ROOT / "tests" / "mistakes" / "score.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


judge = load_judge()

RESULT = ROOT / "docs" / "results" / "check_blind.json"
KINDS = ("value", "type", "ignored", "state", "memory", "gradient", "layout",
         "index", "rule")

# What names a fault rightly, by the kind of the fault.
VALUE = {
    "differs_from_reference", "size_dependent", "wrong_values_across_dtypes",
    "wrong_values_across_kernels", "wrong_formula", "wrong_broadcast",
    "wrong_batch_rule", "mixed_pack", "wrong_order", "unused_end",
    "not_finite",
}
FITS: dict[str, set[str]] = {
    "value": VALUE,
    "type": {"wrong_values_across_dtypes", "wrong_values_across_kernels",
             "differs_from_reference", "not_finite"},
    "ignored": {"unused_argument", "unused_end", "missing_gradient",
                "differs_from_reference", "size_dependent"},
    "state": {"not_repeatable", "thread_race", "data_race", "static_data",
              "thread_dependent", "chunk_order_dependent", "uninitialised",
              "workspace_uninitialised", "output_read", "kept_pointer",
              "float_environment"},
    "memory": {"out_of_bounds_read", "out_of_bounds_write", "crash",
               "output_not_written", "data_race", "workspace_overrun",
               "bound_exceeded", "undeclared_mutation", "kept_pointer",
               "memory_limit", "memory_leak"},
    "gradient": {"wrong_gradient", "gradient_shape", "missing_gradient",
                 "no_gradient", "rule_disagrees"},
    "layout": {"layout_dependent", "alignment_assumed", "wrong_in_place"},
    "index": {"unchecked_index", "out_of_bounds_read", "out_of_bounds_write",
              "refused_calls", "never_ran", "differs_from_reference"},
    "rule": {"rule_disagrees", "never_mutated", "undeclared_mutation",
             "wrong_order", "mixed_pack", "wrong_batch_rule", "never_ran",
             "untrue_expect", "output_not_written", "bound_exceeded",
             "wrong_broadcast", "out_of_bounds_write", "out_of_bounds_read",
             "unused_argument", "crash"},
}


@dataclasses.dataclass(frozen=True)
class Case:
    source: pathlib.Path
    kind: str  # of KINDS; "right"
    reference: str  # FILE:FUNCTION, or ""

    @property
    def name(self) -> str:
        return f"{self.source.parent.name}/{self.source.stem}"


def read_cases(names: list[str]) -> list[Case]:
    cases = []
    for folder, rows, file in (
        ("wrong", expected.WRONG, "references.py"),
        ("right", expected.RIGHT, "references_right.py"),
    ):
        for name, row in rows.items():
            function = row.get("reference", "")
            cases.append(Case(
                HERE / folder / f"{name}.c", row.get("kind", "right"),
                f"{HERE / file}:{function}" if function else ""))
    chosen = [c for c in cases
              if not names or c.source.stem in names or c.name in names]
    if not chosen:
        raise SystemExit("no case has such a name")
    return chosen


# --- Running -----------------------------------------------------------------


class Kept:
    """Outcomes by case, program and mode, kept line by line in a file."""

    def __init__(self, path: str | None, program: str) -> None:
        self.path = pathlib.Path(path) if path else None
        self.program = hashlib.sha256(
            pathlib.Path(program).read_bytes()).hexdigest()
        self.lock = threading.Lock()
        self.known: dict[str, dict[str, Any]] = {}
        if self.path and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.known[row["key"]] = row["outcome"]

    def key(self, case: Case, mode: str) -> str:
        source = hashlib.sha256(case.source.read_bytes()).hexdigest()
        return f"{case.name} {mode} {self.program} {source}"

    def add(self, key: str, outcome: dict[str, Any]) -> None:
        with self.lock:
            self.known[key] = outcome
            if self.path is None:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "outcome": outcome}) + "\n")


def judge_case(case: Case, checked: Any) -> dict[str, Any]:
    said = judge.flatten(checked.report) if checked.report else []
    findings = [e for e in said if not e["is_note"]]
    kinds = sorted({str(e.get("kind")) for e in findings})
    return {
        "case": case.name,
        "kind": case.kind,
        "found": bool(findings),
        "named": bool(FITS.get(case.kind, set()) & set(kinds)),
        "said": kinds,
        "brief": [judge.brief(e) for e in findings[:3]],
        "trouble": checked.trouble,
        "cpu_seconds": round(checked.cpu_seconds, 2),
    }


def run_cases(cases: list[Case], mode: str, options: Any,
              kept: Kept) -> list[dict[str, Any]]:
    chosen = [c for c in cases if mode == "alone" or c.reference]
    progress = judge.Progress(len(chosen))

    def work(case: Case) -> dict[str, Any]:
        key = kept.key(case, mode)
        if key not in kept.known:
            extra = ["--reference", case.reference] if mode != "alone" else []
            module = judge.build(case.source, folder, options.cc)
            kept.add(key, judge_case(case, judge.run_check(
                options.opgraft, module, options.timeout, extra)))
        progress.step(case.name)
        return kept.known[key]

    with tempfile.TemporaryDirectory(prefix="check_blind-") as name:
        folder = pathlib.Path(name)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            return list(pool.map(work, chosen))


# --- Results -----------------------------------------------------------------


def count(outcomes: list[dict[str, Any]]) -> dict[str, int]:
    return {"of": len(outcomes),
            "found": sum(o["found"] for o in outcomes),
            "named": sum(o["named"] for o in outcomes)}


def summarise(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    wrong = [o for o in outcomes if o["kind"] != "right"]
    right = [o for o in outcomes if o["kind"] == "right"]
    seconds = [o["cpu_seconds"] for o in outcomes]
    return {
        **count(wrong),
        "kinds": {kind: count([o for o in wrong if o["kind"] == kind])
                  for kind in KINDS},
        "right": len(right),
        "false_findings": sum(o["found"] for o in right),
        "not_checked": sum(bool(o["trouble"]) for o in outcomes),
        "missed": [o["case"] for o in wrong if not o["found"]],
        "not_named": [o["case"] for o in wrong if o["found"]
                      and not o["named"]],
        "false": [o["case"] for o in right if o["found"]],
        "cpu_seconds_median": round(statistics.median(seconds), 2),
        "cpu_seconds_worst": max(seconds),
    }


def contradicting(outcomes: list[dict[str, Any]]) -> dict[str, int]:
    """Of those that are wrong by what they declare and compute themselves."""
    return count([o for o in outcomes if o["kind"] != "right"
                  and o["case"].split("/")[1] not in expected.ANOTHER])


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "-"


def print_score(title: str, score: dict[str, Any]) -> None:
    print(f"{title}: found {share(score['found'], score['of'])}, named "
          f"{share(score['named'], score['found'])}; {score['false_findings']}"
          f" of {score['right']} right ones with a finding; "
          f"{score['not_checked']} not checked; processor time median "
          f"{score['cpu_seconds_median']} s, worst "
          f"{score['cpu_seconds_worst']} s")
    for kind, row in score["kinds"].items():
        print(f"  {kind:<9} found {row['found']:>3} of {row['of']:>3}, "
              f"named {row['named']:>3}")


def print_cases(outcomes: list[dict[str, Any]], is_verbose: bool) -> None:
    for o in outcomes:
        is_good = o["named"] if o["kind"] != "right" else not (
            o["found"] or o["trouble"])
        if is_good and not is_verbose:
            continue
        verdict = ("not checked" if o["trouble"]
                   else "found" if o["found"] else "clean")
        print(f"{o['case']:<36} {o['kind']:<9} {verdict:<12} "
              f"{o['trouble'] or '; '.join(o['brief'])}")


def keep_results(scores: dict[str, Any], cases: dict[str, Any]) -> None:
    stored = (json.loads(RESULT.read_text(encoding="utf-8"))
              if RESULT.exists() else {})
    now = {**scores, "set": judge.tree_hash("tests/check_blind/wrong")
           + " " + judge.tree_hash("tests/check_blind/right")}
    results.write("check_blind",
                  [ROOT / "src" / "check", HERE / "wrong", HERE / "right"],
                  {"first": stored.get("first", now), "last": now,
                   "cases": cases})


def main() -> int:
    parser = judge.run_parser(__doc__)
    parser.add_argument("--keep", metavar="FILE",
                        help="keep outcomes there, and go on from them")
    parser.add_argument("--mode", choices=("alone", "reference", "both"),
                        default="both")
    options = parser.parse_args()
    options.opgraft = judge.find_program(options.opgraft)
    kept = Kept(options.keep, options.opgraft)
    cases = read_cases(options.names)
    scores: dict[str, Any] = {}
    outcomes: dict[str, Any] = {}
    for mode in ("alone", "reference"):
        if options.mode not in (mode, "both"):
            continue
        outcomes[mode] = run_cases(cases, mode, options, kept)
        scores[mode] = summarise(outcomes[mode])
        print_cases(outcomes[mode], options.verbose)
        print_score(mode, scores[mode])
        if mode == "alone":
            own = scores[mode]["contradicting"] = contradicting(outcomes[mode])
            print("alone, of those that contradict themselves: found "
                  + share(own["found"], own["of"]))
    not_checked = sum(s["not_checked"] for s in scores.values())
    if not_checked:
        print(f"{not_checked} not checked, so nothing is written: a reference "
              "in Python wants --opgraft of an environment, and the rows above "
              "say why", file=sys.stderr)
    elif not options.names and options.mode == "both":
        keep_results(scores, outcomes)
    return int(not_checked > 0 or any(s["false_findings"]
                                      for s in scores.values()))


if __name__ == "__main__":
    sys.exit(main())

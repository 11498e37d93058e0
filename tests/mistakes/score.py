#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `opgraft check` on operators with known mistakes and on correct ones.

See README.md beside this file for how a case is judged. Exit status: 0 if
every mistake is found and no correct operator gives a finding, else 1; 2 if
the run itself could not be made. With --device each kernel is one for the
driver's device as well, and check runs that one; only false findings count.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Sequence

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tools"))
import results  # noqa: E402

FIRST_RUN = HERE / "first_run.json"
CHECK_FLAGS = ("-O2", "-fPIC", "-shared")
TWIN = ROOT / "tests/cli/device/twin.c"
# A checker that fails to stop a kernel must not take the machine with it.
MEMORY_LIMIT_BYTES = 16 << 30


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator file and what its header says."""

    source: pathlib.Path
    is_wrong: bool
    mistake: str = ""
    operators: tuple[str, ...] = ()
    argument: str = "-"
    kinds: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of check

    @property
    def name(self) -> str:
        return f"{self.source.parent.name}/{self.source.stem}"


@dataclasses.dataclass
class Outcome:
    """What the checker said about one case, judged."""

    case: Case
    seconds: float = 0.0
    trouble: str = ""  # why there is no report
    findings: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    notes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    is_found: bool = False
    is_named: bool = False
    is_skipped: bool = False  # a device runs nothing of it

    @property
    def is_good(self) -> bool:
        if self.is_skipped:
            return True
        if self.case.is_wrong:
            return self.is_found
        return not self.trouble and not self.findings

    def verdict(self) -> str:
        if self.is_skipped:
            return "skipped"
        if self.trouble:
            return "not checked"
        if not self.case.is_wrong:
            return "false finding" if self.findings else "clean"
        if self.is_named:
            return "found, named"
        return "found" if self.is_found else "MISSED"


# --- Cases -------------------------------------------------------------------


def options_of(text: str) -> tuple[str, ...]:
    """What `// run:` in a case's header gives check."""
    run = re.search(r"^// run: (.+)$", text, re.MULTILINE)
    return tuple(run[1].split()) if run else ()


def read_case(source: pathlib.Path) -> Case:
    text = source.read_text(encoding="utf-8")
    if source.parent.name == "right":
        return Case(source, is_wrong=False, options=options_of(text))
    mistake = re.search(r"^// mistake: (.+)$", text, re.MULTILINE)
    expect = re.search(r"^// expect: (\S+) (\S+) (\S+)$", text, re.MULTILINE)
    if not mistake or not expect:
        raise SystemExit(f"{source}: has no mistake and expect lines")
    return Case(
        source,
        True,
        mistake[1],
        tuple(expect[1].split("|")),
        expect[2],
        tuple(expect[3].split("|")),
        options_of(text),
    )


def find_cases(names: list[str]) -> list[Case]:
    sources = sorted(HERE.glob("wrong/*.c")) + sorted(HERE.glob("right/*.c"))
    chosen = [
        s for s in sources if not names or s.stem in names
        or f"{s.parent.name}/{s.stem}" in names
    ]
    if not chosen:
        raise SystemExit("no case has such a name")
    return [read_case(source) for source in chosen]


# --- Judging -----------------------------------------------------------------

# Words that mean one thing; kinds are compared after this, word by word.
SAME_WORDS = {
    "aliasing": "alias", "aliases": "alias", "batching": "batch",
    "broadcasting": "broadcast", "chunks": "chunk", "dtypes": "dtype",
    "endless": "timeout",
    "gradients": "gradient", "hang": "timeout", "hangs": "timeout",
    "infinite": "timeout", "mutates": "mutation", "mutated": "mutation",
    "nonfinite": "finite", "nan": "finite", "oob": "bounds",
    "overrun": "bounds", "racing": "race", "reads": "read",
    "repeat": "repetition", "repeatable": "repetition",
    "repeats": "repetition", "scratch": "workspace",
    "slow": "timeout", "stride": "strides", "thread": "threads",
    "time": "timeout", "types": "type", "uninitialized": "uninitialised",
    "writes": "write",
}
DULL_WORDS = {"a", "an", "of", "out", "output", "input", "result", "the",
              "is", "in", "rule", "wrong", "value", "values", "fully"}


def words_of(kind: str) -> frozenset[str]:
    text = re.sub(r"[\s_-]+", " ", kind.strip().lower())
    text = re.sub(r"\bnot( fully)? written\b", "unwritten", text)
    text = re.sub(r"\bin place\b", "inplace", text)
    words = {SAME_WORDS.get(word, word) for word in text.split()}
    return frozenset(words - DULL_WORDS or words)


def flatten(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings and notes, wherever the report keeps them, with `is_note`."""
    out: list[dict[str, Any]] = []
    holders = [(report, "")]
    for operator in report.get("operators") or []:
        if isinstance(operator, dict):
            name = operator.get("operator") or operator.get("op")
            holders.append((operator, str(name or operator.get("name") or "")))
    for holder, operator in holders:
        for key in ("findings", "notes"):
            for entry in holder.get(key) or []:
                out.append(read_entry(entry, operator, key == "notes"))
    return out


def read_entry(entry: Any, operator: str, is_note: bool) -> dict[str, Any]:
    known = dict(entry) if isinstance(entry, dict) else {"text": str(entry)}
    known["operator"] = (
        known.get("operator") or known.get("op") or operator or ""
    )
    known["is_note"] = bool(is_note or known.get("note"))
    return known


def is_of_operator(entry: dict[str, Any], case: Case) -> bool:
    if entry["operator"]:
        return entry["operator"] in case.operators
    text = str(entry.get("text") or "")
    return any(
        re.search(rf"\b{re.escape(name)}\b", text) for name in case.operators
    )


def fits_kind(entry: dict[str, Any], case: Case) -> bool:
    found = words_of(str(entry.get("kind") or ""))
    wanted = [words_of(kind) for kind in case.kinds]
    return bool(found) and any(w <= found or found <= w for w in wanted)


def fits_argument(entry: dict[str, Any], case: Case) -> bool:
    if case.argument == "-":
        return True
    argument = str(entry.get("argument") or "")
    if argument:
        return re.split(r"[\[.]", argument)[0] == case.argument
    text = str(entry.get("text") or "")
    return re.search(rf"\b{re.escape(case.argument)}\b", text) is not None


def judge(outcome: Outcome) -> None:
    case = outcome.case
    if not case.is_wrong:
        return
    heard = list(outcome.findings)
    if "over_declared" in case.kinds:  # costs a copy, and is not wrong
        heard += outcome.notes
    own = [entry for entry in heard if is_of_operator(entry, case)]
    if "over_declared" in case.kinds:
        own = [entry for entry in own if fits_argument(entry, case)]
    outcome.is_found = bool(own)
    outcome.is_named = any(
        fits_kind(entry, case) and fits_argument(entry, case) for entry in own
    )


# --- Running -----------------------------------------------------------------


def limit_memory() -> None:
    # Address space without memory behind it does not count.
    resource.setrlimit(
        resource.RLIMIT_DATA, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES)
    )


def build(
    source: pathlib.Path, folder: pathlib.Path, compiler: str
) -> pathlib.Path:
    module = folder / source.parent.name / f"{source.stem}.so"
    module.parent.mkdir(parents=True, exist_ok=True)
    command = [
        compiler, *CHECK_FLAGS, f"-I{ROOT / 'include'}", "-o", str(module),
        str(source), "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source} does not build:\n{done.stderr}")
    return module


def build_twin(module: pathlib.Path, compiler: str) -> pathlib.Path:
    """The module with its kernels for a device as well."""
    twin = module.with_suffix(".device.so")
    subprocess.run(
        [compiler, *CHECK_FLAGS, f"-I{ROOT / 'include'}",
         f'-DMODULE="{module}"', "-o", str(twin), str(TWIN), "-ldl"],
        check=True)
    return twin


@dataclasses.dataclass(frozen=True)
class Finished:
    """A program that has ended."""

    status: int
    stdout: str
    stderr: str
    cpu_seconds: float  # its own and its children's
    is_late: bool


def run_program(command: list[str], timeout_seconds: float) -> Finished:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err,
                                   preexec_fn=limit_memory)
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(timeout_seconds, stop)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Finished(
            process.returncode,
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            used.ru_utime + used.ru_stime,
            late.is_set(),
        )


@dataclasses.dataclass(frozen=True)
class Checked:
    """What check said of one module."""

    report: dict[str, Any] | None
    trouble: str  # why there is no report
    cpu_seconds: float


def run_check(
    program: str, module: pathlib.Path, timeout_seconds: float,
    extra: Sequence[str] = (),
) -> Checked:
    done = run_program([program, "check", "--json", str(module), *extra],
                       timeout_seconds)

    def failed(why: str) -> Checked:
        return Checked(None, why, done.cpu_seconds)

    if done.is_late:
        return failed(f"no report within {timeout_seconds:.0f} s")
    if done.status not in (0, 1):
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return failed(f"exit {done.status}: {last[-1] if last else ''}")
    try:
        report = json.loads(done.stdout)
    except ValueError as error:
        return failed(f"no JSON: {error}")
    if not isinstance(report, dict):
        return failed("the JSON is no object")
    findings = [e for e in flatten(report) if not e["is_note"]]
    if bool(findings) != (done.status == 1):
        return failed(f"exit {done.status} does not fit the findings")
    return Checked(report, "", done.cpu_seconds)


def run_case(
    case: Case, folder: pathlib.Path, options: argparse.Namespace
) -> Outcome:
    outcome = Outcome(case)
    module = build(case.source, folder, options.cc)
    begin = time.monotonic()
    extra = list(case.options)
    if options.device:
        module = build_twin(module, options.cc)
        extra += ["--device", options.device, "--device-options", "races=1"]
    checked = run_check(options.opgraft, module, options.timeout, extra)
    outcome.trouble = checked.trouble
    # What a device cannot run, and a probe that is not for one.
    outcome.is_skipped = bool(options.device) and any(
        text in checked.trouble for text in (
            "no operator with a kernel for", "needs the host's memory"))
    outcome.seconds = time.monotonic() - begin
    if checked.report is not None:
        said = flatten(checked.report)
        outcome.findings = [e for e in said if not e["is_note"]]
        outcome.notes = [e for e in said if e["is_note"]]
        judge(outcome)
    return outcome


class Progress:
    """One line on a terminal, nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.lock = threading.Lock()

    def step(self, name: str) -> None:
        with self.lock:
            self.done += 1
            if not sys.stderr.isatty():
                return
            width = shutil.get_terminal_size().columns - 1
            line = f"{self.done}/{self.total} {name}"
            end = "\n" if self.done == self.total else ""
            print(f"\r{line[:width]:<{width}}", end=end, file=sys.stderr,
                  flush=True)


def run_cases(
    cases: list[Case], options: argparse.Namespace
) -> list[Outcome]:
    progress = Progress(len(cases))

    def work(case: Case) -> Outcome:
        outcome = run_case(case, folder, options)
        progress.step(case.name)
        return outcome

    with tempfile.TemporaryDirectory(prefix="mistakes-") as name:
        folder = pathlib.Path(name)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            return list(pool.map(work, cases))


# --- Results -----------------------------------------------------------------


def describe_entry(outcome: Outcome) -> str:
    if outcome.trouble:
        return outcome.trouble
    if outcome.case.is_wrong and not outcome.is_named:
        said = "; ".join(brief(entry) for entry in outcome.findings[:3])
        return f"{outcome.case.mistake} Said: {said or 'nothing'}"
    return brief(outcome.findings[0]) if outcome.findings else ""


def brief(entry: dict[str, Any]) -> str:
    where = "/".join(
        str(entry[key]) for key in ("operator", "argument", "kind")
        if entry.get(key)
    )
    return f"{where}: {str(entry.get('text', ''))[:100]}"


def print_table(outcomes: list[Outcome], is_verbose: bool) -> None:
    for outcome in outcomes:
        is_dull = outcome.is_good and (
            outcome.is_named or not outcome.case.is_wrong
        )
        detail = "" if is_dull and not is_verbose else describe_entry(outcome)
        print(f"{outcome.case.name:<36} {outcome.verdict():<14} "
              f"{outcome.seconds:6.1f} s  {detail}".rstrip())


def tree_hash(path: str) -> str:
    """Git's hash of a folder as it lies on the disk, named from the root."""
    with tempfile.TemporaryDirectory(prefix="mistakes-") as name:
        environment = {**os.environ, "GIT_INDEX_FILE": f"{name}/index"}
        for command in (["add", "--all", "--force", path], ["write-tree"]):
            done = subprocess.run(
                ["git", "-C", str(ROOT), *command], env=environment,
                capture_output=True, text=True, check=False,
            )
            if done.returncode:
                return ""
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse",
             f"{done.stdout.strip()}:{path}"],
            capture_output=True, text=True, check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else ""


def summarise(outcomes: list[Outcome]) -> dict[str, Any]:
    wrong = [o for o in outcomes if o.case.is_wrong]
    right = [o for o in outcomes if not o.case.is_wrong]
    return {
        "wrong": len(wrong),
        "found": sum(o.is_found for o in wrong),
        "named": sum(o.is_named for o in wrong),
        "right": len(right),
        "false_findings": sum(bool(o.findings) for o in right),
        "not_checked": sum(bool(o.trouble) for o in outcomes),
        "missed": [o.case.name for o in wrong if not o.is_found],
        "not_named": [
            o.case.name for o in wrong if o.is_found and not o.is_named
        ],
        "false": [o.case.name for o in right if not o.is_good],
        "seconds": round(sum(o.seconds for o in outcomes), 1),
        "tree_wrong": tree_hash("tests/mistakes/wrong"),
        "tree_right": tree_hash("tests/mistakes/right"),
    }


def score_line(score: dict[str, Any]) -> str:
    return (f"{score['found']} of {score['wrong']} mistakes found, "
            f"{score['named']} named; {score['false_findings']} of "
            f"{score['right']} correct operators with a false finding; "
            f"{score['not_checked']} not checked")


def write_json(path: pathlib.Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def keep_results(outcomes: list[Outcome], score: dict[str, Any]) -> None:
    if not FIRST_RUN.exists():
        write_json(FIRST_RUN, score)
    cases = [
        {
            "case": o.case.name,
            "verdict": o.verdict(),
            "said": [
                {key: entry.get(key) for key in ("operator", "argument",
                                                 "kind")}
                for entry in o.findings
            ],
            **({"trouble": o.trouble} if o.trouble else {}),
        }
        for o in outcomes
    ]
    first = json.loads(FIRST_RUN.read_text(encoding="utf-8"))
    results.write("mistakes", [ROOT / "src" / "check", HERE / "wrong",
                               HERE / "right"],
                  {"first": first, "last": score, "cases": cases})
    print(f"first run: {score_line(first)}")
    print(f"last run: {score_line(score)}")
    for kind in ("wrong", "right"):
        if first[f"tree_{kind}"] != score[f"tree_{kind}"]:
            print(f"{kind}/ has changed since the first run; "
                  f"`git log tests/mistakes/{kind}` says why")


def run_parser(about: str | None) -> argparse.ArgumentParser:
    """The options of every program that runs check on a set of modules."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("names", nargs="*", help="only these cases")
    parser.add_argument("--opgraft", default="opgraft",
                        help="the program (default: from PATH)")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=180.0,
                        help="seconds for one file")
    parser.add_argument("--verbose", action="store_true",
                        help="say what was found for good cases too")
    return parser


def find_program(wanted: str) -> str:
    program = shutil.which(wanted)
    if program is not None:
        return program
    print(f"{wanted}: found no such program; build it, or say where it is "
          "with --opgraft", file=sys.stderr)
    raise SystemExit(2)


def main() -> int:
    parser = run_parser(__doc__)
    parser.add_argument("--device", metavar="DRIVER",
                        help="check the kernels on this driver's device")
    options = parser.parse_args()
    options.opgraft = find_program(options.opgraft)
    cases = find_cases(options.names)
    outcomes = run_cases(cases, options)
    print_table(outcomes, options.verbose)
    score = summarise(outcomes)
    if options.device:
        skipped = [o for o in outcomes if o.is_skipped]
        print(f"on a device, {sum(o.case.is_wrong for o in skipped)} mistakes "
              f"and {sum(not o.case.is_wrong for o in skipped)} correct "
              f"operators skipped: {score_line(score)}")
        return 0 if not score["false_findings"] else 1
    if options.names:
        print(score_line(score))
    else:
        keep_results(outcomes, score)
    return 0 if all(o.is_good for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

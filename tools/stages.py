#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of .ci/stages.def and ends with `N passed, N failed`.

A landing skips a stage whose files have the hash of a recorded green run on
this kind of machine (docs/results/nightly.json). One skipped stage runs all the
same, in rotation, and so does each that did not run in ten landings. On a slow
machine what would begin too late to end in time is left out, and said so.

    tools/stages.py                 what .ci/run calls
    tools/stages.py --plan          says what would run, and why
    tools/stages.py --all           skips nothing, and leaves nothing out
    tools/stages.py --nightly       the long forms, one at a time, recorded one
                                    by one: an interrupted run goes on
    tools/stages.py --record FILE   takes over what a run wrote, build/stages.json
"""

from __future__ import annotations

import argparse
import configparser
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Iterable

import results
import run_tests

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / ".ci" / "stages.def"
RECORDS = ROOT / "docs" / "results" / "nightly.json"
FOUND = ROOT / "build" / "stages.json"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
PYTHON_TESTS = (".venv/bin/python tools/run_tests.py --build build {} "
                "--folder {} python")
SHORT, LONG = "--full one --cases 2", "--full whole"
STAGE_TIMEOUT_S = 3600
BUDGET_S = 76 * 60  # of a landing, whose limit is 90 minutes
LANDINGS_MAX = 10  # without a run of a stage
CORES = 2
TAIL_LINES = 45  # of a failed stage, told again at the end
UNREAD_NS = 946684800 * 10**9  # of access, long ago: any read makes it newer


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    return [f for f in done.stdout.split("\n") if f and (ROOT / f).is_file()]


@dataclass
class Stage:
    name: str
    run: str            # a command line for the shell
    nightly: str        # its long form
    reads: list[str]    # files and folders
    needs: list[str]    # targets of the Makefile, made before
    cores: int
    is_late: bool

    @functools.cached_property
    def hash(self) -> str:
        """Of its command and of the files that it reads, as they were first."""
        digest = hashlib.sha256(self.run.encode())
        for file in tracked():
            if self.covers(file) and file != str(RECORDS.relative_to(ROOT)):
                digest.update(file.encode() + b"\0" + (ROOT / file).read_bytes())
        return digest.hexdigest()

    def covers(self, file: str) -> bool:
        return any(name == "." or file == name or file.startswith(name + "/")
                   for name in self.reads)


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    seconds: float = 0
    tail: str = ""
    is_whole: bool = True


def words_of(text: str, sets: dict[str, str]) -> list[str]:
    """The files and folders of a row: @NAME is a set, * a name in a folder."""
    found: list[str] = []
    for word in text.split():
        if word[0] == "@":
            found += words_of(sets[word[1:]], sets)
        elif "*" in word:
            found += [str(p.relative_to(ROOT)) for p in ROOT.glob(word)
                      if p.is_file()]
        else:
            found.append(word)
    return sorted(set(found))


def late_last(stages: list[Stage]) -> list[Stage]:
    """Those in another order for each tree: what is left out is not always the
    same."""
    late = [s for s in stages if s.is_late]
    turn = int(stages[0].hash[:7], 16) % max(len(late), 1)
    return [s for s in stages if not s.is_late] + late[turn:] + late[:turn]


def read_table() -> tuple[list[Stage], dict[str, str]]:
    """The stages in order; what a file that is read implies (`[implies]`)."""
    parser = configparser.ConfigParser(delimiters=("=",),
                                       comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(TABLE.read_text())
    sets = dict(parser["sets"])
    stages = []
    for name in parser.sections():
        if name in ("sets", "implies"):
            continue
        row = parser[name]
        unknown = set(row) - {"run", "nightly", "tests", "reads", "needs",
                              "cores", "late"}
        if unknown:
            raise SystemExit(f"{TABLE.name}: [{name}] has {sorted(unknown)}")
        folders = row.get("tests", "").split()
        run = row.get("run") or PYTHON_TESTS.format(
            SHORT, " --folder ".join(folders))
        long = row.get("nightly") or (run if "run" in row else
                                      run.replace(SHORT, LONG))
        stages.append(Stage(name, run, long,
                            words_of(" ".join([
                                row["reads"], *(f"{f}/*" for f in folders)]),
                                sets),
                            row.get("needs", "").split(),
                            int(row.get("cores", str(1 if folders else CORES))),
                            row.getboolean("late", False)))
    return late_last(stages), {file: " ".join(words_of(text, sets))
                    for file, text in parser["implies"].items()}


# --- What was recorded, and what runs ----------------------------------------


def read_records() -> dict[str, Any]:
    if not RECORDS.exists():
        return {"landing": 0, "stages": {}}
    return json.loads(RECORDS.read_text())


def write_records(records: dict[str, Any]) -> None:
    RECORDS.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


def is_recorded(stage: Stage, records: dict[str, Any]) -> bool:
    """In its long form."""
    kept = records["stages"].get(stage.name, {})
    return (kept.get("hash") == stage.hash
            and kept.get("command") == stage.nightly
            and kept.get("machine") == results.processor())


def choose(stages: list[Stage], records: dict[str, Any]) -> dict[str, str]:
    """Why each stage runs; '' where it is skipped."""
    why: dict[str, str] = {}
    for stage in stages:
        kept = records["stages"].get(stage.name, {})
        idle = records["landing"] - kept.get("landing", 0)
        if not kept:
            why[stage.name] = "no green is recorded"
        elif kept["machine"] != results.processor():
            why[stage.name] = "recorded on another machine"
        elif kept["hash"] != stage.hash:
            why[stage.name] = "changed"
        elif idle >= LANDINGS_MAX:
            why[stage.name] = f"not run in {idle} landings"
        else:
            why[stage.name] = ""
    skipped = [s.name for s in stages if not why[s.name]]
    if skipped:
        oldest = min(skipped, key=lambda name: (
            records["stages"][name].get("landing", 0),
            records["stages"][name]["seconds"] * -1))
        why[oldest] = "in rotation"
    return why


def merge(records: dict[str, Any], found: dict[str, Any]) -> None:
    """A run's green stages become records; the run is one more landing."""
    records["landing"] += 1
    for name, row in found["stages"].items():
        if row["failed"] == 0 and row["passed"] > 0 and row["is_whole"]:
            records["stages"][name] = {**row, "landing": records["landing"]}
        else:
            records["stages"].pop(name, None)


# --- What a stage read -------------------------------------------------------


def installed(files: Iterable[str]) -> dict[str, str]:
    """Files of the package in .venv, or their compiled form, by the file of
    python/ that they are copies of."""
    site = next((ROOT / ".venv").glob("lib/python*/site-packages"), None)
    if site is None:
        return {}
    found = {}
    for file in files:
        copy = site / pathlib.Path(file).relative_to("python")
        for path in (copy, *copy.parent.glob(f"__pycache__/{copy.stem}.*.pyc")):
            if path.exists():
                found[str(path)] = file
    return found


def set_unread(path: str) -> None:
    """Its time of change stays to the nanosecond, for ninja."""
    os.utime(path, ns=(UNREAD_NS, os.stat(path).st_mtime_ns))


class Reads:
    """Which tracked files are read from now on, by their access times."""

    def __init__(self) -> None:
        self.files = {str(ROOT / f): f for f in tracked()}
        python = [f for f in self.files.values() if f.startswith("python/")]
        self.files |= installed(python)
        for path in self.files:
            set_unread(path)
        probe = next(iter(self.files))
        pathlib.Path(probe).read_bytes()
        self.is_told = os.stat(probe).st_atime_ns > UNREAD_NS
        set_unread(probe)

    def found(self) -> set[str]:
        if not self.is_told:  # a file system without access times
            return set()
        return {file for path, file in self.files.items()
                if os.path.exists(path) and os.stat(path).st_atime_ns > UNREAD_NS}


def undeclared(read: set[str], running: list[Stage],
               implies: dict[str, str]) -> list[str]:
    """What was read, or is implied by that, and no stage of those that ran at
    the time declares."""
    wanted = set(read)
    for file, implied in implies.items():
        if any(f.startswith(file) for f in read):
            wanted |= set(implied.split())
    return sorted(f for f in wanted if not any(s.covers(f) for s in running))


# --- Running -----------------------------------------------------------------


def run_command(command: str, log: pathlib.Path, env: dict[str, str]) -> int:
    """Its status; what it prints goes into the log. It is ended with all that
    it started after STAGE_TIMEOUT_S."""
    with log.open("wb") as to:
        child = subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=env,
                                 stdin=subprocess.DEVNULL, stdout=to,
                                 stderr=subprocess.STDOUT,
                                 start_new_session=True)
        try:
            return child.wait(STAGE_TIMEOUT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if isinstance(error, KeyboardInterrupt):
                raise
            to.write(f"\nstopped after {STAGE_TIMEOUT_S} s\n".encode())
            return -signal.SIGKILL


def outcome_of(status: int, text: str, seconds: float) -> Outcome:
    """Counts from the last such line; a command that fails without one is one
    failure, and one that counts nothing is one test."""
    matches = COUNTS.findall(text)
    passed, failed = map(int, matches[-1]) if matches else (int(status == 0), 0)
    if status != 0 and failed == 0:
        failed = 1
    return Outcome(passed=passed, failed=failed, seconds=seconds,
                   is_whole=run_tests.LEFT not in text,
                   tail="\n".join(text.splitlines()[-TAIL_LINES:]))


def cores_shared(folder: pathlib.Path) -> pathlib.Path:
    """What stages that run side by side lock for a core (run_tests.core_taken)."""
    shared = folder / "cores"
    shared.mkdir(parents=True, exist_ok=True)
    for core in range(CORES):
        (shared / str(core)).touch()
    return shared


class Run:
    def __init__(self, stages: list[Stage], implies: dict[str, str],
                 nightly: bool, reads: bool, until_s: float) -> None:
        self.stages = stages
        self.implies = implies
        self.nightly = nightly
        self.checks_reads = reads
        self.until_s = until_s  # of time.time(): no test of Python begins later
        self.shared = cores_shared(FOUND.parent)
        self.lock = threading.Condition()
        self.free = CORES
        self.running: list[Stage] = []
        self.reads: Reads | None = None
        self.together: list[Stage] = []  # since the reads were last looked at
        self.outcomes: dict[str, Outcome] = {}
        self.made: dict[str, float | None] = {}  # seconds; None: it failed

    def make(self, need: str) -> bool:
        if need in self.made:
            return self.made[need] is not None
        begin = time.monotonic()
        print(f"##### make {need}", flush=True)
        log = FOUND.parent / f"make-{need}.log"
        FOUND.parent.mkdir(exist_ok=True)
        status = run_command(f"make {need}", log, dict(os.environ))
        seconds = time.monotonic() - begin
        print(f"##### make {need}: status {status}, {seconds:.0f} s", flush=True)
        if status != 0:
            print(log.read_text(errors="replace"), flush=True)
        self.made[need] = seconds if status == 0 else None
        return status == 0

    def one(self, stage: Stage) -> None:
        command = stage.nightly if self.nightly else stage.run
        print(f"##### {stage.name} begins: {command}", flush=True)
        log = FOUND.parent / f"stage-{stage.name}.log"
        env = {**os.environ, "OPGRAFT_TREE_SEED": str(int(stage.hash[:7], 16)),
               "OPGRAFT_TIMING": "1" if self.nightly else "",
               "OPGRAFT_UNTIL": str(self.until_s),
               "OPGRAFT_CORES": str(self.shared) if stage.cores < CORES else ""}
        begin = time.monotonic()
        status = run_command(command, log, env)
        text = log.read_text(errors="replace")
        found = outcome_of(status, text, time.monotonic() - begin)
        with self.lock:
            self.outcomes[stage.name] = found
            self.running.remove(stage)
            self.free += min(stage.cores, CORES)
            print(f"{text}##### {stage.name}: status {status}, "
                  f"{found.passed} passed, {found.failed} failed, "
                  f"{found.seconds:.0f} s", flush=True)
            if not self.running:
                self.look(stage)
            self.lock.notify_all()

    def look(self, last: Stage) -> None:
        """The stages that ran together read nothing that none declares."""
        files = undeclared(self.reads.found() if self.reads else set(),
                           self.together, self.implies)
        self.together = []
        if files:
            found = self.outcomes[last.name]
            found.failed += 1
            found.tail += (f"\n{last.name}: .ci/stages.def does not say that it "
                           f"reads {', '.join(files[:20])}")
            print(found.tail.splitlines()[-1], flush=True)

    def begin(self, stage: Stage) -> threading.Thread:
        with self.lock:
            cores = CORES if self.nightly else min(stage.cores, CORES)
            while self.free < cores:
                self.lock.wait()
            self.free -= min(stage.cores, CORES)
            if not self.running and self.checks_reads:
                self.reads = Reads()
            self.running.append(stage)
            self.together.append(stage)
        thread = threading.Thread(target=self.one, args=(stage,))
        thread.start()
        return thread

    def all(self, why: dict[str, str]) -> None:
        threads = []
        for stage in self.stages:
            if not why[stage.name]:
                continue
            with self.lock:  # what is made must not meet what runs
                while any(n not in self.made for n in stage.needs) \
                        and self.running:
                    self.lock.wait()
            if not all(self.make(need) for need in stage.needs):
                self.outcomes[stage.name] = Outcome(
                    failed=1, tail=f"make {' '.join(stage.needs)} failed")
                continue
            threads.append(self.begin(stage))
            if self.nightly:
                threads[-1].join()
                self.keep(stage)
        for thread in threads:
            thread.join()

    def keep(self, stage: Stage) -> None:
        records = read_records()
        rows = self.rows([stage])
        merge(records, {"stages": rows})
        records["landing"] -= 1  # only landings count
        write_records(records)

    def rows(self, stages: list[Stage]) -> dict[str, Any]:
        commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"],
                                cwd=ROOT, text=True, capture_output=True)
        return {s.name: {"hash": s.hash, "machine": results.processor(),
                         "command": s.nightly if self.nightly else s.run,
                         "commit": commit.stdout.strip(),
                         "passed": self.outcomes[s.name].passed,
                         "failed": self.outcomes[s.name].failed,
                         "is_whole": self.outcomes[s.name].is_whole,
                         "seconds": round(self.outcomes[s.name].seconds)}
                for s in stages if s.name in self.outcomes}

    def table(self, why: dict[str, str]) -> None:
        print(f"\n{'stage':<22}{'seconds':>8}{'passed':>8}{'failed':>8}  why")
        for need, seconds in self.made.items():
            print(f"{'make ' + need:<22}"
                  + ("  failed" if seconds is None else f"{seconds:>8.0f}"))
        for stage in self.stages:
            found = self.outcomes.get(stage.name)
            if found is None:
                print(f"{stage.name:<22}{'':>24}  skipped: green at this hash")
            else:
                print(f"{stage.name:<22}{found.seconds:>8.0f}{found.passed:>8}"
                      f"{found.failed:>8}  {why[stage.name]}"
                      + ", in part" * (not found.is_whole))


def plan(stages: list[Stage], why: dict[str, str]) -> None:
    for stage in stages:
        print(f"{stage.name:<22}{why[stage.name] or 'skipped'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--plan", action="store_true", help="run nothing")
    how.add_argument("--all", action="store_true", help="skip nothing")
    how.add_argument("--nightly", action="store_true", help="the long forms")
    how.add_argument("--record", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--reads", action="store_true", help="fail a stage "
                        "that reads what its row does not say: in a checkout "
                        "that nobody else reads at the time")
    parser.add_argument("stages", nargs="*", help="only these")
    args = parser.parse_args()
    records = read_records()
    if args.record:
        merge(records, json.loads(args.record.read_text()))
        write_records(records)
        return 0
    stages, implies = read_table()
    stages = [s for s in stages if not args.stages or s.name in args.stages]
    if args.nightly:
        why = {s.name: "" if is_recorded(s, records) else "not recorded"
               for s in stages}
    else:
        why = choose(stages, records)
    if args.all or args.stages:
        why = {s.name: why[s.name] or "asked for" for s in stages}
    if args.plan:
        plan(stages, why)
        return 0
    is_whole = args.all or args.stages or args.nightly
    run = Run(stages, implies, args.nightly, args.reads,
              math.inf if is_whole else time.time() + BUDGET_S)
    run.all(why)
    FOUND.write_text(json.dumps({"stages": run.rows(stages)}, indent=1) + "\n")
    for name, found in run.outcomes.items():
        if found.failed:
            print(f"##### again, the end of {name}:\n{found.tail}")
    run.table(why)
    passed = sum(found.passed for found in run.outcomes.values())
    failed = sum(found.failed for found in run.outcomes.values())
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the text tests: an input, a command, and what it must print.

A file holds one or more cases:

    # run: TOOL ARGUMENTS...
    input, given on standard input
    # expect
    what the tool must print (both streams)
    # exit: 1            (only where it is not 0)

TOOL is a program of tests/tools or `opgraft`. In the arguments, {input} is a
file with the input, {modules} the test modules' folder, {ops} the operator
library's, {root} the source tree, {tmp} an empty folder. Lines before the
first `# run:` are a comment. --faults N also runs every case of a test tool with
allocation 0, 1, 2... failing: it must neither crash nor leak.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import difflib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_MET = 77  # tests/tools/tool.h
SANITIZER_EXIT = 99
TIMEOUT_S = 60


@dataclasses.dataclass
class Case:
    path: pathlib.Path
    line: int
    command: str
    input: str
    expect: str
    exit_status: int
    found: str = ""
    found_exit: int = 0
    problem: str = ""

    @property
    def name(self) -> str:
        try:
            shown = self.path.relative_to(ROOT)
        except ValueError:
            shown = self.path
        return f"{shown}:{self.line}"


def parse(path: pathlib.Path) -> tuple[str, list[Case]]:
    """The leading comment and the cases of one file."""
    head: list[str] = []
    cases: list[Case] = []
    target = head
    parts: list[tuple[int, str, list[str], list[str], int]] = []
    lines = path.read_text().splitlines(keepends=True)
    status = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("# run:"):
            parts.append((number, line[6:].strip(), [], [], 0))
            target = parts[-1][2]
        elif line.rstrip() == "# expect" and parts:
            target = parts[-1][3]
        elif line.startswith("# exit:") and parts and target is parts[-1][3]:
            status = int(line[7:])
            parts[-1] = (*parts[-1][:4], status)
            target = []
        else:
            target.append(line)
    for number, command, given, expect, status in parts:
        cases.append(Case(path, number, command, "".join(given),
                          "".join(expect).rstrip("\n"), status))
    return "".join(head), cases


def render(head: str, cases: list[Case]) -> str:
    out = [head]
    for case in cases:
        out.append(f"# run: {case.command}\n{case.input}# expect\n")
        if case.expect:
            out.append(case.expect + "\n")
        if case.exit_status:
            out.append(f"# exit: {case.exit_status}\n")
        if case is not cases[-1]:
            out.append("\n")
    return "".join(out)


class Runner:
    def __init__(self, build: pathlib.Path, dense: int,
                 under: list[str]) -> None:
        self.build = build
        self.dense = dense
        self.under = under

    def command(self, case: Case, tmp: pathlib.Path) -> tuple[list[str], bool]:
        """The argument vector, and whether allocations can be made to fail."""
        words = shlex.split(case.command)
        given = tmp / "input"
        given.write_text(case.input)
        work = tmp / "work"
        work.mkdir()
        names = {"input": given, "tmp": work, "root": ROOT,
                 "modules": self.build / "tests" / "modules",
                 "ops": self.build / "modules"}
        for key, value in names.items():
            words = [w.replace("{" + key + "}", str(value)) for w in words]
        tool = self.build / "tests" / "tools" / words[0]
        is_tool = words[0] != "opgraft"
        if not is_tool:
            tool = self.build / "bin" / "opgraft"
        if not tool.exists():
            raise FileNotFoundError(f"no program {words[0]} in the build")
        return [*self.under, str(tool), *words[1:]], is_tool

    def start(self, words: list[str], case: Case,
              fault: int | None = None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ)
        options = env.get("ASAN_OPTIONS", "")
        env["ASAN_OPTIONS"] = f"{options}:exitcode={SANITIZER_EXIT}".strip(":")
        env.setdefault("UBSAN_OPTIONS", "abort_on_error=1")
        if "check" in words:  # no addr2line: not every build has lines
            env["PATH"] = ""
        if fault is not None:
            env["OPGRAFT_TEST_FAIL_ALLOC"] = str(fault)
        return subprocess.run(words, input=case.input, env=env, text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)

    def clean(self, text: str, tmp: pathlib.Path) -> str:
        """Output without the paths of this machine."""
        for path, name in ((tmp / "input", "<input>"), (tmp / "work", "<tmp>"),
                           (self.build, "<build>"), (ROOT, "<root>")):
            text = text.replace(str(path), name)
        return "\n".join(t.rstrip() for t in text.split("\n")).rstrip("\n")

    def run_faults(self, case: Case, words: list[str]) -> str:
        fault = 0
        while True:
            done = self.start(words, case, fault)
            if done.returncode < 0 or done.returncode == SANITIZER_EXIT:
                return (f"allocation {fault} failing: status "
                        f"{done.returncode}\n{done.stdout}")
            if done.returncode == NOT_MET:
                return ""
            fault += 1 + fault // self.dense

    def run(self, case: Case) -> Case:
        with tempfile.TemporaryDirectory() as folder:
            tmp = pathlib.Path(folder)
            try:
                words, is_tool = self.command(case, tmp)
                done = self.start(words, case)
                case.found = self.clean(done.stdout, tmp)
                case.found_exit = done.returncode
                same = (case.found == case.expect
                        and case.found_exit == case.exit_status)
                if not same:
                    case.problem = self.difference(case)
                elif self.dense and is_tool:
                    case.problem = self.run_faults(case, words)
            except (OSError, subprocess.TimeoutExpired) as error:
                case.problem = str(error)
                case.found_exit = -1
        return case

    @staticmethod
    def difference(case: Case) -> str:
        diff = "\n".join(difflib.unified_diff(
            case.expect.split("\n"), case.found.split("\n"), "wanted", "found",
            lineterm=""))
        if case.found_exit != case.exit_status:
            diff += (f"\nexit status {case.found_exit}, "
                     f"not {case.exit_status}")
        return diff


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", type=pathlib.Path,
                        help="files or folders (default: tests/text)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build",
                        help="the build folder")
    parser.add_argument("--update", action="store_true",
                        help="write what was found as the expectation")
    parser.add_argument("--faults", type=int, default=0, metavar="N",
                        help="also make allocations fail in turn: the first N, "
                        "then ever fewer, in steps of an N-th of those before")
    parser.add_argument("--under", default="", metavar="COMMAND",
                        help="run each program under it, say valgrind -q")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()

    files: list[pathlib.Path] = []
    for path in args.paths or [ROOT / "tests" / "text"]:
        files += sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    parsed = [(path, *parse(path.resolve())) for path in files]
    cases = [case for _, _, found in parsed for case in found]
    empty = [path for path, _, found in parsed if not found]

    runner = Runner(args.build.resolve(), 0 if args.update else args.faults,
                    shlex.split(args.under))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(runner.run, cases))
    if args.update:
        for path, head, found in parsed:
            for case in found:
                if case.found_exit >= 0 and case.found_exit != SANITIZER_EXIT:
                    case.expect = case.found
                    case.exit_status = case.found_exit
                    case.problem = ""
            path.write_text(render(head, found))
    failed = [case for case in cases if case.problem]
    for case in failed:
        print(f"FAILED {case.name}: {case.command}\n{case.problem}")
    for path in empty:
        print(f"FAILED {path}: no `# run:` line")
    bad = len(failed) + len(empty)
    print(f"text: {len(cases) - len(failed)} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

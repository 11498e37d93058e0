#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages it is given and ends with `N passed, N failed`.

Stages: unit, text, checks, python, sanitized, threads, valgrind, fuzz, bench,
sweep, style, isa, hosts.
Each prints what it does; what is skipped is counted, with the reason.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, Iterable, Iterator

import results

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNTS = re.compile(r"(\d+) passed, (\d+) failed\s*$")
UNIT_TIMEOUT_S = 300
PYTEST_TIMEOUT_S = 3600
SCRIPT_TIMEOUT_S = 3 * 3600
SMOKE_TIMEOUT_S = 1800
VALGRIND = ["valgrind", "-q", "--error-exitcode=97", "--leak-check=full",
            "--errors-for-leak-kinds=definite"]
VALGRIND_LEFT_OUT = ("check_findings", "check_findings_more")
# Units that can see an instruction set, but those of CUDA.
ISA_UNITS = re.compile("(?:exec|graph|isa|kernel|loop|public|scalar|threads)_"
                       "(?!cuda)")
ISA_TEXTS = ("loop", "pass", "plan")
VALGRIND_TIMEOUT_S = 3600
# Files of Python tests that a package with sanitizers runs, by folder; the
# first of each alone in a smoke run.
SANITIZED = {
    "tests/python": ["test_corners", "test_calls", "test_compile", "test_grad",
                     "test_life", "test_slow_road"],
    "tests/python/graph": ["test_lanes", "test_aten_samples",
                           "test_behaviours", "test_caches", "test_data_sizes",
                           "test_first", "test_freeze", "test_random"],
}
# What takes longest begins first, so that the cores end together; a folder with
# more files than FILES_MAX is shared between processes.
LONGEST_FIRST = ("unit check_findings", "unit check_findings_more",
                 "unit exec_epilogue", "tests/python/graph",
                 "tests/packaging", "tests/python/doctor", "tests/docs",
                 "tests/cli", "tests/python", "tests/python/distributed",
                 "bench/ops.py", "bench/graphs.py",
                 "tests/sweep/public_models.py")
FILES_MAX = 8
CORE_POLL_S = 0.2
# Said of what begins after OPGRAFT_UNTIL (tools/stages.py).
LEFT = "left for another run: no time"
FUZZ_PATIENCE = 6  # its seconds are the processor's: a busy machine takes longer
PROBLEM_LINES = 30  # of a failed program's output, told at the end
SLOWEST_TOLD = 40
FUZZ_KEPT_SECONDS = 600  # shorter runs of a fuzzer are not written down
FUZZ_REPLAY_SECONDS = 1  # where another fuzzer's turn has come
# What each fuzzer reads with, beside src/base.
FUZZ_MEASURES = {
    "attention": ["src/kernel"],
    "dtype": ["src/decl"],
    "events": ["src/trace", "src/report"],
    "formula": ["src/decl", "src/loop", "src/scalar"],
    "gguf": ["hosts/torch/gguf"],
    "graph_file": ["src/decl", "src/graph", "src/plan"],
    "graph_run": ["src/decl", "src/graph", "src/pass", "src/plan", "src/exec",
                  "tests/fuzz/graph_mutate.h", "tests/tools/graph_make.h"],
    "graph_text": ["src/decl", "src/graph", "src/plan"],
    "host_aoti": ["src/decl", "src/call", "hosts/aoti", "hosts/shared",
                  "tests/fuzz/host.h", "tests/conformance/kinds.c"],
    "host_jax": ["src/decl", "src/call", "hosts/jax", "hosts/shared",
                 "tests/fuzz/host.h", "tests/conformance/kinds.c"],
    "host_onnxruntime": ["src/decl", "src/call", "hosts/onnxruntime",
                         "hosts/shared", "tests/fuzz/host.h",
                         "tests/conformance/kinds.c"],
    "host_tensorflow": ["src/decl", "src/call", "hosts/tensorflow",
                        "hosts/shared", "tests/fuzz/host.h",
                        "tests/conformance/kinds.c"],
    "host_tvm_ffi": ["src/decl", "src/call", "hosts/tvm_ffi", "hosts/shared",
                     "tests/fuzz/host.h", "tests/conformance/kinds.c",
                     "tests/conformance/stub_tvm_ffi.c"],
    "loop": ["src/loop", "src/scalar"],
    "module": ["src/decl", "src/module"],
    "npy": [],
    "onnx_models": ["python/opgraft/onnx", "python/opgraft/_base",
                    "tests/fuzz/reader.py", "tests/conformance/kinds.c"],
    "ops": ["ops", "src/kernel"],
    "overlap": ["src/call", "tests/unit/view_bytes.h"],
    "schema": ["src/decl"],
    "shape": ["src/decl"],
    "specifications": ["python/opgraft/_adopt", "src/decl",
                       "tests/fuzz/reader.py"],
}


# The part of its inputs that a fuzzer must at least accept, where most of what
# it is for lies behind that.
FUZZ_ACCEPTED_LEAST = {"graph_run": 0.2}


def longest_first(names: Iterable[str]) -> list[str]:
    """In the order in which they are begun."""
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


class Tally:
    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped: list[str] = []
        self.problems: list[str] = []
        self.seconds: list[tuple[float, str]] = []  # of each Python test

    def add(self, name: str, passed: int, failed: int) -> None:
        self.passed += passed
        self.failed += failed
        if failed:
            self.problems.append(f"{name}: {failed} failed")

    def add_status(self, name: str, status: int, output: str = "") -> None:
        """A failed program's last lines are told again at the end."""
        self.add(name, int(status == 0), int(status != 0))
        if status != 0:
            self.problems += [f"  {line}" for line in
                              output.splitlines()[-PROBLEM_LINES:]]

    def add_output(self, name: str, status: int, output: str) -> None:
        """Counts from the last line of a program's output. A program that
        dies, or reports no failure but a bad status, is a failure itself."""
        match = COUNTS.search(output)
        passed, failed = (int(match[1]), int(match[2])) if match else (0, 0)
        if not match or (status != 0 and failed == 0):
            failed += 1
            print(f"{name}: ended with status {status}")
        self.add(name, passed, failed)


def environment() -> dict[str, str]:
    env = dict(os.environ)
    env.setdefault("UBSAN_OPTIONS", "abort_on_error=1:print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=1")
    env.pop("OPGRAFT_CORES", None)  # what is started has its core
    return env


def start(words: list[str], timeout: float, name: str = ""
          ) -> tuple[int, str]:
    """Runs a program in the root, shows its time, where it has a name, and its
    output, and returns this."""
    begin = time.monotonic()
    try:
        done = subprocess.run(words, cwd=ROOT, env=environment(), text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        held = error.stdout or b""
        output = held.decode(errors="replace") if isinstance(held, bytes) \
            else held
        status, output = -1, output + f"\nstopped after {timeout:.0f} s\n"
    except OSError as error:
        status, output = -1, f"{error}\n"
    head = f"--- {name}: {time.monotonic() - begin:.0f} s\n" if name else ""
    print(head + output, end="", flush=True)
    return status, output


def start_all(programs: dict[str, list[str]], timeout: float
              ) -> Iterator[tuple[str, int, str]]:
    """Runs them side by side, one for each core; name, status and output of
    each, in order."""
    def one(name: str) -> tuple[int, str]:
        with core_taken():
            return start(programs[name], timeout, name)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = {name: pool.submit(one, name)
                   for name in longest_first(programs)}
        for name, program in running.items():
            yield name, *program.result()


@contextlib.contextmanager
def core_taken() -> Iterator[None]:
    """A core, of those that stages side by side share: the files of the folder
    OPGRAFT_CORES, one locked for each that is busy. A process that dies frees
    its own."""
    folder = os.environ.get("OPGRAFT_CORES")
    if not folder:
        yield
        return
    files = [path.open("w") for path in pathlib.Path(folder).iterdir()]
    try:
        while not any(try_lock(file) for file in files):
            time.sleep(CORE_POLL_S)
        yield
    finally:
        for file in files:
            file.close()


def try_lock(file: IO[str]) -> bool:
    """By this process from now on; False where another one has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Children:
    """Processes that lead groups of their own, which a break must end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.is_ended = False

    def run(self, words: list[str], timeout: float, **how: Any) -> int:
        """The status; -SIGKILL where it took longer, or `end` was called."""
        with self.lock:
            if self.is_ended:
                return -signal.SIGKILL
            child = subprocess.Popen(words, cwd=ROOT, start_new_session=True,
                                     **how)
            self.running.add(child)
        try:
            return child.wait(timeout)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(child.pid, signal.SIGKILL)
            return child.wait()
        finally:
            with self.lock:
                self.running.discard(child)

    def end(self) -> None:
        with self.lock:
            self.is_ended = True
            for child in self.running:
                os.killpg(child.pid, signal.SIGKILL)


@dataclass
class Batch:
    """What one process of pytest runs."""

    files: list[pathlib.Path]
    extra: list[str]
    env: dict[str, str] | None = None
    python: str = sys.executable


@dataclass
class PytestRun:
    status: int
    report: xml.etree.ElementTree.Element | None  # JUnit's; None: it died


def pytest_run(name: str, files: list[pathlib.Path], extra: list[str],
               env: dict[str, str] | None, children: Children,
               python: str = sys.executable) -> PytestRun:
    """Runs these files and shows the output, when they are done. Threads of
    OpenMP wait asleep: those of two processes would take the cores from each
    other, a fifth of the time."""
    print(f"--- {name} begins", flush=True)
    with tempfile.TemporaryDirectory() as tmp:
        report, log = pathlib.Path(tmp) / "report.xml", pathlib.Path(tmp) / "log"
        words = [python, "-m", "pytest", "-q",
                 f"--junitxml={report}", *extra, *map(str, files)]
        begin = time.monotonic()
        with log.open("wb") as to:
            status = children.run(words, PYTEST_TIMEOUT_S, stdout=to,
                                  env={"OMP_WAIT_POLICY": "passive",
                                       **(env or environment())},
                                  stderr=subprocess.STDOUT)
        print(f"--- {name}: {time.monotonic() - begin:.0f} s\n"
              + log.read_text(errors="replace"), end="", flush=True)
        root = (xml.etree.ElementTree.parse(report).getroot()
                if report.exists() else None)
        return PytestRun(status, root)


def runtime(name: str) -> str:
    """A runtime library of the compiler that built the package."""
    return subprocess.run(
        [os.environ.get("CC", "cc"), f"-print-file-name={name}"], text=True,
        capture_output=True, check=True).stdout.strip()


def package_links(build: pathlib.Path) -> pathlib.Path:
    """The Python package of a C build, as links, and the entry points by which
    torch.compile finds its backend: what PYTHONPATH takes."""
    folder = build / "package" / "opgraft"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [*(ROOT / "python" / "opgraft").iterdir(), build / "modules",
             build / "python" / "opgraft" / "_C.abi3.so",
             build / "python" / "opgraft" / "cxx", ROOT / "include"]
    for part in parts:
        link = folder / part.name
        link.unlink(missing_ok=True)
        link.symlink_to(part)
    project = (ROOT / "pyproject.toml").read_text()
    info = folder.parent / "opgraft.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: opgraft\n"
                                   "Version: 0\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n{lines.replace(chr(34), '')}\n" for group, lines in
        re.findall(r"^\[project\.entry-points\.(\w+)\]\n((?:\w.*\n)+)",
                   project, re.M)))
    return folder.parent


def counts_of(output: str) -> dict[str, int]:
    """Inputs, accepted and kept ones, and edges, from a fuzzer's last line."""
    return {match[2]: int(match[1]) for match in
            re.finditer(r"(\d+) (inputs|accepted|kept|edges)", output)}


def accepts_enough(name: str, counts: dict[str, int]) -> bool:
    """Whether what a fuzzer is for was reached; prints how much was."""
    if counts.get("edges") == 0:
        print(f"{name}: no edge was seen: what it calls is built without "
              "-fsanitize-coverage=trace-pc")
        return False
    least = FUZZ_ACCEPTED_LEAST.get(name)
    if least is None:
        return True
    part = counts.get("accepted", 0) / max(counts.get("inputs", 0), 1)
    print(f"{name}: {part:.1%} accepted, at least {least:.0%} expected")
    return part >= least


def crash_shown(name: str, status: int) -> str:
    """What a fuzzer's input was, to be run again elsewhere."""
    crash = ROOT / f"crash-{name}"
    if status == 0 or not crash.exists():
        return ""
    return f"{crash.name} in base64:\n" + base64.encodebytes(
        crash.read_bytes()).decode()


def keep_fuzz(name: str, found: dict[str, object]) -> None:
    """A long run of one fuzzer, into docs/results/fuzz_NAME.json."""
    sources = (ROOT / "tests" / "fuzz").glob(f"{name}.*")
    results.write(f"fuzz_{name}",
                  ["src/base", *sources, *FUZZ_MEASURES[name]], found)


def all_sets() -> list[str]:
    """What OPGRAFT_ISA may be, the least first."""
    return re.findall(r"^OG_ISA\((\w+), ",
                      (ROOT / "src/base/isa.def").read_text(), re.M)


def machine_sets() -> list[str]:
    """What OPGRAFT_ISA may be here, the least first."""
    program = pathlib.Path(sys.executable).with_name("opgraft")
    said = json.loads(subprocess.run(
        [str(program), "info", "--json"], check=True, capture_output=True,
        text=True, env={k: v for k, v in os.environ.items()
                        if k != "OPGRAFT_ISA"}).stdout)
    names = all_sets()
    return names[:names.index(said["isa"]) + 1]


def tree_seed() -> int:
    """The same for the same files: what is in turn changes with the tree."""
    return int(os.environ.get("OPGRAFT_TREE_SEED") or time.time())


class Stages:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.tally = Tally()
        self.build = args.build.resolve()
        os.environ["PATH"] = f"{self.build / 'bin'}:{os.environ['PATH']}"
        self.units = re.compile("")  # those whose name it matches are run
        self.texts: tuple[str, ...] = ()  # folders of tests/text; none: all

    def run_units(self, build: pathlib.Path, alone: bool) -> None:
        """Those with threads run alone: some of them measure."""
        programs = {
            f"unit {source.stem}": [str(build / "tests/unit" / source.stem)]
            for source in sorted((ROOT / "tests" / "unit").glob("*.c"))
            if ("<pthread.h>" in source.read_text()) == alone
            and self.units.match(source.stem)}
        if alone:
            for name, words in programs.items():
                self.tally.add_output(name, *start(words, UNIT_TIMEOUT_S))
        else:
            for found in start_all(programs, UNIT_TIMEOUT_S):
                self.tally.add_output(*found)

    def unit(self) -> None:
        self.run_units(self.build, alone=False)
        self.run_units(self.build, alone=True)

    def valgrind(self) -> None:
        """Units and text tests under valgrind, which knows AVX2 at most. What
        runs kernels that are wrong on purpose is left out: check's own."""
        os.environ["OPGRAFT_ISA"] = "avx2"
        for source in sorted((ROOT / "tests" / "unit").glob("*.c")):
            if source.stem in VALGRIND_LEFT_OUT:
                continue
            program = self.build / "tests" / "unit" / source.stem
            name = f"valgrind {source.stem}"
            self.tally.add_output(name, *start([*VALGRIND, str(program)],
                                               VALGRIND_TIMEOUT_S))
        folders = [p for p in sorted((ROOT / "tests" / "text").iterdir())
                   if p.is_dir() and p.name != "check"]
        words = [sys.executable, "tests/text/run.py", "--build",
                 str(self.build), "--under", " ".join(VALGRIND),
                 *(str(f) for f in folders)]
        self.tally.add_output("valgrind text",
                              *start(words, SCRIPT_TIMEOUT_S))

    def threads(self) -> None:
        self.run_units(self.args.thread_build.resolve(), alone=True)

    def text(self) -> None:
        words = [sys.executable, "tests/text/run.py", "--build",
                 str(self.build)]
        if self.args.faults:
            words.append(f"--faults={self.args.faults}")
        words += [f"tests/text/{folder}" for folder in self.texts]
        self.tally.add_output("text", *start(words, SCRIPT_TIMEOUT_S))

    def checks(self) -> None:
        words = [sys.executable, "tools/abi.py", "--build", str(self.build)]
        self.tally.add_output("abi", *start(words, UNIT_TIMEOUT_S))
        pages = {
            "operator pages": ["tools/operator_docs.py", "--build",
                               str(self.build), "--check"],
            "operator coverage": ["tools/ops_table.py", "--check",
                                  "docs/operators/coverage.md"],
            "device behaviours": ["tools/device_behaviours.py", "--check"],
        }
        for name, script in pages.items():
            status, _ = start([sys.executable, *script], UNIT_TIMEOUT_S)
            print(f"{name}: {'passed' if status == 0 else 'failed'}")
            self.tally.add_status(name, status)

    def pytest(self, name: str, extra: list[str]) -> None:
        """Each folder in processes of its own: helpers of one do not meet
        those of another, and one that hangs is not the end of all. Hosts have
        a stage of their own."""
        folders = {str(path.parent.relative_to(ROOT))
                   for path in (ROOT / "tests").rglob("test_*.py")
                   } - {"tests/conformance"}
        if self.args.folder:
            folders &= set(self.args.folder)
        batches = {}
        for folder in longest_first(folders):
            files = sorted((ROOT / folder).glob("test_*.py"))
            parts = -(-len(files) // FILES_MAX)
            for part in range(parts):
                title = f"{name} {folder}" + f", part {part + 1}" * (parts > 1)
                batches[title] = files[part::parts]
        self.pytest_batches(batches, extra)

    def pytest_batches(self, batches: dict[str, list[pathlib.Path]],
                       extra: list[str], env: dict[str, str] | None = None
                       ) -> None:
        self.run_batches({name: Batch(files, extra, env)
                          for name, files in batches.items()})

    def run_batches(self, batches: dict[str, Batch]) -> None:
        """Side by side, one for each core: a test mostly keeps one busy."""
        children = Children()
        until_s = float(os.environ.get("OPGRAFT_UNTIL", "inf"))

        def begin(name: str, b: Batch) -> PytestRun | None:
            with core_taken():
                if time.time() > until_s or children.is_ended:
                    return None
                return pytest_run(name, b.files, b.extra, b.env, children,
                                  b.python)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            running = {name: pool.submit(begin, name, b)
                       for name, b in batches.items()}
            try:
                for name, run in running.items():
                    found = run.result()
                    if found is None:
                        print(f"{name}: {LEFT}")
                        self.tally.skipped.append(f"{name}: {LEFT}")
                    else:
                        self.count_pytest(name, found)
            except BaseException:
                for run in running.values():
                    run.cancel()
                children.end()
                raise

    def count_pytest(self, name: str, run: PytestRun) -> None:
        if run.status == 5:  # nothing was collected
            return
        if run.report is not None:
            self.count_report(name, run.report)
        if run.report is None or run.status not in (0, 1):
            print(f"{name}: ended with status {run.status}")
            self.tally.add(name, 0, 1)

    def count_report(self, name: str, root: xml.etree.ElementTree.Element
                     ) -> None:
        passed = failed = 0
        bad: list[str] = []
        for case in root.iter("testcase"):
            title = f"{case.get('classname')}.{case.get('name')}"
            self.tally.seconds.append((float(case.get("time", 0)), title))
            skip = case.find("skipped")
            if skip is not None:
                self.tally.skipped.append(f"{title}: {skip.get('message')}")
            elif case.find("failure") is None and case.find("error") is None:
                passed += 1
            else:
                failed += 1
                bad.append(title)
        self.tally.add(name, passed, failed)
        self.tally.problems += [f"  {title}" for title in bad]

    def python(self) -> None:
        """Those marked `full` are left out, come in one case each, or whole."""
        if self.args.full == "one":
            os.environ["OPGRAFT_SMOKE"] = "1"
        if self.args.cases > 1:
            seed = os.environ.setdefault("OPGRAFT_TREE_SEED", str(tree_seed()))
            os.environ["OPGRAFT_CASES"] = str(self.args.cases)
            print(f"one in {self.args.cases} cases of each test, "
                  f"OPGRAFT_TREE_SEED={seed}")
        self.pytest("python", [] if self.args.full == "none" else ["-m", ""])

    def hosts(self) -> None:
        """What further hosts make of one file, and the tests of each host in
        its own environment, .venv-NAME, over the sources of the package; side
        by side."""
        folder = ROOT / "tests/conformance"
        own = [folder / f"test_{path.stem}.py"
               for path in sorted((ROOT / "requirements").glob("*.txt"))
               if path.stem not in ("docs", "openxla", "wheel")]  # no hosts
        env = {**environment(), "PYTHONPATH": str(ROOT / "python"),
               "OPGRAFT_BUILD": str(self.args.build)}
        shared = sorted(set(folder.glob("test_*.py")) - set(own))
        batches = {"hosts": Batch(shared, ["-s"])}
        for tests in own:
            host = tests.stem.removeprefix("test_")
            python = ROOT / f".venv-{host}" / "bin" / "python"
            if python.exists():
                batches[f"hosts {host}"] = Batch([tests], [], env, str(python))
            else:
                self.tally.skipped.append(f"{tests.name}: .venv-{host} is "
                                          "missing: make hosts-environments "
                                          "hosts-matrix")
        self.run_batches(batches)

    def vllm(self) -> None:
        """The plugin of integrations/vllm, beside vLLM's own kernels."""
        env = {**environment(), "PYTHONPATH": str(package_links(self.build))}
        self.run_batches({"vllm": Batch(
            [ROOT / "integrations/vllm/tests"], [], env,
            str(ROOT / ".venv-vllm/bin/python"))})

    def isa(self) -> None:
        """The suite under each instruction set that the machine has. Cut short,
        the C tests that can see one, under each but the last, which every other
        stage runs with, and samples of ATen's operators under the first."""
        counts = {}
        if self.args.smoke:
            self.units, self.texts = ISA_UNITS, ISA_TEXTS
        names = machine_sets()[:-1 if self.args.smoke else None]
        for name in names:
            os.environ["OPGRAFT_ISA"] = name
            before = self.tally.passed, self.tally.failed
            print(f"--- OPGRAFT_ISA={name}", flush=True)
            self.unit()
            self.text()
            if self.args.smoke and name == names[0]:
                self.pytest_batches(
                    {f"{name} samples":
                     [ROOT / "tests/python/graph/test_aten_samples.py"]}, [])
            elif not self.args.smoke:
                self.pytest(name, [])
            counts[name] = {"passed": self.tally.passed - before[0],
                            "failed": self.tally.failed - before[1]}
            if not self.args.smoke:  # one takes half an hour: none is lost
                results.write("isa", ["src", "ops", "tests/unit", "tests/text"],
                              {"sets": counts})
        del os.environ["OPGRAFT_ISA"]
        self.units, self.texts = re.compile(""), ()

    def sanitized(self) -> None:
        """Python tests over a package with sanitizers. Their runtime must come
        first in the process, and the C++ one before torch asks for it. CPython
        keeps what it has until it ends, so leaks are not told."""
        env = {**environment(),
               "LD_PRELOAD": f"{runtime('libasan.so')} "
                             f"{runtime('libstdc++.so.6')}",
               "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
               "PYTHONPATH": str(package_links(self.build)),
               "OPGRAFT_BUILD": str(self.build)}
        batches = {
            f"sanitized {folder}":
            [ROOT / folder / f"{stem}.py"
             for stem in stems[:1 if self.args.smoke else None]]
            for folder, stems in SANITIZED.items()}
        # What a sanitizer says goes past pytest.
        self.pytest_batches(
            batches, ["--capture=sys", "-p", "no:faulthandler"], env)

    def fuzz(self) -> None:
        """Each for --fuzz-seconds; with --fuzz-rotation each corpus, and one
        fuzzer for each core for so long. The seed is the tree's."""
        seed = tree_seed()
        folder = ROOT / "tests" / "fuzz"
        words = {source.stem: [str(self.build / "tests" / "fuzz" / source.stem)]
                 for source in sorted(folder.glob("*.c"))
                 if source.stem != "driver"}
        words |= {source.stem: [sys.executable, str(source)]
                  for source in sorted(folder.glob("*.py"))
                  if source.stem != "reader"}
        chosen = sorted(name for name in words
                        if name in (self.args.fuzzer or words))
        long = dict.fromkeys(chosen, self.args.fuzz_seconds)
        if self.args.fuzz_rotation:
            cores = len(os.sched_getaffinity(0))
            turn = [chosen[(seed * cores + i) % len(chosen)]
                    for i in range(cores)]
            long = {name: self.args.fuzz_rotation if name in turn
                    else FUZZ_REPLAY_SECONDS for name in chosen}
            print(f"seed {seed}, {self.args.fuzz_rotation} s: {turn}")
        programs = {name: [*words[name], "--seconds", str(seconds), "--seed",
                           str(seed), str(folder / "corpus" / name)]
                    for name, seconds in long.items()}
        patience = FUZZ_PATIENCE * max(long.values()) + 120
        for name, status, output in start_all(programs, patience):
            counts, seconds = counts_of(output), long[name]
            if status == 0 and not accepts_enough(name, counts):
                status = 1
            self.tally.add_status(f"fuzz {name}, seed {seed}", status,
                                  output + crash_shown(name, status))
            if seconds >= FUZZ_KEPT_SECONDS:
                keep_fuzz(name, {"seconds": seconds, "seed": seed,
                                 "clean": status == 0, **counts})

    def scripts(self, folder: str) -> None:
        """Cut short they show that they run, side by side; else they measure,
        one after the other."""
        programs = {
            f"{folder}/{script.name}":
            [sys.executable, str(script)]
            + (["--smoke"] if self.args.smoke else [])
            for script in sorted((ROOT / folder).glob("*.py"))
            if "__main__" in script.read_text()}  # else a part of the others
        if self.args.share > 1:
            turn = sorted(programs)[tree_seed() % self.args.share
                                    ::self.args.share]
            print(f"one of {self.args.share}: {' '.join(turn)}")
            programs = {name: programs[name] for name in turn}
        if self.args.smoke:
            for name, status, _ in start_all(programs, SMOKE_TIMEOUT_S):
                self.tally.add_status(name, status)
            return
        for name, words in programs.items():
            print(f"--- {name}", flush=True)
            self.tally.add_status(name,
                                  subprocess.run(words, cwd=ROOT).returncode)

    def bench(self) -> None:
        self.scripts("bench")

    def sweep(self) -> None:
        self.scripts("tests/sweep")

    def style(self) -> None:
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                               capture_output=True, check=True).stdout.split()
        c_files = [f for f in files if f.endswith((".c", ".h"))
                   or f.startswith("hosts/") and f.endswith(".cpp")]
        text_files = [f for f in files if f.endswith(
            (".c", ".h", ".cpp", ".py", ".md", ".txt", ".def", ".cmake",
             ".toml"))
            and "/corpus/" not in f]
        tools = pathlib.Path(sys.executable).parent
        commands = {
            "format": [str(tools / "clang-format"), "--dry-run", "-Werror",
                       *c_files],
            "layers": [sys.executable, "tools/layers.py"],
            "callers and circles": [sys.executable, "tools/callers.py"],
            "probes": [sys.executable, "tools/probe_docs.py", "--check"],
            "messages": [sys.executable, "tools/messages.py"],
            "measure": [sys.executable, "tools/measure.py"],
            "spelling": [str(tools / "codespell"), "--ignore-words",
                         "tools/spelling.txt", *text_files],
            "ruff": [str(tools / "ruff"), "check", "-q", "."],
            "types": [str(tools / "mypy"), "--no-error-summary"],
        }
        for name, status, _ in start_all(commands, UNIT_TIMEOUT_S):
            print(f"{name}: {'passed' if status == 0 else 'failed'}")
            self.tally.add_status(name, status)


STAGES = ["unit", "text", "checks", "python", "sanitized", "threads",
          "valgrind", "fuzz", "bench", "sweep", "style", "isa", "hosts",
          "vllm"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stages", nargs="+", choices=STAGES)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--thread-build", type=pathlib.Path,
                        default=ROOT / "build-tsan")
    parser.add_argument("--faults", type=int, default=0, metavar="N",
                        help="text tests with allocations failing "
                        "in turn (tests/text/run.py)")
    parser.add_argument("--folder", action="append", metavar="FOLDER",
                        help="Python tests of this folder only, or of these")
    parser.add_argument("--full", choices=["none", "one", "whole"],
                        default="none", help="what of the slow Python tests "
                        "runs: one case of each, or all")
    parser.add_argument("--cases", type=int, default=1, metavar="N",
                        help="one in N cases of each Python test, in rotation")
    parser.add_argument("--fuzz-seconds", type=int, default=30)
    parser.add_argument("--fuzz-rotation", type=int, default=0, metavar="N",
                        help="search N seconds with some fuzzers, in rotation; "
                        "the others read their corpora")
    parser.add_argument("--fuzzer", action="append", metavar="NAME",
                        help="only this fuzzer, or these")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--share", type=int, default=1, metavar="N",
                        help="one in N scripts of bench and sweep, in rotation")
    args = parser.parse_intermixed_args()
    stages = Stages(args)
    tally = stages.tally
    for stage in args.stages:
        begin = time.monotonic()
        print(f"=== {stage}", flush=True)
        getattr(stages, stage)()
        print(f"=== {stage}: {time.monotonic() - begin:.1f} s", flush=True)
    if tally.seconds:
        print(f"slowest of {len(tally.seconds)} Python tests:")
    for seconds, title in sorted(tally.seconds, reverse=True)[:SLOWEST_TOLD]:
        print(f"  {seconds:.1f} s {title}")
    if tally.skipped:
        print(f"{len(tally.skipped)} skipped:")
        print("".join(f"  {reason}\n" for reason in tally.skipped), end="")
    for problem in tally.problems:
        print(problem)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())

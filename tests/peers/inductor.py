# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own compiler tests, with backend opgraft.

    python tests/peers/inductor.py [CHECKOUT] --out rows.jsonl

CHECKOUT is a PyTorch source tree, or its folder test, near the installed torch;
without it only the databases that come with torch are run (op_db, module_db,
optim_db). Of the tree it takes inductor/test_torchinductor*.py (static and
dynamic sizes), functorch/test_aotdispatch.py and dynamo/test_*.py. A port for
another device works where that device's word is put back to "cpu" or "cuda".

Each test is a forked process with a time limit, so that a crash or a hang is a
row too. One that fails is run once more by aot_eager and, where that passes, by
aot_eager with torch's kernel of linear layers for products, then by Inductor.
Rows that --out has are not run again. inductor.txt lists the failures
that are not ours, with what aot_eager or Inductor says; a failure that it does
not list and a listed test that passes fail the run.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import select
import signal
import sys
import time
import traceback
import types
import unittest
import warnings
from collections import Counter
from typing import Any, Callable

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("PYTORCH_TEST_SKIP_NOARCH", "0")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from suite import excused, stand_ins  # noqa: E402

FILES = ("inductor/test_torchinductor.py", "functorch/test_aotdispatch.py",
         "dynamo/test_*.py")
DATABASES = HERE / "suite/databases.py"
MODES = ("max-autotune", "reduce-overhead")
SIZES = ("static", "dynamic")
REPRODUCE = "\nTo execute this test, run"  # what torch adds to a message
OTHER_DEVICES = ("cuda", "gpu", "xpu", "mps", "npu", "triton")
Test = tuple[type, str]
Row = dict[str, Any]


# --- One file's tests ---------------------------------------------------------


def absent(*args: Any, **kwargs: Any) -> Any:
    """A helper that this torch lacks."""
    if len(args) == 1 and callable(args[0]):  # a decorator
        return args[0]
    raise unittest.SkipTest("needs a helper that this torch lacks")


def imported(path: pathlib.Path) -> types.ModuleType:
    """A name that this torch lacks is a stand-in."""
    folder = path.parent.name
    name = f"{folder}.{path.stem}"
    sys.path[:0] = [str(path.parents[1]), str(path.parent)]
    for _ in range(40):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            return module
        except ImportError as error:
            lacks = re.match(r"cannot import name '(\w+)' from '([\w.]+)'",
                             str(error))
            if lacks is None:
                raise
            setattr(sys.modules[lacks[2]], lacks[1], absent)
    raise ImportError(path)


def template_class(module: Any, sizes: str) -> type:
    """CommonTemplate of test_torchinductor on the CPU."""
    template = module.CommonTemplate
    if sizes == "dynamic":
        from torch._dynamo.testing import make_test_cls_with_patches

        template = make_test_cls_with_patches(
            template, "DynamicShapes", "_dynamic_shapes",
            (torch._dynamo.config, "assume_static_by_default", False),
            xfail_prop="_expected_failure_dynamic")
    made = type("CpuTests", (module.TestCase,), {
        "common": stand_ins.check_model, "device": "cpu",
        "__module__": module.__name__})
    module.copy_tests(template, made, "cpu")
    return made


def classes_of(module: Any, sizes: str) -> list[type]:
    if hasattr(module, "CommonTemplate"):
        made = [template_class(module, sizes)]
        if sizes == "dynamic":
            return made
        if hasattr(module, "SweepInputs2"):
            sweep = type("SweepInputs", (module.SweepInputs2, module.TestCase),
                         {"gen": module.InputGen(10, "cpu"),
                          "__module__": module.__name__})
            sweep.populate()  # type: ignore[attr-defined]
            made.append(sweep)
        own = {"CpuTests", "GPUTests", "SweepInputsCpuTest"}
    elif sizes == "dynamic" and module.__file__ != str(DATABASES):
        return []
    else:
        made, own = [], set()
    return made + [
        c for n, c in vars(module).items()
        if isinstance(c, type) and issubclass(c, unittest.TestCase)
        and c.__module__ == module.__name__ and n not in own
        and not any(word in n.lower() for word in OTHER_DEVICES)]


def tests_of(module: Any, sizes: str) -> list[Test]:
    return [(c, n) for c in classes_of(module, sizes) for n in sorted(dir(c))
            if n.startswith("test") and callable(getattr(c, n))]


# --- One test -----------------------------------------------------------------


class Result(unittest.TestResult):
    """The row of a test: what failed first."""

    def __init__(self) -> None:
        super().__init__()
        self.row: Row = {"status": "passed"}

    def failed(self, error: Any) -> None:
        if self.row["status"] == "failed":
            return
        kind, value, trace = error
        frames = traceback.extract_tb(trace)
        own = [f for f in frames if f"{os.sep}test" in f.filename] or frames
        ours = re.findall(r'File "[^"]*(opgraft/[^"]*)", line (\d+)',
                          "".join(traceback.format_exception(*error)))
        self.row = {
            "status": "failed",
            "text": f"{kind.__name__}: "
            f"{str(value).split(REPRODUCE)[0].strip()[:1500]}",
            "where": " ".join([
                f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: "
                f"{own[-1].line}", *(":".join(o) for o in ours[-1:])])}

    def addError(self, test: Any, err: Any) -> None:
        self.failed(err)

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.failed(err)

    def addSkip(self, test: Any, reason: str) -> None:
        if self.row["status"] == "passed":
            self.row = {"status": "skipped", "text": reason[:200]}


def in_child(work: Callable[[], Row], timeout: float) -> Row:
    """What `work` returns, computed in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(quiet, number)
        try:
            os.write(write, json.dumps(work()).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(write)
    data, begun, is_open = b"", time.monotonic(), True
    # A process that the test left running keeps the pipe open.
    while is_open and not data.endswith(b"\n"):
        left = begun + timeout - time.monotonic()
        if left < 0 or not select.select([read], [], [], left)[0]:
            break
        data += (more := os.read(read, 1 << 16))
        is_open = bool(more)
    os.close(read)
    if is_open or data:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if data.endswith(b"\n"):
        row: Row = json.loads(data)
    elif is_open:
        row = {"status": "hang", "text": f"more than {timeout:g} s"}
    else:
        row = {"status": "crash", "text": f"wait status {status}"}
    return row | {"seconds": round(time.monotonic() - begun, 2)}


def run_one(test: Test, backend: str, mode: str, sizes: str, threads: int
            ) -> Row:
    chosen = stand_ins.chosen
    chosen.backend, chosen.mode = backend, mode
    chosen.dynamic = sizes == "dynamic"
    if backend == "inductor" and test[0].__module__.startswith("inductor."):
        stand_ins.installed.close()
    torch.set_num_threads(threads)
    result = Result()
    try:
        unittest.TestSuite([test[0](test[1])]).run(result)
    except BaseException:
        result.failed(sys.exc_info())
    return result.row


def tried(test: Test, mode: str, sizes: str, args: argparse.Namespace,
          known: dict[str, str]) -> Row:
    """The row of one test; of one that fails, with the baselines' texts."""
    def by(backend: str) -> Row:
        return in_child(functools.partial(
            run_one, test, backend, mode, sizes, args.threads), args.timeout)

    row = by("opgraft")
    is_ours = row.get("text", "").startswith("FailedByUs")
    if row["status"] in ("passed", "skipped") or is_ours:
        return row
    for name in args.baselines.split(","):
        if name not in known:
            told = by(name)
            known[name] = "" if told["status"] == "passed" else " ".join(
                [told["text"], told.get("where", "")]).strip()
        row.setdefault("baseline", {})[name] = known[name]
        if known[name]:
            break
    return row


# --- All files ----------------------------------------------------------------


def key_of(row: Row) -> tuple[str, ...]:
    return row["file"], row["test"], row["mode"], row["sizes"]


def rows_read(path: pathlib.Path) -> dict[tuple[str, ...], Row]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {key_of(row): row for row in map(json.loads, lines)}


def file_run(path: pathlib.Path, args: argparse.Namespace, part: int) -> None:
    """Every `jobs`th test of a file, in each of the modes and sizes."""
    stand_ins.install(path.parent.name)
    module = (importlib.import_module("suite.databases")
              if path == DATABASES else imported(path))
    stand_ins.install_within(module)
    stand_ins.real_compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    torch._dynamo.reset()
    gc.freeze()
    done = {k for k, row in rows_read(args.out).items()
            if not args.again or row["status"] in ("passed", "skipped")}
    for sizes in args.sizes:
        tests = [t for t in tests_of(module, sizes)
                 if re.search(args.match, f"{t[0].__name__}.{t[1]}")]
        random.Random(args.seed).shuffle(tests)
        tests = tests[:round(len(tests) * args.sample)][part::args.jobs]
        for test, mode in itertools.product(tests, args.modes):
            head = {"file": path.name, "mode": mode, "sizes": sizes,
                    "test": f"{test[0].__name__}.{test[1]}"}
            if key_of(head) in done:
                continue
            row = head | tried(test, mode, sizes, args, {})
            with args.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            if row["status"] not in ("passed", "skipped"):
                print(f"  {head['test']} {mode} {sizes}: {row['status']}",
                      flush=True)


def paths_of(args: argparse.Namespace) -> list[pathlib.Path]:
    found: list[pathlib.Path] = []
    if args.checkout is not None:
        root = args.checkout.resolve()
        root = root / "test" if (root / "test").is_dir() else root
        for pattern in FILES:
            found += sorted(root.glob(pattern))
        if not found:
            raise SystemExit(f"{root} has none of {', '.join(FILES)}")
    return [p for p in [*found, DATABASES] if re.search(args.files, p.name)]


def table(counts: dict[tuple[str, str, str], Counter[str]]) -> None:
    kinds = (excused.PASSED, excused.BY_US, *excused.KINDS, excused.SKIPPED)
    print(f"{'file, mode, sizes':60}" + "".join(f"{k:>11}" for k in kinds))
    total: Counter[str] = Counter()
    for key, count in sorted(counts.items()):
        total.update(count)
        print(f"{' '.join(key):60}" + "".join(f"{count[k]:11}" for k in kinds))
    print(f"{'all':60}" + "".join(f"{total[k]:11}" for k in kinds))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="a JSONL file of rows, which a run goes on with")
    parser.add_argument("--files", default="", help="pattern of file names")
    parser.add_argument("--match", default="", help="pattern of Class.test")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--sample", type=float, default=1.0,
                        help="the part of each file's tests that is run")
    parser.add_argument("--seed", type=int, default=1, help="of that draw")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of a test")
    parser.add_argument("--timeout", type=float, default=60, help="seconds")
    parser.add_argument("--baselines", default=",".join(excused.BASELINES),
                        help="what runs a test that fails, up to the first "
                        "that fails too")
    parser.add_argument("--again", action="store_true",
                        help="run what did not pass again")
    parser.add_argument("--excuses", type=pathlib.Path,
                        default=HERE / "inductor.txt")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    excuses = excused.excuses_read(args.excuses.read_text())
    paths = paths_of(args)
    torch.set_num_threads(1)  # no thread is started before the forks
    for early in ("torch._inductor.compile_fx", "torch._dynamo.testing"):
        importlib.import_module(early)
    broken = []
    for path in paths:
        print(path.name, flush=True)
        parts = []
        for part in range(args.jobs):
            if (pid := os.fork()) == 0:
                try:
                    file_run(path, args, part)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            parts.append(pid)
        if any([os.waitpid(pid, 0)[1] for pid in parts]):
            broken.append(path.name)
    names = {p.name for p in paths}
    counts, problems = excused.judged(
        [r for r in rows_read(args.out).values() if r["file"] in names
         and r["mode"] in args.modes and r["sizes"] in args.sizes
         and re.search(args.match, r["test"])], excuses)
    print(*problems, sep="\n")
    print(*(f"{name}: its import failed" for name in broken), sep="\n")
    table(counts)
    print(f"{len(problems) + len(broken)} problems")
    return int(bool(problems or broken))


if __name__ == "__main__":
    sys.exit(main())

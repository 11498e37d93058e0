#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests' generators for long: each draws cases from a seed, and knows
what is right of each.

    tools/generators.py [--build DIR] [--minutes 10] [--out FILE.jsonl] [NAME...]

Minutes are the processor's. A generator is done when so many have passed since
its last find; one without seeds, which tries all that there is, when it has
passed once. Runs have fresh seeds, and one instruction set of the machine after
the other. With --out an interrupted search goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
from typing import Any, NamedTuple

import run_tests

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUN_S = 120  # of one process
PYTEST = (f"{sys.executable} -m pytest -qs --timeout 0 --show-capture no "
          "-m 'full or not full' ")
TIMED = "--seconds {seconds} --seed {seed} tests/"
DRAWN = PYTEST + TIMED
WHOLE = PYTEST + "tests/"
GRAPHS = "{build}/tests/tools/graph_random --count=100000 --seed={seed} "
DEVICE = "--device={build}/devices/npu_sim.so"
# Fuzzers whose input is text: each bounds its time by the byte.
READERS = ("schema", "shape", "dtype", "formula", "graph_text", "loop")
# What `rounds`, unit tests and graph_random say; pytest without them, fuzzers.
COUNTS = re.compile(r"([\d,]+) (?:cases|passed), (\d+) (?:found|failed)")
PASSED = re.compile(r"(\d+) ()(?:passed|inputs)")


class Generator(NamedTuple):
    name: str
    searches: str
    command: str


GENERATORS = [Generator(*row) for row in (
    ("numbers", "numbers and 0-dim tensors of other types, to the bit",
     DRAWN + "python/graph/test_numbers.py::test_many"),
    ("refused", "what eager refuses, at the borders of every argument",
     DRAWN + "python/rows/test_refused.py::test_many"),
    ("writes", "inputs that forward and backward write",
     DRAWN + "python/graph/test_conventions.py::test_many_drawn_writes"),
    ("shared", "inputs that share memory and are written",
     DRAWN + "python/graph/test_conventions.py::"
     "test_many_inputs_that_share_memory"),
    ("layouts", "strides and as_strided of every operator's results",
     DRAWN + "python/graph/test_layouts.py::test_many"),
    ("extremes", "reductions and norms of tiny, huge and special rows",
     DRAWN + "python/rows/test_extremes.py::test_many"),
    ("conventions", "tangents, results that share memory, subclasses",
     WHOLE + "python/graph/test_conventions.py"),
    ("borders", "rows that compare, and gradients, beside their borders",
     DRAWN + "python/rows/test_borders.py::test_many"),
    ("drivers", "every operator on drivers that lack functions",
     WHOLE + "python/device/test_every_operator.py"),
    ("symbols", "symbolic arguments: negative, zero and far",
     DRAWN + "python/graph/test_symbols.py::test_many"),
    ("empty", "operators of the host without elements",
     DRAWN + "python/rows/test_empty.py::test_many"),
    ("buffers", "modules that write their buffers",
     DRAWN + "python/graph/test_buffers.py::test_many"),
    ("functions", "random functions: every operator of the IR's kinds",
     DRAWN + "python/graph/test_random.py::test_many"),
    ("lowered", "what pass `lower` takes apart, beside float64",
     DRAWN + "python/graph/test_lowered.py::test_many"),
    ("resample", "resizing, averages and gather, beside float64",
     DRAWN + "python/graph/test_resample.py::test_many"),
    ("sizes", "expressions of symbolic sizes",
     DRAWN + "python/graph/test_float_sizes.py::test_many"),
    ("gen", "text that opgraft gen reads: time by the byte",
     DRAWN + "cli/test_gen.py::test_time_is_by_the_byte"),
    ("gen's output", "damaged specifications: C that compiles, or a message",
     DRAWN + "cli/test_gen.py::"
     "test_damaged_specifications_are_read_or_refused"),
    *((f"text of {name}", "its reader: no crash, and time by the byte",
       f"{{build}}/tests/fuzz/{name} {TIMED}fuzz/corpus/{name}")
      for name in READERS),
    ("seal", "damaged modules", "{build}/tests/unit/module_seal {seed}"),
    ("lock", "files of tuned kernels that others hold, or that are no files",
     "{build}/tests/unit/exec_tuned"),
    ("graphs", "passes, threads and memory change no bit", GRAPHS),
    ("fused", "the same of whole numbers, fused", GRAPHS + "--fuse"),
    ("on device", "the same on a device", GRAPHS + DEVICE),
    ("fused on device", "and fused there", GRAPHS + "--fuse " + DEVICE))]


def run(generator: Generator, build: pathlib.Path, isa: str, seconds: float
        ) -> dict[str, Any]:
    """One process, as a line of --out; `found` counts the seeds that fail."""
    seed = random.SystemRandom().randrange(1 << 31)
    words = shlex.split(generator.command.format(
        build=build, seed=seed, seconds=round(seconds)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=os.environ | {"OPGRAFT_ISA": isa})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = COUNTS.findall(done.stdout) or PASSED.findall(done.stdout)
    found = max(sum(int(n or 0) for _, n in said), int(done.returncode != 0))
    return {"name": generator.name, "seed": seed, "isa": isa, "found": found,
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime
            - before.ru_stime,
            "cases": sum(int(n.replace(",", "")) for n, _ in said),
            "text": f"{' '.join(words)}\n{done.stdout[-8000:]}" if found else ""}


def clean_s(runs: list[dict[str, Any]]) -> float:
    """Processor time since the last find."""
    last = max((i for i, r in enumerate(runs) if r["found"]), default=-1)
    return sum(r["cpu_s"] for r in runs[last + 1:])


def table(names: list[str], runs: list[dict[str, Any]]) -> str:
    lines = ["generator | runs | minutes | clean minutes | cases | found"]
    for name in names:
        own = [r for r in runs if r["name"] == name]
        cpu_s, cases, found = (sum(r[key] for r in own)
                               for key in ("cpu_s", "cases", "found"))
        lines.append(f"{name} | {len(own)} | {cpu_s / 60:.1f} | "
                     f"{clean_s(own) / 60:.1f} | {cases:,} | {found}")
    return "\n".join(lines)


def search(generator: Generator, args: argparse.Namespace, sets: list[str],
           runs: list[dict[str, Any]]) -> bool:
    """Until its minutes are clean, or the first find: False."""
    while True:
        own = [r for r in runs if r["name"] == generator.name]
        left = 60 * args.minutes - clean_s(own)
        is_whole = "{seed}" not in generator.command
        if left <= 0 or is_whole and own and not own[-1]["found"]:
            return True
        runs.append(run(generator, args.build, sets[-1 - len(own) % len(sets)],
                        min(left, RUN_S)))
        if args.out:
            with args.out.open("a") as out:
                out.write(json.dumps(runs[-1]) + "\n")
        print("{name}, {isa}, seed {seed}: {cpu_s:.0f} s, {cases:,} cases, "
              "{found} found\n{text}".format(**runs[-1]).rstrip(), flush=True)
        if runs[-1]["found"]:
            return False


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(words)
    args.build = args.build.resolve()
    chosen = [g for g in GENERATORS if not args.names or g.name in args.names]
    runs = ([json.loads(line) for line in args.out.open()]
            if args.out and args.out.exists() else [])
    sets = run_tests.machine_sets()
    found = [g.name for g in chosen if not search(g, args, sets, runs)]
    print(table([g.name for g in chosen], runs))
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

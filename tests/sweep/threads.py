#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight threads compile, call, load, unload, reload and adopt the same
modules at once; each result is compared.

    tests/sweep/threads.py [--smoke] [--seconds N] [--seed N]

One module is never unloaded: what is done with it must always succeed. The
others come and go: a call of theirs succeeds with the right factor, or says
that the module is gone. A thread that finishes no action for STUCK_S seconds
is stuck: every thread's stack is printed. A full run writes
docs/results/threads.json.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from typing import Any, Callable

import torch

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import results  # noqa: E402

MEASURED = ("hosts/torch", "src/module", "src/exec", "python/opgraft",
            "tests/sweep/threads.py")
THREADS = 8
STUCK_S = 120
FACTORS = (2, 3, 5)
SHARED = ("threads_a", "threads_b", "threads_c")
BACKENDS = ("opgraft", "opgraft", "aot_eager", "eager")
# How an action may end where another thread unloads or reloads its module. The
# last are torch's, for a call that was on its way to the kernel.
GONE = ("was unloaded", "can still be called", "has no attribute 'times'",
        "doesn't have a schema registered yet", "no fallback function is",
        "arguments from the 'CPU' backend")

SOURCE = """
#include <opgraft/op.h>
static og_status run(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] * %d;
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {{
    .schema = "times(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]",
    .dtype = "x: f32 -> x", .backward = "times(grad) -> x",
    .kernels = OG_KERNELS(kernels)}};
OG_MODULE(%s, ops)
"""


class Wrong(Exception):
    """A result that no loaded kernel gives."""


def build(folder: pathlib.Path, name: str, factor: int) -> pathlib.Path:
    source = folder / f"{name}_{factor}.c"
    source.write_text(SOURCE % (factor, name))
    out = source.with_suffix(".so")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-fPIC", "-shared",
         f"-I{ROOT / 'include'}", str(source), "-o", str(out)], check=True)
    return out


class Shared:
    """The modules that come and go, and the factor of each content."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.factors: dict[str, int] = {}
        self.variants: dict[str, list[pathlib.Path]] = {}
        for name in SHARED:
            self.variants[name] = [build(folder, name, f) for f in FACTORS]
            for factor, path in zip(FACTORS, self.variants[name]):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                self.factors[digest] = factor
            self.change(name, self.variants[name][0], 0)
        self.kept = opgraft.load(build(folder, "threads_kept", 7))
        # torch finds a backend by name; two threads that do it for the first
        # time at once register it twice, which torch refuses.
        for backend in set(BACKENDS):
            torch._dynamo.lookup_backend(backend)

    def path(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.so"

    def change(self, name: str, variant: pathlib.Path, thread: int) -> None:
        """The file at the module's path becomes another, in one step."""
        part = self.folder / f"{name}.{thread}.part"
        shutil.copyfile(variant, part)
        part.replace(self.path(name))


def compare(found: torch.Tensor, x: torch.Tensor, factors: tuple[int, ...],
            what: str) -> None:
    if not any(torch.equal(found, x * f) for f in factors):
        raise Wrong(f"{what}: found {found.tolist()}, expected {x.tolist()} "
                    f"times one of {factors}")


class Worker:
    """One thread's actions."""

    def __init__(self, number: int, seed: int, shared: Shared) -> None:
        self.number = number
        self.random = random.Random(seed * THREADS + number)
        self.shared = shared
        self.done: collections.Counter[str] = collections.Counter()
        self.gone: collections.Counter[str] = collections.Counter()
        self.action = "nothing yet"
        self.begun = time.monotonic()
        self.trouble = ""
        self.actions: list[tuple[str, Callable[[], None]]] = [
            ("call", self.call), ("call", self.call),
            ("call torch.ops", self.call_ops),
            ("compile", self.compile), ("compile kept", self.compile_kept),
            ("unload", self.unload), ("reload", self.reload),
            ("adopt", self.adopt)]

    def name(self) -> str:
        return self.random.choice(SHARED)

    def input(self) -> torch.Tensor:
        return torch.arange(1.0, 1.0 + self.random.randint(1, 9))

    def load(self) -> tuple[Any, int]:
        m = opgraft.load(self.shared.path(self.name()))
        return m, self.shared.factors[m.hash]

    def call(self) -> None:
        m, factor = self.load()
        x = self.input().requires_grad_()
        y = m.times(x)
        compare(y.detach(), x.detach(), (factor,), m.name)
        y.sum().backward()
        compare(x.grad, torch.ones_like(x), (factor,), f"{m.name} gradient")

    def call_ops(self) -> None:
        name, x = self.name(), self.input()
        compare(getattr(torch.ops, name).times(x), x, FACTORS, name)

    def compile(self) -> None:
        m, _ = self.load()
        self.compiled(lambda t: m.times(t) + 1, FACTORS, m.name)

    def compile_kept(self) -> None:
        kept = self.shared.kept
        self.compiled(lambda t: kept.times(t) + 1, (7,), kept.name)

    def compiled(self, function: Callable[..., Any], factors: tuple[int, ...],
                 name: str) -> None:
        backend = self.random.choice(BACKENDS)
        # Code of its own, since Dynamo limits the compiles of one code.
        own = types.FunctionType(function.__code__.replace(), globals(),
                                 closure=function.__closure__)
        model = torch.compile(own, backend=backend)
        for _ in range(3):
            x = self.input().requires_grad_(self.random.random() < 0.5)
            y = model(x)
            compare(y.detach() - 1, x.detach(), factors, f"{name} {backend}")
            if x.requires_grad:
                y.sum().backward()
                compare(x.grad, torch.ones_like(x), factors,
                        f"{name} {backend} gradient")

    def unload(self) -> None:
        self.load()[0].unload()

    def reload(self) -> None:
        name = self.name()
        variant = self.random.choice(self.shared.variants[name])
        self.shared.change(name, variant, self.number)
        opgraft.load(self.shared.path(name))

    def adopt(self) -> None:
        number = self.random.randrange(4)
        op = opgraft.adopt(
            twice, name=f"threads_adopted::twice_{number}",
            schema=f"twice_{number}(Tensor x) -> Tensor",
            shape="x[*N] -> [*N]", dtype="x: f32 -> x")
        x = self.input()
        compare(op(x), x, (2,), "adopted")

    def run(self, until: float) -> None:
        while time.monotonic() < until and not self.trouble:
            self.action, act = self.random.choice(self.actions)
            self.begun = time.monotonic()
            try:
                act()
            except Exception as error:
                if isinstance(error, Wrong) or self.action in (
                        "compile kept", "adopt") or not any(
                            text in str(error) for text in GONE):
                    self.trouble = traceback.format_exc()
                    return
                self.gone[self.action] += 1
            self.done[self.action] += 1


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def watch(workers: list[Worker], team: list[threading.Thread]) -> None:
    """Waits for the threads; ends the process where one is stuck."""
    while any(t.is_alive() for t in team):
        time.sleep(0.2)
        for worker, thread in zip(workers, team):
            if thread.is_alive() and time.monotonic() - worker.begun > STUCK_S:
                print(f"thread {worker.number} is stuck: {worker.action} has "
                      f"not ended for {STUCK_S} s", flush=True)
                faulthandler.dump_traceback()
                os._exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--smoke", action="store_true",
                        help="ten seconds, nothing written")
    options = parser.parse_args()
    seconds = 10 if options.smoke else options.seconds
    faulthandler.enable()
    with tempfile.TemporaryDirectory(prefix="threads-") as folder:
        shared = Shared(pathlib.Path(folder))
        workers = [Worker(i, options.seed, shared) for i in range(THREADS)]
        until = time.monotonic() + seconds
        team = [threading.Thread(target=w.run, args=(until,), daemon=True)
                for w in workers]
        for t in team:
            t.start()
        watch(workers, team)
    done = sum((w.done for w in workers), collections.Counter())
    gone = sum((w.gone for w in workers), collections.Counter())
    trouble = [w for w in workers if w.trouble]
    for w in trouble:
        lines = [line for line in w.trouble.splitlines()
                 if "registered at" not in line]
        print(f"--- thread {w.number}, {w.action}\n" + "\n".join(lines))
    for name, count in sorted(done.items()):
        print(f"{name:<16}{count:8} done, {gone[name]:6} found the module gone")
    print(f"threads: {done.total()} actions in {seconds} s, seed "
          f"{options.seed}: {len(trouble)} threads in trouble (0)")
    if seconds >= 600:
        results.write("threads", MEASURED, {
            "seconds": seconds, "seed": options.seed, "clean": not trouble,
            "done": dict(sorted(done.items())),
            "gone": dict(sorted(gone.items()))})
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())

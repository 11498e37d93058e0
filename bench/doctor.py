#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What doctor measures, and what it costs.

Breaks of known cost are planted in scripts: sleeps, copies and loops that time
themselves; `opgraft doctor`, which does not know, must find it again. Then
the time inside the hooks beside that of compiling, and a compiled step with
hooks installed beside one without.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 0.10  # of the planted cost
HOOKS_SHARE = 0.02
MEASURED = [ROOT / "python/opgraft/doctor", ROOT / "src/trace"]
STEADY = 1.02
# name: what a call costs, as source; `n` calls of it are one break each.
PLANTED = {
    "sleep 0.5 ms": "time.sleep(5e-4)",
    "sleep 2 ms": "time.sleep(2e-3)",
    "sleep 10 ms": "time.sleep(1e-2)",
    "copy 16 MiB": "there[:1 << 22].copy_(big[:1 << 22])",
    "copy 128 MiB": "there.copy_(big)",
    "Python loop": "sum(range(100_000))",
}
# Every break has a line of its own, so that a report can tell them apart. A
# call times itself: a machine's speed, and what a cache holds, change between
# the step that doctor times and any other.
SCRIPT = """\
import atexit, json, sys, time
import torch

big = torch.ones(1 << 25)
there = torch.zeros(1 << 25)
times = {{}}

{functions}

def step(x):
{lines}
    return x

def last(took):
    took = sorted(took[-{runs}:])
    return took[len(took) // 2] / 1e3

@atexit.register
def tell():
    with open(sys.argv[1], "w") as file:
        json.dump({{name: last(took) for name, took in times.items()}}, file)

compiled = torch.compile(step, backend="eager")
with torch.no_grad():
    compiled(torch.ones(64))
"""
FUNCTION = """\
@torch.compiler.disable
def planted_{i}():
    begin = time.perf_counter_ns()
    {work}
    took = time.perf_counter_ns() - begin
    times.setdefault("planted_{i}", []).append(took)

"""
MLP = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[m for _ in range(4) for m in (
    torch.nn.Linear(256, 256), torch.nn.LayerNorm(256), torch.nn.GELU())])
x = torch.randn(32, 256)
"""
BERT = """\
import torch
class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(1000, 128)
        self.layers = torch.nn.ModuleList([torch.nn.TransformerEncoderLayer(
            128, 4, 512, 0.1, "gelu", batch_first=True) for _ in range(2)])
    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return x
torch.manual_seed(0)
model = Bert()
x = torch.randint(0, 1000, (2, 64))
"""
SPLIT = """\
import torch
class Split(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(
            [torch.nn.Linear(64, 64) for _ in range(4)])
    def forward(self, x):
""" + "".join(f"""\
        x = self.parts[{i}](x).relu()
        torch._dynamo.graph_break()
""" for i in range(4)) + """\
        return x
torch.manual_seed(0)
model = Split()
x = torch.randn(8, 64)
"""
MODELS = {"MLP, training": MLP, "BERT, 2 layers, training": BERT,
          "4 breaks, training": SPLIT}
TRAIN = """
import json, os, time
compiled = torch.compile(model)
begin = time.perf_counter()
compiled(x).float().pow(2).mean().backward()
took = time.perf_counter() - begin
if "TOOK" in os.environ:
    with open(os.environ["TOOK"], "w") as file:
        json.dump(took, file)
"""
# A graph that comes from a cache is not compiled.
NO_CACHE = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}


def run(words: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True,
        env={**os.environ, **NO_CACHE, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")


def report(folder: Path, script: Path, *words: str, runs: int,
           environment: dict[str, str] | None = None) -> dict[str, Any]:
    out = folder / "report.json"
    run(["-m", "opgraft.doctor", "--no-verify", "--runs", str(runs), "--json",
         str(out), str(script), *words], environment)
    return json.loads(out.read_text())


# --- Planted costs ------------------------------------------------------------


def planted(folder: Path, names: list[str], runs: int
            ) -> list[tuple[str, float, float, float]]:
    """(name, known µs, µs found, µs found for a break around nothing) of
    breaks that stand in one function."""
    functions, lines = "", ""
    for i, work in enumerate(["pass", *(PLANTED[n] for n in names)]):
        functions += FUNCTION.format(i=i, work=work)
        lines += f"    x = x + 1\n    planted_{i}()\n    x = x * 2\n"
    script, known = folder / "planted.py", folder / "known.json"
    script.write_text(SCRIPT.format(functions=functions, lines=lines,
                                    runs=runs))
    found = report(folder, script, str(known), runs=runs)
    times = json.loads(known.read_text())
    by_code = {r["code"]: r["steady_us"] for r in found["roots"]}
    costs = [by_code.get(f"planted_{i}()", 0.0) for i in range(len(names) + 1)]
    return [(name, times[f"planted_{i}"], costs[i], costs[0])
            for i, name in enumerate(names, 1)]


def errors(folder: Path, is_smoke: bool) -> dict[str, float]:
    """The worst error, of breaks alone and of several in one step. What
    leaving a graph costs by itself is doctor's to tell too, and is taken off
    by a break around nothing in the same step."""
    names = list(PLANTED)
    scripts = [names[1:2]] if is_smoke else [[n] for n in names] + [names]
    worst: dict[str, float] = {}
    print("\nplanted breaks (us a step)"
          f"\n  {'':<34}{'known':>12}{'found':>12}{'nothing':>12}{'off':>8}")
    for wanted in scripts:
        for name, known, found, nothing in planted(
                folder, wanted, 11 if is_smoke else 21):
            error = abs(found - nothing - known) / known
            where = "alone" if len(wanted) == 1 else f"of {len(wanted)}"
            print(f"  {name + ', ' + where:<34}{known:12.1f}{found:12.1f}"
                  f"{nothing:12.1f}{100 * error:7.1f}%")
            worst[where] = max(worst.get(where, 0), error)
    return {f"planted cost found again, worst {w}": e
            for w, e in worst.items()}


def recover(folder: Path, goals: harness.Goals, is_smoke: bool) -> None:
    wheres = ["alone"] if is_smoke else ["alone", f"of {len(PLANTED)}"]
    harness.judged(
        lambda: errors(folder, is_smoke),
        {f"planted cost found again, worst {w}": (WITHIN, True)
         for w in wheres}, goals, 1 if is_smoke else harness.ATTEMPTS)


# --- Hooks while compiling ----------------------------------------------------


def hooks(folder: Path, goals: harness.Goals, is_smoke: bool) -> None:
    pairs = 1 if is_smoke else 2
    kernels = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "kernels")}
    print("\nthe first step (s: least of alternating processes)"
          f"\n  {'':<34}{'without':>10}{'doctor':>10}{'ratio':>8}"
          f"{'in hooks':>12}")
    shares, ratios = {}, {}
    for name, model in MODELS.items():
        if is_smoke and model is not SPLIT:
            continue
        script, took = folder / "model.py", folder / "took.json"
        script.write_text(model + TRAIN)
        plain, under, share = [], [], []
        # The C++ compiler's time is left out: the kernels are there, and what
        # PyTorch itself takes: the hooks' time is compared with it.
        environment = {"TOOK": str(took), **kernels}
        run([str(script)], environment)
        for _ in range(pairs):
            run([str(script)], environment)
            plain.append(json.loads(took.read_text()))
            counts = report(folder, script, runs=0,
                            environment=environment)["compile"]
            under.append(json.loads(took.read_text()))
            share.append(counts["hooks_s"]
                         / (counts["dynamo_s"] + counts["backend_s"]))
        shares[name], ratios[name] = min(share), min(under) / min(plain)
        print(f"  {name:<34}{min(plain):10.2f}{min(under):10.2f}"
              f"{ratios[name]:8.3f}{100 * shares[name]:11.2f}%")
    for name, value in shares.items():
        goals.add(f"time inside hooks of compile time, {name}", value,
                  HOOKS_SHARE)
    # Two processes differ by more than the hooks take: a check, no figure.
    for name, value in ratios.items():
        goals.limit(f"first step under doctor over one without, {name}", value)


# --- Nothing in steady state --------------------------------------------------


def steady(folder: Path, goals: harness.Goals, is_smoke: bool) -> None:
    import torch

    from opgraft.doctor import _adapter, _run
    from opgraft.doctor._events import Writer
    from opgraft.doctor._record import Recorder

    def make(name: str) -> Any:
        """A function of its own, so that no two share compiled code."""
        space: dict[str, Any] = {"torch": torch}
        exec(compile("def f(x):\n    y = x + 1\n    torch._dynamo."
                     "graph_break()\n    return y * 2\n", name, "exec"), space)
        return torch.compile(space["f"], backend="eager")

    x = torch.ones(16)
    plain, measured = (make(f"<{n}>") for n in "ab")
    recorder = Recorder(Writer(folder / "steady.events"))
    with torch.no_grad():
        with _run.recording(folder / "measured.events", 3):
            measured(x)  # its regions were bracketed, and put back
        installed = _adapter.install(recorder)
        plain(x)  # compiled under the hooks, called with and without them
        installed.remove()

        def steps(fn: Any, is_hooked: bool) -> Any:
            """Each case installs and removes hooks once: that takes longer
            than a step."""
            def run(count: int) -> None:
                inside = _adapter.install(recorder)
                if not is_hooked:
                    inside.remove()
                for _ in range(count):
                    fn(x)
                if is_hooked:
                    inside.remove()

            return run

        cases = {"without hooks": steps(plain, False),
                 "hooks installed": steps(plain, True),
                 "after doctor measured": steps(measured, False)}

        def attempt() -> dict[str, float]:
            timed = harness.measure(cases, block_ns=2e7, blocks=(
                harness.LEAST_BLOCKS if is_smoke else harness.BLOCKS))
            harness.print_table("a step of two regions", timed)
            base = timed["without hooks"].least
            return {name: timed[name].least / base for name in list(cases)[1:]}

        harness.judged(lambda: {
            f"step, {k}, over one without": v for k, v in attempt().items()},
            {f"step, {k}, over one without": (STEADY, True)
             for k in list(cases)[1:]}, goals)


def keep_others(goals: harness.Goals) -> None:
    """Lines of parts that were not run now, of the same doctor."""
    path = harness.results.RESULTS / "doctor.json"
    names = [str(p.relative_to(ROOT)) for p in MEASURED]
    before = json.loads(path.read_text()) if path.exists() else {}
    if before.get("hash") == harness.results.hash_of(names):
        have = {line["what"] for line in goals.lines}
        goals.lines += [line for line in before["goals"]
                        if line["what"] not in have]


PARTS = {"planted": recover, "steady": steady, "hooks": hooks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one short attempt, to see that it runs")
    parser.add_argument("--part", choices=PARTS, action="append",
                        help="only this; what is known of others is kept")
    options = parser.parse_args()
    parts = options.part or list(PARTS)
    goals = harness.Goals("doctor")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.monotonic()
        for part in parts:
            PARTS[part](folder, goals, options.smoke)
    print(f"{time.monotonic() - begin:.0f} s")
    if not options.smoke:
        keep_others(goals)
        goals.write(MEASURED)


if __name__ == "__main__":
    main()

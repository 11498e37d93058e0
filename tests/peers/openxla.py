# SPDX-License-Identifier: Apache-2.0
"""`opgraft doctor --backend openxla` against torch_xla's own metrics.

    python tests/peers/openxla.py [--runs 5] [--only NAME ...] [--out [--times]]

The Python that runs this has torch 2.9, torch-xla 2.9 and transformers, and
opgraft on its path; the program is $OPGRAFT_PROGRAM. Each model of
openxla_models.py is reported on by doctor, and in a process without it
counted: FX graphs by torch._dynamo.explain, HLO graphs of a step, HLO compiles
and operators that fell back by torch_xla's metrics, compiled and by LazyTensor
tracing. All must be equal, and what is planted be named with line and stage.
--out writes docs/results/openxla.json, docs/pictures/openxla.svg and
docs/openxla.md, with times (of a machine that does nothing else) on --times.
Ends with `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tools")]
import openxla_models as models  # noqa: E402

from opgraft.doctor import _suite  # noqa: E402

NAMES = ("training", *(f.__name__ for f in models.PLANTED), *models.MODELS)
SCRIPT = HERE / "openxla_models.py"
ENVIRONMENT = os.environ | {"PJRT_DEVICE": "CPU", "OPGRAFT_PYTHON":
                            sys.executable, "TF_CPP_MIN_LOG_LEVEL": "2"}
tally = {True: 0, False: 0}


def note(name: str, is_right: bool, said: str) -> None:
    tally[is_right] += 1
    if not is_right:
        print(f"wrong: {name}: {said}", flush=True)


# --- Without doctor -----------------------------------------------------------


def counted(name: str) -> dict[str, int]:
    import torch_xla
    from torch_xla.debug import metrics

    torch._dynamo.reset()
    call = models.maker(name)

    def metric(what: str) -> int:
        data = metrics.metric_data(what)
        return data[0] if data else 0

    def step(wrap: Any) -> tuple[int, int]:
        """HLO graphs that ran, and operators that fell back."""
        def seen() -> tuple[int, int]:
            torch_xla.sync()
            torch_xla.core.xla_model.wait_device_ops()
            return metric("ExecuteTime"), sum(
                metrics.counter_value(n) for n in metrics.counter_names()
                if n.startswith("aten::"))

        before = seen()
        result = call(wrap)  # LazyTensor runs what is alive
        models.backward(result)
        after = seen()
        return after[0] - before[0], after[1] - before[1]

    compiled: dict[int, Any] = {}

    def wrap(model: Any) -> Any:
        return compiled.setdefault(
            id(model), torch.compile(model, backend="openxla"))

    for _ in range(3):
        graphs, fallbacks = step(wrap)
    for _ in range(3):
        lazy_graphs, lazy_fallbacks = step(lambda model: model)
    torch._dynamo.reset()
    fx: list[int] = []

    def explain(model: Any) -> Any:
        def explained(*args: Any, **kwargs: Any) -> Any:
            fx.append(torch._dynamo.explain(model)(
                *args, **kwargs).graph_count)
            return model(*args, **kwargs)

        return explained

    call(explain)
    return {"fx": sum(fx), "graphs": graphs, "fallbacks": fallbacks,
            "lazy_graphs": lazy_graphs, "lazy_fallbacks": lazy_fallbacks}


def peers(names: list[str]) -> dict[str, dict[str, int]]:
    """In a process that doctor never touched."""
    done = subprocess.run([sys.executable, __file__, "--count", *names],
                          stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()
             if line.split(" ", 1)[0] in names]
    return {name: json.loads(text) for name, text in lines}


# --- With doctor --------------------------------------------------------------


def reports(names: list[str], runs: int, folder: pathlib.Path
            ) -> tuple[dict[str, Any], str]:
    """What doctor's suite says, and its table."""
    (folder / "models.txt").write_text(
        "".join(f"{SCRIPT} {name}\n" for name in names))
    done = subprocess.run(
        [os.environ["OPGRAFT_PROGRAM"], "doctor", "--suite",
         folder / "models.txt", "--backend", "openxla", "--runs", str(runs),
         "--json", folder / "all.json", "--html", folder / "page.html"],
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    found = json.loads((folder / "all.json").read_text())
    return {name.rpartition(" ")[2]: r for name, r in found.items()}, \
        done.stdout


def check(name: str, report: dict[str, Any], wanted: dict[str, int]) -> None:
    hlo = report.get("hlo", {})
    found = {"fx": report["graphs"]["fx"], **{
        key: hlo.get(key) for key in wanted if key != "fx"}}
    for key in wanted:
        note(f"{name}: {key}", found[key] == wanted[key],
             f"{found[key]}, expected {wanted[key]}")
    for function in models.PLANTED:
        if function.__name__ == name:
            roots = {(r["line"], r["stage"]) for r in report["roots"]
                     if r["file"].endswith(SCRIPT.name)}
            note(f"{name}: roots", roots == models.marked(function),
                 f"{roots}, expected {models.marked(function)}")


# --- The page -----------------------------------------------------------------

PAGE = """# Two stages of openxla

`torch.compile(backend="openxla")` may split a model twice: Dynamo into FX graphs, and PyTorch/XLA each of those into HLO graphs, where an operator has no lowering and runs on the CPU. LazyTensor tracing knows the second stage only. `opgraft doctor --backend openxla --suite` counts both.

{count} small models, torch {torch}, torch_xla {xla}, on its CPU client, commit {commit}, {processor}. `tests/peers/openxla.py` holds each count against `torch._dynamo.explain` and torch_xla's metrics ({passed} checks, {failed} differ). Weights are random; the first ten rows are functions with and without a planted break.

![FX graphs, HLO graphs, and HLO graphs by LazyTensor tracing, of each model](pictures/openxla.svg)

{says}

| Model | FX graphs | HLO graphs | run in a step | by LazyTensor | fall back in a step | HLO compiles | {head}where they part |
|---|---|---|---|---|---|---|---|{line}
{rows}
"""
TIMES = "LazyTensor, ms a step | openxla, ms a step | "


def says(found: dict[str, Any]) -> str:
    """What the counts say, without the planted ones."""
    own = {n: r for n, r in found.items() if n in models.MODELS}
    whole = [n for n, r in own.items() if _suite.counts(r) == (1, 1, 1)]
    more = [n for n, r in own.items() if r["graphs"]["backend"]
            > r["graphs"]["fx"]]
    fewer = [n for n, r in own.items() if r["graphs"]["fx"]
             > r["hlo"]["lazy_graphs"]]
    return (f"Of {len(own)} architectures of transformers {len(whole)} are one "
            "graph in each stage and by LazyTensor tracing. Lowering cuts "
            f"{len(more)} of them further than Dynamo did; of {len(fewer)} "
            "Dynamo makes more graphs than LazyTensor tracing.")


def row(name: str, report: dict[str, Any], has_times: bool) -> str:
    fx, backend, lazy = _suite.counts(report)
    hlo, verdict = report["hlo"], report["verdict"]
    times = [f"{verdict[key]:.3g}" for key in ("eager_ms", "compiled_ms")
             if has_times]
    parts = [textwrap.shorten(part.replace("|", " ").replace("`", ""), 110,
                              placeholder=" ...")
             for part in _suite.parts(report)]
    return " | ".join(["| " + name, str(fx), str(backend), str(hlo["graphs"]),
                       str(lazy), str(hlo["fallbacks"]), str(hlo["compiles"]),
                       *times,
                       "<br>".join(f"`{p}`" for p in parts) + " |"])


def write(found: dict[str, Any], has_times: bool) -> None:
    import results
    import torch_xla

    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    versions = {"torch": torch.__version__, "xla": torch_xla.__version__,
                "commit": commit, "processor": results.processor()}
    kept = {name: {"graphs": r["graphs"], "parts": _suite.parts(r), "hlo": {
        key: value for key, value in r["hlo"].items()
        if has_times or key != "compile_s"}} | (
            {"verdict": r["verdict"]} if has_times else {})
            for name, r in found.items()}
    results.write("openxla", [ROOT / "python/opgraft/doctor", HERE],
                  {**versions, "passed": tally[True], "failed": tally[False],
                   "models": kept})
    (ROOT / "docs/pictures/openxla.svg").write_text(_suite.plot(found))
    (ROOT / "docs/openxla.md").write_text(PAGE.format(
        **versions, count=len(found), passed=tally[True], failed=tally[False],
        says=says(found), head=TIMES * has_times, line="---|---|" * has_times,
        rows="\n".join(row(n, r, has_times) for n, r in found.items())))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(NAMES))
    parser.add_argument("--count", nargs="*")
    parser.add_argument("--out", action="store_true")
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    if args.count:
        torch.set_default_device("xla")
        for name in args.count:
            print(name, json.dumps(counted(name)), flush=True)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found, table = reports(args.only, args.runs, pathlib.Path(folder))
    print(table, end="", flush=True)
    wanted = peers(args.only)
    for name in args.only:
        if name in found and name in wanted:
            check(name, found[name], wanted[name])
        else:
            note(name, False, "doctor has no report" if name in wanted else
                 "the counts ended early")
    if args.out:
        write(found, args.times)
    print(f"torch {torch.__version__}: {len(found)} models")
    print(f"{tally[True]} passed, {tally[False]} failed")
    return int(tally[False] > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an adopted function costs beyond itself.

y = 2 x on four numbers and one thread. A C symbol adopted by its prototype,
called with its output given, beside a builtin that does nothing; the slope of
a chain of such nodes, as backend="opgraft" replays it once Dynamo has let a
call in; a pybind11 function, adopted and by torch.library's define and impl.
The function's own work is in every figure.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import harness
import overhead
import torch
from harness import loop

import call
import opgraft
from opgraft._graph import backend, stats

SYMBOL = "C symbol, output given - an empty builtin (ns)"
NODE = "C symbol, a node at replay (ns)"
PYBIND = "pybind11 function, adopted / define + impl"
BOUNDS = {SYMBOL: (250.0, True), NODE: (30.0, True), PYBIND: (1.0, True)}
RULES = dict(schema="twice(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
             dtype="x: f32 -> x")
FEW, MANY = 10, 210


def load_pybind(folder: Path) -> Any:
    import pybind11

    out = folder / "og_bench_pybind.so"
    subprocess.run(
        ["c++", "-std=c++17", "-O3", "-shared", "-fPIC", "-fvisibility=hidden",
         f"-I{pybind11.get_include()}",
         f"-I{sysconfig.get_paths()['include']}",
         str(call.PEERS / "pybind.cpp"), "-o", str(out)], check=True)
    spec = importlib.util.spec_from_file_location("og_bench_pybind", out)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chain(op: Any, count: int) -> Any:
    lines = ["def chain(x):"] + ["    x = op(x)"] * count
    space = {"op": op}
    exec("\n".join(lines + ["    return x"]), space)
    gm = overhead.graphs_of(space["chain"], (torch.randn(4),))
    return backend.compile_graph(gm, [], "inference", backend.Options(),
                                  stats.Region("bench"))


def define_and_impl(fn: Any) -> Any:
    lib = torch.library.Library("og_bench_plain", "FRAGMENT")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", fn, "CPU")
    torch.library.register_fake(
        "og_bench_plain::twice", lambda x: torch.empty_like(x), lib=lib)
    return lib


def by_custom_op(fn: Any) -> Any:
    @torch.library.custom_op("og_bench_custom::twice", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return fn(x)

    op.register_fake(lambda x: torch.empty_like(x))
    return op


def symbol_cases(folder: Path, x: torch.Tensor) -> dict[str, Any]:
    """A C function, called and as nodes of a graph."""
    call.compile_c(call.PEERS / "adopted.c", folder / "libadopted.so")
    symbol = opgraft.adopt(
        "void twice(float *out, const float *x, int64_t n)",
        library=folder / "libadopted.so", shape="x[*N] -> [*N]",
        call="out.data, x.data, x.numel", name="bench_c::twice")
    cases = {
        "empty builtin": loop("f(x)", f=callable, x=x),
        "C symbol, output given": loop("f(x, out=o)", f=symbol, x=x,
                                       o=torch.empty_like(x)),
        "C symbol, new output": loop("f(x)", f=symbol, x=x),
    }
    for count in (FEW, MANY):
        f = chain(symbol, count)
        f([x])
        cases[f"{count} nodes of it, replayed"] = loop("f([x])", f=f, x=x)
    return cases


def opaque_cases(fn: Any, x: torch.Tensor) -> dict[str, Any]:
    """A pybind function, adopted and in what torch offers for it."""
    adopted = opgraft.adopt(fn, **RULES, name="bench_pybind::twice")
    return {
        "pybind11 alone": loop("f(x)", f=fn, x=x),
        "pybind11, adopted": loop("f(x)", f=adopted, x=x),
        "pybind11, define + impl": loop(
            "f(x)", f=torch.ops.og_bench_plain.twice.default, x=x),
        "pybind11, custom_op": loop("f(x)", f=by_custom_op(fn), x=x),
    }


def figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    least = {k: v.least for k, v in rows.items()}
    found = {
        SYMBOL: least["C symbol, output given"] - least["empty builtin"],
        NODE: (least[f"{MANY} nodes of it, replayed"]
               - least[f"{FEW} nodes of it, replayed"]) / (MANY - FEW),
    }
    if "pybind11, adopted" in least:
        found[PYBIND] = (least["pybind11, adopted"]
                         / least["pybind11, define + impl"])
    return found


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "adopt")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = torch.randn(4)
        opaque = call.rival("pybind11", load_pybind, folder)
        cases = symbol_cases(folder, x)
        keep = None
        if opaque is not None:
            keep = define_and_impl(opaque.twice)
            cases |= opaque_cases(opaque.twice, x)

        def attempt() -> dict[str, float]:
            rows = harness.measure(cases, blocks=blocks)
            harness.print_table("adopted functions, four numbers", rows)
            return figures(rows)

        with torch.no_grad():
            harness.judged(attempt, BOUNDS, goals, attempts)
        if opaque is None:
            goals.absent(PYBIND, "could not be built")
        del keep
    if not is_smoke:
        goals.write([*(call.PEERS / n for n in ("adopted.c", "pybind.cpp")),
                     *(call.ROOT / "hosts/torch").iterdir(),
                     *(call.ROOT / "src/call").iterdir(),
                     *(call.ROOT / "src/exec").iterdir()])


if __name__ == "__main__":
    main()

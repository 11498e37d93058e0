#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one operator call costs, by every road, in one interleaved process.

x + a * y in float32 on one element, one thread. The goals are issue-long
promises of docs/design.md: calls, gradients, nodes inside Inductor graphs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import torch  # noqa: E402
from harness import loop  # noqa: E402

import opgraft  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"


def compile_c(source: Path, out: Path) -> None:
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O3", "-fPIC", "-shared",
         "-fvisibility=hidden", f"-I{ROOT / 'include'}", str(source), "-o",
         str(out)],
        check=True,
    )


def load_cxx(folder: Path) -> Any:
    from torch.utils.cpp_extension import load

    return load("og_bench_cxx", [str(PEERS / "torch_cxx.cpp")],
                extra_cflags=["-O3"], build_directory=str(folder))


def load_tvm(folder: Path) -> Any:
    import tvm_ffi

    out = folder / "tvm_scale_add.so"
    compile_c(PEERS / "tvm_ffi.c", out)
    return tvm_ffi.load_module(str(out))["scale_add_out"]


def rival(name: str, make: Any, folder: Path) -> Any:
    try:
        return make(folder)
    except Exception as error:  # a rival that cannot be built falls short
        print(f"{name} could not be built: {str(error).splitlines()[0][:200]}")
        return None


def custom_op_scale_add() -> Any:
    lib = torch.library.Library("og_bench_py", "FRAGMENT")
    lib.define("scale_add(Tensor x, Tensor y, float a) -> Tensor")
    lib.impl("scale_add", lambda x, y, a: torch.add(x, y, alpha=a), "CPU")
    torch.library.register_fake(
        "og_bench_py::scale_add", lambda x, y, a: torch.empty_like(x), lib=lib
    )
    return lib


def call_cases(m: Any, cxx: Any, tvm: Any) -> dict[str, Any]:
    x, y, o = torch.randn(1), torch.randn(1), torch.empty(1)
    ours = torch.ops.bench_scale_add.scale_add.default
    cases = {
        "ours, output given": loop("f(x, y, 0.5, out=o)", f=m.scale_add, x=x,
                                   y=y, o=o),
        "torch.add(out=)": loop("f(x, y, alpha=0.5, out=o)", f=torch.add, x=x,
                                y=y, o=o),
        "ours, new output": loop("f(x, y, 0.5)", f=m.scale_add, x=x, y=y),
        "torch.add": loop("f(x, y, alpha=0.5)", f=torch.add, x=x, y=y),
        "ours, torch.ops": loop("f(x, y, 0.5)", f=ours, x=x, y=y),
    }
    if tvm is not None:
        cases["TVM-FFI, output given"] = loop("f(o, x, y, 0.5)", f=tvm, x=x,
                                              y=y, o=o)
    if cxx is not None:
        cases["pybind11, new output"] = loop("f(x, y, 0.5)", f=cxx.scale_add,
                                             x=x, y=y)
        cases["C++ TORCH_LIBRARY"] = loop(
            "f(x, y, 0.5)", f=torch.ops.og_bench_cxx.scale_add.default, x=x,
            y=y)
    return cases


def grad_cases(m: Any, cxx: Any) -> dict[str, Any]:
    x = torch.randn(64, requires_grad=True)
    y = torch.randn(64, requires_grad=True)
    g = torch.randn(64)
    code = "grad(f(x, y, 0.5), (x, y), g)"
    cases = {"ours, forward + backward": loop(
        code, f=m.scale_add_grad, x=x, y=y, g=g, grad=torch.autograd.grad)}
    if cxx is not None:
        cases["C++ autograd::Function"] = loop(
            code, f=torch.ops.og_bench_grad.scale_add.default, x=x, y=y, g=g,
            grad=torch.autograd.grad)
    return cases


def chain(op: Any, count: int) -> Any:
    lines = ["def chain(x, y):"] + ["    x = op(x, y, 0.5)"] * count
    space = {"op": op}
    exec("\n".join(lines + ["    return x"]), space)
    return torch.compile(space["chain"], fullgraph=True, dynamic=False)


def node_cases(m: Any) -> dict[str, Any]:
    """Graphs of 10 and 100 nodes: the slope is the cost of a node."""
    x, y = torch.randn(64), torch.randn(64)
    cases = {}
    for label, op in (("ours", m.scale_add),
                      ("plain", torch.ops.og_bench_py.scale_add.default)):
        for count in (10, 100):
            f = chain(op, count)
            f(x, y)
            cases[f"{label}, {count} nodes"] = loop("f(x, y)", f=f, x=x, y=y)
    return cases


def attempt(
    name: str, cases: dict[str, Any], blocks: int
) -> dict[str, harness.Timing]:
    rows = harness.measure(cases, blocks=blocks)
    harness.print_table(name, rows)
    return rows


def ratios_call(rows: dict[str, harness.Timing], can_wrap: bool) -> dict[str, float]:
    least = {k: v.least for k, v in rows.items()}
    out = {
        "output given / torch.add(out=)":
            least["ours, output given"] / least["torch.add(out=)"],
        "new output / torch.add": least["ours, new output"] / least["torch.add"],
    }
    if "TVM-FFI, output given" in least:
        out["output given / TVM-FFI"] = (
            least["ours, output given"] / least["TVM-FFI, output given"])
    if "pybind11, new output" in least:
        out["new output / pybind11"] = (
            least["ours, new output"] / least["pybind11, new output"])
        out["torch.ops / C++ TORCH_LIBRARY"] = (
            least["ours, torch.ops"] / least["C++ TORCH_LIBRARY"])
    return out


GRADIENT = "forward + backward / C++ autograd::Function"
NODE = "node in an Inductor graph / plain custom operator"


def ratios_grad(rows: dict[str, harness.Timing]) -> dict[str, float]:
    return {GRADIENT: rows["ours, forward + backward"].least
            / rows["C++ autograd::Function"].least}


def ratios_node(rows: dict[str, harness.Timing]) -> dict[str, float]:
    ours = rows["ours, 100 nodes"].least - rows["ours, 10 nodes"].least
    plain = rows["plain, 100 nodes"].least - rows["plain, 10 nodes"].least
    return {NODE: ours / plain}


def say_absent(goals: harness.Goals, cxx: Any, tvm: Any) -> None:
    needs = {"output given / TVM-FFI": tvm, "new output / pybind11": cxx,
             "torch.ops / C++ TORCH_LIBRARY": cxx, GRADIENT: cxx}
    for what, rival_built in needs.items():
        if rival_built is None:
            goals.absent(what, "could not be built")


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "call")
    torch.set_num_threads(1)
    keep = custom_op_scale_add()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_c(PEERS / "scale_add.c", folder / "scale_add.so")
        m = opgraft.load(folder / "scale_add.so")
        cxx = rival("C++ extension", load_cxx, folder)
        tvm = rival("TVM-FFI", load_tvm, folder)
        from opgraft import _C

        state = _C.guard_state()
        can_wrap = bool(state["wrap"])
        print(f"torch {torch.__version__}, fast path: {state}")

        bounds = {
            "output given / torch.add(out=)": (0.16, True),
            "output given / TVM-FFI": (0.6, True),
            "new output / torch.add": (0.36, True),
            "new output / pybind11": (1.0 if can_wrap else 1.3, True),
            "torch.ops / C++ TORCH_LIBRARY": (1.1, True),
        }
        with torch.inference_mode():
            cases = call_cases(m, cxx, tvm)
            harness.judged(
                lambda: ratios_call(attempt("one call, inference mode", cases,
                                            blocks), can_wrap),
                bounds, goals, attempts)
        grads = grad_cases(m, cxx)
        if cxx is not None:
            harness.judged(
                lambda: ratios_grad(attempt("gradient, 64 elements", grads,
                                            blocks)),
                {GRADIENT: (1.25, True)}, goals, attempts)
        say_absent(goals, cxx, tvm)
        with torch.no_grad():
            nodes = node_cases(m)
            harness.judged(
                lambda: ratios_node(attempt("inside Inductor", nodes, blocks)),
                {NODE: (0.2, True)}, goals, attempts)
    del keep
    if not is_smoke:
        goals.write([*PEERS.iterdir(), *(ROOT / "hosts/torch").iterdir(),
                     *(ROOT / "src/call").iterdir()])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator costs in ONNX Runtime, JAX and TVM-FFI, beside the same
operator written by hand in C++ against the host's own API (bench/peers).

y = x * weight over f32[4, 4], on one thread. In ONNX Runtime and JAX also a
chain of 101 calls, whose slope is the cost of one more call in a program; the
host's own multiplication stands beside it for information. Minima of one run,
in turns. bench/aoti.py has AOTInductor.

    bench/hosts.py --host jax   # in an environment that has the host: its rows
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
from harness import loop  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench/peers"
LONG = 101
ORT = "ONNX Runtime: a node - the smallest C++ operator's (ns)"
JAX = "JAX: a jitted call / by XLA's C++ binding"
TVM = "TVM-FFI: a call, output given / by its C++ binding"
BOUNDS = {ORT: (40.0, True), JAX: (1.05, True), TVM: (1.05, True)}
Cases = dict[str, Callable[[int], Any]]


def build(folder: Path) -> Path:
    source, module = ROOT / "tests/conformance/scale.c", folder / "scale.so"
    subprocess.run([str(ROOT / "build/bin/opgraft"), "build", str(source), "-o",
                    str(module), "--hosts", "jax,onnxruntime,tvm_ffi"],
                   check=True)
    return module


def compile_peer(name: str, folder: Path, includes: list[str],
                 *flags: str) -> Path:
    out = folder / f"peer_{name}.so"
    subprocess.run(
        ["c++", "-std=c++17", "-O2", "-shared", "-fPIC",
         *(f"-isystem{i}" for i in includes), str(PEERS / f"host_{name}.cpp"),
         "-o", str(out), *flags], check=True)
    return out


# --- The hosts ---------------------------------------------------------------


def onnxruntime_cases(folder: Path) -> Cases:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    module = build(folder)
    peer = compile_peer("onnxruntime", folder,
                        [str(ROOT / "hosts"), str(ROOT / "include")])
    x = np.random.rand(4, 4).astype(np.float32)
    weight = np.random.rand(4).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for library in (module, peer):
        options.register_custom_ops_library(str(library))
    # Else ONNX Runtime may rewrite its own multiplications.
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    def run(kind: str, domain: str, count: int) -> Callable[[int], Any]:
        names = ["x", *(f"t{i}" for i in range(1, count)), "y"]
        nodes = [helper.make_node(kind, [a, "weight"], [b], domain=domain)
                 for a, b in zip(names, names[1:])]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "chain",
            [info("x", TensorProto.FLOAT, [4, 4]),
             info("weight", TensorProto.FLOAT, [4])],
            [info("y", TensorProto.FLOAT, [4, 4])])
        model = helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", 18), *(
                [helper.make_opsetid(domain, 1)] if domain else [])])
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options,
            providers=["CPUExecutionProvider"])
        wanted = x
        for _ in range(count):
            wanted = wanted * weight
        assert np.array_equal(
            session.run(None, {"x": x, "weight": weight})[0], wanted)
        return loop("run(None, feeds)", run=session.run,
                    feeds={"x": x, "weight": weight})

    kinds = {"opgraft": ("scale", "scale"), "C++": ("scale", "peer"),
             "Mul": ("Mul", "")}
    return {f"{name}, {count} calls": run(*kind, count)
            for name, kind in kinds.items() for count in (1, LONG)}


def jax_cases(folder: Path) -> Cases:
    import ctypes

    import jax
    import jaxlib
    import numpy as np

    import opgraft.jax

    module = opgraft.jax.load(build(folder))
    peer = ctypes.CDLL(str(compile_peer(
        "jax", folder, [str(Path(jaxlib.__file__).parent / "include")])))
    jax.ffi.register_ffi_target("peer", jax.ffi.pycapsule(peer.Handler),
                                platform="cpu")
    x = jax.numpy.asarray(np.random.rand(4, 4), jax.numpy.float32)
    weight = jax.numpy.asarray(np.random.rand(4), jax.numpy.float32)
    by_peer = jax.ffi.ffi_call("peer", jax.ShapeDtypeStruct(x.shape, x.dtype))

    def chain(one: Callable[..., Any], count: int) -> Callable[[int], Any]:
        def called(x: Any, weight: Any) -> Any:
            for _ in range(count):
                x = one(x, weight)
            return x

        f = jax.jit(called)
        assert np.array_equal(f(x, weight), called(x, weight))
        return loop("f(x, weight).block_until_ready()", f=f, x=x,
                    weight=weight)

    kinds = {"opgraft": module.scale, "C++": by_peer,
             "multiply": jax.numpy.multiply}
    return {f"{name}, {count} calls": chain(one, count)
            for name, one in kinds.items() for count in (1, LONG)}


def tvm_ffi_cases(folder: Path) -> Cases:
    import numpy as np
    import torch
    import tvm_ffi

    ours = tvm_ffi.load_module(str(build(folder)))
    theirs = tvm_ffi.load_module(str(compile_peer(
        "tvm_ffi", folder, tvm_ffi.libinfo.include_paths(),
        tvm_ffi.libinfo.find_libtvm_ffi())))
    x, weight = torch.randn(4, 4), torch.rand(4)
    kinds = {
        "torch": (x, weight, torch.empty(4, 4)),
        "NumPy": (x.numpy(), weight.numpy(), np.empty((4, 4), np.float32)),
        "own": tuple(map(tvm_ffi.from_dlpack, (x, weight, torch.empty(4, 4)))),
    }
    cases = {}
    for kind, (a, b, out) in kinds.items():
        for name, module in (("opgraft", ours), ("C++", theirs)):
            module.scale(a, b, out)
            assert np.array_equal(np.from_dlpack(out), (x * weight).numpy())
            cases[f"{name}, {kind} tensors"] = loop(
                "f(a, b, out)", f=module.scale, a=a, b=b, out=out)
    return cases


# --- Figures -----------------------------------------------------------------


def slope(rows: dict[str, harness.Timing], name: str) -> float:
    return (rows[f"{name}, {LONG} calls"].least
            - rows[f"{name}, 1 calls"].least) / (LONG - 1)


def onnxruntime_figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    for name in ("opgraft", "C++", "Mul"):
        print(f"  a node more, {name}: {slope(rows, name):.0f} ns")
    return {ORT: slope(rows, "opgraft") - slope(rows, "C++")}


def jax_figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    for name in ("opgraft", "C++", "multiply"):
        print(f"  a call more in a program, {name}: {slope(rows, name):.0f} ns")
    return {JAX: rows["opgraft, 1 calls"].least / rows["C++, 1 calls"].least}


def tvm_ffi_figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    least = {name: timing.least for name, timing in rows.items()}
    for kind in ("NumPy", "own"):
        ratio = (least[f"opgraft, {kind} tensors"]
                 / least[f"C++, {kind} tensors"])
        print(f"  by {kind} tensors / by the C++ binding: {ratio:.3f}")
    return {TVM: least["opgraft, torch tensors"] / least["C++, torch tensors"]}


HOSTS = {"onnxruntime": (onnxruntime_cases, onnxruntime_figures, ORT),
         "jax": (jax_cases, jax_figures, JAX),
         "tvm_ffi": (tvm_ffi_cases, tvm_ffi_figures, TVM)}


def rows_in(python: str, host: str, blocks: int) -> dict[str, harness.Timing]:
    """The rows of a host in its environment; TooNoisy as there."""
    done = subprocess.run(
        [python, __file__, "--host", host, str(blocks)], capture_output=True,
        text=True, env={"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin",
                        "JAX_PLATFORMS": "cpu"})
    if done.returncode != 0:
        raise SystemExit(f"{host}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found is None:
        raise harness.TooNoisy
    return {name: harness.Timing(times) for name, times in found.items()}


def worker(host: str, blocks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            rows = harness.measure(HOSTS[host][0](Path(name)), block_ns=2e6,
                                   blocks=3 * blocks)
        except harness.TooNoisy:
            print(json.dumps(None))
        else:
            print(json.dumps({k: v.blocks for k, v in rows.items()}))


def attempt(python: str, host: str, blocks: int) -> dict[str, float]:
    rows = rows_in(python, host, blocks)
    harness.print_table(host, rows)
    return HOSTS[host][1](rows)


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "hosts")
    for host, (_, _, goal) in HOSTS.items():
        own = ROOT / f".venv-{host}/bin/python"
        python = str(own) if own.exists() else sys.executable
        has_host = subprocess.run([python, "-c", f"import {host}"],
                                  capture_output=True).returncode == 0
        if not has_host:
            goals.absent(goal, f"{host} is not installed: "
                               "make hosts-environments")
            continue
        harness.judged(lambda: attempt(python, host, blocks),  # noqa: B023
                       {goal: BOUNDS[goal]}, goals, attempts)
    if not is_smoke:
        goals.write([Path(__file__), *PEERS.glob("host_*"), *(
            path for host in (*HOSTS, "shared")
            for path in (ROOT / "hosts" / host).iterdir())])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--host"]:
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the first result is there: from a graph file, by `opgraft run` and
by opgraft.load_graph, with packed weights in the file and without, beside ONNX
Runtime; and through torch.compile, Dynamo's seconds, AOTAutograd's and the
backend's apart.

MiniLM (6 layers of 384) and BERT-base, one sequence of 128 tokens, f32. Each
figure is the least of processes of their own, which run in turn; files are in
the page cache. `opgraft run` is timed from outside, from its start to the file
that it writes; load_graph from the end of the imports to the result. ONNX
Runtime makes its session of the model as it was exported, and of the optimized
one that it saved. The results are compared first.

What the backend takes is the engine's own count (opgraft.stats): importing the
graph and its passes while torch.compile compiles; planning it, preparing its
kernels and packing its weights in the first call.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import numpy as np
import run as graph_run

HERE = Path(__file__).resolve().parent
MODELS = {"minilm": dict(hidden_size=384, num_hidden_layers=6,
                         num_attention_heads=12, intermediate_size=1536),
          "bert_base": {}}
TITLES = {"minilm": "MiniLM", "bert_base": "BERT-base"}
TOKENS, BLOCKS, TOLERANCE = 128, 7, 2e-5
OPTIMIZED = "optimized.onnx"
MOVED_TO = 0x80  # of inotify: a file got a name in the folder
WRITTEN_S = 60  # a program that has not written by then failed
FIRST_CALL = ("plan", "prepare", "pack")  # of the backend's work
# Milliseconds, but the ratio.
BACKEND = {"minilm": 50.0, "bert_base": 150.0}
CACHED, LOADED, RATIO = 10.0, 60.0, 1.1


def model(name: str, smoke: bool) -> Any:
    import torch
    from transformers import BertConfig, BertModel

    class LastHidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            small = {"num_hidden_layers": 1} if smoke else {}
            self.bert = BertModel(BertConfig(**(MODELS[name] | small)))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.bert(ids).last_hidden_state

    return LastHidden().eval()


def tokens() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.randint(0, 30000, (1, TOKENS))


# --- In processes of their own ------------------------------------------------


def timed(call: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = call()
    return (time.perf_counter() - begin) * 1e3, result


def least(call: Any, count: int = 8) -> float:
    return min(timed(call)[0] for _ in range(count))


def loaded(path: str) -> dict[str, float]:
    import torch

    import opgraft
    import opgraft._graph.loaded

    x = torch.from_numpy(np.load(Path(path).with_name("x.npy")))
    open_ms, f = timed(lambda: opgraft.load_graph(path))
    first_ms, _ = timed(lambda: f(x))
    return {"first": open_ms + first_ms, "warm": least(lambda: f(x)),
            "inductor": float("torch._inductor" in sys.modules)}


def onnx(path: str) -> dict[str, float]:
    import onnxruntime as ort

    feed = {"ids": np.load(Path(path).with_name("x.npy"))}
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    if path.endswith(OPTIMIZED):
        settings.graph_optimization_level = (
            ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    open_ms, session = timed(lambda: ort.InferenceSession(
        path, settings, providers=["CPUExecutionProvider"]))
    first_ms, _ = timed(lambda: session.run(None, feed))
    return {"first": open_ms + first_ms,
            "warm": least(lambda: session.run(None, feed))}


def compiled(name: str, rules: str, smoke: bool) -> dict[str, float]:
    import torch
    import torch._dynamo.utils as dynamo

    import opgraft
    import opgraft._graph.backend

    net, x = model(name, smoke), tokens()
    f = torch.compile(net, backend="opgraft", options={
        "mode": "max-autotune", "tune_s": 0, "choose": rules})
    with torch.no_grad():
        whole_ms, _ = timed(lambda: f(x))
        warm_ms = least(lambda: f(x))
    spent = {k: 1e3 * sum(v) for k, v in
             dynamo.compilation_time_metrics.items()}
    graphs = opgraft.stats(f).graphs
    own = {part: sum(g[f"{part}_ns"] for g in graphs) / 1e6
           for part in ("backend", *FIRST_CALL)}
    all_ms = spent["_compile.compile_inner"]
    inside_ms = spent["OutputGraph.call_user_compiler"]
    in_call = sum(own[part] for part in FIRST_CALL)
    return own | {
        "dynamo": all_ms - inside_ms, "autograd": inside_ms - own["backend"],
        "whole_backend": own["backend"] + in_call,
        "rest": whole_ms - all_ms - warm_ms - in_call, "warm": warm_ms,
        "inductor": float("torch._inductor.compile_fx" in sys.modules)}


def child(kind: str, *words: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(HERE / "startup.py"), "--one", kind, *words],
        check=True, text=True, capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


def one(kind: str, words: list[str]) -> dict[str, float]:
    if kind == "compiled":
        return compiled(words[0], words[1], words[2] == "smoke")
    return {"loaded": loaded, "onnx": onnx}[kind](words[0])


# --- The table ----------------------------------------------------------------


def optimized_save(folder: Path) -> None:
    """As ONNX Runtime says to: with the optimizations that it has by itself,
    for the machine that it is on."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.optimized_model_filepath = str(folder / OPTIMIZED)
    ort.InferenceSession(str(folder / "m.onnx"), settings,
                         providers=["CPUExecutionProvider"])


def prepare(name: str, folder: Path, smoke: bool) -> float:
    """The files; how far `opgraft run` of the packed one is from eager."""
    import torch

    import opgraft

    net, x = model(name, smoke), tokens()
    opgraft.export(net, (x,), folder / "plain.og")
    opgraft.export(net, (x,), folder / "packed.og", packed=True)
    np.save(folder / "x.npy", x.numpy())
    (folder / "packed.txt").write_text("addmm: packed\nmatmul: packed\n")
    with torch.no_grad():
        wanted = net(x).numpy()
        torch.onnx.export(net, (x,), str(folder / "m.onnx"), dynamo=True,
                          verbose=False)
    optimized_save(folder)
    apart = 0.0
    for file in ("plain", "packed"):
        graph_run.opgraft_run(folder, "--out", str(folder / "y.npy"),
                              file=f"{file}.og")
        apart = max(apart, float(
            np.abs(np.load(folder / "y.npy") - wanted).max()))
    return apart


def until_written(path: Path, words: list[str]) -> float:
    """Milliseconds from the start of a program to the file that it writes,
    which appears whole. The system tells of it: to look every half millisecond
    takes time of a core that the program needs."""
    path.unlink(missing_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    try:
        added = libc.inotify_add_watch(watch, os.fsencode(path.parent),
                                       MOVED_TO)
        assert added >= 0, os.strerror(ctypes.get_errno())
        begin = time.perf_counter()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL):
            select.select([watch], [], [], WRITTEN_S)
            took = (time.perf_counter() - begin) * 1e3
    finally:
        os.close(watch)
    assert path.exists(), words
    return took


def program(folder: Path, file: str) -> dict[str, float]:
    first = until_written(folder / "y.npy", graph_run.words(
        folder, "--out", str(folder / "y.npy"), file=file))
    said = json.loads(graph_run.opgraft_run(
        folder, "--repeat", "8", "--json", file=file).splitlines()[-1])
    return {"first": first, "warm": said["min_ns"] / 1e6}


def measure(name: str, folder: Path, smoke: bool, blocks: int
            ) -> dict[str, dict[str, float]]:
    """By case, the least of each figure over all blocks."""
    width = "smoke" if smoke else "full"
    cases: dict[str, Any] = {
        "opgraft run": lambda: program(folder, "plain.og"),
        "opgraft run, packed": lambda: program(folder, "packed.og"),
        "load_graph": lambda: child("loaded", str(folder / "plain.og")),
        "load_graph, packed": lambda: child("loaded",
                                            str(folder / "packed.og")),
        "ONNX Runtime": lambda: child("onnx", str(folder / "m.onnx")),
        "ONNX Runtime, optimized": lambda: child("onnx",
                                                 str(folder / OPTIMIZED)),
        "torch.compile": lambda: child(
            "compiled", name, str(folder / "packed.txt"), width)}
    found: dict[str, dict[str, float]] = {}
    for _ in range(blocks):
        for case, run in cases.items():
            row = run()
            known = found.setdefault(case, row)
            for figure, value in row.items():
                known[figure] = min(known[figure], value)
    return found


def show(title: str, found: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}, ms: first result / a warm call")
    for case, row in found.items():
        if "first" in row:
            print(f"  {case:<24}{row['first']:>9.1f}{row['warm']:>9.1f}",
                  flush=True)
    row = found["torch.compile"]
    print(f"  {'torch.compile':<24}Dynamo {row['dynamo']:.0f}, AOTAutograd "
          f"{row['autograd']:.0f}, backend {row['backend']:.1f}; in the first "
          f"call plan {row['plan']:.1f}, kernels {row['prepare']:.1f}, packing "
          f"{row['pack']:.1f}, {row['rest']:.1f} more than a warm call, which "
          f"takes {row['warm']:.1f}")


def judge(goals: harness.Goals, name: str,
          found: dict[str, dict[str, float]]) -> None:
    title, through = TITLES[name], found["torch.compile"]
    goals.add(f"{title}: backend with plan, kernels and packing, ms",
              through["whole_backend"], BACKEND[name])
    goals.add(f"{title}: backend through torch.compile, ms",
              through["backend"], CACHED)
    warm = found["ONNX Runtime"]["warm"]
    session = found["ONNX Runtime, optimized"]["first"]
    for case in ("opgraft run, packed", "load_graph, packed"):
        first = found[case]["first"]
        if name == "bert_base":
            goals.add(f"{title}: first result of {case} / ONNX Runtime's warm "
                      "call", first / warm, RATIO)
            goals.add(f"{title}: first result of {case} / ONNX Runtime's, "
                      "session of its optimized file and call",
                      first / session, RATIO)
        else:
            goals.add(f"{title}: first result of {case}, ms", first, LOADED)
    goals.limit(f"{title}: first result of ONNX Runtime, session of its "
                "optimized file and call, / its warm call", session / warm)
    goals.add(f"{title}: load_graph imports torch._inductor",
              found["load_graph, packed"]["inductor"], 0)
    goals.add(f"{title}: torch.compile imports Inductor's compiler",
              through["inductor"], 0)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3:])))
        return
    smoke, _, _, goals = harness.start(__doc__, "startup")
    rows = {}
    for name in list(MODELS)[:1] if smoke else MODELS:
        with tempfile.TemporaryDirectory() as folder:
            apart = prepare(name, Path(folder), smoke)
            rows[name] = measure(name, Path(folder), smoke,
                                 1 if smoke else BLOCKS)
        show(TITLES[name], rows[name])
        goals.add(f"{TITLES[name]}: largest difference to eager", apart,
                  TOLERANCE)
        if not smoke:
            judge(goals, name, rows[name])
    if not smoke:
        goals.write(["src", "cli", "hosts/torch", "python/opgraft/_graph",
                     "bench/startup.py"], {"rows": rows})


if __name__ == "__main__":
    main()

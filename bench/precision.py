#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Option `precision` on whole models of f32: how long a call takes, and how
far its results are from float64, beside eager mode, eager mode under autocast
to bf16, and OpenVINO in f32 and bf16.

A distance is the root mean square of all results' differences from the same
model's in float64, relative to that of the results. Ours are frozen, each peer
has a process of its own, and blocks are timed in turn (graphs.py). Rows are
kept in --out as they come; a run goes on where the one before ended.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

sys.path.append(str(Path(__file__).resolve().parent))
import each  # noqa: E402
import graphs  # noqa: E402
import harness  # noqa: E402
from graph_worker import Worker, block, flat, say  # noqa: E402

GRAPHS = ["minilm", "bert_base", "gpt2_prefill", "gpt2_decode", "llama_decode",
          "t5_encoder", "vit_tiny", "resnet18", "mobilenet_v3"]
THREADS = 2
OURS = {"f32": "opgraft f32", "bf16": "opgraft bf16", "int8": "opgraft int8"}
PEERS = ["eager", "autocast", "OpenVINO f32", "OpenVINO bf16", *OURS.values()]
LEAST, MEAN = 0.95, 1.25  # of OpenVINO's time in the same type
MEASURED = ["bench/precision.py", "bench/graph_set.py", "bench/graph_peers.py",
            "hosts/torch", "src"]


# --- A peer's process -----------------------------------------------------------


def openvino(job: Any, precision: str) -> Callable[[], Any]:
    import graph_peers

    settings = graph_peers.openvino_settings

    def with_precision(of: Any) -> dict[str, Any]:
        return {**settings(of), "INFERENCE_PRECISION_HINT": precision}

    graph_peers.openvino_settings = with_precision
    return graph_peers.openvino(job)


def make(name: str, job: Any) -> Callable[[], Any]:
    import torch

    kind = name.split()[-1]
    if name == "eager":
        return lambda: job.built.model(*job.built.args)
    if name == "autocast":
        def call() -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return job.built.model(*job.built.args)

        return call
    if name.startswith("OpenVINO"):
        return openvino(job, kind)
    import opgraft

    frozen = opgraft.freeze(
        job.built.model, job.built.args,
        options={"mode": "max-autotune", "precision": kind})
    job.notes["graph"] = frozen.graph
    return lambda: frozen(*job.built.args)


def distance(found: list[Any], exact: list[Any]) -> float:
    off = sum(float((a.double() - b).square().sum()) for a, b in
              zip(found, exact))
    return math.sqrt(off / sum(float(b.square().sum()) for b in exact))


def exact_results(built: Any) -> list[Any]:
    """In float64, of a copy."""
    import torch

    model = copy.deepcopy(built.model).double()
    args = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point()
            else copy.deepcopy(a) for a in built.args]
    return flat(model(*args))


def serve(graph: str, name: str, threads: int, folder: Path) -> None:
    import graph_peers
    import graph_set
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    built = graph_set.make(graph, False)
    built.model.eval()
    exact = exact_results(built)
    count = len(flat(built.model(*built.args)))
    job = graph_peers.Job(built, threads, folder)
    run = make(name, job)
    found = flat(run())[:count]  # OpenVINO has what it writes to as well
    told = json.loads(job.notes["graph"].stats()) if "graph" in job.notes else {}
    for _ in range(3):
        run()
    say({"distance": distance(found, exact),
         **{k: told.get(k) for k in ("narrow_contractions", "quantised_weights",
                                     "quantised_error")}})
    for line in sys.stdin:
        if not line.strip():
            return
        say(block(run, json.loads(line)["seconds"]))


# --- The parent -----------------------------------------------------------------


@contextlib.contextmanager
def working(graph: str) -> Iterator[dict[str, Worker]]:
    place = graphs.Place(graph, THREADS, Path(__file__).name)
    workers: dict[str, Worker] = {}
    try:
        for name in PEERS:
            workers[name] = place.worker(name, name.replace(" ", "_"))
        yield workers
    finally:
        for worker in workers.values():
            worker.close()
        place.remove()


def row_measure(graph: str, words: argparse.Namespace) -> dict[str, Any]:
    with working(graph) as workers:
        row = {name: dict(w.first) for name, w in workers.items()}
        ready = {n: w for n, w in workers.items() if "failed" not in w.first}
        for name, blocks in graphs.run_blocks(ready, words).items():
            if blocks.failed:
                row[name] = {"failed": blocks.failed}
            else:
                row[name]["ms"] = blocks.of("median_ms")
    return row


def cell(found: dict[str, Any]) -> str:
    if "failed" in found:
        return "fails"
    return f"{found['ms']['median']:.3g} ({found['distance']:.1e})"


def ratio(row: dict[str, Any], of: str, to: str) -> float | None:
    if "failed" in row[of] or "failed" in row[to]:
        return None
    return float(row[of]["ms"]["median"] / row[to]["ms"]["median"])


def mean_of(rows: dict[str, Any], of: str, to: str) -> float:
    found = [r for r in (ratio(row, of, to) for row in rows.values()) if r]
    return statistics.geometric_mean(found) if found else math.nan


def judge(rows: dict[str, Any]) -> harness.Goals:
    goals = harness.Goals("precision")
    for graph, row in rows.items():
        times = ratio(row, "OpenVINO bf16", OURS["bf16"])
        if times is None:
            goals.absent(f"{graph}: OpenVINO's bf16 / ours", "a peer fails")
        else:
            goals.add(f"{graph}: OpenVINO's bf16 / ours", times, LEAST,
                      at_most=False)
        ours, other = row[OURS["bf16"]], row["autocast"]
        goals.add(f"{graph}: bf16's distance / autocast's",
                  ours["distance"] / other["distance"], 1)
        goals.limit(f"{graph}: distance of int8 / of eager bf16",
                    row[OURS["int8"]]["distance"] / other["distance"])
    goals.add("OpenVINO's bf16 / ours, mean",
              mean_of(rows, "OpenVINO bf16", OURS["bf16"]), MEAN,
              at_most=False)
    goals.add("our f32 / our bf16, mean",
              mean_of(rows, OURS["f32"], OURS["bf16"]), 1, at_most=False)
    return goals


def read_words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="the smallest graph, short blocks")
    parser.add_argument("--graph", action="append", choices=GRAPHS)
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="keeps the rows, and goes on with those there")
    words = parser.parse_args()
    words.is_whole = not (words.smoke or words.graph)
    words.graphs = ["mlp"] if words.smoke else words.graph or GRAPHS
    words.blocks, words.seconds = (2, 0.05) if words.smoke else (7, 0.3)
    return words


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        graphs.graph_worker.serve(sys.argv[2:], serve)
        return
    words = read_words()
    rows = each.Rows(words.out)
    print(f"{THREADS} threads: ms a call (distance to float64)")
    print(*harness.markdown(["graph", *PEERS], [])[:2], sep="\n", flush=True)
    for graph, row in rows.of(words.graphs,
                              lambda name: row_measure(name, words)):
        print("|", " | ".join([graph, *(cell(row[p]) for p in PEERS)]), "|",
              flush=True)
        for peer in PEERS:
            if "failed" in row[peer]:
                print(f"{graph}: {peer}: {row[peer]['failed']}")
    goals = judge({g: rows[g] for g in words.graphs})
    if words.is_whole:
        goals.write(MEASURED, {"rows": dict(rows)})
    if words.smoke and any("failed" in rows[g][p] for g in words.graphs
                           for p in ("eager", "autocast", *OURS.values())):
        raise SystemExit("a graph failed")


if __name__ == "__main__":
    main()

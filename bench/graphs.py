#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The graph engine beside every way to run a PyTorch model on a CPU: eager,
Inductor (default, and max-autotune with frozen weights), ONNX Runtime,
OpenVINO (alone and through torch.compile), and this engine in both modes and
frozen; on the graphs of graph_set.py, with one thread and with two.

Each peer has a process of its own, holds its result against eager mode's
before it is timed, and is timed in blocks, the peers in turn; a block during
which other processes held the cores is thrown away. A figure is the median of
the blocks' medians. The machine's limits are measured in the same turns. Rows
are kept in --out as they come; a run goes on where the one before ended.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(Path(__file__).resolve().parent))

import graph_worker  # noqa: E402
from graph_worker import Worker  # noqa: E402

FOREIGN_SHARE = 0.25  # of the machine, by other processes, in one block
COLDS = 3  # starts of those that are held against each other
REST_S = 0.05  # between blocks, so that another peer's threads have gone to sleep
MEASURED = ["bench/graph_peers.py", "bench/graph_set.py",
            "bench/graph_worker.py", "bench/graphs.py", "hosts/torch", "src",
            "ops"]


def read_words() -> argparse.Namespace:
    import graph_peers
    import graph_set

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="the smallest graph, short blocks")
    parser.add_argument("--graph", action="append", choices=graph_set.ALL)
    parser.add_argument("--peer", action="append", choices=graph_peers.ALL)
    parser.add_argument("--threads", action="append", type=int)
    parser.add_argument("--blocks", type=int, help="that count (default 9)")
    parser.add_argument("--seconds", type=float,
                        help="of a block (default 0.3)")
    parser.add_argument("--no-cold", action="store_true",
                        help="leave out starts with empty caches")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="keeps the rows, and goes on with those there")
    parser.add_argument("--again", action="store_true",
                        help="measure rows again in which a peer failed")
    parser.add_argument("--print", action="store_true", dest="only_print",
                        help="only print what --out has")
    words = parser.parse_args()
    words.no_cold |= words.smoke
    words.is_whole = not (words.smoke or words.graph or words.peer
                          or words.threads or words.no_cold)
    words.graphs = words.graph or (["mlp"] if words.smoke
                                   else list(graph_set.ALL))
    words.peers = words.peer or [
        name for name in graph_peers.ALL
        if not words.smoke or name not in ("inductor_max", "openvino_compile")]
    if "eager" not in words.peers:
        words.peers.insert(0, "eager")
    words.counts = words.threads or ([1] if words.smoke else [2, 1])
    words.blocks = words.blocks or (2 if words.smoke else 9)
    words.seconds = words.seconds or (0.05 if words.smoke else 0.3)
    return words


# --- Starts -------------------------------------------------------------------


class Place:
    """Folders of one graph and number of threads: caches by peer, which a
    warm start finds as the cold one left them."""

    def __init__(self, graph: str, threads: int,
                 script: str = Path(__file__).name) -> None:
        self.graph, self.threads, self.script = graph, threads, script
        self.root = Path(tempfile.mkdtemp(prefix="opgraft-graphs-"))

    def worker(self, peer: str, caches: str, graph: str = "") -> Worker:
        return Worker(graph or self.graph, peer, self.threads,
                      self.root / caches / (graph or "files"),
                      self.root / caches / "caches", self.script)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def start_seconds(place: Place, name: str, is_cold: bool
                  ) -> tuple[dict[str, float], Worker]:
    """Seconds to the first result by kind of start, with those of the cold
    one that timed kernels ("tuning"), and the last process, which goes on to
    serve. Seeded: the compiler's probe and its precompiled
    header are there, but nothing of this graph."""
    import graph_peers

    starts = graph_peers.ALL[name].starts if is_cold else ()
    seconds: dict[str, float] = {}

    def note(kind: str, worker: Worker) -> Worker:
        if "compile_s" in worker.first:
            seconds[kind] = worker.first["compile_s"]
        return worker

    if "seeded" in starts:
        other = "mlp" if place.graph != "mlp" else "state_equation"
        place.worker(name, f"{name}-seeded", other).close()
        note("seeded", place.worker(name, f"{name}-seeded")).close()
    if "cold" in starts:
        cold = note("cold", place.worker(name, name))
        if "tune_s" in cold.first:
            seconds["tuning"] = cold.first["tune_s"]
        if "failed" in cold.first or "warm" not in starts:
            return seconds, cold
        cold.close()
    serving = place.worker(name, name)
    return seconds, note("warm", serving) if "warm" in starts else serving


def colds_again(place: Place, row: dict[str, Any]) -> None:
    """Ours and a backend that takes no time differ by less than two starts of
    either: of both the least of some, in turn."""
    import graph_table

    pair = [n for n in (graph_table.ZERO, graph_table.OURS)
            if "cold" in row.get(n, {}).get("starts", {})]
    for k in range(COLDS - 1 if len(pair) == 2 else 0):
        for name in pair:
            worker, starts = place.worker(name, f"{name}-{k}"), row[name]["starts"]
            worker.close()
            if worker.first.get("compile_s", math.inf) < starts["cold"]:
                starts["cold"] = worker.first["compile_s"]
                starts["tuning"] = worker.first.get("tune_s", 0.0)


# --- Blocks -------------------------------------------------------------------


def turn(worker: Worker, seconds: float) -> tuple[dict[str, Any], bool]:
    """A block, and whether the cores were ours."""
    import harness

    tick = os.sysconf("SC_CLK_TCK")
    time.sleep(REST_S)
    busy, begun = harness.busy_ticks(), time.perf_counter()
    found = worker.block(seconds)
    wall = time.perf_counter() - begun
    foreign = harness.busy_ticks() - busy - found.get("cpu_s", 0.0) * tick
    most = max(3.0, FOREIGN_SHARE * wall * tick * (os.cpu_count() or 1))
    return found, foreign <= most


def middle(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values),
            "most": max(values)}


class Blocks:
    """What was found in the turns of one worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.good: list[dict[str, Any]] = []
        self.noisy: list[dict[str, Any]] = []
        self.failed = ""

    def turn(self, seconds: float) -> None:
        if self.failed:
            return
        found, is_good = turn(self.worker, seconds)
        if "failed" in found:
            self.failed = found["failed"]
        else:
            (self.good if is_good else self.noisy).append(found)

    def of(self, key: str) -> dict[str, float]:
        """Of the good blocks; of all, marked, where there is none."""
        blocks = self.good or self.noisy
        return {**middle([b[key] for b in blocks]),
                "blocks": len(self.good), "noisy": len(self.noisy)}


def run_blocks(workers: dict[str, Worker], words: argparse.Namespace
               ) -> dict[str, Blocks]:
    """At most three times as many turns as blocks that count."""
    all_blocks = {name: Blocks(w) for name, w in workers.items()}
    for _ in range(3 * words.blocks):
        for blocks in all_blocks.values():
            if len(blocks.good) < words.blocks:
                blocks.turn(words.seconds)
        if all(b.failed or len(b.good) >= words.blocks
               for b in all_blocks.values()):
            break
    return all_blocks


# --- A row --------------------------------------------------------------------


def peers_start(place: Place, words: argparse.Namespace, is_cold: bool
                ) -> tuple[dict[str, Any], dict[str, Worker]]:
    import graph_peers

    row: dict[str, Any] = {}
    workers: dict[str, Worker] = {}
    for name in words.peers:
        peer = graph_peers.ALL[name]
        if not peer.is_timed and not is_cold:
            continue
        seconds, worker = start_seconds(place, name, is_cold)
        row[name] = {"starts": seconds, **worker.first}
        if "failed" in worker.first or not peer.is_timed:
            worker.close()
        else:
            workers[name] = worker
    return row, workers


def row_measure(graph: str, threads: int, words: argparse.Namespace,
                script: str = Path(__file__).name) -> dict[str, Any]:
    place = Place(graph, threads, script)
    is_cold = not words.no_cold and threads == max(words.counts)
    dtype = "bfloat16" if graph.endswith("bf16") else "float32"
    try:
        row, workers = peers_start(place, words, is_cold)
        colds_again(place, row)
        workers["machine"] = place.worker("machine", "machine", dtype)
        row["machine"] = dict(workers["machine"].first)
        if "failed" in row["machine"]:
            workers.pop("machine").close()
        for name, blocks in run_blocks(workers, words).items():
            if blocks.failed:
                row[name] = {"failed": blocks.failed}
            elif name == "machine":
                row[name] |= {k: blocks.of(k)["most"] for k in
                              ("gflops", "gbs", "product_gflops")}
            else:
                row[name]["ms"] = blocks.of("median_ms")
                row[name]["p95_ms"] = blocks.of("p95_ms")["median"]
        for worker in workers.values():
            worker.close()
    finally:
        place.remove()
    return row


def is_known(row: dict[str, Any], words: argparse.Namespace) -> bool:
    """Whether a run before measured it; a peer that failed did so."""
    import graph_peers

    timed = [n for n in words.peers if graph_peers.ALL[n].is_timed]
    return all(name in row and not (words.again and "failed" in row[name])
               for name in timed)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        graph_worker.serve(sys.argv[2:], graph_worker.serve_peer)
        return
    import each
    import graph_table

    words = read_words()
    rows = each.Rows(words.out)
    keys = {f"{graph} {count}": (graph, count)
            for graph in words.graphs for count in words.counts}
    for key, (graph, count) in keys.items():
        known = rows.get(key, {})
        if not words.only_print and not is_known(known, words):
            rows.keep(key, {**known, **row_measure(graph, count, words)})
        if key in rows:
            print(graph_table.line(graph, count, rows[key]), flush=True)
    goals = graph_table.goals(rows)
    if words.is_whole:
        goals.write(MEASURED, {"rows": rows})
        graph_table.write(rows, goals, ROOT / "docs", "pictures/")
    elif words.out is not None:
        graph_table.write(rows, goals, words.out.parent)
    if words.smoke and any("failed" in rows[k][p] for k in keys
                           for p in ("eager", "opgraft", "opgraft_max",
                                     "opgraft_frozen")):
        raise SystemExit("a graph failed")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs while others use the machine: a busy loop pinned to the
last core, and as many compilers as twice the cores.

The conditions take turns within one run, each beside a quiet block, in the
processes of graph_worker.py. With a stolen core the figure is the ratio of
the blocks' least medians; with compilers it is the 95th percentile of a call
over the quiet median, the median of the blocks. OpenVINO stands beside, for
the graphs that it takes.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(Path(__file__).resolve().parent))

import graphs  # noqa: E402
import harness  # noqa: E402
from graph_worker import Worker  # noqa: E402

GRAPHS = ("minilm", "bert_base", "custom_block")
PEERS = ("opgraft_max", "openvino")
STOLEN_MAX, P95_MAX = 1.6, 5.0
SETTLE_S = 0.2  # until the load runs, and until its threads have ended
MEASURED = ["bench/graph_peers.py", "bench/graph_set.py",
            "bench/graph_worker.py", "bench/robust.py", "hosts/torch", "src",
            "ops"]
SPIN = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass"
# Long enough that a compiler is never done within a block.
SOURCE = "\n".join(
    f"static double f{i}(double x) {{ for (int k = 0; k < 64; ++k) "
    f"x = x * x + {i}.5 / (x + k); return x; }}" for i in range(20000)
) + "\ndouble last(double x) { return " + " + ".join(
    f"f{i}(x)" for i in range(20000)) + "; }\n"


@contextmanager
def running(commands: list[list[str]]) -> Iterator[None]:
    # Groups of their own: the compiler proper is a child of `cc`.
    children = [subprocess.Popen(c, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL,
                                 start_new_session=True) for c in commands]
    time.sleep(SETTLE_S)
    try:
        yield
        if any(child.poll() is not None for child in children):
            raise RuntimeError("the other load ended before the block did")
    finally:
        for child in children:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        time.sleep(SETTLE_S)


def busy_loop() -> list[list[str]]:
    cores = sorted(os.sched_getaffinity(0))
    return [[sys.executable, "-c", SPIN % cores[-1]]]


def compilers(folder: Path) -> list[list[str]]:
    source = folder / "long.c"
    source.write_text(SOURCE)
    return [["cc", "-O2", "-c", str(source), "-o", str(folder / f"{i}.o")]
            for i in range(2 * len(os.sched_getaffinity(0)))]


def block(worker: Worker, seconds: float) -> dict[str, Any]:
    found = worker.block(seconds)
    if "failed" in found:
        raise RuntimeError(found["failed"])
    return found


def quiet(worker: Worker, seconds: float) -> dict[str, Any]:
    """A block during which no other process held the cores."""
    for _ in range(3):
        found, is_quiet = graphs.turn(worker, seconds)
        if "failed" in found:
            raise RuntimeError(found["failed"])
        if is_quiet:
            return found
    raise harness.TooNoisy


def measured(worker: Worker, seconds: float, blocks: int, folder: Path
             ) -> dict[str, float]:
    rows: dict[str, list[float]] = {
        n: [] for n in ("quiet", "stolen", "loaded", "p95")}
    loads = {"stolen": busy_loop(), "loaded": compilers(folder)}
    for _ in range(blocks):
        for name, commands in loads.items():
            rows["quiet"].append(quiet(worker, seconds)["median_ms"])
            with running(commands):
                found = block(worker, seconds)
            rows[name].append(found["median_ms"])
            if name == "loaded":
                rows["p95"].append(found["p95_ms"])
    least = {name: min(times) for name, times in rows.items()}
    return {**least, "p95_median": statistics.median(rows["p95"]),
            "quiet_median": statistics.median(rows["quiet"])}


def one(graph: str, peer: str, words: argparse.Namespace,
        goals: harness.Goals) -> None:
    name = f"{graph}, {peer}"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        worker = Worker(graph, peer, words.threads, place / "files",
                        place / "caches")
        try:
            if "failed" in worker.first:
                if peer == "openvino":
                    print(f"  {name}: {worker.first['failed']}")
                    return
                raise RuntimeError(f"{name}: {worker.first['failed']}")
            row = measured(worker, words.seconds, words.blocks, place)
        except harness.TooNoisy:
            goals.noisy(name)
            return
        finally:
            worker.close()
    stolen = row["stolen"] / row["quiet"]
    p95 = row["p95_median"] / row["quiet_median"]
    print(f"  {name:<28} quiet {row['quiet']:7.2f} / "
          f"{row['quiet_median']:7.2f} ms, a core stolen {stolen:5.2f} x, "
          f"compilers: median {row['loaded'] / row['quiet']:5.2f} x, "
          f"p95 {p95:5.2f} x", flush=True)
    if peer == "openvino":
        goals.limit(f"{name}, a core stolen", stolen)
        goals.limit(f"{name}, p95 beside compilers", p95)
    else:
        goals.add(f"{name}, a core stolen", stolen, STOLEN_MAX)
        goals.add(f"{name}, p95 beside compilers", p95, P95_MAX)


def main() -> None:
    import graph_set

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="the smallest graph, one short block")
    parser.add_argument("--graph", action="append", choices=graph_set.ALL)
    parser.add_argument("--peer", action="append", choices=PEERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="of a block (default 1)")
    words = parser.parse_args()
    goals = harness.Goals("robust")
    if words.smoke:
        words.graph, words.peer = ["mlp"], ["opgraft_max"]
        words.blocks, words.seconds = 1, 0.5
    print(f"{words.threads} threads, {os.cpu_count()} cores "
          "(quiet: least / median)")
    for graph in words.graph or GRAPHS:
        for peer in words.peer or PEERS:
            one(graph, peer, words, goals)
    if not (words.smoke or words.graph or words.peer):
        goals.write(MEASURED)


if __name__ == "__main__":
    main()

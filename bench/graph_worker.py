# SPDX-License-Identifier: Apache-2.0
"""The processes of bench/graphs.py and precision.py: one for each graph, peer
and number of threads, and one that measures the machine's limits beside them.

A worker compiles, holds its result against eager mode's, says so in one line,
and then answers commands, a line of JSON each: {"seconds": S} runs a block,
an empty line ends it. Blocks of several workers are run in turn.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

MARK = "found: "
START_S, BLOCK_S = 1800.0, 300.0  # patience
SMALL = 1e-3


# --- In the worker --------------------------------------------------------------


def say(found: dict[str, Any]) -> None:
    print(MARK + json.dumps(found), flush=True)


def flat(results: Any) -> list[Any]:
    import torch

    items = results if isinstance(results, (list, tuple)) else [results]
    return [torch.as_tensor(i).detach().clone() for i in items]


def difference(found: list[Any], wanted: list[Any]) -> float:
    """The largest, relative to the largest value of that result; where that is
    less than SMALL of the largest of all results, to that part of it: the bias
    of an attention's keys has a gradient of rounding errors alone. Results
    that stand for inputs the graph writes come last, and only some peers have
    them."""
    if len(found) < len(wanted):
        raise RuntimeError(f"{len(found)} results, expected {len(wanted)}")
    worst = 0.0
    largest = max((float(b.abs().max()) for b in wanted if b.numel()),
                  default=0.0)
    for a, b in zip(found, wanted):
        if a.shape != b.shape:
            raise RuntimeError(
                f"a result is {list(a.shape)}, expected {list(b.shape)}")
        a, b = a.double(), b.double()
        if not bool(a.isfinite().all()):
            raise RuntimeError("a result is not finite")
        worst = max(worst, float((a - b).abs().max())
                    / max(float(b.abs().max()), SMALL * largest, 1e-30))
    return worst


def memory_mb(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1]) / 1024
    return 0.0


def cpu_s() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def block(run: Any, seconds: float) -> dict[str, Any]:
    """Times calls, without the seconds that `run.inside`, where it has that,
    counts meanwhile."""
    times: list[float] = []
    gc.collect()
    gc.disable()
    used, begun = cpu_s(), time.perf_counter()
    while True:
        before, inside = time.perf_counter(), getattr(run, "inside", 0.0)
        run()
        now = time.perf_counter()
        times.append(now - before - (getattr(run, "inside", 0.0) - inside))
        if now - begun >= seconds:
            break
    gc.enable()
    times.sort()
    return {"median_ms": times[len(times) // 2] * 1e3,
            "p95_ms": times[int(len(times) * 0.95)] * 1e3,
            "calls": len(times), "cpu_s": cpu_s() - used}


def read_storages(run: Any) -> set[int]:
    """Addresses of what operators read whole: a table of embeddings is not,
    unless another operator uses it too."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_iter

    seen: set[int] = set()

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            if "embedding" not in op.name():
                seen.update(i.untyped_storage().data_ptr()
                            for i in tree_iter((args, kwargs))
                            if hasattr(i, "untyped_storage"))
            return op(*args, **(kwargs or {}))

    with Reads():
        run()
    return seen


def work_of(built: Any) -> dict[str, float]:
    """What a call must do at least: floating-point operations of its matrix
    products, and bytes that it must read: weights and arguments once."""
    import torch
    from graph_peers import step
    from torch.utils.flop_counter import FlopCounterMode

    run = step(built, built.model)
    with FlopCounterMode(display=False) as counter:
        run()
    seen = read_storages(run)
    tensors = [*built.model.parameters(),
               *(a for a in built.args if isinstance(a, torch.Tensor))]
    read = {t.untyped_storage().data_ptr(): t.nbytes for t in tensors}
    return {"flops": float(counter.get_total_flops()),
            "bytes": float(sum(n for at, n in read.items() if at in seen))}


def serve_peer(graph: str, name: str, threads: int, folder: Path) -> None:
    import graph_peers
    import graph_set
    import torch

    torch.set_num_threads(threads)
    peer, entry = graph_peers.ALL[name], graph_set.ALL[graph]
    is_inlined = entry.has_custom and not peer.takes_custom
    built = graph_set.make(graph, is_inlined)
    torch.set_grad_enabled(built.is_training)
    if built.is_training and not peer.trains:
        raise RuntimeError("it does not train")
    peer.load()
    wanted = flat(graph_peers.step(built, built.model)())
    job = graph_peers.Job(built, threads, folder)
    base = memory_mb("VmRSS")
    begun = time.perf_counter()
    run = peer.make(job)
    found = run()
    compile_s = time.perf_counter() - begun
    error = difference(flat(found), wanted)
    if error > built.tolerance:
        raise RuntimeError(f"a result differs from eager's by {error:.2e} of "
                           f"its largest value, more than {built.tolerance}")
    stats = job.notes.pop("stats", dict)()
    for _ in range(3):
        run()
    say({"compile_s": compile_s, "error": error, "inlined": is_inlined,
         "above_start_mb": memory_mb("VmHWM") - base,
         "peak_mb": memory_mb("VmHWM"), "tolerance": built.tolerance,
         **job.notes, **stats, **(work_of(built) if name == "eager" else {})})
    for line in sys.stdin:
        if not line.strip():
            return
        say(block(run, json.loads(line)["seconds"]))


def product_gflops() -> float:
    """torch's matrix product, f32, 128 x 768 x 3072."""
    import torch

    a, b = torch.randn(128, 768), torch.randn(768, 3072)
    best = 1e9
    for _ in range(20):
        begun = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begun)
    return 2 * 128 * 768 * 3072 / best / 1e9


def serve_machine(dtype: str, threads: int) -> None:
    import machine
    import torch

    torch.set_num_threads(threads)
    limits = machine.Machine()
    kind = getattr(torch, dtype)
    say({"isa": limits.isa})
    for line in sys.stdin:
        if not line.strip():
            return
        used = cpu_s()
        say({"gflops": limits.flops(kind), "gbs": limits.bandwidth(),
             "product_gflops": product_gflops(), "cpu_s": cpu_s() - used})


def serve(words: list[str], serve_one: Callable[[str, str, int, Path], None]
          ) -> None:
    """What a process of Worker does; an error is said to the parent."""
    sys.path.append(str(Path(__file__).resolve().parent))
    graph, peer, threads, folder = words
    try:
        if peer == "machine":
            serve_machine(graph, int(threads))
        else:
            serve_one(graph, peer, int(threads), Path(folder))
    except Exception as error:
        said = " ".join(str(error).split())
        say({"failed": f"{type(error).__name__}: {said[:300]}"})
        raise


# --- In the parent --------------------------------------------------------------


class Worker:
    """A process that serves; `first`: its line when it was ready, with
    "failed" where it is not."""

    def __init__(self, graph: str, peer: str, threads: int, folder: Path,
                 caches: Path, script: str = "graphs.py") -> None:
        caches.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        places = {name: str(caches / name.lower()) for name in (
            "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")}
        for place in places.values():
            Path(place).mkdir(exist_ok=True)
        self._said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)),
             "--worker", graph, peer, str(threads), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            env={**os.environ, **places, "OMP_NUM_THREADS": str(threads),
                 "TOKENIZERS_PARALLELISM": "false"})
        self._rest = b""
        self.first = self._read(START_S)

    def _read(self, patience: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        end = time.monotonic() + patience
        while True:
            while b"\n" in self._rest:
                line, self._rest = self._rest.split(b"\n", 1)
                text = line.decode(errors="replace")
                if text.startswith(MARK):
                    found: dict[str, Any] = json.loads(text[len(MARK):])
                    return found
            left = end - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                self._process.kill()
                return {"failed": f"not done after {patience:.0f} s"}
            more = os.read(handle, 1 << 16)
            if not more:
                return {"failed": f"it ended with status "
                                  f"{self._process.wait()}: {self._last()}"}
            self._rest += more

    def _last(self) -> str:
        self._said.seek(0)
        lines = [s for s in self._said.read().splitlines() if s.strip()]
        return lines[-1][:300] if lines else "nothing printed"

    def block(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(
                json.dumps({"seconds": seconds}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"failed": f"it ended: {self._last()}"}
        return self._read(BLOCK_S)

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

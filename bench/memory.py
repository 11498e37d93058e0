#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory: the arena beside its lower bound on every model, the peak of a process
that trains and runs it beside Inductor's, a cache of 1 GB that is written in
place, and what regions share.

Each figure comes from a fresh process. The peak is the kernel's own count of
what was resident (VmHWM), after the compiler's own needs: a peak of compiling
is one that a user has too. The same process ends up to a tenth higher or lower,
by where its allocator happens to leave holes, so peaks are the least of
several processes in turns, each with a cold compiler.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/python/graph")]

import each  # noqa: E402
import harness  # noqa: E402
import models  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

CACHE_BYTES = 1 << 30
# Code, stacks and what allocators keep; a copy would be a gigabyte.
CACHE_SLACK_BYTES = 64 << 20
BACKENDS = ("opgraft", "inductor")
PROCESSES = 3  # of each backend


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"/proc/self/status has no {name}")


def peak_restart() -> None:
    Path("/proc/self/clear_refs").write_text("5")


# --- Children -----------------------------------------------------------------


def run_model(name: str, backend: str, width: str) -> dict[str, Any]:
    """Inference, and three training steps where it trains."""
    torch.manual_seed(1)
    entry = models.ALL[name]
    model, args, kwargs = entry.build(width == "full")
    compiled = torch.compile(model, backend=backend)
    for _ in range(3 if entry.trained else 0):
        model.train().zero_grad()
        compiled(*args, **kwargs).float().square().mean().backward()
    model.eval().zero_grad()
    with torch.no_grad():
        for _ in range(2):
            compiled(*args, **kwargs)
    found: dict[str, Any] = {"peak": status_bytes("VmHWM")}
    if backend == "opgraft":
        s = opgraft.stats(compiled)
        found["arenas"] = [(g["kind"], g.get("arena_bytes", 0),
                            g.get("lower_bound_bytes", 0)) for g in s.graphs]
        found["shared"] = s.shared_bytes
    return found


APPEND = r"""
// append: writes a row of new numbers into a cache.
#include <opgraft/op.h>
#include <string.h>
static og_status append_f32(const og_call *call) {
  memcpy(og_f32_mut(call->in[0]) + call->attr[0].i * call->dim[1],
         og_f32(call->in[1]), (size_t)call->dim[1] * sizeof(float));
  return OG_OK;
}
static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = append_f32}};
static const og_op ops[] = {{
    .schema = "append(Tensor(a!) cache, Tensor row, int place) -> ()",
    .shape = "cache[N, D], row[D] ->",
    .dtype = "cache: f32, row: f32 ->",
    .kernels = OG_KERNELS(kernels)}};
OG_MODULE(bench_append, ops)
"""


def append_custom(folder: Path) -> Callable[..., Any]:
    import call

    (folder / "append.c").write_text(APPEND)
    call.compile_c(folder / "append.c", folder / "append.so")
    op = opgraft.load(folder / "append.so").append

    def step(cache: torch.Tensor, row: torch.Tensor, place: Any) -> Any:
        op(cache, row * 2, 7)
        return cache[7].sum()

    return step


def append_index_put(_: Path) -> Callable[..., Any]:
    def step(cache: torch.Tensor, row: torch.Tensor, place: Any) -> Any:
        cache.index_put_((place,), (row * 2)[None])
        return cache[7].sum()

    return step


CACHES = {"a custom operator": append_custom, "index_put_": append_index_put}


def run_cache(how: str) -> dict[str, Any]:
    cache = torch.full((CACHE_BYTES // 4096, 1024), 3.0)
    row, place = torch.randn(1024), torch.tensor([7])
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        step = torch.compile(CACHES[how](Path(name)), backend="opgraft")
        gc.collect()
        before = status_bytes("VmRSS")
        peak_restart()
        address = cache.data_ptr()
        sums = [step(cache, row, place).item() for _ in range(3)]
        grown = status_bytes("VmHWM") - before
    right = (cache.data_ptr() == address and torch.equal(cache[7], row * 2)
             and bool((cache[6] == 3).all()) and bool((cache[8] == 3).all())
             and all(abs(s - 2 * row.sum().item()) < 1e-2 for s in sums))
    found = opgraft.stats(step)
    return {"grown": grown, "right": right, "clone_bytes": found.clone_bytes,
            "fallbacks": [f["operator"] for f in found.fallbacks]}


def run_shared() -> dict[str, Any]:
    """Two regions and their backward, in one thread: one arena."""
    torch.manual_seed(1)
    stats = []
    for name in ("mlp_dropout", "unet"):
        model, args, kwargs = models.ALL[name].build(False)
        compiled = torch.compile(model, backend="opgraft")
        compiled(*args, **kwargs).square().mean().backward()
        stats.append(opgraft.stats(compiled))
    graphs = [g["arena_bytes"] for s in stats for g in s.graphs]
    return {"arenas": graphs, "shared": stats[-1].shared_bytes}


def run_one(words: list[str]) -> dict[str, Any]:
    if words[0] == "cache":
        return run_cache(words[1])
    if words[0] == "shared":
        return run_shared()
    return run_model(*words)


# --- The parent ---------------------------------------------------------------


def run_turns(script: Path, name: str, width: str, turns: int
              ) -> dict[str, Any]:
    """By backend what the process found whose peak was least, and all peaks."""
    found: dict[str, list[dict[str, Any]]] = {b: [] for b in BACKENDS}
    for _ in range(turns):
        for backend in BACKENDS:
            with tempfile.TemporaryDirectory() as cache:  # a cold compiler
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
                found[backend].append(each.one(script, [name, backend, width]))
    row = {}
    for backend, all_found in found.items():
        wrong = [f for f in all_found if "error" in f]
        row[backend] = wrong[0] if wrong else {
            **min(all_found, key=lambda f: f["peak"]),
            "peaks": sorted(f["peak"] for f in all_found)}
    return row


def figures_arenas(rows: dict[str, Any], goals: harness.Goals) -> None:
    worst, where = 0.0, "none"
    for name, row in rows.items():
        for kind, arena, bound in row["opgraft"].get("arenas", ()):
            ratio = arena / bound if bound else 1.0
            if ratio > worst:
                worst, where = ratio, f"{name} {kind}"
    goals.add(f"arena / lower bound, worst ({where})", worst, 1.03)


def figures_peaks(rows: dict[str, Any], goals: harness.Goals) -> None:
    for name, row in rows.items():
        ours, theirs = (row[b].get("peak") for b in BACKENDS)
        if ours is None or theirs is None:
            goals.absent(f"{name}: peak / inductor's", " ".join(
                row[b]["error"] for b in BACKENDS if "error" in row[b]))
        else:
            goals.add(f"{name}: peak / inductor's", ours / theirs, 1.0)


def figures_caches(caches: dict[str, Any], goals: harness.Goals) -> None:
    for how, row in caches.items():
        what = f"1 GB cache written by {how}: peak grows by (MiB)"
        if not row.get("right"):
            goals.absent(what, row.get("error", "wrong values"))
        else:
            goals.add(what, row["grown"] / (1 << 20), CACHE_SLACK_BYTES >> 20)


def figures_shared(shared: dict[str, Any], goals: harness.Goals) -> None:
    if "error" in shared:
        goals.absent("bytes that four graphs share", shared["error"])
        return
    total = sum(shared["arenas"])
    goals.add(f"arena of four graphs that ask for {total} bytes / the "
              "largest of them",
              (total - shared["shared"]) / max(shared["arenas"]), 1.0)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        each.report(run_one(sys.argv[2:]))
        return
    asked = each.asked(__doc__, models.ALL, "lstm_cell")
    goals = harness.Goals("memory")
    script = Path(__file__)
    width = "small" if asked.is_smoke else "full"
    turns = 1 if asked.is_smoke else PROCESSES
    rows = {}
    for name, row in asked.rows.of(asked.names, lambda name: run_turns(
            script, name, width, turns)):
        rows[name] = row
        print(name, "".join(
            f"  {b} " + (r.get("error") or
                         " ".join(str(p >> 20) for p in r["peaks"]) + " MiB")
            for b, r in row.items()), flush=True)
    caches = {how: each.one(script, ["cache", how]) for how in CACHES}
    shared = each.one(script, ["shared"])
    print(f"caches {caches}\nshared {shared}")
    figures_arenas(rows, goals)
    figures_peaks(rows, goals)
    figures_caches(caches, goals)
    figures_shared(shared, goals)
    if asked.is_whole:
        goals.write(["bench/memory.py", "hosts/torch", "src/exec", "src/plan",
                     "src/pass"], {"rows": rows, "caches": caches,
                                   "shared": shared})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public models of timm, torchvision, diffusers and torch_geometric, compiled:
forward at three sizes, gradients, three training steps.

The models are those of tests/sweep/public/models.txt, which a rule chose
(catalog.py). Figures are distances to float64, eager's being 1; the bound is 2.
A phase that fails, or leaves the bound, is tried with torch's own
backend="aot_eager" too: what fails there as well is torch's. Gradients jump
(relu at 0, the largest of two equal numbers): there the last bit decides, and
one jump outweighs all other samples. So a phase that leaves the bound is
measured beside eager whose weights and inputs are moved by one unit in the last
place each: it is the model's own doing if, tensor by tensor, half of our
distances are no larger than eager's but by chance (Mann and Whitney, "On a test
of whether one of two random variables is stochastically larger than the other",
1947). Each model's row is kept in build/ as it ends, so that a run that was
stopped goes on with --resume. All models take hours: --minutes ends a run early,
--missing goes on where docs/results/public_models.json ends, --again measures
rows of it anew. A row has the hash of what it measured.
"""

from __future__ import annotations

import argparse
import bisect
import copy
import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/python/graph"), str(ROOT / "bench"),
                str(ROOT / "tools"), str(ROOT / "tests/sweep/public")]

import each  # noqa: E402
import entry as listed  # type: ignore[import-not-found]  # noqa: E402
import harness  # noqa: E402
import matrix  # type: ignore[import-not-found]  # noqa: E402
import packages  # type: ignore[import-not-found]  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

KINDS = ("forward", "gradients", "training")
KEPT = ROOT / "build/sweep-public"
EXPLAINED = ROOT / "tests/sweep/public/explained.txt"
STEPS = 3
MORE_DRAWS = 4  # where a ratio leaves the bound: one draw may be chance
MORE_TIMES = 3  # so many times more, where jumps are to be told apart
CHANCE_MIN = 0.01  # below, our distances are beyond the bound
NATIVE_MIN = 0.98
MODELS_MIN = 100
RESULT = ROOT / "docs/results/public_models.json"
TIMEOUT_S = 1200
SMOKE = ("timm resnet10t", "torchvision shufflenet_v2_x0_5",
         "diffusers unet_2d_blocks.AutoencoderTinyBlock",
         "torch_geometric conv.GCNConv")
MEASURED = ["src", "hosts/torch", "python/opgraft", "tests/sweep/public",
            "tests/sweep/public_models.py", "tests/python/graph/matrix.py"]


def tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(tree)
            if isinstance(x, torch.Tensor)]


@dataclass
class Samples(matrix.Worst):
    """And each sample's distances, ours and eager's, tensor by tensor."""

    each: list[list[tuple[float, float]]] = field(default_factory=list)

    def add(self, found: Any, eager: Any, exact: Any) -> None:
        super().add(found, eager, exact)
        one = matrix.Worst()
        one.add(found, eager, exact)
        self.each.append(one.distances())

    def by_tensor(self) -> list[tuple[tuple[float, float], ...]]:
        """Of each tensor, the distances of every sample."""
        return list(zip(*self.each, strict=True))


class Case:
    """A model in float32 and in float64, and how it is compiled."""

    def __init__(self, entry: Any, backend: str) -> None:
        self.entry, self.backend = entry, backend
        self.model = entry.build()
        # Built anew: not every module can be copied (weight_norm).
        self.exact = entry.build().double()
        self.exact.load_state_dict(self.model.state_dict())
        torch._dynamo.reset()
        self.compiled = torch.compile(self.model, backend=backend)

    def arguments(self, size: int, draw: int = 0) -> tuple[Any, Any]:
        plain = self.entry.arguments(size, draw)
        return plain, matrix.convert(plain, torch.float64)

    def first(self, args: Any, state: Any) -> tuple[Any, Any, Any, Any]:
        """What is measured: the model, how it runs, its arguments, weights."""
        return self.model, self.compiled, args, state

    def runs(self, size: int, draw: int) -> list[tuple[Any, Any, Any, Any]]:
        plain, exact = self.arguments(size, draw)
        state = copy.deepcopy(self.model.state_dict())
        return [self.first(plain, state),
                (self.model, self.model, plain, state),
                (self.exact, self.exact, exact, state)]

    def forward(self, worst: Any, draw: int) -> None:
        self.model.eval(), self.exact.eval()
        for size in range(len(self.entry.sizes)):
            found = []
            for model, run, args, state in self.runs(size, draw):
                model.load_state_dict(state)
                with torch.no_grad():
                    found.append(self.call(run, copy.deepcopy(args)))
            worst[size].add(*found)

    def gradients(self, worst: Any, draw: int) -> None:
        self.model.eval(), self.exact.eval()
        self.step(worst[0], draw)

    def training(self, worst: Any, draw: int) -> None:
        """Steps, each of the three from eager's weights. What a step writes
        into buffers is a result too."""
        start = copy.deepcopy(self.model.state_dict())
        optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.model.train(), self.exact.train()
        for step in range(STEPS):
            self.step(worst[0], draw * STEPS + step)
            optimizer.step()
        self.model.load_state_dict(start)

    def step(self, worst: Any, draw: int) -> None:
        found = []
        for model, run, args, state in self.runs(0, draw):
            model.load_state_dict(state)
            found.append([*self.results(model, run, args),
                          *(b.clone() for b in model.buffers())])
        worst.add(*found)

    def results(self, model: Any, run: Any, args: Any) -> list[torch.Tensor]:
        model.zero_grad()
        given = copy.deepcopy(args)
        inputs = [x.requires_grad_() for x in tensors(given)
                  if x.is_floating_point()]
        out = self.call(run, given)
        loss = sum(x.square().mean() for x in tensors(out) if x.requires_grad)
        loss.backward()
        return [*matrix.values(out), *(
            p.grad.clone() for p in (*inputs, *model.parameters())
            if p.grad is not None)]

    @staticmethod
    def call(run: Callable[..., Any], args: Any) -> Any:
        torch.manual_seed(3)  # dropout draws the same numbers for every type
        return run(**args)


class Moved(Case):
    """Eager in place of what is compiled, its weights and inputs moved to one
    of their neighbours each."""

    def __init__(self, entry: Any) -> None:
        super().__init__(entry, "eager")
        self.twin = copy.deepcopy(self.model)
        self.draws = torch.Generator().manual_seed(1)

    def first(self, args: Any, state: Any) -> tuple[Any, Any, Any, Any]:
        self.twin.train(self.model.training)
        args, state = torch.utils._pytree.tree_map(
            lambda x: neighbour(x, self.draws), (args, dict(state)))
        return self.twin, self.twin, args, state


def neighbour(x: Any, draws: torch.Generator) -> Any:
    """Each number's next one, above or below."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    up = torch.rand(x.shape, generator=draws) < 0.5
    return torch.nextafter(x, torch.where(up, torch.inf, -torch.inf))


def phase(case: Case, kind: str) -> tuple[dict[str, Any], list[Samples]]:
    """The largest ratio, and its place; or what was raised. And the samples, by
    size of the inputs."""
    worst = [Samples() for _ in case.entry.sizes]
    try:
        for draw in range(1 + MORE_DRAWS):
            getattr(case, kind)(worst, draw)
            top = max((w for w in worst if w.squares),
                      key=lambda w: w.ratio)
            if top.ratio <= matrix.FACTOR:
                break
    except Exception as error:
        first = (str(error).strip() or "no text").splitlines()[0]
        return {"error": f"{type(error).__name__}: {first}"[:300]}, worst
    return {"ratio": top.ratio, "where": top.where}, worst


def beside_moved(case: Case, kind: str, worst: list[Samples]
                 ) -> dict[str, Any]:
    """How likely a phase's distances are where the bound holds, beside those of
    eager, itself or moved; and, of the tensor that speaks most against it, how
    the medians compare."""
    other = Moved(case.entry)
    others = [Samples() for _ in worst]
    for draw in range(MORE_TIMES * (1 + MORE_DRAWS)):
        if draw > MORE_DRAWS:
            getattr(case, kind)(worst, draw)
        getattr(other, kind)(others, draw)
    ours, moved = max(zip(worst, others, strict=True),
                      key=lambda pair: pair[0].ratio)
    pairs = [([a for a, _ in mine], [max(b) for b in theirs])
             for mine, theirs in zip(ours.by_tensor(), moved.by_tensor(),
                                     strict=True)]
    chances = [chance([a / matrix.FACTOR for a in mine], theirs)
               for mine, theirs in pairs]
    least = min(range(len(pairs)), key=chances.__getitem__)
    return {"chance": min(1.0, chances[least] * len(pairs)),
            "tensors": len(pairs), "samples": len(ours.each),
            "eager_samples": len(moved.each), "least_likely": least,
            "medians": statistics.median(pairs[least][0])
            / statistics.median(pairs[least][1])}


def chance(ours: list[float], theirs: list[float]) -> float:
    """Of ours being as large beside theirs, where both are drawn alike:
    one-sided, by the sum of ranks, which is normal for ten samples and more."""
    if any(x != x for x in ours):
        return 0.0
    every = sorted(ours + theirs)
    n, m, total = len(ours), len(theirs), len(every)
    rank = {x: (bisect.bisect_left(every, x) + 1
                + bisect.bisect_right(every, x)) / 2 for x in every}
    ties = sum(t ** 3 - t for t in Counter(every).values())
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    above = sum(rank[x] for x in ours) - n * (total + 1) / 2 - 0.5
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc(above / math.sqrt(2 * variance))


def is_right(found: dict[str, Any]) -> bool:
    return "ratio" in found and found["ratio"] <= matrix.FACTOR


def run_one(line: str) -> dict[str, Any]:
    entry = listed.Entry(**json.loads(line))
    begin = time.process_time()
    case = Case(entry, "opgraft")
    row: dict[str, Any] = {}
    samples: dict[str, list[Samples]] = {}
    for kind in KINDS:
        row[kind], samples[kind] = phase(case, kind)
    said = opgraft.stats(case.compiled)
    row |= {"nodes": said.nodes, "native": said.native,
            "in_python": said.in_python,
            "fallbacks": Counter(f["operator"] for f in said.fallbacks),
            "clones": len(said.clones), "clone_bytes": said.clone_bytes}
    wrong = [kind for kind in KINDS if not is_right(row[kind])]
    if wrong:
        theirs = Case(entry, "aot_eager")
        for kind in wrong:
            row[kind]["aot_eager"] = phase(theirs, kind)[0]
            if "ratio" in row[kind]:
                row[kind]["moved"] = beside_moved(case, kind, samples[kind])
    return {**row, "seconds": time.process_time() - begin}


def show(title: str, row: dict[str, Any]) -> None:
    cells = "".join(f"{row[k]['ratio']:>11.2f}" if "ratio" in row.get(k, {})
                    else f"{'error':>11}" for k in KINDS)
    share = f"{row['native']}/{row['nodes']}" if "nodes" in row else ""
    print(f"{title:<48}{cells}{share:>12}", flush=True)
    if "error" in row:
        print(f"  {row['error']}", flush=True)
    for kind in KINDS:
        found = row.get(kind, {})
        if found and not is_right(found):
            print(f"  {kind}: {found.get('error') or found['where']}\n"
                  f"    aot_eager: {found.get('aot_eager')}\n"
                  f"    moved: {found.get('moved')}", flush=True)


def explained() -> dict[str, str]:
    """By `title, kind`: why it is as it is, in words."""
    pairs = (line.split(": ", 1) for line in EXPLAINED.read_text().splitlines()
             if line and not line.startswith("#"))
    return {name: text for name, text in pairs}


def faults(rows: dict[str, Any], explanations: dict[str, str]
           ) -> tuple[list[str], list[str], list[str]]:
    """What did not run, what left the bound, and what of both has no reason:
    torch's own backend does not do it either, the model jumps so by itself, or
    explained.txt says why."""
    stopped, far, unexplained = [], [], []
    for title, row in rows.items():
        for kind in KINDS:
            found = row.get(kind, row)
            if is_right(found):
                continue
            name = f"{title}, {kind}"
            theirs = found.get("aot_eager", {})
            is_theirs = bool(theirs) and not is_right(theirs)
            beside = found.get("moved", {})
            is_moved = beside.get("chance", 0) >= CHANCE_MIN
            if "ratio" not in found and not is_theirs:
                stopped.append(name)
            elif "ratio" in found and not is_theirs:
                far.append(name)
            if not (is_theirs or is_moved or name in explanations):
                unexplained.append(name)
    return stopped, far, unexplained


def judge(rows: dict[str, Any], goals: Any, is_listed: bool) -> None:
    """The share of native nodes is a goal of the list, not of single models."""
    stopped, far, unexplained = faults(rows, explained())
    goals.add(f"phases that eager runs and ours does not {stopped or ''}"
              .strip(), len(stopped), 0)
    print(f"phases over {matrix.FACTOR} x eager's distance: {far}")
    goals.add(f"of these without a reason {unexplained or ''}".strip(),
              len(unexplained), 0)
    nodes = sum(r.get("nodes", 0) for r in rows.values())
    native = sum(r.get("native", 0) for r in rows.values())
    if is_listed:
        goals.add("models", len(rows), MODELS_MIN, at_most=False)
        goals.add(f"native nodes of {nodes}", native / max(nodes, 1),
                  NATIVE_MIN, at_most=False)
    missing = Counter[str]()
    for row in rows.values():
        missing.update(row.get("fallbacks", {}))
    for name, count in missing.most_common(20):
        print(f"  {count:>6} nodes  {name}")


def chosen(options: argparse.Namespace) -> list[Any]:
    every = listed.entries()
    if options.smoke:
        return [e for e in every if e.title in SMOKE]
    if options.model:
        return [e for e in every if any(m in e.title for m in options.model)]
    # In an order that mixes the libraries: where a run ends early, what it
    # has measured is a sample.
    return sorted(every, key=lambda e: hashlib.sha256(
        e.title.encode()).digest())


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        each.report(run_one(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one model of each library")
    parser.add_argument("--model", action="append", metavar="TEXT",
                        help="only those whose name holds it; nothing is "
                        "written")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, metavar="N",
                        help="begin no model after so many")
    parser.add_argument("--missing", action="store_true",
                        help="only those without a row in docs/results")
    parser.add_argument("--again", action="append", metavar="TEXT",
                        help="only those whose name holds it; the other rows "
                        "of docs/results stay")
    parser.add_argument("--resume", action="store_true",
                        help="keep what an earlier run of the same sources "
                        "has measured")
    options = parser.parse_args()
    packages.install()
    # Threads that wait need not spin: nothing is timed.
    os.environ |= packages.environment() | {"OMP_WAIT_POLICY": "passive"}
    rows: dict[str, Any] = {}
    again = options.again or []
    if (options.missing or again) and RESULT.exists():
        written = json.loads(RESULT.read_text())["rows"]
        rows = {t: row for t, row in written.items()
                if "error" not in row and not any(m in t for m in again)}
    entries = [e for e in chosen(options) if e.title not in rows and (
        not again or any(m in e.title for m in again))]
    assert len({e.title for e in entries}) == len(entries)
    key = results.hash_of(MEASURED)
    end = time.monotonic() + 60 * (options.minutes or float("inf"))

    def run(entry: Any) -> dict[str, Any] | None:
        if time.monotonic() > end:
            return None
        kept = KEPT / f"{entry.title.replace(' ', '-')}.json"
        return {**each.kept(Path(__file__), [entry.line()], kept, key,
                            options.resume, TIMEOUT_S), "hash": key}

    print(f"{'model':<48}" + "".join(f"{k:>11}" for k in KINDS)
          + f"{'native':>12}")
    with ThreadPoolExecutor(options.jobs) as pool:
        children = {pool.submit(run, e): e.title for e in entries}
        for done, child in enumerate(as_completed(children), 1):
            row = child.result()
            if row is None:
                continue
            rows[children[child]] = row
            print(f"[{done}/{len(children)}] ", end="")
            show(children[child], row)
    goals = harness.Goals("public_models")
    is_listed = not options.smoke and not options.model
    judge(rows, goals, is_listed)
    if is_listed:
        goals.write(MEASURED, {
            "models": f"{len(rows)} of {len(listed.entries())}",
            "rows": dict(sorted(rows.items()))})
    return int(any(line["verdict"] != "holds" for line in goals.lines))


if __name__ == "__main__":
    sys.exit(main())

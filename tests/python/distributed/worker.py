# SPDX-License-Identifier: Apache-2.0
"""One of several processes: runs every case on DTensors and writes what came
of it. Started by test_distributed.py.

    RANK=0 WORLD_SIZE=2 python worker.py STORE OUT [SCENE ...]
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import calls
import scenes
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.debug import CommDebugMode

from opgraft import ops
from opgraft._base import sharding
from opgraft._base.sharding import Part

T = torch.Tensor
PARTIAL = {"sum": "sum", "prod": "product", "max": "max", "min": "min"}


def placement(part: Part) -> Any:
    if part is None:
        return Replicate()
    return Shard(part) if isinstance(part, int) else Partial(PARTIAL[part])


def shared(value: Any, part: Part, mesh: DeviceMesh) -> Any:
    """The tensor as each process has it. What a sum counts once is given
    whole: making it a summand takes no communication."""
    if not isinstance(value, T):
        return value
    where = placement(part) if isinstance(part, int) else Replicate()
    given = value.detach().clone()
    out = distribute_tensor(given, mesh, [where], src_data_rank=None)
    return out.requires_grad_(value.requires_grad)


def flat(result: Any) -> list[T]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def wrong(found: T, wanted: T) -> str | None:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.shape} {found.dtype}, not {wanted.shape} {wanted.dtype}"
    if torch.allclose(found.double(), wanted.double(), 1e-4, 1e-5):
        return None
    return f"differs by {(found.double() - wanted.double()).abs().max()}"


class Case:
    """One operator's call, whole and split."""

    def __init__(self, name: str, mesh: DeviceMesh) -> None:
        module, _, operator = name.partition(".")
        m = ops._modules[module]
        self.name, self.mesh = name, mesh
        self.d = m._descriptions[operator]
        self.function = getattr(m, operator.replace(".", "_"))
        self.args, self.kwargs = calls.CALLS[name](1)

    def results(self, out: Any, values: list[Any]) -> list[Any]:
        """Fresh results, then new values of what was written."""
        made = flat(out) if self.d.fresh else []
        return made[:len(self.d.fresh)] + [values[p] for p in self.d.mutated]

    def splits(self) -> list[sharding.Split]:
        values = self.d.bind(tuple(self.args), self.kwargs)
        return list(sharding.Splitter(self.d, values, self.mesh.size()).all())

    def expected(self, split: sharding.Split) -> list[Part]:
        mutated = [self.d.params[p]["tensor"] for p in self.d.mutated]
        return split.fresh + [split.mutated[t] for t in mutated]

    def place(self, split: sharding.Split, args: list[Any]) -> list[Any]:
        return [
            shared(v, split.args.get(p["tensor"]), self.mesh)
            for v, p in zip(args, self.d.params)
        ]

    def own_plan(self, split: sharding.Split) -> list[Any]:
        """A plan is for the heads that a process has."""
        args = list(self.args)
        if "plan" in self.d.by_name and "H" in split.text:
            at = self.d.by_name["plan"]
            args[at] = calls.CALLS[self.name](self.mesh.size())[0][at]
        return args

    def needs_grad(self) -> list[int]:
        grad = self.d.tables["grad"]
        if grad["kind"] != "operator" or self.d.mutated:
            return []
        return [p for p in grad["targets"] if p < len(self.args)
                and isinstance(self.args[p], T)]

    def whole(self) -> tuple[list[T], list[T]]:
        """Results and gradients of one process."""
        args = [v.clone().requires_grad_(i in self.needs_grad())
                if isinstance(v, T) else v for i, v in enumerate(self.args)]
        out = self.results(self.function(*args, **self.kwargs), args)
        if not self.needs_grad():
            return out, []
        weight = torch.linspace(-1, 1, out[0].numel()).reshape(out[0].shape)
        out[0].backward(weight)
        return [o.detach() for o in out], [args[p].grad
                                           for p in self.needs_grad()]

    def split_faults(self, split: sharding.Split) -> list[str]:
        wanted, gradients = self.whole()
        args = self.place(split, self.own_plan(split))
        for p in self.needs_grad():
            args[p].requires_grad_()
        with CommDebugMode() as seen:
            made = self.function(*args, **self.kwargs)
        faults = [] if seen.get_total_counts() == 0 else [
            f"communicates: {seen.get_comm_counts()}"]
        out = self.results(made, args)
        for o, part, want in zip(out, self.expected(split), wanted):
            if o.placements != (placement(part),):
                faults.append(f"placements {o.placements}, not {part}")
            fault = wrong(o.detach().full_tensor(), want)
            faults += [fault] if fault else []
        return faults + self.gradient_faults(args, out, gradients)

    def gradient_faults(
        self, args: list[Any], out: list[DTensor], wanted: list[T]
    ) -> list[str]:
        if not wanted:
            return []
        first = out[0]
        weight = torch.linspace(-1, 1, first.numel()).reshape(first.shape)
        where = [p if isinstance(p, Shard) else Replicate()
                 for p in first.placements]
        given = distribute_tensor(weight, self.mesh, where, src_data_rank=None)
        with CommDebugMode() as seen:
            first.backward(given)
        faults = [] if seen.get_total_counts() == 0 else [
            f"the gradient communicates: {seen.get_comm_counts()}"]
        for p, want in zip(self.needs_grad(), wanted):
            fault = wrong(args[p].grad.full_tensor(), want)
            if fault:
                faults.append(f"gradient of {self.d.params[p]['name']} {fault}")
        return faults

    def replicated_faults(self) -> list[str]:
        wanted, _ = self.whole()
        args = [shared(v, None, self.mesh) for v in self.args]
        out = self.results(self.function(*args, **self.kwargs), args)
        faults = [wrong(o.full_tensor(), w) for o, w in zip(out, wanted)]
        return [f"replicated: {f}" for f in faults if f]


def operator(name: str, mesh: DeviceMesh) -> dict[str, Any]:
    case = Case(name, mesh)
    splits, faults = [], []
    for split in case.splits():
        if case.d.mutated and any(isinstance(p, str)
                                  for p in split.mutated.values()):
            continue
        splits.append(split.text)
        try:
            faults += [f"{split.text}: {f}"
                       for f in case.split_faults(split)]
        except Exception:
            faults.append(f"{split.text}: {traceback.format_exc()}")
    try:
        if sharding.refusal(case.d) is None:
            faults += case.replicated_faults()
    except Exception:
        faults.append(f"replicated: {traceback.format_exc()}")
    return {"splits": splits, "faults": faults}


def scene(run: Any, mesh: DeviceMesh) -> Any:
    try:
        return run(mesh)
    except Exception:
        return {"faults": [traceback.format_exc()]}


def main() -> None:
    store, out, *chosen = sys.argv[1:]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world,
                            init_method=f"file://{store}")
    mesh = init_device_mesh("cpu", (world,))
    found = {"operators": {name: operator(name, mesh) for name in calls.CALLS},
             "scenes": {run.__name__: scene(run, mesh)
                        for run in scenes.SCENES
                        if not chosen or run.__name__ in chosen}}
    Path(f"{out}.{rank}").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

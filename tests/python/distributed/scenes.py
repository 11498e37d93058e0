# SPDX-License-Identifier: Apache-2.0
"""What models do with DTensors: each scene says what was communicated and what
went wrong."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import (
    _create_work_from_future,
    _register_process_group,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from opgraft import ops

T = torch.Tensor


class Linear(nn.Linear):
    """nn.Linear by our operator."""

    def forward(self, x: T) -> T:
        return ops.linear(x, self.weight, self.bias)


class Block(nn.Module):
    """The feed-forward half of a Llama block."""

    def __init__(self, width: int = 16, inner: int = 32) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.ones(width))
        self.up = Linear(width, inner)
        self.down = Linear(inner, width)

    def forward(self, x: T) -> T:
        y = ops.rms_norm(x, self.norm)
        return x + self.down(torch.nn.functional.silu(self.up(y)))


def alike(*widths: int) -> tuple[Block, Block]:
    """Two blocks of the same numbers, the same in each process."""
    torch.manual_seed(3)
    one, other = Block(*widths), Block(*widths)
    other.load_state_dict(one.state_dict())
    return one, other


def block(mesh: DeviceMesh, *widths: int) -> tuple[Block, Block]:
    """The same block, whole and shared by columns, then rows."""
    whole, shared = alike(*widths)
    shared.norm = nn.Parameter(shared.norm.detach())
    parallelize_module(shared, mesh, {"up": ColwiseParallel(),
                                      "down": RowwiseParallel()})
    return whole, shared


def counts(seen: CommDebugMode) -> dict[str, int]:
    return {str(k).rpartition(".")[2]: v
            for k, v in seen.get_comm_counts().items()}


def differs(found: Any, wanted: T, what: str) -> list[str]:
    full = found.full_tensor() if hasattr(found, "full_tensor") else found
    if torch.allclose(full, wanted, 1e-4, 1e-5):
        return []
    return [f"{what} differs by {(full - wanted).abs().max()}"]


def step(model: Block, x: T) -> tuple[T, T]:
    x = x.clone().requires_grad_()
    y = model(x)
    y.square().sum().backward()
    assert x.grad is not None
    return y.detach(), x.grad


def tensor_parallel(mesh: DeviceMesh) -> dict[str, Any]:
    """One sum of results, and one of gradients, a block and step."""
    whole, shared = block(mesh)
    x = torch.randn(4, 16)
    wanted, wanted_grad = step(whole, x)
    with torch.no_grad(), CommDebugMode() as forward:
        shared(x)
    with CommDebugMode() as seen:
        found, found_grad = step(shared, x)
    faults = differs(found, wanted, "y") + differs(found_grad, wanted_grad, "x")
    for (name, p), q in zip(whole.named_parameters(), shared.parameters()):
        assert p.grad is not None and q.grad is not None
        faults += differs(q.grad, p.grad, name)
    return {"forward": counts(forward), "step": counts(seen), "faults": faults}


def fully_shard_all(model: Block, mesh: DeviceMesh) -> None:
    for part in (model.up, model.down, model):
        fully_shard(part, mesh=mesh)


def data_parallel_faults(model: Block, whole: Block,
                         mesh: DeviceMesh) -> list[str]:
    """Each process has its rows; gradients are the mean of the processes'."""
    def mine(rows: T) -> T:
        return rows.chunk(mesh.size())[mesh.get_local_rank()]

    rows = torch.randn(4 * mesh.size(), 16)
    wanted, wanted_grad = step(whole, rows)
    found, found_grad = step(model, mine(rows))
    faults = differs(found, mine(wanted), "y")
    faults += differs(found_grad, mine(wanted_grad), "x")
    for (name, p), q in zip(whole.named_parameters(), model.parameters()):
        assert p.grad is not None and q.grad is not None
        faults += differs(q.grad, p.grad / mesh.size(), name)
        if getattr(q, "placements", None) != (Shard(0),):
            faults.append(f"{name} is not sharded")
    return faults


def fully_sharded(mesh: DeviceMesh) -> dict[str, Any]:
    """FSDP2: parameters lie sharded and are gathered for a module's call; our
    operators meet plain tensors. A step, and one behind an optimizer's."""
    whole, shared = alike()
    fully_shard_all(shared, mesh)
    faults = data_parallel_faults(shared, whole, mesh)
    for model, lr in ((whole, 0.1 / mesh.size()), (shared, 0.1)):
        torch.optim.SGD(model.parameters(), lr).step()
        model.zero_grad()
    return {"faults": faults
            + data_parallel_faults(shared, whole, mesh)}


def fully_sharded_compiled(mesh: DeviceMesh) -> dict[str, Any]:
    """The same, each module compiled before it is sharded."""
    import opgraft

    whole, shared = alike()
    for part in (shared.up, shared.down):
        part.compile(backend="opgraft")
    fully_shard_all(shared, mesh)
    faults = []
    for _ in range(3):  # recorded, then replayed
        whole.zero_grad()
        shared.zero_grad()
        faults += data_parallel_faults(shared, whole, mesh)
    replays = opgraft.stats(shared.up).replays
    return {"faults": faults + ([] if replays > 1 else ["not replayed"])}


def refused_write(mesh: DeviceMesh) -> dict[str, Any]:
    """A write to what is sharded along the row of a norm is refused."""
    row = distribute_tensor(torch.randn(4, 16), mesh, [Shard(1)],
                            src_data_rank=None)
    weight = distribute_tensor(torch.ones(16), mesh, [Replicate()],
                               src_data_rank=None)
    try:
        ops.rms_norm_(row, weight)
    except RuntimeError as error:
        return {"error": str(error).split("\n")[0], "faults": []}
    return {"error": None, "faults": ["nothing was raised"]}


def packed(mesh: DeviceMesh) -> dict[str, Any]:
    """Each process packs and plans what it has of the weights; a model of
    DTensors is not frozen, which says so."""
    import opgraft

    whole, shared = block(mesh, 256, 512)
    x = torch.randn(16, 256)
    fast = torch.compile(shared, backend="opgraft", mode="max-autotune")
    with torch.no_grad():
        wanted = whole(x)
        faults = [f for _ in range(3) for f in differs(fast(x), wanted, "y")]
    try:
        opgraft.freeze(shared, (x,))
    except TypeError as error:
        return {"faults": faults, "error": str(error)}
    return {"faults": [*faults, "nothing was raised"], "error": ""}


def compiled(mesh: DeviceMesh) -> dict[str, Any]:
    """The same block in the graph engine: nodes of its plan communicate."""
    import opgraft

    whole, shared = block(mesh)
    x = torch.randn(4, 16)
    wanted, wanted_grad = step(whole, x)
    fast = torch.compile(shared, backend="opgraft", fullgraph=True)
    faults = []
    for _ in range(3):  # recorded, then replayed
        shared.zero_grad()
        found, found_grad = step(fast, x)
        faults += differs(found, wanted, "y")
        faults += differs(found_grad, wanted_grad, "x")
    for (name, p), q in zip(whole.named_parameters(), shared.parameters()):
        assert p.grad is not None and q.grad is not None
        faults += differs(q.grad, p.grad, name)
    stats = opgraft.stats(fast)
    if stats.replays < 4 or len(stats.graphs) != 2:
        faults.append(f"not replayed: {stats}")
    return {"in_python": sorted(stats.in_python), "faults": faults}


def eager_of(name: str, x: T, group: str, world: int) -> Any:
    """A functional collective, waited for."""
    ops = torch.ops._c10d_functional
    calls = {
        "all_reduce": lambda: ops.all_reduce(x, "sum", group),
        "all_gather_into_tensor": lambda: ops.all_gather_into_tensor(
            x, world, group),
        "reduce_scatter_tensor": lambda: ops.reduce_scatter_tensor(
            x, "sum", world, group),
        "all_to_all_single": lambda: ops.all_to_all_single(
            x, [x.shape[0] // world] * world, [x.shape[0] // world] * world,
            group),
        "broadcast": lambda: ops.broadcast(x, 0, group),
    }
    return ops.wait_tensor(calls[name]())


COLLECTIVES = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor",
               "all_to_all_single", "broadcast")


def collectives(mesh: DeviceMesh) -> dict[str, Any]:
    """Each, between nodes that reuse the memory of what it reads."""
    group = mesh.get_group().group_name
    faults = []
    for name in COLLECTIVES:
        def run(x: T, name: str = name) -> T:
            y = eager_of(name, x * 2 + 1, group, mesh.size())
            z = (x * 3 - 1).exp() * 5
            return y.sum() + (y * 0.5).cumsum(0).sum() + z.sum()

        x = torch.randn(8, 64) + mesh.get_rank()
        fast = torch.compile(run, backend="opgraft", fullgraph=True)
        for _ in range(3):
            faults += differs(fast(x), run(x), name)
    return {"faults": faults}


class Delayed(dist.ProcessGroup):
    """One process, whose sums take a while."""

    SECONDS = 0.005

    def __init__(self) -> None:
        super().__init__(0, 1)

    def allreduce(self, tensors: list[T], options: Any = None) -> Any:
        done: torch.futures.Future[list[T]] = torch.futures.Future()

        def run() -> None:
            time.sleep(self.SECONDS)
            done.set_result(tensors)

        threading.Thread(target=run).start()
        return _create_work_from_future(done)

    def getBackendName(self) -> str:
        return "delayed"


def minima(*runs: Any, count: int = 40) -> list[float]:
    """Seconds of the fastest call of each, in turns."""
    best = [float("inf")] * len(runs)
    for _ in range(count):
        for i, run in enumerate(runs):
            begun = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - begun)
    return best


def overlap(mesh: DeviceMesh) -> dict[str, Any]:
    """A slow sum beside independent products takes as long as the longer. One
    process after the other, since they share the machine's cores."""
    found: dict[str, Any] = {}
    for rank in range(mesh.size()):
        if rank == mesh.get_rank():
            found = _overlap()
        dist.barrier()
    return found


def _overlap() -> dict[str, Any]:
    group = Delayed()
    _register_process_group("opgraft_delayed", group)
    a, x = torch.randn(256, 256) / 16, torch.ones(4)

    def products(a: T, count: int) -> T:
        for _ in range(count):
            a = ops.linear(a, a).tanh()
        return a

    def both(x: T, a: T, count: int) -> tuple[T, T]:
        y = torch.ops._c10d_functional.all_reduce(x, "sum", "opgraft_delayed")
        y = torch.ops._c10d_functional.wait_tensor(y) * 2
        return y, products(a, count)

    def compiled(f: Any, *args: Any) -> Any:
        fast = torch.compile(f, backend="opgraft", fullgraph=True)
        for _ in range(5):
            fast(*args)
        return lambda: fast(*args)

    count, compute = 4, 0.0
    while compute < 0.7 * Delayed.SECONDS:
        count *= 2
        alone = compiled(products, a, count)
        compute, = minima(alone)
    together = compiled(both, x, a, count)
    faults = differs(together()[0], x * 2, "y")
    for _ in range(12):  # attempts, where something else has the cores
        compute, total = minima(alone, together)
        ratio = total / max(compute, Delayed.SECONDS)
        if ratio <= 1.2:
            break
    return {"compute": compute, "delay": Delayed.SECONDS, "total": total,
            "ratio": ratio, "faults": faults}


def deferred() -> tuple[list[str], list[str]]:
    """A sum beside an independent node: what is wrong, and the engine's order
    of operators."""
    from opgraft._graph import collectives

    group = Delayed()  # torch holds it weakly
    _register_process_group("opgraft_alone", group)
    order: list[str] = []
    split = collectives.split

    def seen(gm: Any) -> None:
        split(gm)
        order.extend(n.target._schema.name.rpartition("::")[2]
                     for n in gm.graph.nodes if n.op == "call_function")

    def both(x: T, a: T) -> tuple[T, T]:
        y = torch.ops._c10d_functional.all_reduce(x * 3, "sum", "opgraft_alone")
        y = torch.ops._c10d_functional.wait_tensor(y) * 2
        return y, a.tanh()

    x, a = torch.ones(4), torch.ones(3)
    collectives.split = seen
    try:
        fast = torch.compile(both, backend="opgraft", fullgraph=True)
        faults = [f for _ in range(3) for f in differs(fast(x, a)[0], x * 6, "y")]
    finally:
        collectives.split = split
    return faults, order


SCENES = [tensor_parallel, fully_sharded, refused_write, packed, compiled,
          fully_sharded_compiled, collectives, overlap]

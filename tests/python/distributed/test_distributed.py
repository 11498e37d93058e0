# SPDX-License-Identifier: Apache-2.0
"""Operators on DTensors: two processes, and four, give what one gives, and
communicate only where a rule asks for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opgraft import distributed, ops

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples/tensor_parallel/train.py"
sys.path.insert(0, str(HERE))

import calls  # noqa: E402

EAGER = ("tensor_parallel", "fully_sharded", "refused_write")
COMPILED = ("packed", "compiled", "fully_sharded_compiled", "collectives",
            "overlap")


def run(
    folder: Path, world: int, script: str = "worker.py",
    more: tuple[str, ...] = (), survivors: int | None = None,
) -> list[dict[str, Any]]:
    """What each of `world` processes found, or the first `survivors`."""
    alive = world if survivors is None else survivors
    store, out = folder / "store", folder / "out"
    workers = [
        subprocess.Popen(
            [sys.executable, str(HERE / script), str(store), str(out),
             *more],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world),
                 "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    errors = [worker.communicate(timeout=500)[1] for worker in workers]
    assert all(w.returncode == 0 for w in workers[:alive]), "\n".join(errors)
    return [json.loads(Path(f"{out}.{rank}").read_text())
            for rank in range(alive)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(tmp_path_factory.mktemp("two"), 2, more=EAGER)


@pytest.fixture(scope="module")
def two_compiled(tmp_path_factory: pytest.TempPathFactory
                 ) -> list[dict[str, Any]]:
    return run(tmp_path_factory.mktemp("compiled"), 2, more=COMPILED)


@pytest.mark.full
def test_every_operator(two: list[dict[str, Any]]) -> None:
    for found in two:
        faults = {name: f["faults"] for name, f in found["operators"].items()
                  if f["faults"]}
        assert not faults, json.dumps(faults, indent=1)


def library_rules() -> list[distributed.Rule]:
    """Not of gradients that are derived from formulas."""
    return [r for m in ops._modules.values() for r in distributed.rules(m)
            if not r.is_derived]


def test_every_cut_is_tried(two: list[dict[str, Any]]) -> None:
    """Each dim that a rule names is cut in some call."""
    tried = two[0]["operators"]
    for rule in library_rules():
        if rule.refusal is None:
            missing = [c for c in rule.cuts if not any(
                c.split(":")[0].split("/")[0].split("+")[0].split()[0]
                .lstrip("*") in split.replace("*", "").replace("[", " ")
                .split() for split in tried[rule.operator]["splits"])]
            assert not missing, (rule.operator, missing)


def test_rules_of_the_library() -> None:
    found = library_rules()
    assert {r.operator for r in found if r.refusal is None} == set(calls.CALLS)
    sharded = [r for r in found if r.cuts]
    assert len(sharded) >= 0.8 * len(found), [
        r.operator for r in found if not r.cuts]


def marked(name: str) -> str:
    page = (HERE.parents[2] / "docs/distributed.md").read_text()
    return page.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


def test_the_page_has_the_rules() -> None:
    """`python -m opgraft.distributed --markdown` prints them."""
    found = library_rules()
    assert marked("rules") == distributed.table(found)


def test_the_page_has_the_volume() -> None:
    sent = {n: distributed.sums_bytes(n, 4096, 4096, item_bytes=2) / 2**20
            for n in (8, 16, 32, 64, 128, 256, 512, 1024)}
    rows = [f"| {n} | 4 | {mib:.1f} |" for n, mib in sent.items()]
    assert marked("volume").splitlines()[2:] == rows


def torchrun(folder: Path, world: int, *more: str) -> str:
    """What the example prints, each process started as torchrun starts it."""
    environment = {**os.environ, "WORLD_SIZE": str(world),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                   "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, str(EXAMPLE), *more],
                         env={**environment, "RANK": str(rank)}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank in range(world)]
    done = [p.communicate(timeout=500) for p in processes]
    assert all(p.returncode == 0 for p in processes), done
    return done[0][0]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.full
def test_example(tmp_path: Path) -> None:
    """Two sums of activations in forward and two in backward, of which each of
    two processes sends half twice."""
    assert (f"4 sums a step, {4 * 24 * 64 * 4} bytes"
            in torchrun(tmp_path, 2, "--steps", "2"))


@pytest.mark.full
def test_example_compiled_and_on_four(tmp_path: Path) -> None:
    torchrun(tmp_path, 2, "--compile")
    assert (f"4 sums a step, {6 * 24 * 64 * 4} bytes"
            in torchrun(tmp_path, 4))


def test_tensor_parallel(two: list[dict[str, Any]]) -> None:
    for found in two:
        scene = found["scenes"]["tensor_parallel"]
        assert scene["faults"] == []
        assert scene["forward"] == {"all_reduce": 1}
        assert scene["step"] == {"all_reduce": 2}


def test_fully_sharded(two: list[dict[str, Any]]) -> None:
    """FSDP2 of a model with our operators: two steps as one process makes
    them."""
    for found in two:
        assert found["scenes"]["fully_sharded"]["faults"] == []


def test_a_write_that_would_be_lost(two: list[dict[str, Any]]) -> None:
    scene = two[0]["scenes"]["refused_write"]
    assert scene["faults"] == [] and "writes x" in scene["error"]


@pytest.mark.full
def test_compiled(two_compiled: list[dict[str, Any]]) -> None:
    """The block and its training step in the engine, and each collective."""
    for found in two_compiled:
        for name in ("compiled", "fully_sharded_compiled", "collectives"):
            assert found["scenes"][name]["faults"] == [], name


@pytest.mark.full
def test_each_process_packs_its_own(two_compiled: list[dict[str, Any]]) -> None:
    for found in two_compiled:
        scene = found["scenes"]["packed"]
        assert scene["faults"] == []
        assert ("up.weight is a DTensor, which torch.export does not take"
                in scene["error"])


@pytest.mark.timing
@pytest.mark.full
def test_overlap(two_compiled: list[dict[str, Any]]) -> None:
    scenes = [found["scenes"]["overlap"] for found in two_compiled]
    assert all(s["faults"] == [] for s in scenes)
    assert all(s["ratio"] <= 1.2 for s in scenes), scenes


def test_a_collective_is_two_nodes() -> None:
    """In one process: begun, waited for behind what does not need it."""
    import scenes

    faults, order = scenes.deferred()
    assert faults == []
    assert order.index("start") < order.index("tanh") < order.index("wait")


@pytest.mark.full
def test_a_process_dies(tmp_path: Path) -> None:
    """Every collective of the one that is left ends with an error that names
    it, before the group's timeout of 5 s is twice over."""
    found = run(tmp_path, 2, "killed.py", survivors=1)[0]
    assert set(found) == {"all_reduce", "all_gather_into_tensor",
                          "reduce_scatter_tensor", "all_to_all_single",
                          "broadcast"}
    for name, outcome in found.items():
        assert f"{name}(" in outcome["error"], outcome
        assert "a process may have died" in outcome["error"], outcome
        assert outcome["seconds"] < 10, (name, outcome)


@pytest.mark.full
def test_four_processes(tmp_path: Path) -> None:
    for found in run(tmp_path, 4):
        faults = {name: f["faults"] for group in found.values()
                  for name, f in group.items() if f["faults"]}
        assert not faults, json.dumps(faults, indent=1)
        assert found["scenes"]["tensor_parallel"]["step"] == {"all_reduce": 2}

# SPDX-License-Identifier: Apache-2.0
"""Random graphs: passes, shared memory, threads and a device change no result
(tests/tools/graph_random.c)."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


BUILD = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
ON_DEVICE = f"--device={BUILD / 'devices' / 'npu_sim.so'}"


def run(count: int, seed: int, *options: str) -> None:
    tool = BUILD / "tests" / "tools" / "graph_random"
    if not tool.exists():
        pytest.skip("the test tools are not built: make build")
    done = subprocess.run(
        [tool, f"--count={count}", f"--seed={seed}", *options],
        capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.endswith(f"{count} passed, 0 failed\n")


def test_some_random_graphs() -> None:
    run(5000, 1)


def test_some_random_fused_graphs() -> None:
    run(3000, 1, "--fuse")


@pytest.mark.parametrize("options", [[], ["--fuse"]])
def test_random_graphs_on_a_device(options: list[str]) -> None:
    """With random delays, and the race detector watching."""
    run(500, 1, ON_DEVICE, *options)


@pytest.mark.full
@pytest.mark.parametrize("options", [[], ["--fuse"]])
def test_many_random_graphs_on_a_device(portion: float, options: list[str]
                                        ) -> None:
    run(int(10_000 * portion), 1_000_000, ON_DEVICE, *options)


@pytest.mark.full
def test_many_random_graphs(portion: float) -> None:
    run(int(500_000 * portion), 1_000_000)
    run(int(500_000 * portion), 1_000_000, "--fuse")

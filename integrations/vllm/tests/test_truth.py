# SPDX-License-Identifier: Apache-2.0
"""What vLLM serves with opgraft is what it serves with its own kernels: equal
greedy tokens and log-probabilities, and the whole model is one graph."""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import models
import pytest

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-4
EXPERTS = {"mixtral", "gpt_oss"}  # their experts are vLLM's own kernels


def requests(count: int, seed: int) -> list[dict[str, Any]]:
    """Of any length; some begin as others do."""
    rng = random.Random(seed)
    shared = [rng.randrange(3, 512) for _ in range(90)]
    found = []
    for i in range(count):
        own = [rng.randrange(3, 512) for _ in range(rng.randrange(1, 150))]
        found.append({"tokens": (shared if i % 3 == 0 else []) + own,
                      "count": rng.randrange(1, 12)})
    return found


def serve(folder: pathlib.Path, asked: dict[str, Any], is_ours: bool,
          **env: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "serve.py"), str(folder),
         json.dumps(asked)],
        env={**os.environ, **env, **({} if is_ours else {"VLLM_PLUGINS": ""})},
        text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["platform"] == ("OpgraftPlatform" if is_ours
                                 else "CpuPlatform")
    return found


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest distance of log-probabilities, of equal tokens."""
    worst = 0.0
    for a, b in zip(ours["found"], theirs["found"], strict=True):
        for i, (x, y) in enumerate(zip(a["logprobs"], b["logprobs"])):
            worst = max([worst, *(abs(x[t] - y[t]) for t in x if t in y)])
            if a["tokens"][i] != b["tokens"][i]:
                tokens = {str(a["tokens"][i]), str(b["tokens"][i])}
                gap = [abs(x[t] - x[u]) for t in tokens for u in tokens]
                assert max(gap) < TOLERANCE, (i, a["tokens"], b["tokens"])
                break  # two tokens as likely: what follows is another text
    return worst


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model(tmp_path: pathlib.Path, name: str) -> None:
    folder = models.write(name, tmp_path / name)
    asked = {"engine": {}, "requests": requests(24, 1)}
    ours, theirs = serve(folder, asked, True), serve(folder, asked, False)
    worst = compare(ours, theirs)
    print(f"{name}: log-probabilities within {worst:.1e}")
    assert worst < TOLERANCE
    graph, = ours["graphs"]
    assert graph["replays"] > 20
    if name not in EXPERTS:
        assert graph["nodes"] == graph["native"] > 30
        assert graph["fallbacks"] == [] == graph["in_python"]


@pytest.mark.parametrize("engine, env", [
    ({"enable_prefix_caching": False}, {}),
    ({"max_num_batched_tokens": 32}, {}),
    ({"num_gpu_blocks_override": 8, "block_size": 32}, {}),
    ({"enforce_eager": True}, {}),
    ({}, {"OMP_NUM_THREADS": "1"}),
], ids=["no-prefixes", "chunks", "preempted", "eager", "one-thread"])
def test_an_engine(tmp_path: pathlib.Path, engine: dict[str, Any],
                   env: dict[str, str]) -> None:
    folder = models.write("llama", tmp_path / "llama")
    asked = {"engine": engine, "requests": requests(40, 2)}
    ours = serve(folder, asked, True, **env)
    assert compare(ours, serve(folder, asked, False, **env)) < TOLERANCE
    assert bool(ours["graphs"]) != bool(engine.get("enforce_eager"))

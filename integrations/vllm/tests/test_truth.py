# SPDX-License-Identifier: Apache-2.0
"""What vLLM serves with opgraft is what it serves with its own kernels: equal
greedy tokens and log-probabilities, and the whole model is one graph."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import random
import subprocess
import sys
from typing import Any, Callable, Iterable

import models
import pytest

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-4


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


def serve(asked: list[dict[str, Any]], is_ours: bool, **env: str
          ) -> list[dict[str, Any]]:
    """One model after the other, in one process. vLLM's own kernels run as they
    are called: its compiler takes minutes, and is not what ours is held to."""
    if not is_ours:
        asked = [a | {"engine": a["engine"] | {"enforce_eager": True}}
                 for a in asked]
    done = subprocess.run(
        [sys.executable, str(HERE / "serve.py")], input=json.dumps(asked),
        env={**os.environ, **env, **({} if is_ours else {"VLLM_PLUGINS": ""})},
        text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines()
             if line.startswith('{"platform"')]
    assert [f["platform"] for f in found] == len(asked) * [
        "OpgraftPlatform" if is_ours else "CpuPlatform"]
    return found


def compare(ours: dict[str, Any], theirs: dict[str, Any],
            tolerance: float = TOLERANCE) -> float:
    """The largest distance of log-probabilities, of equal tokens."""
    worst = 0.0
    for a, b in zip(ours["found"], theirs["found"], strict=True):
        for i, (x, y) in enumerate(zip(a["logprobs"], b["logprobs"])):
            worst = max([worst, *(abs(x[t] - y[t]) for t in x if t in y)])
            if a["tokens"][i] != b["tokens"][i]:
                tokens = {str(a["tokens"][i]), str(b["tokens"][i])}
                gap = [abs(x[t] - x[u]) for t in tokens for u in tokens]
                assert max(gap) < tolerance, (i, a["tokens"], b["tokens"])
                break  # two tokens as likely: what follows is another text
    return worst


# By name, what ours serves and what vLLM's own kernels do.
Case = tuple[dict[str, Any], dict[str, Any]]


def model_case(name: str, folder: pathlib.Path) -> Case:
    asked = {"folder": str(models.write(name, folder)), "engine": {},
             "requests": requests(24, 1)}
    return asked, asked


def format_case(form: str, folder: pathlib.Path) -> Case:
    # Rows' scales in a model with biases, the others in one without.
    name = "qwen2" if "rows" in form else "llama"
    asked = {"engine": {}, "requests": requests(16, 1)}
    ours, theirs = models.write_quantised(name, form, folder)
    return asked | {"folder": str(ours)}, asked | {"folder": str(theirs)}


ENGINES: dict[str, dict[str, Any]] = {
    "plain": {}, "no-prefixes": {"enable_prefix_caching": False},
    "chunks": {"max_num_batched_tokens": 32},
    # Room for one request of the largest size, and eight may run.
    "preempted": {"num_gpu_blocks_override": 9, "block_size": 32,
                  "max_model_len": 256},
    "eager": {"enforce_eager": True}}


def engine_case(name: str, folder: pathlib.Path) -> Case:
    asked = {"folder": str(models.write("llama", folder)),
             "engine": ENGINES[name], "requests": requests(40, 2)}
    return asked, asked


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest,
         tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Case]:
    """What came of a case, from ours and from theirs: all cases of a test that
    were chosen are served by two processes."""
    @functools.cache
    def served(make: Callable[..., Case]) -> dict[str, Case] | AssertionError:
        names = [i.callspec.params["name"] for i in request.session.items
                 if i.function.__dict__.get("make") is make]
        made = [make(n, tmp_path_factory.mktemp("model")) for n in names]
        try:
            ours = serve([c[0] for c in made], True)
            theirs = serve([c[1] for c in made], False)
        except AssertionError as error:  # of all cases, without another try
            return error
        return dict(zip(names, zip(ours, theirs, strict=True), strict=True))

    def found(make: Callable[..., Case], name: str) -> Case:
        both = served(make)
        if isinstance(both, AssertionError):
            raise both
        return both[name]

    return found


def cases(make: Callable[..., Case], names: Iterable[str]) -> Any:
    def mark(test: Any) -> Any:
        test.make = make
        return pytest.mark.parametrize("name", names)(test)

    return mark


def one_graph(found: dict[str, Any]) -> dict[str, Any]:
    """That has no node of anybody else."""
    graph, = found["graphs"]
    assert graph["nodes"] == graph["native"] > 30
    assert graph["fallbacks"] == [] == graph["in_python"]
    return dict(graph)


@cases(model_case, models.MODELS)
def test_a_model(both: Any, name: str) -> None:
    ours, theirs = both(model_case, name)
    worst = compare(ours, theirs)
    print(f"{name}: log-probabilities within {worst:.1e}")
    assert worst < TOLERANCE
    assert one_graph(ours)["replays"] > 20


# Weights are exact; rows of activations have 16 bits: an element is off by
# 1 / 65278 of its row's largest at most. Through three layers that is 1e-3 of
# log-probabilities. Scales of one matrix that are off by 1 % are 3e-2, all of
# them by 2^-9 the same, one group of another column 0.3, zeros off by one 2.
QUANTISED_TOLERANCE = 5e-3


@cases(format_case, models.FORMATS)
def test_a_quantised_checkpoint(both: Any, name: str) -> None:
    ours, theirs = both(format_case, name)
    worst = compare(ours, theirs, QUANTISED_TOLERANCE)
    print(f"{name}: log-probabilities within {worst:.1e}")
    assert worst < QUANTISED_TOLERANCE
    one_graph(ours)


def test_the_example_makes_what_is_served(tmp_path: pathlib.Path) -> None:
    folder = models.write("llama", tmp_path / "llama", **models.WIDE)
    subprocess.run([sys.executable, str(HERE.parent / "examples/quantise.py"),
                    str(folder), str(tmp_path / "int4")], check=True)
    found, = serve([{"folder": str(tmp_path / "int4"), "engine": {},
                     "requests": requests(4, 1)}], True)
    one_graph(found)
    assert all(r["tokens"] for r in found["found"])


@cases(engine_case, ENGINES)
def test_an_engine(both: Any, name: str) -> None:
    ours, theirs = both(engine_case, name)
    worst = compare(ours, theirs)
    print(f"{name}: log-probabilities within {worst:.1e}")
    assert worst < TOLERANCE
    assert bool(ours["graphs"]) != (name == "eager")


def test_one_thread(tmp_path: pathlib.Path) -> None:
    asked, _ = engine_case("plain", tmp_path)
    ours, = serve([asked], True, OMP_NUM_THREADS="1")
    theirs, = serve([asked], False, OMP_NUM_THREADS="1")
    assert compare(ours, theirs) < TOLERANCE


def test_two_ranks(tmp_path: pathlib.Path) -> None:
    """Each has half of the heads and columns, and a graph of its own; what they
    exchange is vLLM's operator in it."""
    asked, _ = engine_case("plain", tmp_path)
    apart = asked | {"engine": {"tensor_parallel_size": 2,
                                "max_num_batched_tokens": 96}}
    ours, = serve([apart], True, VLLM_CPU_OMP_THREADS_BIND="0|1")
    theirs, = serve([asked], False)
    worst = compare(ours, theirs)
    print(f"two ranks: log-probabilities within {worst:.1e}")
    assert worst < TOLERANCE
    assert len(ours["graphs"]) == 2
    for graph in ours["graphs"]:
        others = {f["operator"] for f in graph["fallbacks"]}
        assert others == {"_C.shm_allreduce.default"}
        assert graph["in_python"] == [] and graph["replays"] > 20
        layers = models.BASE["num_hidden_layers"]
        assert graph["nodes"] - graph["native"] == 2 * layers + 1

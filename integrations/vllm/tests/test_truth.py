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
    if form.startswith("w8a8"):  # rows of activations are rounded by both
        theirs = ours
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
# Of rows that are rounded to int8: where sums differ in their last bits, an
# activation may fall to the next code, 1 / 127 of its row's largest.
ROUNDED_TOLERANCE = 0.2


@cases(format_case, models.FORMATS)
def test_a_quantised_checkpoint(both: Any, name: str) -> None:
    ours, theirs = both(format_case, name)
    tolerance = (ROUNDED_TOLERANCE if name.startswith("w8a8")
                 else QUANTISED_TOLERANCE)
    worst = compare(ours, theirs, tolerance)
    print(f"{name}: log-probabilities within {worst:.1e}")
    assert worst < tolerance
    one_graph(ours)


@pytest.mark.parametrize("symmetric, static, bits", [
    (True, False, 8), (False, False, 16), (True, True, 16)])
def test_a_layer_of_int8(symmetric: bool, static: bool, bits: int) -> None:
    """float64's product of the codes with rows as they are rounded; whole rows
    are 1e-2 off it."""
    import torch
    from vllm.model_executor.kernels.linear import Int8ScaledMMLinearLayerConfig
    from vllm_opgraft.quantised import Bytes

    torch.manual_seed(4)
    names = ["weight", "weight_scale", "input_scale", "zero_point", "azp_adj"]
    layer = torch.nn.Module()
    w = torch.randint(-127, 128, (70, 300)).to(torch.int8)
    scale = torch.rand(70, 1) / 100
    for name, value in zip(names, (w, scale, None, None, None)):
        setattr(layer, name, None if value is None else
                torch.nn.Parameter(value, requires_grad=False))
    kernel = Bytes(Int8ScaledMMLinearLayerConfig(
        is_static_input_scheme=static, is_channelwise=True,
        input_symmetric=symmetric), names)
    kernel.process_weights_after_loading(layer)
    x = torch.randn(9, 300)
    y = kernel.apply_weights(layer, x, None).double()
    whole = x.double() @ (w.double() * scale.double()).t()
    most = x.abs().amax(1, keepdim=True)
    codes = (x * (127 / most)).round().double()
    rounded = (codes * (most / 127).double()) @ (w * scale.double()).t()
    near, far = (rounded, whole) if bits == 8 else (whole, rounded)
    size = float(whole.abs().max())
    print(bits, float((y - near).abs().max()) / size,
          float((y - far).abs().max()) / size)
    assert (y - near).abs().max() < (1e-6 if bits == 8 else 1e-4) * size
    assert (y - far).abs().max() > 2e-3 * size


def distance(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Of log-probabilities, root mean squares, as far as texts are equal."""
    found = []
    for x, y in zip(a["found"], b["found"], strict=True):
        for i, (p, q) in enumerate(zip(x["logprobs"], y["logprobs"])):
            found += [(p[t] - q[t]) ** 2 for t in p if t in q]
            if x["tokens"][i] != y["tokens"][i]:
                break
    return float((sum(found) / len(found)) ** 0.5)


def test_caches_of_8_bits(tmp_path: pathlib.Path) -> None:
    """What a format loses is the format's: no more than with vLLM's kernels,
    which round more than the cache. Scales of a checkpoint cut keys and values
    at 448 of them, so that one that is lost is seen. vLLM's kernels know one
    scale of a layer: a checkpoint of one for each head serves as its twin."""
    plain = str(models.write("llama", tmp_path / "plain"))
    scaled, heads = (str(models.write_scaled("llama", tmp_path / n, 0.004, 0.002, h))
                     for n, h in (("scaled", False), ("heads", True)))
    formats = [{"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "fp8_e5m2"}]
    some = [r | {"count": 4} for r in requests(12, 3)]
    asked = [{"folder": plain, "engine": e, "requests": some} for e in formats]
    asked += [{"folder": f, "engine": {}, "requests": some} for f in (scaled, plain)]
    *ours, wide, by_head = serve(
        [*asked, {"folder": heads, "engine": {}, "requests": some}], True)
    one_graph(by_head)
    assert compare(by_head, ours[2]) < TOLERANCE
    *theirs, theirs_wide = serve(asked, False)
    assert compare(wide, theirs_wide) < TOLERANCE
    for name, a, b in zip(("e4m3", "e5m2", "scaled"), ours, theirs):
        one_graph(a)
        lost, theirs_lost = distance(a, wide), distance(b, wide)
        print(f"{name}: {lost:.3f} off f32, vLLM's {theirs_lost:.3f}, "
              f"{distance(a, b):.3f} apart")
        if name == "scaled":
            assert distance(a, b) < 0.4 * theirs_lost
        else:
            assert 0 < lost < theirs_lost


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

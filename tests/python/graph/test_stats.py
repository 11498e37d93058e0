# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats says what runs, whoever compiled it."""

from __future__ import annotations

import copy
import gc
import pathlib
import weakref
from typing import Any, Iterator

import pytest
import torch
from torch import nn

import opgraft
from opgraft._graph import stats


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.inner(x)) * 2


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_stats_after_module_compile() -> None:
    model = Model()
    model.compile(backend="opgraft")
    with torch.no_grad():
        model(torch.ones(2, 4))
        model(torch.ones(2, 4))
    found = opgraft.stats(model)
    assert len(found.graphs) == 1 and found.replays == 2
    assert not found.is_shared
    with pytest.raises(TypeError, match="is not compiled; expected what torch"):
        opgraft.stats(Model())


def test_stats_of_graphs_without_dynamo(tmp_path: pathlib.Path) -> None:
    x = torch.ones(2, 4)
    opgraft.export(Model(), (x,), tmp_path / "m.og")
    for call in (opgraft.freeze(Model(), (x,)),
                 opgraft.load_graph(tmp_path / "m.og")):
        with torch.no_grad():
            call(x)
        found = opgraft.stats(call)
        assert found.replays == 1 and found.nodes == found.native > 0
        assert found.rules().startswith("# graph ")
        assert str(found).startswith("Model")


def test_equal_lines_are_told_once() -> None:
    w = torch.ones(8, 8)

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.nn.functional.layer_norm(x @ w, (8,))
        return x

    call = torch.compile(f, backend="opgraft",
                         options={"mode": "max-autotune", "tune_s": 0})
    with torch.no_grad():
        call(torch.ones(5, 8))
    lines = str(opgraft.stats(call)).splitlines()
    assert len(set(lines)) == len(lines)
    assert any("(3 times: " in line for line in lines)


def test_reasons_fit_a_screen() -> None:
    """A line for each operator and reason, three places of it; and so many."""
    nodes = [{"operator": f"aten.op{i % 30}", "file": f"m{i}.py", "line": i,
              "reason": "why"} for i in range(300)]
    lines = stats._reasons({"fallbacks": nodes})
    assert lines[0] == ("  fallback aten.op0 (10 times: m0.py, m30.py:30, "
                        "m60.py:60 and 7 more): why")
    assert len(lines) == 13
    assert lines[-1] == "  and 18 more: stats(f).html() has each"


def second(first: Any) -> Any:
    return torch.compile(Model(), backend="opgraft")


def in_place(first: Any) -> Any:
    model = Model()
    model.compile(backend="opgraft")
    return model


@pytest.mark.parametrize("make", [second, copy.deepcopy, in_place])
def test_stats_of_an_instance_that_reuses_dynamos_graph(make: Any) -> None:
    x = torch.ones(2, 4)
    first = torch.compile(Model(), backend="opgraft")
    with torch.no_grad():
        first(x)
        other = make(first)
        other(x)
    found = opgraft.stats(other)
    assert found.is_shared and len(found.graphs) == 1
    assert found.replays == opgraft.stats(first).replays == 2
    assert "another instance" in str(found)
    assert not opgraft.stats(first).is_shared


@pytest.mark.parametrize("make", [second, copy.deepcopy, in_place])
def test_stats_when_the_first_instance_is_gone(make: Any) -> None:
    """What it compiled runs on, and is told of, until Dynamo drops it."""
    x = torch.ones(2, 4)
    first = torch.compile(Model(), backend="opgraft")
    with torch.no_grad():
        first(x)
        other = make(first)
        del first
        gc.collect()
        other(x)
    found = opgraft.stats(other)
    assert len(found.graphs) == 1 and found.nodes > 0
    assert "<svg" in found.html() and found.rules().startswith("# graph ")
    assert opgraft.profile(other, x, calls=1).us > 0
    compiled = weakref.ref(stats.graphs_of(other)[0].compiled)
    del other
    torch._dynamo.reset()
    gc.collect()
    assert compiled() is None


def test_stats_of_what_dynamo_let_go() -> None:
    """The result of torch.compile keeps what it compiled."""
    compiled = torch.compile(Model(), backend="opgraft")
    compiled(torch.ones(2, 4, requires_grad=True)).sum().backward()
    torch._dynamo.reset()
    gc.collect()
    assert [g["kind"] for g in opgraft.stats(compiled).graphs] == [
        "forward", "backward"]


def test_stats_of_an_instance_with_a_graph_of_its_own() -> None:
    class Other(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    first = torch.compile(Model(), backend="opgraft")
    own = torch.compile(Other(), backend="opgraft")
    with torch.no_grad():
        first(torch.ones(2, 4))
        assert opgraft.stats(own).graphs == []
        own(torch.ones(3))
    found = opgraft.stats(own)
    assert not found.is_shared and found.nodes == 1


def test_a_fallback_without_a_stack_is_placed_by_its_module() -> None:
    """Of modules of torch.nn alone the stack shows no line of anybody's."""
    inner = nn.Sequential(nn.Identity(),
                          nn.FractionalMaxPool2d(2, output_size=1))
    compiled = torch.compile(nn.Sequential(nn.ReLU(), inner),
                             backend="opgraft")
    compiled(torch.ones(1, 4, 4))
    found = opgraft.stats(compiled)
    places = {f["operator"]: (f["file"], f["line"]) for f in found.fallbacks}
    assert places["aten.fractional_max_pool2d.default"] == ("module 1.1", 0)
    assert "fractional_max_pool2d.default (module 1.1): " in str(found)


def test_what_a_backward_graph_computes_again() -> None:
    """Each cosine's argument costs less than to keep it."""
    compiled = torch.compile(lambda x: x.cos().cos().cos().sum(),
                             backend="opgraft")
    compiled(torch.randn(8, 64, requires_grad=True)).backward()
    found = opgraft.stats(compiled)
    forward, backward = found.graphs
    assert forward["recomputed"] == {}
    assert backward["recomputed"] == found.recomputed == {"aten.cos.default": 2}
    assert "recomputed: aten.cos.default 2 times" in str(found)

    with torch.no_grad():
        alone = torch.compile(lambda x: x.exp(), backend="opgraft")
        alone(torch.randn(4))
    assert opgraft.stats(alone).recomputed == {}

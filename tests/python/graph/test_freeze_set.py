# SPDX-License-Identifier: Apache-2.0
"""opgraft.freeze on the graphs of bench/graphs.py: results as eager mode's, of
arguments that come anew, and what graphs of custom operators write."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import opgraft

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench"))
import graph_set  # noqa: E402
from graph_worker import difference, flat  # noqa: E402

QUICK = {"mlp", "chain_200", "custom_block", "mobilenet_v3"}
INFERENCE = [n for n in graph_set.ALL if not n.endswith("_training")]


def anew(built: graph_set.Built) -> tuple[Any, ...]:
    """Arguments of the same kinds with other numbers, where any number will
    do."""
    return tuple(torch.rand_like(a) if a.is_floating_point() else a.clone()
                 for a in built.args)


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[] if n in QUICK else [pytest.mark.full])
    for n in INFERENCE])
def test_frozen_is_as_eager(name: str) -> None:
    if graph_set.ALL[name].needs is not None:
        pytest.importorskip(graph_set.ALL[name].needs)
    with torch.no_grad():
        built = graph_set.make(name, False)
        frozen = opgraft.freeze(built.model, built.args, options={
            "mode": "max-autotune", "tune_s": 0})
        for args in (built.args, anew(built)):
            own = copy.deepcopy(args)  # some graphs write theirs
            wanted = flat(built.model(*args))
            found = flat(frozen(*own))
            assert difference(found, wanted) <= built.tolerance
            assert difference(flat(own), flat(args)) <= built.tolerance

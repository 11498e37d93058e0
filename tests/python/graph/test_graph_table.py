# SPDX-License-Identifier: Apache-2.0
"""The goals of bench/graph_table.py: which peers each of ours is held
against."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench"))
import graph_table  # noqa: E402


def row(**ms: float) -> dict[str, Any]:
    return {name: {"ms": {"median": t, "least": t, "most": t, "blocks": 1}}
            for name, t in ms.items()}


ROW = row(eager=1.0, inductor=0.5, openvino_compile=0.6, onnxruntime=0.2,
          openvino=0.3, opgraft=0.45, opgraft_max=0.4, opgraft_frozen=0.1)


def ratios(of: dict[str, Any]) -> list[float | None]:
    return [x if x is None else round(x, 3)
            for x in (graph_table.ratio(of, c) for c in graph_table.CONTESTS)]


def test_peers_are_held_against_those_called_alike() -> None:
    assert ratios(ROW) == [0.5, 1.25, 2.0]


def test_eager_is_a_rival_of_both() -> None:
    assert ratios({**ROW, **row(eager=0.05)}) == [0.125, 0.125, 0.5]


def test_another_graph_is_no_rival() -> None:
    other = {"onnxruntime": {**ROW["onnxruntime"], "inlined": True}}
    assert ratios({**ROW, **other}) == [0.75, 1.25, 3.0]


def test_what_does_not_train_has_no_goal() -> None:
    trained = {k: v for k, v in ROW.items() if k != "opgraft_frozen"}
    trained["opgraft_frozen"] = {"failed": "it does not train"}
    goals = graph_table.goals({"mlp_training 2": trained})
    named = [line["what"] for line in goals.lines]
    assert "2 threads: mlp_training: best peer's time / ours" in named
    assert not [n for n in named if "frozen" in n]
    assert [n for n in graph_table.goals({"mlp 2": ROW}).lines
            if "frozen" in n["what"]]


def test_dynamos_part_is_left_out_beside_a_goal_that_falls_short() -> None:
    lines = graph_table.goals({"mlp 2": {**ROW, **row(dynamo=0.3)}}).lines
    shown = {line["what"]: line["figure"] for line in lines
             if line["verdict"] == "limit"}
    goal = "2 threads: mlp: best peer's time / ours"
    assert {k: round(v, 3) for k, v in shown.items()} == {
        "2 threads: the same mean, without Dynamo's part": 2.0,
        f"{goal}, without Dynamo's part": 2.0,
        f"{goal}, Dynamo's part alone": 0.667}


def test_loops_are_counted_over_all_graphs() -> None:
    def counted(programs: int, encoded: int, fused: int, **apart: int
                ) -> dict[str, Any]:
        left = {"no such instruction": programs - encoded}
        ours = {**ROW["opgraft_max"], "loops": {
            "programs": programs, "encoded": encoded, "fused": fused,
            "interpreted": left if encoded < programs else {},
            "unfused": apart}}
        return {**ROW, "opgraft_max": ours}

    rows = {"mlp 2": counted(3, 3, 5), "minilm 2": counted(7, 6, 13, copies=2)}
    figures = {line["what"]: line["figure"]
               for line in graph_table.goals(rows).lines}
    assert figures["of 10 row programs, those that are machine code"] == 0.9
    assert figures["of 20 nodes that a row program could hold, those that one "
                   "does"] == 0.9
    table = list(graph_table.loop_table(rows))
    assert table == [["mlp", "3", "3", "5", "0", ""],
                     ["minilm", "7", "6", "13", "2",
                      "no such instruction: 1; copies: 2"]]

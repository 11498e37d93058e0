# SPDX-License-Identifier: Apache-2.0
"""Hooks whose place is gone or that see nothing: said, and the log read."""

from __future__ import annotations

import pytest
import torch

from opgraft import doctor
from opgraft.doctor import _adapter, _logs

pytest_plugins = ["pytester"]


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def silent(recorder: object, inner: object) -> object:
    return inner


@pytest.mark.parametrize("change, state", [
    ({"path": "InstructionTranslatorBase.no_such_method"}, "gone"),
    ({"wrap": silent}, "silent"),
])
def test_the_log_stands_in(monkeypatch: pytest.MonkeyPatch,
                           change: dict[str, object], state: str) -> None:
    hooks = tuple(h._replace(**change) if h.name == "breaks" else h
                  for h in _adapter.ADAPTERS[_adapter.NEWEST])
    monkeypatch.setitem(_adapter.ADAPTERS, _adapter.version(), hooks)
    torch._dynamo.reset()
    report = doctor.inspect(broken, torch.ones(3), backend="eager", runs=0)
    states = {h["name"]: h["state"] for h in report.data["run"]["hooks"]}
    assert states["breaks"] == state
    assert states["frames"] == states["graphs"] == "ok"
    assert [r["id"] for r in report.roots] == ["GB0025"]
    assert report.roots[0]["code"] == "torch._dynamo.graph_break()"
    assert any("read from its log" in n for n in report.data["run"]["notes"])


def test_a_break_in_the_log() -> None:
    stack, title, id = _logs.read_break(
        "Graph break in user code at /a/m.py:7\n"
        "Graph Break Reason: Encountered graph break when attempting to trace "
        "CALL: a function call, e.g. f(x, y):\n\n"
        "Unsupported Tensor.item() call\n  Explanation: x\n"
        " https://meta-pytorch.github.io/compile-graph-break-site/gb/"
        "gb0124.html\nUser code traceback:\n"
        '  File "/a/m.py", line 7, in f\n    n = x.item()\n')
    assert (stack[-1].file, stack[-1].line, id) == ("/a/m.py", 7, "GB0124")
    assert title == "Unsupported Tensor.item() call"
    stack, _, id = _logs.read_break("Graph break in user code at /a/m.py:9\n"
                                    "Graph Break Reason: x")
    assert (stack[-1].line, id) == (9, "")


def test_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import torch

        def whole(x):
            return x.sin() + 1

        def split(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2

        def test_whole(opgraft_doctor):
            opgraft_doctor(whole, torch.ones(2), backend="eager")

        def test_allowed(opgraft_doctor):
            opgraft_doctor(split, torch.ones(2), backend="eager",
                           allowed=["GB0025"])

        def test_split(opgraft_doctor):
            opgraft_doctor(split, torch.ones(2), backend="eager")
    """)
    done = pytester.runpytest_inprocess("-p", "opgraft.doctor.pytest_plugin",
                                        "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*1 root causes, expected at most 0*"])

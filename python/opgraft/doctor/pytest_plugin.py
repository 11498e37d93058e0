# SPDX-License-Identifier: Apache-2.0
"""A pytest fixture that fails a test when a callable stops compiling whole.

    pytest_plugins = ["opgraft.doctor.pytest_plugin"]  # in conftest.py

    def test_model(opgraft_doctor):
        opgraft_doctor(model, x, allowed=["GB0124"])
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest


@pytest.fixture
def opgraft_doctor() -> Callable[..., Any]:
    """check(fn, *args, max_roots=0, allowed=(), max_unexplained=0, **kwargs).

    Forgets what was compiled, compiles and calls fn(*args, **kwargs), and
    returns the report. The test fails with the report where there are more than
    `max_roots` roots (those with an id in `allowed` do not count), or more
    unexplained frames than `max_unexplained`. What `fn` raises arrives here.

        >>> report = opgraft_doctor(torch.nn.ReLU(), torch.ones(2),
        ...                         backend="eager")
        >>> report.roots
        []
    """

    def check(fn: Any, *args: Any, max_roots: int = 0,
              allowed: Collection[str] = (), max_unexplained: int = 0,
              **kwargs: Any) -> Any:
        import torch

        from . import inspect

        torch._dynamo.reset()  # what an earlier test compiled is not seen
        kwargs.setdefault("runs", 0)
        report = inspect(fn, *args, **kwargs)
        roots = [r for r in report.roots if r["id"] not in allowed]
        if len(roots) > max_roots:
            pytest.fail(f"{len(roots)} root causes, expected at most "
                        f"{max_roots}\n{report}", pytrace=False)
        unexplained = report.data["frames"]["unexplained"]
        if unexplained > max_unexplained:
            pytest.fail(f"{unexplained} frames are unexplained, expected at "
                        f"most {max_unexplained}\n{report}", pytrace=False)
        return report

    return check

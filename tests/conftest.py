# SPDX-License-Identifier: Apache-2.0
"""With OPGRAFT_SMOKE one case of each slow test runs, so that none rots unseen;
a test that counts takes its share from `portion`. What depends on the clock or
on the machine's load is marked `timing` and runs with OPGRAFT_TIMING alone."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
IS_SMOKE = bool(os.environ.get("OPGRAFT_SMOKE"))
IS_TIMED = bool(os.environ.get("OPGRAFT_TIMING"))

# What a shell starts in the background ignores interrupts, and so would every
# program under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    seen: set[str] = set()
    kept, left = [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        is_more = (IS_SMOKE and item.get_closest_marker("full") is not None
                   and name in seen)
        is_timed = item.get_closest_marker("timing") is not None
        seen.add(name)
        (left if is_more or is_timed and not IS_TIMED else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture
def portion() -> float:
    """What part of its work a slow test does: 1, or little in a smoke run."""
    return 0.002 if IS_SMOKE else 1.0


@pytest.fixture(scope="session")
def wrong_pass() -> str:
    """`opgraft` with one pass more, which makes sums differences."""
    build = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    path = build / "tests/wrong_pass/opgraft_wrong_pass"
    if not path.exists():
        pytest.skip("no test programs are built: set OPGRAFT_BUILD")
    return str(path)

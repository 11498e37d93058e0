# SPDX-License-Identifier: Apache-2.0
"""With OPGRAFT_SMOKE one case of each slow test runs, so that none rots unseen;
a test that counts takes its share from `portion`. With OPGRAFT_CASES=N one in N
cases of each test runs, at least one, and of the slow tests that a smoke run
has one in N: OPGRAFT_TREE_SEED draws them. What depends on the clock or on the
machine's load is marked `timing` and runs with OPGRAFT_TIMING alone. Generators
take `rounds`; with --seconds they go on for so long (tools/generators.py)."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
import zlib
from collections import Counter
from typing import Callable, Mapping

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
IS_SMOKE = bool(os.environ.get("OPGRAFT_SMOKE"))
IS_TIMED = bool(os.environ.get("OPGRAFT_TIMING"))
CASES = int(os.environ.get("OPGRAFT_CASES", "1"))
SEED = os.environ.get("OPGRAFT_TREE_SEED", "")

# What a shell starts in the background ignores interrupts, and so would every
# program under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, default=0.0, help="processor "
                     "time of the session's generators together")
    parser.addoption("--seed", type=int, default=1000, help="their first seed")


def draw(item: pytest.Item) -> int:
    return zlib.crc32(f"{SEED} {item.nodeid}".encode())


@pytest.hookimpl(trylast=True)  # of what -m has left
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if IS_TIMED or item.get_closest_marker("timing") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for tests in cases.values():
        if IS_SMOKE:
            quick = [t for t in tests if t.get_closest_marker("full") is None]
            tests = quick or tests[:draw(tests[0]) % CASES == 0]
        kept.update(sorted(tests, key=draw)[:-(-len(tests) // CASES)])
    left = [item for item in items if item not in kept]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item in kept]


@pytest.fixture
def portion() -> float:
    """What part of its work a slow test does: 1, or little in a smoke run."""
    return 0.002 if IS_SMOKE else 1.0


Round = Callable[[int], "int | Mapping[str, int]"]


@pytest.fixture
def rounds(request: pytest.FixtureRequest, portion: float
           ) -> Callable[..., Counter[str]]:
    """rounds(check, count): check(seed), which says how many cases it tried (or
    how many of each kind), for `count` seeds, their portion but `least`, or the
    generator's time. All that fail are told at the end."""
    def run(check: Round, count: int, least: int = 1) -> Counter[str]:
        first = request.config.getoption("seed")
        seconds = request.config.getoption("seconds")
        end = sum(os.times()[:4]) + seconds / request.session.testscollected
        tried: Counter[str] = Counter()
        found: list[str] = []
        for seed in itertools.count(first):
            if (sum(os.times()[:4]) > end if seconds
                    else seed - first >= max(least, int(count * portion))):
                break
            try:
                cases = check(seed)
                tried.update({"cases": cases} if isinstance(cases, int)
                             else cases)
            except (Exception, pytest.fail.Exception) as error:
                found.append(f"seed {seed}: {type(error).__name__}: {error}")
        print(f"\n{seed - first} seeds from {first}: {dict(tried)}, "
              f"{tried.total():,} cases, {len(found)} found")
        if found:
            pytest.fail("\n".join(f[:2000] for f in found), pytrace=False)
        return tried

    return run


@pytest.fixture(scope="session")
def wrong_pass() -> str:
    """`opgraft` with one pass more, which makes sums differences."""
    build = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    path = build / "tests/wrong_pass/opgraft_wrong_pass"
    if not path.exists():
        pytest.skip("no test programs are built: set OPGRAFT_BUILD")
    return str(path)

# SPDX-License-Identifier: Apache-2.0
"""One file in every host: the bytes of its results are PyTorch's, and so are
its errors for a wrong call. docs/hosts.md has the table of what passed;
OPGRAFT_UPDATE=1 writes it."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import cases
import pytest

import build

HERE = pathlib.Path(__file__).resolve().parent
# Why a host may miss an operator: its own limits, which docs/hosts.md lists
# with their source.
LIMITS = {
    "aoti": [
        "AOTInductor passes a Scalar as a double",
        "a result is a list, whose length a C function cannot state",
        "a result's size depends on values",
        "AOTInductor calls every overload by the same name",
    ],
    "jax": [
        "a result's size depends on values",
        "an argument is a device",
    ],
    "onnxruntime": [
        "a result is a list, whose length ONNX cannot state",
        "a tensor list is not the last input",
        "ONNX has no bool attribute",
        "ONNX has no None, and without the attribute its default stands",
    ],
    "tensorflow": [
        "an argument is a device",
    ],
    "tvm_ffi": [],
}
# Hosts that drop a call whose results have no elements, and so its refusal.
DROPS_EMPTY = {"jax"}
LEAST = 0.85  # the part of all cells that each host passes
DOCS = build.ROOT / "docs/hosts.md"
BEGIN, END = "<!-- conformance -->\n", "<!-- end -->"

Results = dict[str, tuple[str, Any]]
Set = tuple[list[cases.Case], pathlib.Path, Results]
verdicts: dict[tuple[str, str], dict[str, str]] = {}  # by set and host


def run(host: str, modules: pathlib.Path, folder: pathlib.Path,
        *calls: str) -> Results:
    python, reason = build.python_of(host)
    if python is None:
        pytest.skip(reason)
    out = folder / f"{host}.results"
    done = subprocess.run(
        [python, f"host_{host}.py", str(modules), str(out), *calls], cwd=HERE,
        env=build.environment(python), capture_output=True, text=True,
        timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    found: Results = pickle.loads(out.read_bytes())
    return found


@pytest.fixture(scope="module")
def listed(modules: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
           ) -> Set:
    found = run("torch", modules, tmp_path_factory.mktemp("torch"))
    assert set(found) == {case.label for case in cases.everything()}
    return cases.everything(), modules, found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Set:
    """Calls of the operator library, drawn from its declarations."""
    folder = build.library(tmp_path_factory.mktemp("library"))
    done = subprocess.run(
        [sys.executable, "drawn.py", str(folder), str(folder / "calls"),
         *build.LIBRARY], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = pickle.loads((folder / "calls").read_bytes())
    found = run("torch", folder, tmp_path_factory.mktemp("torch"),
                str(folder / "calls"))
    return drawn, folder, found


def verdict(host: str, found: tuple[str, Any], wanted: tuple[str, Any]) -> str:
    """"passed", "missing", or what is wrong."""
    kind, value = found
    if kind == "missing":
        return "missing" if any(text in value for text in LIMITS[host]) else (
            f"missing without a limit: {value}")
    if kind == "right" and wanted[0] == "wrong" and host in DROPS_EMPTY and all(
            0 in shape for _, shape, _ in value):
        return "missing"
    if kind != wanted[0]:
        return f"{kind}, expected {wanted[0]}: {value} / {wanted[1]}"
    if kind == "wrong":
        text = wanted[1].partition(": ")[2]
        return "passed" if text in value else f"said {value!r}, expected {text!r}"
    if len(value) != len(wanted[1]):
        return f"{len(value)} results, expected {len(wanted[1])}"
    for i, (a, b) in enumerate(zip(value, wanted[1])):
        if a[:2] != b[:2]:
            return f"result {i} is {a[:2]}, expected {b[:2]}"
        if a[2] != b[2]:
            return f"result {i} has other bytes: {a[2][:64]!r} / {b[2][:64]!r}"
    return "passed"


def compare(name: str, host: str, calls: list[cases.Case], found: Results,
            wanted: Results) -> None:
    own = {case.label: verdict(host, found[case.label], wanted[case.label])
           for case in calls}
    count = Counter(v if v in ("passed", "missing") else "failed"
                    for v in own.values())
    print(f"\n{name}, {host}: {count['passed']} passed, {count['failed']} "
          f"failed, {count['missing']} missing")
    wrong = {label: v for label, v in own.items()
             if v not in ("passed", "missing")}
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    assert count["passed"] >= LEAST * len(own)
    verdicts[name, host] = own  # the table has no failures


@pytest.mark.parametrize("host", sorted(LIMITS))
def test_results_are_pytorchs(host: str, tmp_path: pathlib.Path, listed: Set
                              ) -> None:
    calls, modules, wanted = listed
    compare("listed", host, calls, run(host, modules, tmp_path), wanted)


@pytest.mark.parametrize("host", sorted(LIMITS))
def test_results_of_the_library_are_pytorchs(
        host: str, tmp_path: pathlib.Path, library: Set) -> None:
    calls, modules, wanted = library
    found = run(host, modules, tmp_path, str(modules / "calls"))
    compare("library", host, calls, found, wanted)


def test_most_reference_calls_are_right(listed: Set, library: Set) -> None:
    refused = [label for label, (kind, _) in listed[2].items()
               if kind == "wrong"]
    assert sorted(refused) == sorted(
        ["bad shape", "bad rank", "bad weight", "bad where", "bad level",
         "no columns"])
    assert not [label for label, (kind, _) in library[2].items()
                if kind == "wrong" and " types " in label]


def test_enough_is_compared(library: Set) -> None:
    operators = {(case.module, case.op) for case in cases.everything()}
    assert len(operators) >= 25 and len(cases.everything()) >= 150
    assert {case.module for case in library[0]} == set(build.LIBRARY)


def cell(own: dict[str, str], labels: list[str]) -> str:
    missing = sum(own[label] == "missing" for label in labels)
    passed = len(labels) - missing
    return f"{passed}" if missing == 0 else f"{passed}, without {missing}"


def test_the_table_in_the_docs(listed: Set, library: Set) -> None:
    hosts = sorted(LIMITS)
    if any((name, host) not in verdicts for host in hosts
           for name in ("listed", "library")):
        pytest.skip("a host was not compared")
    lines = [f"| Module | Operators | Calls | {' | '.join(hosts)} |",
             f"|---|---|---|{'---|' * len(hosts)}"]
    for name, calls in (("listed", listed[0]), ("library", library[0])):
        for module in dict.fromkeys(case.module for case in calls):
            own = [case for case in calls if case.module == module]
            labels = [case.label for case in own]
            cells = [cell(verdicts[name, host], labels) for host in hosts]
            lines.append(f"| {module} | {len({case.op for case in own})} | "
                         f"{len(own)} | {' | '.join(cells)} |")
    text = DOCS.read_text()
    head, _, rest = text.partition(BEGIN)
    table = "\n".join(lines) + "\n"
    new = head + BEGIN + table + END + rest.partition(END)[2]
    if os.environ.get("OPGRAFT_UPDATE") == "1":
        DOCS.write_text(new)
    assert DOCS.read_text() == new, "OPGRAFT_UPDATE=1 writes the table"

# SPDX-License-Identifier: Apache-2.0
"""One file in every host: the bytes of its results are PyTorch's, and so are
its errors. Prints a table of passed, failed, missing."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
from collections import Counter
from typing import Any

import cases
import pytest

import build

HERE = pathlib.Path(__file__).resolve().parent
# Why a host may miss an operator: its own limits, with their source.
LIMITS = {
    "jax": {
        "a result's size depends on values": "positives",
        "an argument is a device": "zeros",
    },
    "onnxruntime": {
        "a result is a list, whose length ONNX cannot state": "halves",
        "a tensor list is not the last input": "dots",
        "ONNX has no bool attribute": "digest",
    },
}
LEAST = 0.85  # the part of all cells that each host passes


def run(host: str, modules: pathlib.Path, folder: pathlib.Path
        ) -> dict[str, tuple[str, Any]]:
    python, reason = build.python_of(host)
    if python is None:
        pytest.skip(reason)
    out = folder / f"{host}.results"
    done = subprocess.run(
        [python, f"host_{host}.py", str(modules), str(out)], cwd=HERE,
        env=build.environment(python), capture_output=True, text=True,
        timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, tuple[str, Any]] = pickle.loads(out.read_bytes())
    return found


@pytest.fixture(scope="module")
def wanted(modules: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
           ) -> dict[str, tuple[str, Any]]:
    found = run("torch", modules, tmp_path_factory.mktemp("torch"))
    assert set(found) == {case.label for case in cases.everything()}
    return found


def verdict(host: str, case: cases.Case, found: tuple[str, Any],
            wanted: tuple[str, Any]) -> str:
    """"passed", "missing", or what is wrong."""
    kind, value = found
    if kind == "missing":
        is_known = any(text in value and case.op == op
                       for text, op in LIMITS[host].items())
        return "missing" if is_known else f"missing without a limit: {value}"
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


@pytest.mark.parametrize("host", ["jax", "onnxruntime"])
def test_results_are_pytorchs(host: str, modules: pathlib.Path,
                              tmp_path: pathlib.Path,
                              wanted: dict[str, tuple[str, Any]]) -> None:
    found = run(host, modules, tmp_path)
    verdicts = {case.label: verdict(host, case, found[case.label],
                                    wanted[case.label])
                for case in cases.everything()}
    count = Counter(v if v in ("passed", "missing") else "failed"
                    for v in verdicts.values())
    print(f"\n{host}: {count['passed']} passed, {count['failed']} failed, "
          f"{count['missing']} missing")
    wrong = {label: v for label, v in verdicts.items()
             if v not in ("passed", "missing")}
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    assert count["passed"] >= LEAST * len(verdicts)


def test_most_reference_calls_are_right(
        wanted: dict[str, tuple[str, Any]]) -> None:
    refused = [label for label, (kind, _) in wanted.items() if kind == "wrong"]
    assert sorted(refused) == sorted(
        ["bad shape", "bad rank", "bad weight", "bad where", "bad level",
         "no columns"])


def test_enough_is_compared() -> None:
    operators = {(case.module, case.op) for case in cases.everything()}
    assert len(operators) >= 25 and len(cases.everything()) >= 150

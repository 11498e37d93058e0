# SPDX-License-Identifier: Apache-2.0
"""Every row of src/import/aten.def runs without a host: a graph of its one
operator is exported, `opgraft run` runs it, ATen computes the same.

Arguments are those that op_db's samples call the operator with, forward and
backward; `own_calls.py` has those that op_db never makes. A row without a call
fails, and so does an operator of src/graph/ops.def that no call reached.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
import torch
from alone import (
    ROOT,
    export,
    from_file,
    operators,
    program,
    run_alone,
    to_file,
)
from recorded import ALL, REASONS, ROWS, SOME, Call, Form, calls_of, recorded

from opgraft._graph import meaning

FORMS = [pytest.param(SOME, id="some"),
         pytest.param(ALL, id="all", marks=pytest.mark.full)]
# Results that nobody promises: memory as it was.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
         "new_empty_strided"}
# Results that only a gradient reads: torch's shape functions and its kernels
# disagree about their sizes, by type and form.
KEPT_FOR_GRADIENT = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1}
UNSTABLE = {"sort", "topk"}
# What a row leaves to the host, and says so: which calls, in what words.
LEFT = {
    "native_dropout.default": "it draws from the host's random numbers",
    "index_put.default": "an index is a mask",
    "convolution.default": "it takes tensors of a float type here",
    "avg_pool2d.default": "it takes tensors of a float type here",
    "max_pool2d_with_indices.default": "it takes tensors of a float type here",
    "upsample_bilinear2d.default": "it takes tensors of a float type here",
    "addmm.default": "a factor may not fit its tensor's type",
    "index_add.default": "a factor may not fit its tensor's type",
}


def same(call: Call, k: int, a: torch.Tensor, b: torch.Tensor) -> None:
    """Where ATen itself is far from float64, we may be twice as far."""
    assert a.dtype == b.dtype and a.shape == b.shape
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        if not a.is_floating_point():
            raise
        right = call.in_double().run()[k].double()
        distance = (b.double() - right).abs().max()
        if not (a.double() - right).abs().max() <= 2 * distance:
            raise


def same_order(call: Call, found: list[torch.Tensor],
               wanted: list[torch.Tensor]) -> None:
    """Equal elements may come in any order: positions name equal values."""
    values, positions = found
    same(call, 0, values, wanted[0])
    x = call.argument("self")
    if x.dim() > 0:
        assert torch.equal(x.gather(call.argument("dim"), positions), values)


def compare(call: Call, found: list[torch.Tensor]) -> None:
    wanted = call.run()
    name = call.target._schema.name.split("::")[1]
    if name in UNSET:
        assert [x.shape for x in found] == [x.shape for x in wanted]
    elif name in UNSTABLE and not call.kwargs.get("stable"):
        same_order(call, found, wanted)
    else:
        for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if k < KEPT_FOR_GRADIENT.get(name, k + 1) or a.shape == b.shape:
                same(call, k, a, b)


# Rows that are the host's, since this torch computes something else.
CHANGED = {name.removeprefix("aten.") for name in meaning.changed()}


def is_left(row: str, said: str) -> bool:
    if row in CHANGED:
        return "there is no row for it" in said
    if ("clamp" in row or "hardtanh" in row) and (
            "clamp.default#wraps" in CHANGED):
        return "does not fit its tensor's type" in said
    return row in LEFT and LEFT[row] in said


def is_taken(call: Call) -> bool:
    """By this torch: the calls are of all that are tested."""
    try:
        call.run()
    except RuntimeError:
        return False
    return True


def problem_of(row: str, call: Call, found: list[torch.Tensor] | str
               ) -> str | None:
    if isinstance(found, str):
        return None if is_left(row, found) else found
    try:
        compare(call, found)
    except AssertionError as error:
        return f"{error}"
    return None


def check(row: str, form: Form, folder: pathlib.Path) -> int:
    """Returns how many of the row's calls are left to the host."""
    calls = list(filter(is_taken, calls_of(row, form)))
    assert calls, f"{row}: no call to try it with: add one to own_calls.py"
    counts = [len(call.run()) for call in calls]
    whole = run_alone(calls, sum(counts), folder)
    left, problems = 0, []
    for call, count in zip(calls, counts):
        if isinstance(whole, str):
            found = run_alone([call], count, folder)
        else:
            found, whole = whole[:count], whole[count:]
        said = problem_of(row, call, found)
        if said is not None:
            problems.append(f"{call}: {said}")
        left += said is None and isinstance(found, str)
    assert not problems, (
        f"{row}: {len(problems)} of {len(calls)} calls differ from ATen or "
        f"need a host:\n" + "\n".join(problems))
    return left


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", ROWS)
def test_row_runs_without_a_host(
    row: str, form: Form, tmp_path: pathlib.Path
) -> None:
    check(row, form, tmp_path)


# --- What is left out, by reason ----------------------------------------------


@pytest.mark.parametrize("row", LEFT)
def test_calls_left_to_the_host(row: str, tmp_path: pathlib.Path) -> None:
    left = check(row, SOME, tmp_path)
    assert left > 0, f"{row}: no call needs the host: take it out of LEFT"
    pytest.skip(f"{left} calls of {row} are the host's: {LEFT[row]}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reason", REASONS)
def test_calls_left_out(reason: str, form: Form) -> None:
    recorder = recorded(form)
    kept = sum(map(len, recorder.calls.values()))
    assert kept > len(ROWS)
    if recorder.left_out[reason] > 0:
        pytest.skip(f"{recorder.left_out[reason]} calls are left out beside "
                    f"{kept}: {reason}")


# --- Operators of the IR ------------------------------------------------------

# Operators of the IR to which no row maps alone: text, and what it means.
GRAPHS = {
    "fused": (
        "%x: f32[9], %w: f32[9]", "f32[9]",
        '(%x, %w; program="s = row_sum(x0 * x0); '
        'y0 = x0 * rsqrt(s / width) * x1")',
        lambda x, w: x * x.square().mean().rsqrt() * w),
    "log_sigmoid": ("%x: f32[9]", "f32[9]", "(%x)",
                    torch.nn.functional.logsigmoid),
    "log_sigmoid_backward": (
        "%g: f32[9], %x: f32[9]", "f32[9]", "(%g, %x)",
        lambda g, x: g * torch.sigmoid(-x)),
    "interleave": (
        "%x: f32[2, 6, 5]", "f32[2, 3, 9]", "(%x; stride=[2], padding=[1])",
        lambda x: x.view(2, 3, 2, 5).flip(2).mT.flatten(2)[:, :, 1:]),
    "size": ("%x: f32[s0]", "i64[]", "(; value=s0*2)",
             lambda x: torch.tensor(2 * len(x))),
}


@pytest.mark.parametrize("op", GRAPHS)
def test_operator_without_a_row(op: str, tmp_path: pathlib.Path) -> None:
    inputs, result, operands, f = GRAPHS[op]
    path = tmp_path / "row.og"
    path.write_text(f"graph g({inputs}) {{\n  %y: {result} = {op}{operands}\n"
                    "  return %y\n}\n")
    tensors = [torch.randn([int(n) for n in shape.replace("s0", "9").split(",")])
               for shape in re.findall(r"f32\[([^]]*)\]", inputs)]
    words = [program(), "run", str(path), "--out", str(tmp_path / "y.npy")]
    for k, x in enumerate(tensors):
        to_file(x, tmp_path / f"{k}.npy")
        words += ["--in", str(tmp_path / f"{k}.npy")]
    subprocess.run(words, check=True, timeout=60, capture_output=True)
    torch.testing.assert_close(from_file(tmp_path / "y.npy"), f(*tensors))


def ir_operators() -> set[str]:
    text = (ROOT / "src/graph/ops.def").read_text()
    return set(re.findall(r"^OG_(?:OP|PW|PW_FLOAT|PW_INT)\((\w+),", text,
                          re.MULTILINE))


@pytest.mark.full
def test_every_ir_operator_runs_without_a_host(tmp_path: pathlib.Path) -> None:
    """Each is in a graph of the tests above, which run it."""
    path = tmp_path / "row.og"
    ran = {"foreign", *GRAPHS}
    for row in ROWS:
        for call in filter(is_taken, calls_of(row, SOME)):
            try:
                export([call], path)
            except NotImplementedError:
                continue
            ran |= operators(path)
    assert ir_operators() - ran == set()
    assert set(LEFT) <= set(ROWS)

# SPDX-License-Identifier: Apache-2.0
"""opgraft run of graphs whose nodes write memory that they must not: refused
as planned, without passes, and plainly; what is apart gives one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Program

# Writes x and y in an order that shows where they share memory.
PAIR = """\
#include <opgraft/op.h>

static og_status pair_run(const og_call *call) {
  float *x = og_f32_mut(call->out[0]), *y = og_f32_mut(call->out[1]);
  const float *w = og_f32(call->in[2]);
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    x[i] += w[call->dim[1] - 1];
    y[call->dim[0] - 1 - i] *= x[i];
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = pair_run}};
static const og_op ops[] = {{
    .schema = "both(Tensor(a!) x, Tensor(b!) y, Tensor w) -> ()",
    .shape = "x[*N], y[*N], w[M] ->",
    .dtype = "x: f32, y: x, w: x",
    .kernels = OG_KERNELS(kernels)}};
OG_MODULE(pair, ops)
"""
BOTH = 'foreign "pair.both.default"'

REFUSED = {
    "an expanded result": """\
graph g(%x: f32[4]) {
  %y: f32[4]{0} = add(%x, 1)
  return %y
}""",
    "an input that overlaps itself": """\
graph g(%x: f32[3, 4]{3, 1}, %y: f32[3, 4]) {
  %z: f32[3, 4]{3, 1} in %x = copy_to(%x, %y)
  return %z
}""",
    "an expanded input of a module's operator": f"""\
graph g(%x: f32[3, 4]{{0, 1}}, %y: f32[3, 4], %w: f32[4]) {{
  %p: f32[3, 4]{{0, 1}} in %x, %q: f32[3, 4] in %y = {BOTH}(%x, %y, %w) {{update 0:0, update 1:1}}
  return %p, %q
}}""",
    "a value over its operand": """\
graph g(%x: f32[8]) {
  %a: f32[6] = view(%x)
  %b: f32[6]+(2) = view(%x)
  %z: f32[6]+(2) in %x = add(%b, %a)
  return %z
}""",
    "an operand inside what is written": f"""\
graph g(%x: f32[3, 4], %y: f32[3, 4]) {{
  %w: f32[4]+(4) = view(%x)
  %p: f32[3, 4] in %x, %q: f32[3, 4] in %y = {BOTH}(%x, %y, %w) {{update 0:0, update 1:1}}
  return %p, %q
}}""",
    "one input as two written arguments": f"""\
graph g(%x: f32[3, 4], %w: f32[4]) {{
  %p: f32[3, 4] in %x, %q: f32[3, 4] in %x = {BOTH}(%x, %x, %w) {{update 0:0, update 1:1}}
  return %p, %q
}}""",
    "two written parts that overlap": f"""\
graph g(%x: f32[6, 4], %w: f32[4]) {{
  %a: f32[3, 4] = view(%x)
  %b: f32[3, 4]+(8) = view(%x)
  %n: f32[6, 4], %p: f32[3, 4] in %n, %q: f32[3, 4]+(8) in %n = {BOTH}(%a, %b, %w) of %x {{update 0:3, update 1:0, update 2:1}}
  return %n
}}""",
}

TAKEN = {
    "two written parts side by side": f"""\
graph g(%x: f32[3, 8], %w: f32[4]) {{
  %a: f32[3, 4]{{8, 1}} = view(%x)
  %b: f32[3, 4]{{8, 1}}+(4) = view(%x)
  %n: f32[3, 8], %p: f32[3, 4]{{8, 1}} in %n, %q: f32[3, 4]{{8, 1}}+(4) in %n = {BOTH}(%a, %b, %w) of %x {{update 0:3, update 1:0, update 2:1}}
  return %n
}}""",
    "one value as two arguments that get memory of their own": f"""\
graph g(%x: f32[3, 4], %w: f32[4]) {{
  %p: f32[3, 4], %q: f32[3, 4] = {BOTH}(%x, %x, %w) {{update 0:0, update 1:1}}
  return %p, %q
}}""",
    "an operand inside what is copied": f"""\
graph g(%x: f32[3, 4], %y: f32[3, 4]) {{
  %w: f32[4]+(4) = view(%x)
  %p: f32[3, 4], %q: f32[3, 4] = {BOTH}(%x, %y, %w) {{update 0:0, update 1:1}}
  return %p, %q
}}""",
    "an input that overlaps itself and is read": """\
graph g(%x: f32[3, 4]{3, 1}, %y: f32[3, 4]) {
  %z: f32[3, 4] = mul(%x, %y)
  return %z
}""",
}
ROADS = {
    "planned": [],
    "without passes": ["--disable", "view, fold, noop, cse, halves, dce, reinplace"],
    "plain": ["--plain"],
}


def shapes(text: str) -> list[tuple[int, ...]]:
    head = text.splitlines()[0]
    return [tuple(int(n) for n in part.split("]")[0].split(","))
            for part in head.split("f32[")[1:]]


def words(program: Program, text: str) -> list[str]:
    rng = np.random.default_rng(1)
    program.write("g.og", text + "\n")
    program.write("pair.c", PAIR)
    given = ["run", "g.og", "--module", "pair.c"]
    for i, shape in enumerate(shapes(text)):
        np.save(program.folder / f"{i}.npy",
                rng.standard_normal(shape).astype("f4"))
        given += ["--in", f"{i}.npy"]
    return given


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("road", ROADS)
def test_a_write_that_overlaps_is_refused(
    program: Program, road: str, case: str
) -> None:
    error = program.fails(2, *words(program, REFUSED[case]), *ROADS[road])
    assert any(said in error for said in (
        "several elements at one place", "is written and", "overwrites the "
        "storage of an operand", "overlaps another result")), error


@pytest.mark.parametrize("case", TAKEN)
def test_writes_that_are_apart_give_one_result(
    program: Program, case: str
) -> None:
    given = words(program, TAKEN[case])
    count = TAKEN[case].split("return")[1].count("%")
    found: list[Any] = []
    for options in ROADS.values():
        out = [w for i in range(count) for w in ("--out", f"out{i}.npy")]
        program.ok(*given, *out, *options)
        found.append([np.load(program.folder / f"out{i}.npy")
                      for i in range(count)])
    for results in found[1:]:
        for a, b in zip(results, found[0], strict=True):
            assert np.array_equal(a, b)

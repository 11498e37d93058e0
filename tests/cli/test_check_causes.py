# SPDX-License-Identifier: Apache-2.0
"""check says each cause once, and causes before what they cause."""

from __future__ import annotations

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests" / "mistakes" / "wrong"


def kinds(program, source: pathlib.Path) -> list[str]:
    done = program.run("check", source, "--json")
    assert done.returncode == 1, done.stderr
    return [finding["kind"] for op in json.loads(done.stdout)["operators"]
            for finding in op["findings"] if not finding["note"]]


# What a fault makes of other comparisons is not said.
@pytest.mark.parametrize(("name", "kind"), [
    ("batch_first_mean", "wrong_batch_rule"),
    ("race_columns", "data_race"),
    ("read_before_start", "out_of_bounds_read"),
    ("read_bias_by_row", "out_of_bounds_read"),
    ("race_static_scratch", "thread_race"),
    ("state_counter", "not_repeatable"),
    ("unwritten_where_negative", "output_not_written"),
])
def test_one_finding_for_a_cause(program, name, kind):
    found = kinds(program, WRONG / f"{name}.c")
    assert found.count(kind) == 1
    assert set(found) <= {kind, "layout_dependent"}


TWO = """
#include <opgraft/op.h>
enum { N };
static og_status shift(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i];
  if (call->dim[N] > 20) y[call->dim[N]] = 0;
  return OG_OK;
}
static const og_kernel shift_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = shift},
};
static const og_op ops[] = {{
    .schema = "shift(Tensor x, float by) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(shift_kernels),
}};
OG_MODULE(shifts, ops)
"""


def test_causes_come_first(program):
    """Memory before an argument that is not used."""
    found = kinds(program, program.write("shift.c", TWO))
    assert found == ["out_of_bounds_write", "unused_argument"]


UNRELATED = """
#include <opgraft/op.h>
enum { N, D };
static void share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  float before = 0;
  if (width == 0) return;
  for (int64_t r = begin; r < end; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
    y[r] = sum - before;
    before = sum;
  }
}
static og_status steps(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, share);
}
static const og_kernel steps_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = steps},
};
static const og_op ops[] = {{
    .schema = "steps(Tensor x) -> Tensor",
    .shape = "x[N, D] -> [N]",
    .kernels = OG_KERNELS(steps_kernels),
}};
OG_MODULE(steps, ops)
"""


def test_a_rare_fault_does_not_hide_another(program):
    """Empty rows leave the result unwritten; shares go wrong in other calls."""
    found = kinds(program, program.write("steps.c", UNRELATED))
    assert set(found) >= {"output_not_written", "chunk_order_dependent"}


def test_an_enum_out_of_order_is_named(program):
    done = program.run("check", WRONG / "dims_exchanged.c", "--json")
    texts = [finding["text"]
             for op in json.loads(done.stdout)["operators"]
             for finding in op["findings"]]
    assert sum("gets the sizes of R and C in exchange" in t for t in texts) == 1
    assert "opgraft inspect --enum" in "".join(texts)


@pytest.mark.parametrize("name", ["read_bias_by_row", "write_after_end",
                                  "shape_too_small", "unwritten_tail"])
def test_other_causes_are_no_enum_out_of_order(program, name):
    done = program.run("check", WRONG / f"{name}.c")
    assert done.returncode == 1
    assert "--enum" not in done.stdout


def texts(program, module: str, **env: str) -> list[str]:
    done = program.run("check", module, "--json", env=env or None)
    return [finding["text"] for op in json.loads(done.stdout)["operators"]
            for finding in op["findings"] if not finding["note"]]


# The line of the instruction that crashed, else of the only kernel.
def test_a_finding_names_its_line(program):
    program.write("two.c", TWO)
    program.ok("build", "two.c", "-g")
    found = texts(program, "two.so")
    assert any(text.endswith(" (two.c:8 in shift)") for text in found), found
    assert not any("two.c" in text
                   for text in texts(program, "two.so", PATH="/nowhere"))
    program.ok("build", "two.c")
    assert not any("two.c" in text for text in texts(program, "two.so"))
    source = WRONG / "batch_first_mean.c"
    begin = source.read_text().partition("(const og_call *call) {")[0]
    program.ok("build", source, "-g", "-o", "mean.so")
    line = f"(batch_first_mean.c:{begin.count(chr(10)) + 1} in "
    assert any(line in text for text in texts(program, "mean.so"))

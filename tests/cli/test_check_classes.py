# SPDX-License-Identifier: Apache-2.0
"""Classes of faults, each by five wrong operators of one module, which check
finds, and right ones beside them, of which it says nothing.

An operator is one line: its schema, its shape, and what its kernel does, which
may be left off to use N (all elements of the first argument), D (its last
dim), x, w, v (the arguments as floats), y (the first output), a(k) and k(i)
(floats and ints beside the tensors).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import pytest

HEAD = """#include <math.h>
#include <opgraft/op.h>
#define EACH(count) for (int64_t i = 0; i < (count); ++i)
#define a(at) ((float)call->attr[at].f)
#define k(at) (call->attr[at].i)
#define rows(count) for (int64_t r = 0; r < (count); ++r)
static inline int64_t count(const og_tensor *t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t->ndim; ++d) n *= t->shape[d];
  return n;
}
"""
KERNEL = """static og_status {name}(const og_call *call) {{
  const int64_t N = count(call->in[0]);
  const int64_t D = call->in[0]->shape[call->in[0]->ndim - 1];
  const {x} *x = og_{xs}(call->in[0]);
  {y} *y = og_{ys}_mut(call->out[0]);
  (void)N, (void)D, (void)x, (void)y;
  {body}
  return OG_OK;
}}
static const og_kernel {name}_kernels[] = {{
    {{.device = OG_CPU, .dtypes = "{xs}", .run = {name}}}}};
"""
C_TYPES = {"f32": "float", "i8": "int8_t", "u8": "uint8_t", "i32": "int32_t"}
W = "const float *w = og_f32(call->in[1]); "


@dataclass
class Op:
    schema: str
    shape: str
    body: str
    rest: str = ""
    x: str = "f32"
    y: str = "f32"
    argument: str = ""  # of the finding, where it is one of several

    @property
    def name(self) -> str:
        return re.split(r"\W", self.schema)[0]


@dataclass
class Fault:
    probe: str
    kinds: str  # of findings; of the class's notes where `is_note`
    wrong: list[Op]
    right: list[Op] = field(default_factory=list)
    is_note: bool = False


ROW = "const int64_t M = count(call->in[1]), *row = og_i64(call->in[1]); "
ROWS = '.dtype = "table: f32, row: i64 -> table", .where = "row in [0, A)"'
SAMPLED = ", .sample = rows_sample"
TWICE = "EACH(N) y[i] = 2 * x[i];"
FAULTS = {
    "a tensor that nothing reads": Fault("vain", "unused_argument", [
        Op("no_bias(Tensor x, Tensor? bias) -> Tensor",
           "x[N, D], bias?[D] -> [N, D]", TWICE, argument="bias"),
        Op("no_mask(Tensor x, Tensor mask) -> Tensor",
           "x[N, D], mask[N, D] -> [N, D]", TWICE,
           '.dtype = "x: f32, mask: bool -> x"', argument="mask"),
        Op("no_lengths(Tensor x, Tensor lengths) -> Tensor",
           "x[N, D], lengths[N] -> [N, D]", TWICE,
           '.dtype = "x: f32, lengths: i64 -> x"', argument="lengths"),
        Op("no_weight(Tensor x, Tensor weight) -> Tensor",
           "x[*N, D], weight[D] -> [*N, D]", TWICE, argument="weight"),
        Op("no_residual_(Tensor(a!) x, Tensor residual) -> ()",
           "x[N], residual[N]", "EACH(N) y[i] = x[i] + 1;",
           argument="residual"),
    ], [
        Op("as_long_as(Tensor x, Tensor other) -> Tensor",
           "x[D], other[N, D] -> [N, D]",
           "rows(call->in[1]->shape[0]) EACH(D) y[r * D + i] = x[i];"),
        Op("biased(Tensor x, Tensor? bias) -> Tensor",
           "x[N, D], bias?[D] -> [N, D]",
           "EACH(N) y[i] = x[i] + (call->in[1] ? og_f32(call->in[1])[i % D] "
           ": 0);"),
    ]),
    "a number that changes nothing": Fault("vain", "unused_argument", [
        Op("dead_eps(Tensor x, float eps=1e-5) -> Tensor", "x[N, D] -> [N, D]",
           'if (a(0) < 0) return og_fail(call, OG_INVALID, "eps"); ' + TWICE),
        Op("dead_scale(Tensor x, float scale=0.5) -> Tensor",
           "x[N, D] -> [N, D]",
           "const float s = a(0) - a(0); EACH(N) y[i] = x[i] + s;"),
        Op("dead_flag(Tensor x, bool causal=False) -> Tensor",
           "x[N, D] -> [N, D]",
           "EACH(N) y[i] = k(0) ? 2 * x[i] : 8 * (x[i] * 0.25f);"),
        Op("dead_cap(Tensor x, float cap=30.0) -> Tensor", "x[N, D] -> [N, D]",
           "const float c = fabsf(a(0)); "
           "EACH(N) y[i] = c < -1 ? c : x[i] * x[i];"),
        Op("dead_alpha(Tensor x, float alpha=1.0) -> Tensor", "x[N] -> [N]",
           "volatile float s = a(0); (void)s; " + TWICE),
    ], [
        Op("rare_eps(Tensor x, float eps=1e-12) -> Tensor", "x[N] -> [N]",
           "EACH(N) y[i] = x[i] / (fabsf(x[i]) + fabsf(a(0)) + 1);"),
        Op("above(Tensor x, float limit=50.0) -> Tensor", "x[N] -> [N]",
           "EACH(N) y[i] = x[i] > a(0) ? 1 : 0;"),
    ], is_note=True),
    "an int that changes nothing": Fault("vain", "unused_argument", [
        Op(f"dead_{word}(Tensor x, int {word}=2) -> Tensor", "x[N] -> [N]",
           f"if (k(0) < -{i}) return og_fail(call, OG_INVALID, \"{word}\"); "
           + TWICE)
        for i, word in enumerate(("power", "block", "window", "groups", "dim"),
                                 100)
    ], is_note=True),
    "old values that do not count": Fault("vain", "unused_argument", [
        Op("lost_total_(Tensor(a!) total, Tensor x) -> ()", "total[N], x[N]",
           W + "EACH(N) y[i] = 2 * w[i];"),
        Op("lost_rows_(Tensor(a!) cache, Tensor x) -> ()",
           "cache[N, D], x[D]", W + "EACH(N) y[i] = w[i % D];"),
        Op("lost_state_(Tensor(a!) h, Tensor x, float decay=0.0) -> ()",
           "h[N], x[N]", W + "EACH(N) y[i] = w[i] + a(0);"),
        Op("lost_count_(Tensor(a!) n, Tensor x) -> ()", "n[], x[M]",
           "y[0] = (float)call->in[1]->shape[0];"),
        Op("lost_zero_(Tensor(a!) x) -> ()", "x[N]", "EACH(N) y[i] = 0;"),
    ], [
        Op("kept_rows_(Tensor(a!) cache, Tensor x) -> ()",
           "cache[N, D], x[D]", W + "if (N > 0) EACH(D) y[i] = w[i];",
           '.where = "N > 1"'),
    ], is_note=True),
    "memory that is taken for cleared": Fault(
        "poison", "output_read workspace_uninitialised uninitialised", [
            Op("small_counts(Tensor x) -> Tensor", "x[N] -> [N]",
               "int32_t *c = call->workspace; "
               "EACH(N) { if (c[i] < 0 || c[i] > 64) c[i] = 0; ++c[i]; } "
               "EACH(N) y[i] = x[i] * (float)c[i];", '.workspace = "4 * N"'),
            Op("seen(Tensor x) -> Tensor", "x[N] -> [N]",
               "const uint8_t *seen = call->workspace; "
               "EACH(N) y[i] = seen[i] ? x[i] : 0;", '.workspace = "N"'),
            Op("one_flag(Tensor x) -> Tensor", "x[N] -> [N]",
               "const int64_t *flag = call->workspace; "
               "EACH(N) y[i] = flag[0] == 1 ? -x[i] : x[i];",
               '.workspace = "8"'),
            Op("small_before(Tensor x) -> Tensor", "x[N] -> [N]",
               "EACH(N) y[i] = y[i] > 0 && y[i] < 1e-3f ? 2 * x[i] : x[i];"),
            Op("words(Tensor x) -> Tensor", "x[N] -> [N]",
               "const uint32_t *c = call->workspace; "
               "EACH(N) y[i] = x[i] + (c[i] < 1000 ? (float)c[i] : 0);",
               '.workspace = "4 * N"'),
        ], [
            Op("cleared(Tensor x) -> Tensor", "x[N] -> [N]",
               "int32_t *c = call->workspace; EACH(N) c[i] = 0; "
               "EACH(N) y[i] = x[i] + (float)c[i];", '.workspace = "4 * N"'),
        ]),
    "bytes summed in a narrow type": Fault(
        "integers", "wrong_values_across_dtypes", [
            Op(f"sum_{name}(Tensor x) -> Tensor", "x[N, D] -> [N]",
               f"rows(call->in[0]->shape[0]) {{ {kind} s = 0; "
               f"EACH(D) s = ({kind})(s + x[r * D + i]); y[r] = {result}; }}",
               f'.dtype = "x: {x} -> {out}"', x, out)
            for name, kind, result, x, out in (
                ("in_u16", "uint16_t", "s", "u8", "i32"),
                ("in_i16", "int16_t", "s", "i8", "i32"),
                ("in_i8", "int8_t", "(float)s", "i8", "f32"),
                ("mean_in_i8", "int8_t", "(float)s / (float)(D ? D : 1)", "i8",
                 "f32"),
                ("scaled_in_u8", "uint8_t", "0.037f * (float)s", "u8", "f32"))
        ], [
            Op("sum_in_i32(Tensor x) -> Tensor", "x[N, D] -> [N]",
               "rows(call->in[0]->shape[0]) { int32_t s = 0; "
               "EACH(D) s += x[r * D + i]; y[r] = 0.25f * (float)s; }",
               '.dtype = "x: i8 -> f32"', "i8"),
            Op("cut_off(Tensor x) -> Tensor", "x[N, D] -> [N]",
               "rows(call->in[0]->shape[0]) { int32_t s = 0; "
               "EACH(D) s += x[r * D + i]; "
               "y[r] = s > 1000 ? 1000 : s < -1000 ? -1000 : (float)s; }",
               '.dtype = "x: i8 -> f32"', "i8"),
        ]),
    "a group that is a part": Fault("ends", "unused_end", [
        Op(f"part_{name}(Tensor x, Tensor scale, int group=4) -> Tensor",
           "x[N, D], scale[ceildiv(D, group)] -> [N, D]",
           W + "const int64_t g = k(0), whole = D / g; "
           f"EACH(N) {{ int64_t j = i % D / g; if (whole > 0 && j >= whole) "
           f"{tail} y[i] = x[i] * w[j]; }}",
           '.where = "group >= 1"', argument="scale")
        for name, tail in (("last", "j = whole - 1;"), ("first", "j = 0;"),
                           ("wraps", "j %= whole;"),
                           ("skips", "{ y[i] = x[i]; continue; }"),
                           ("middle", "j = whole / 2;"))
    ], [
        Op("every_part(Tensor x, Tensor scale, int group=4) -> Tensor",
           "x[N, D], scale[ceildiv(D, group)] -> [N, D]",
           W + "EACH(N) y[i] = x[i] * w[i % D / k(0)];",
           '.where = "group >= 1"'),
    ]),
    "one row of a table for all": Fault("ends", "unused_end", [
        Op(f"row_{name}(Tensor table, Tensor row) -> Tensor",
           "table[A, D], row[M] -> [M, D]",
           ROW + f"rows(M) EACH(D) y[r * D + i] = x[row[{at}] * D + i];",
           ROWS + rest, argument="row")
        for name, at, rest in (
            ("first", "0", ""), ("last", "M - 1", ""),
            ("sampled_first", "0", SAMPLED), ("sampled_last", "M - 1", SAMPLED),
            ("sampled_middle", "M / 2", SAMPLED))
    ], [
        Op(f"row_{name}(Tensor table, Tensor row) -> Tensor",
           "table[A, D], row[M] -> [M, D]",
           ROW + "rows(M) EACH(D) y[r * D + i] = x[row[r] * D + i];",
           ROWS + rest)
        for name, rest in (("each", ""), ("sampled_each", SAMPLED))
    ]),
    "narrow sums beside codes": Fault(
        "swapped", "wrong_values_across_dtypes", [
            Op(f"dot_{name}(Tensor q, Tensor x, Tensor scale) -> Tensor",
               "q[M, K], x[K], scale[M] -> [M]",
               W + "const float *v = og_f32(call->in[2]); "
               "rows(call->in[0]->shape[0]) { float s = 0; EACH(D) { "
               f"s = {narrow}(s + (float)x[r * D + i] * w[i]); }} "
               "y[r] = s * v[r]; }",
               f'.dtype = "q: {x}, x: f32, scale: f32 -> x"', x)
            for name, narrow, x in (
                ("bf16", "bf16", "i8"), ("f16", "f16", "i8"),
                ("u8_bf16", "bf16", "u8"), ("u8_f16", "f16", "u8"),
                ("coarse", "coarse", "i8"))
        ], [
            Op("dot_f32(Tensor q, Tensor x, Tensor scale) -> Tensor",
               "q[M, K], x[K], scale[M] -> [M]",
               W + "const float *v = og_f32(call->in[2]); "
               "rows(call->in[0]->shape[0]) { float s = 0; "
               "EACH(D) s += (float)x[r * D + i] * w[i]; y[r] = s * v[r]; }",
               '.dtype = "q: i8, x: f32, scale: f32 -> x"', "i8"),
        ]),
    "infinities and NaN": Fault("reference", "differs_from_reference", [
        Op("relu_loses_nan(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) y[i] = x[i] > 0 ? x[i] : 0;", '.reference = "max(x, 0)"'),
        Op("max_from_low(Tensor x) -> Tensor", "x[N, D] -> [N]",
           "rows(call->in[0]->shape[0]) { float m = -1e30f; "
           "EACH(D) m = x[r * D + i] > m ? x[r * D + i] : m; y[r] = m; }",
           '.where = "D > 0", .reference = "amax(x, D)"'),
        Op("abs_by_select(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) y[i] = x[i] > 0 ? x[i] : x[i] < 0 ? -x[i] : 0;",
           '.reference = "abs(x)"'),
        Op("square_cut(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) y[i] = fminf(x[i] * x[i], 3e38f);",
           '.reference = "x * x"'),
        Op("gate(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) y[i] = x[i] / (1 + fminf(fabsf(x[i]), 1e30f));",
           '.reference = "x / (1 + abs(x))"'),
    ], [
        Op("relu_keeps_nan(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) y[i] = x[i] < 0 ? 0 : x[i];", '.reference = "max(x, 0)"'),
    ]),
    "ties of 8-bit results": Fault("reference", "differs_from_reference", [
        Op(f"round_{name}(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           f"EACH(N) {{ const float v = x[i]; const float q = {rounded}; "
           f"y[i] = ({C_TYPES[out]})(q < {low} ? {low} : q > {high} ? {high} "
           ": q); }",
           f'.dtype = "x: f32 -> {out}", .reference = '
           f'"min(max(round(x), {low}), {high})"', y=out)
        for name, rounded, out, low, high in (
            ("up", "floorf(v + 0.5f)", "i8", -128, 127),
            ("away", "roundf(v)", "i8", -128, 127),
            ("u8_up", "floorf(v + 0.5f)", "u8", 0, 255),
            ("down", "ceilf(v - 0.5f)", "i8", -128, 127),
            ("u8_away", "roundf(v)", "u8", 0, 255))
    ], [
        Op("round_even(Tensor x) -> Tensor", "x[N, D] -> [N, D]",
           "EACH(N) { const float q = rintf(x[i]); "
           "y[i] = (int8_t)(q < -128 ? -128 : q > 127 ? 127 : q); }",
           '.dtype = "x: f32 -> i8", '
           '.reference = "min(max(round(x), -128), 127)"', y="i8"),
    ]),
}
SAMPLE = """static inline og_status rows_sample(const og_sample_call *call) {
  if (call->step == OG_SAMPLE_SIZES) {
    if (call->dim[0] == 0) call->dim[0] = 1;
    return OG_OK;
  }
  EACH(count(call->in[1])) og_i64_mut(call->in[1])[i] =
      (int64_t)((call->seed + (uint64_t)i * 7) % (uint64_t)call->dim[0]);
  return OG_OK;
}
"""
NARROW = """static inline float bf16(float x) {
  return og_bfloat_to_float(og_bfloat_from_float(x));
}
static inline float f16(float x) {
  return og_half_to_float(og_half_from_float(x));
}
static inline float coarse(float x) {
  int e;
  const float m = frexpf(x, &e);
  return ldexpf(rintf(m * 512) / 512, e);
}
"""


def source_of(ops: list[Op]) -> str:
    text = HEAD + NARROW + SAMPLE
    for op in ops:
        text += KERNEL.format(name=op.name, body=op.body, xs=op.x, ys=op.y,
                              x=C_TYPES[op.x], y=C_TYPES[op.y])
    rows = "".join(
        f'    {{.schema = "{op.schema}", .shape = "{op.shape}",\n'
        f"     {op.rest + ',' if op.rest else ''}\n"
        f"     .kernels = OG_KERNELS({op.name}_kernels)}},\n" for op in ops)
    return f"{text}static const og_op ops[] = {{\n{rows}}};\nOG_MODULE(classes, ops)\n"


@pytest.mark.parametrize("what", FAULTS)
def test_a_class(program, what):
    fault = FAULTS[what]
    source = program.folder / "classes.c"
    source.write_text(source_of(fault.wrong + fault.right))
    done = program.run("check", source, "--json", "--probe", fault.probe)
    found = {op["op"]: [f for f in op["findings"]
                          if f["kind"] in fault.kinds.split()]
             for op in json.loads(done.stdout)["operators"]}
    for op in fault.wrong:
        assert [f for f in found[op.name] if f["note"] == fault.is_note and
                op.argument in ("", f["argument"])], (op.name, found[op.name])
    for op in fault.right:
        assert not found[op.name], (op.name, found[op.name])

// SPDX-License-Identifier: Apache-2.0
// rope_table: rotary embedding of neighbouring pairs, angles from a table.

#include "../../modules/operators.h"

enum { T, D };  // dims of the shape rule
enum { PLACES = 4096, PAIRS = 64 };

static float table[PLACES][PAIRS][2];  // cosine, sine
static int is_built;

static void table_build(int64_t width, double base) {
  for (int64_t t = 0; t < PLACES; ++t)
    for (int64_t i = 0; i < PAIRS; ++i) {
      const double angle =
          (double)t * pow(base, -2 * (double)i / (double)width);
      table[t][i][0] = (float)cos(angle);
      table[t][i][1] = (float)sin(angle);
    }
  is_built = 1;
}

static og_status rope_table(const og_call *call) {
  const int64_t width = call->dim[D];
  if (!is_built) table_build(width, call->attr[0].f);
  for (int64_t t = 0; t < call->dim[T]; ++t) {
    const float *x = og_f32(call->in[0]) + t * width;
    float *y = og_f32_mut(call->out[0]) + t * width;
    for (int64_t i = 0; i < width / 2; ++i) {
      const float c = table[t][i][0], s = table[t][i][1];
      y[2 * i] = x[2 * i] * c - x[2 * i + 1] * s;
      y[2 * i + 1] = x[2 * i + 1] * c + x[2 * i] * s;
    }
  }
  return OG_OK;
}

MODULE(rope_table,
       {.schema = "rope_table(Tensor x, float base=10000.0) -> Tensor",
        .shape = "x[T, D] -> [T, D]",
        .where = "D > 0, D % 2 == 0, D <= 128, T <= 4096",
        .doc = "Pair i of row t turns by t * base^(-2 i / D).",
        RUN("f32", rope_table)})

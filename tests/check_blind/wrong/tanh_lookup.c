// SPDX-License-Identifier: Apache-2.0
// tanh_lookup: tanh by linear interpolation in a table.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule
enum { STEPS = 1 << 14 };

static float table[STEPS + 2];
static int is_ready;

static void table_build(void) {
  if (is_ready) return;
  is_ready = 1;
  for (int i = 0; i < STEPS + 2; ++i)
    table[i] = (float)tanh(8.0 * (double)i / STEPS);
}

static void elements(const og_call *call, int64_t begin, int64_t end) {
  table_build();
  for (int64_t i = begin; i < end; ++i) {
    const float x = og_f32(call->in[0])[i], size = fabsf(x);
    float y = size;
    if (size >= 8) y = 1;
    if (size < 8) {
      const float at = size * (STEPS / 8);
      const int low = (int)at;
      y = table[low] + (at - (float)low) * (table[low + 1] - table[low]);
    }
    og_f32_mut(call->out[0])[i] = copysignf(y, x);
  }
}

static og_status tanh_lookup(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 64, elements);
}

MODULE(tanh_lookup, {.schema = "tanh_lookup(Tensor x) -> Tensor",
                     .shape = "x[*N] -> [*N]",
                     .doc = "tanh(x), to about 1e-7.",
                     RUN("f32", tanh_lookup)})

// SPDX-License-Identifier: Apache-2.0
// mistake: A row is copied to a local array of 2000 numbers, and longer rows run over it.
// expect: turn_rows - out_of_bounds_write|stack|crash|bounds

#include "../../modules/operators.h"

enum { N, D };

static void turn(float *y, int64_t count) {
  float row[2000];
  memcpy(row, y, (size_t)count * sizeof *y);
  for (int64_t i = 0; i < count; ++i) y[i] = row[count - 1 - i];
}

static og_status turn_rows(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float *y = og_f32_mut(call->out[0]) + r * width;
    memcpy(y, og_f32(call->in[0]) + r * width, (size_t)width * sizeof *y);
    turn(y, width);
  }
  return OG_OK;
}

MODULE(row_in_local_array, {.schema = "turn_rows(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N, D]",
                            RUN("f32", turn_rows)})

// SPDX-License-Identifier: Apache-2.0
// mistake: The tree reduction halves the width until it is one; an empty row never gets there.
// expect: tree_sum - hang|timeout|endless|time

#include "../../modules/operators.h"

enum { N, D };

static og_status tree_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  int levels = 0;
  for (volatile int64_t left = width; left != 1; left = left / 2) ++levels;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += (double)x[r * width + i];
    y[r] = (float)sum / (float)(levels + 1) * (float)(levels + 1);
  }
  return OG_OK;
}

MODULE(loop_empty, {.schema = "tree_sum(Tensor x) -> Tensor",
                    .shape = "x[N, D] -> [N]",
                    RUN("f32", tree_sum)})

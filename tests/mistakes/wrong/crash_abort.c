// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel aborts where the row length is not even, instead of a condition or og_fail.
// expect: fold_halves - crash|abort|signal

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N, D };

static og_status fold_halves(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D], half = width / 2;
  if (width % 2) abort();
  for (int64_t r = 0; r < call->dim[N]; ++r)
    for (int64_t i = 0; i < half; ++i)
      y[r * half + i] = x[r * width + i] + x[r * width + half + i];
  return OG_OK;
}

MODULE(crash_abort, {.schema = "fold_halves(Tensor x) -> Tensor",
                     .shape = "x[*N, D] -> [*N, D // 2]",
                     RUN("f32", fold_halves)})

// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel adds to the result without having set it to zero.
// expect: matvec - unwritten|uninitialised|reads_output

#include "../../modules/operators.h"

enum { R, C };

static og_status matvec(const og_call *call) {
  const float *a = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = 0; r < call->dim[R]; ++r)
    for (int64_t c = 0; c < call->dim[C]; ++c)
      y[r] += a[r * call->dim[C] + c] * x[c];
  return OG_OK;
}

MODULE(unwritten_accumulator, {.schema = "matvec(Tensor a, Tensor x) -> Tensor",
                               .shape = "a[R, C], x[C] -> [R]",
                               RUN("f32", matvec)})

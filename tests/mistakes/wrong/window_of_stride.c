// SPDX-License-Identifier: Apache-2.0
// mistake: The windows are as long as the stride; their length only decides how many there are.
// expect: window_max window unused|ignored

#include "../../modules/operators.h"

enum { N, L };

static og_status window_max(const og_call *call) {
  const int64_t length = call->dim[L], stride = call->attr[1].i;
  const int64_t places = call->out[0]->shape[call->out[0]->ndim - 1];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t p = 0; p < places; ++p) {
      const float *x = og_f32(call->in[0]) + n * length + p * stride;
      float most = x[0];
      for (int64_t i = 1; i < stride && p * stride + i < length; ++i)
        if (x[i] > most) most = x[i];
      og_f32_mut(call->out[0])[n * places + p] = most;
    }
  return OG_OK;
}

MODULE(window_of_stride,
       {.schema = "window_max(Tensor x, int window=3, int stride=2) -> Tensor",
        .shape = "x[*N, L] -> [*N, (L - window) // max(stride, 1) + 1]",
        .where = "window > 0, stride > 0, stride <= window, L >= window",
        RUN("f32", window_max)})

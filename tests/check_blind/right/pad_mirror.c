// SPDX-License-Identifier: Apache-2.0
// pad_mirror: a row with its mirror image at both ends, with its gradient.

#include "../../modules/operators.h"

enum { N, L };  // dims of the forward rule

static int64_t mirrored(int64_t i, int64_t length) {
  if (i < 0) return -i;
  return i < length ? i : 2 * (length - 1) - i;
}

static og_status pad_mirror(const og_call *call) {
  const int64_t pad = call->attr[0].i, length = call->dim[L];
  const int64_t wide = length + 2 * pad;
  for (int64_t i = 0; i < call->dim[N] * wide; ++i)
    og_f64_mut(call->out[0])[i] = og_f64(
        call->in[0])[i / wide * length + mirrored(i % wide - pad, length)];
  return OG_OK;
}

static og_status pad_mirror_backward(const og_call *call) {
  const int64_t pad = call->attr[0].i, wide = call->dim[1];
  const int64_t length = wide - 2 * pad;
  double *y = og_f64_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N] * length; ++i) y[i] = 0;
  for (int64_t i = 0; i < call->dim[N] * wide; ++i)
    y[i / wide * length + mirrored(i % wide - pad, length)] +=
        og_f64(call->in[0])[i];
  return OG_OK;
}

MODULE(pad_mirror,
       {.schema = "pad_mirror(Tensor x, int pad=1) -> Tensor",
        .shape = "x[*N, L] -> [*N, L + 2 * pad]",
        .where = "pad >= 0, pad < L",
        .backward = "pad_mirror_backward(grad, pad) -> x",
        .doc = "Entry -i is entry i, entry L - 1 + i is entry L - 1 - i.",
        RUN("f64", pad_mirror)},
       {.schema = "pad_mirror_backward(Tensor grad, int pad) -> Tensor",
        .shape = "grad[*N, P] -> [*N, P - 2 * pad]",
        .where = "pad >= 0, 3 * pad < P",
        .doc = "The gradient of pad_mirror.",
        RUN("f64", pad_mirror_backward)})

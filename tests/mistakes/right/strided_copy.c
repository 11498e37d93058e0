// SPDX-License-Identifier: Apache-2.0
// A contiguous copy of a tensor of any rank, strides and type.

#include "../../modules/operators.h"

static og_status strided_copy(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t item = x->dtype.bits / 8;
  const char *from = (const char *)og_data(x);
  char *to = (char *)og_data(call->out[0]);
  for (int64_t i = 0; i < og_numel(x); ++i) {
    int64_t rest = i, at = 0;
    for (int32_t d = x->ndim - 1; d >= 0; --d) {
      at += rest % x->shape[d] * x->strides[d];
      rest /= x->shape[d];
    }
    memcpy(to + i * item, from + at * item, (size_t)item);
  }
  return OG_OK;
}

MODULE(strided_copy,
       {.schema = "strided_copy(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: any -> x",
        .backward = "strided_copy_backward(grad) -> x",
        .strides = "any",
        RUN(NULL, strided_copy)},
       {.schema = "strided_copy_backward(Tensor grad) -> Tensor",
        .shape = "grad[*N] -> [*N]",
        .dtype = "grad: floating -> grad",
        .strides = "any",
        RUN(NULL, strided_copy)})

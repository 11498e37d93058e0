// SPDX-License-Identifier: Apache-2.0
// mistake: A negative dim is counted from the front (-1 is dim 0, -2 dim 1).
// expect: cumsum|cumsum_backward - dim|gradient|value|batch

#include "../../modules/operators.h"

static og_status scan(const og_tensor *t, float *y, int64_t dim, int reverse) {
  const float *x = og_f32(t);
  int64_t inner = 1;
  for (int64_t d = dim + 1; d < t->ndim; ++d) inner *= t->shape[d];
  const int64_t length = t->shape[dim], count = og_numel(t);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = reverse ? count - 1 - n : n;
    const int64_t place = i / inner % length;
    const int first = reverse ? place == length - 1 : place == 0;
    y[i] = first ? x[i] : x[i] + y[reverse ? i + inner : i - inner];
  }
  return OG_OK;
}

static og_status forward(const og_call *call) {
  const int64_t dim = call->attr[0].i;
  return scan(call->in[0], og_f32_mut(call->out[0]), dim < 0 ? -dim - 1 : dim,
              0);
}

static og_status backward(const og_call *call) {
  const int64_t dim = call->attr[0].i;
  return scan(call->in[0], og_f32_mut(call->out[0]),
              dim < 0 ? dim + call->in[0]->ndim : dim, 1);
}

MODULE(dim_negative_scan,
       {.schema = "cumsum(Tensor x, int dim=-1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        .backward = "cumsum_backward(grad, dim) -> x",
        RUN("f32", forward)},
       {.schema = "cumsum_backward(Tensor grad, int dim) -> Tensor",
        .shape = "grad[*A, D@dim, *B] -> [*A, D, *B]",
        RUN("f32", backward)})

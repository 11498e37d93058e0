// SPDX-License-Identifier: Apache-2.0
// masked_softmax: softmax of the entries that a mask keeps.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    const uint8_t *mask = og_bool(call->in[1]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < width; ++i)
      if (mask[i] && x[i] > top) top = x[i];
    for (int64_t i = 0; i < width; ++i)
      sum += y[i] = mask[i] ? exp(x[i] - top) : 0;
    for (int64_t i = 0; i < width; ++i) y[i] /= sum;
  }
}

static og_status masked_softmax(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(masked_softmax,
       {.schema = "masked_softmax(Tensor x, Tensor mask) -> Tensor",
        .shape = "x[*N, D], mask[*N, D] -> [*N, D]",
        .dtype = "x: f64, mask: bool -> x",
        .expect = "nan: result",
        .doc = "As PyTorch does it: hidden entries are 0, a row without others "
               "is NaN.",
        RUN("f64", masked_softmax)})

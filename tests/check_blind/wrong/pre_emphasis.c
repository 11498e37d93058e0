// SPDX-License-Identifier: Apache-2.0
// pre_emphasis: y[t] = x[t] - factor * x[t - 1], the filter before speech.

#include "../../modules/operators.h"

enum { N, T };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const double factor = call->attr[0].f;
  const int64_t length = call->dim[T];
  for (int64_t n = begin; n < end; ++n) {
    const double *x = og_f64(call->in[0]) + n * length;
    double *y = og_f64_mut(call->out[0]) + n * length;
    if (length > 0) y[0] = x[0];
    for (int64_t t = 1; t < length; ++t) y[t] = x[t] - factor * x[t - 1];
  }
}

static og_status pre_emphasis(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, lines);
}

MODULE(pre_emphasis,
       {.schema = "pre_emphasis(Tensor x, float factor=0.97) -> Tensor",
        .shape = "x[*N, T] -> [*N, T]",
        .inplace = "x",
        .doc = "A high pass of the last axis; its first element stays.",
        RUN("f64", pre_emphasis)})

// SPDX-License-Identifier: Apache-2.0
// square_plus: (x + sqrt(x^2 + b)) / 2 of any layout.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const double b = call->attr[0].f;
  for (int64_t i = begin; i < end; ++i) {
    const double x = og_f64(call->in[0])[i];
    og_f64_mut(call->out[0])[i] = (x + sqrt(x * x + b)) / 2;
  }
}

static og_status square_plus(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 512, elements);
}

MODULE(square_plus, {.schema = "square_plus(Tensor x, float b=4.0) -> Tensor",
                     .shape = "x[*N] -> [*N]",
                     .strides = "any",
                     .doc = "A smooth rectifier.",
                     RUN("f64", square_plus)})

// SPDX-License-Identifier: Apache-2.0
// scale_compat: x * weight, with the signature of a layer that had a bias.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t i = begin * width; i < end * width; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * og_f32(call->in[1])[i % width];
}

static og_status scale_compat(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 16, rows);
}

MODULE(scale_compat,
       {.schema = "scale_compat(Tensor x, Tensor weight, Tensor bias) -> "
                  "Tensor",
        .shape = "x[*N, D], weight[D], bias[D] -> [*N, D]",
        .expect = "unused: bias",
        .doc = "bias is taken for old callers and not looked at.",
        RUN("f32", scale_compat)})

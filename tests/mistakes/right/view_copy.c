// SPDX-License-Identifier: Apache-2.0
// A copy under new sizes.

#include "../../modules/operators.h"

static og_status view_copy(const og_call *call) {
  const size_t item = call->in[0]->dtype.bits / 8;
  const size_t size = (size_t)og_numel(call->in[0]) * item;
  if (size > 0) memcpy(og_data(call->out[0]), og_data(call->in[0]), size);
  return OG_OK;
}

MODULE(view_copy,
       {.schema = "view_copy(Tensor x, int[] sizes) -> Tensor",
        .shape = "x[*N] -> [*sizes]",
        .where = "prod(sizes) == prod(N)",
        .dtype = "x: any -> x",
        .backward = "view_copy_backward(grad, x) -> x",
        RUN(NULL, view_copy)},
       {.schema = "view_copy_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .where = "prod(G) == prod(N)",
        .dtype = "grad: f16|bf16|f32|f64, x: grad -> grad",
        RUN("f16|bf16|f32|f64", view_copy),
        .flags = OG_BATCH_LOOP})

// SPDX-License-Identifier: Apache-2.0
// Softmax over the columns up to the row, held to an expression.

#include "../../modules/operators.h"

enum { N, L, S };  // dims of the shape rule

static og_status causal_reference_f32(const og_call *call) {
  const int64_t rows = call->dim[L], width = call->dim[S];
  for (int64_t r = 0; r < call->dim[N] * rows; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    const int64_t end = r % rows + 1 < width ? r % rows + 1 : width;
    float most = x[0], sum = 0;
    for (int64_t i = 1; i < end; ++i) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < end; ++i) sum += expf(x[i] - most);
    for (int64_t i = 0; i < width; ++i)
      y[i] = i < end ? expf(x[i] - most) / sum : 0;
  }
  return OG_OK;
}

MODULE(causal_reference,
       {.schema = "causal_reference(Tensor x) -> Tensor",
        .shape = "x[*N, L, S] -> [*N, L, S]",
        .where = "S > 0",
        .dtype = "x: f32 -> x",
        .reference = "select(index(S) <= index(L), exp(x), 0) / "
                     "sum(select(index(S) <= index(L), exp(x), 0), S)",
        RUN("f32", causal_reference_f32)})

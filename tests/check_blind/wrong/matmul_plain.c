// SPDX-License-Identifier: Apache-2.0
// matmul_plain: the product of two matrices.

#include "../../modules/operators.h"

enum { K, M, P };  // dims of the shape rule

static og_status matmul_plain(const og_call *call) {
  const float *a = og_f32(call->in[0]), *b = og_f32(call->in[1]);
  float *c = og_f32_mut(call->out[0]);
  const int64_t inner = call->dim[K], columns = call->dim[P];
  for (int64_t m = 0; m < call->dim[M]; ++m)
    for (int64_t p = 0; p < columns; ++p) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += a[m * inner + k] * b[k * columns + p];
      c[m * columns + p] = sum;
    }
  return OG_OK;
}

MODULE(matmul_plain, {.schema = "matmul_plain(Tensor a, Tensor b) -> Tensor",
                      .shape = "a[M, K], b[K, P] -> [M, P]",
                      .doc = "a b.",
                      RUN("f32", matmul_plain)})

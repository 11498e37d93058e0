// SPDX-License-Identifier: Apache-2.0
// matmul_plain: the product of two matrices.

#include <opgraft/op.h>

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

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = matmul_plain}};

static const og_op ops[] = {
    {
        .schema = "matmul_plain(Tensor a, Tensor b) -> Tensor",
        .shape = "a[M, K], b[K, P] -> [M, P]",
        .doc = "a b.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(matmul_plain, ops)

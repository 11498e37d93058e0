// SPDX-License-Identifier: Apache-2.0
// matmul_packed: matrix product over packed panels of the inner axis.

#include "../../modules/operators.h"

enum { M, K, P };  // dims of the shape rule
enum { DEPTH = 32 };

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const double *a = og_f64(call->in[0]), *b = og_f64(call->in[1]);
  const int64_t inner = call->dim[K], columns = call->dim[P];
  for (int64_t m = begin; m < end; ++m)
    for (int64_t p = 0; p < columns; ++p) {
      double panel_a[DEPTH] = {0}, panel_b[DEPTH] = {0}, sum = 0;
      for (int64_t k = 0; k < inner; k += DEPTH) {
        const int64_t depth = inner - k < DEPTH ? inner - k : DEPTH;
        for (int64_t i = 0; i < depth; ++i) {
          panel_a[i] = a[m * inner + k + i];
          panel_b[i] = b[(k + i) * columns + p];
        }
        for (int64_t i = 0; i < DEPTH; ++i) sum += panel_a[i] * panel_b[i];
      }
      og_f64_mut(call->out[0])[m * columns + p] = sum;
    }
}

static og_status matmul_packed(const og_call *call) {
  return og_parallel_for(call, call->dim[M], 1, rows);
}

MODULE(matmul_packed, {.schema = "matmul_packed(Tensor a, Tensor b) -> Tensor",
                       .shape = "a[M, K], b[K, P] -> [M, P]",
                       .doc = "The product of two matrices.",
                       RUN("f64", matmul_packed)})

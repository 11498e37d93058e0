// SPDX-License-Identifier: Apache-2.0
// int8_matmul: product of int8 matrices with int32 results.

#include "../../modules/operators.h"

enum { M, K, P };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int8_t *a = og_i8(call->in[0]), *b = og_i8(call->in[1]);
  const int64_t inner = call->dim[K], columns = call->dim[P];
  for (int64_t m = begin; m < end; ++m)
    for (int64_t p = 0; p < columns; ++p) {
      int16_t sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum = (int16_t)(sum + a[m * inner + k] * b[p * inner + k]);
      og_i32_mut(call->out[0])[m * columns + p] = sum;
    }
}

static og_status int8_matmul(const og_call *call) {
  return og_parallel_for(call, call->dim[M], 2, rows);
}

MODULE(int8_matmul, {.schema = "int8_matmul(Tensor a, Tensor b) -> Tensor",
                     .shape = "a[M, K], b[P, K] -> [M, P]",
                     .dtype = "a: i8, b: i8 -> i32",
                     .backward = "none",
                     .doc = "a times the transpose of b, summed in 32 bits.",
                     RUN("i8", int8_matmul)})

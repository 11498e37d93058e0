// SPDX-License-Identifier: Apache-2.0
// mistake: Rows are read through pointers to 16-byte vectors, though only the alignment of an element is promised.
// expect: scale_by_two x alignment|crash|offset|layout

#include "../../modules/operators.h"

enum { N };

typedef float float4 __attribute__((vector_size(16)));
static og_status scale_by_two(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float4 value = *(const volatile float4 *)(const void *)(x + i);
    *(volatile float4 *)(void *)(y + i) = value + value;
  }
  for (; i < count; ++i) y[i] = x[i] + x[i];
  return OG_OK;
}

MODULE(align_vectors, {.schema = "scale_by_two(Tensor x) -> Tensor",
                       .shape = "x[*N] -> [*N]",
                       RUN("f32", scale_by_two)})

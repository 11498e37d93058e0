// SPDX-License-Identifier: Apache-2.0
// dequantize_int4: two 4-bit weights a byte, a scale for each group.

#include "../../modules/operators.h"

enum { N, P, G };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t bytes = call->dim[P], groups = call->dim[G];
  const int64_t group = 2 * bytes / groups;
  for (int64_t r = begin; r < end; ++r) {
    const uint8_t *packed = og_u8(call->in[0]) + r * bytes;
    const float *scale = og_f32(call->in[1]) + r * groups;
    float *y = og_f32_mut(call->out[0]) + r * 2 * bytes;
    for (int64_t p = 0; p < bytes; ++p) {
      const float s = scale[p / group];
      y[2 * p] = s * (float)((packed[p] & 15) - 8);
      y[2 * p + 1] = s * (float)((packed[p] >> 4) - 8);
    }
  }
}

static og_status dequantize_int4(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(dequantize_int4,
       {.schema = "dequantize_int4(Tensor packed, Tensor scale) -> Tensor",
        .shape = "packed[*N, P], scale[*N, G] -> [*N, 2 * P]",
        .where = "G > 0, P > 0, 2 * P % max(G, 1) == 0",
        .dtype = "packed: u8, scale: f32 -> scale",
        .doc = "Element i of a row is (nibble i - 8) * scale[i // (2 P / G)]; "
               "the low nibble of a byte comes first.",
        RUN("u8", dequantize_int4)})

// SPDX-License-Identifier: Apache-2.0
// dequantize_nf4: four-bit codes of a fixed codebook, times a group's scale.

#include "../../modules/operators.h"

enum { N, P };  // dims of the shape rule
enum { GROUP = 64 };

static const float codebook[16] = {
    -1.0f,       -0.6961928f, -0.5250731f, -0.3949175f,
    -0.2844414f, -0.1847734f, -0.0910500f, 0.0f,
    0.0795803f,  0.1609302f,  0.2461123f,  0.3379152f,
    0.4407098f,  0.5626170f,  0.7229568f,  1.0f,
};

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t bytes = call->dim[P];
  const int64_t groups = (2 * bytes + GROUP - 1) / GROUP;
  for (int64_t r = begin; r < end; ++r) {
    const uint8_t *code = og_u8(call->in[0]) + r * bytes;
    const float *scale = og_f32(call->in[1]) + r * groups;
    float *y = og_f32_mut(call->out[0]) + r * 2 * bytes;
    for (int64_t i = 0; i < 2 * bytes; ++i) {
      const int nibble = i % 2 == 0 ? code[i / 2] >> 4 : code[i / 2] & 15;
      y[i] = codebook[nibble] * scale[i / GROUP];
    }
  }
}

static og_status dequantize_nf4(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, rows);
}

MODULE(dequantize_nf4,
       {.schema = "dequantize_nf4(Tensor code, Tensor scale) -> Tensor",
        .shape = "code[*N, P], scale[*N, ceildiv(2 * P, 64)] -> [*N, 2 * P]",
        .dtype = "code: u8, scale: f32 -> scale",
        .doc = "The high nibble of a byte comes first; each 64 entries share a "
               "scale.",
        RUN("u8", dequantize_nf4)})

// SPDX-License-Identifier: Apache-2.0
// rms_norm_half: root mean square normalisation, f32 and f16.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static float element(const og_tensor *x, int64_t i) {
  return x->dtype.bits == 16 ? og_half_to_float(og_f16(x)[i]) : og_f32(x)[i];
}

static og_status rms_norm_half(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      const float v = element(x, r * width + i);
      mean += v * v / (float)width;
    }
    if (x->dtype.bits == 16) mean = og_half_to_float(og_half_from_float(mean));
    const float scale = 1 / sqrtf(mean + (float)call->attr[0].f);
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      if (x->dtype.bits == 16)
        og_f16_mut(call->out[0])[i] = og_half_from_float(element(x, i) * scale);
      else
        og_f32_mut(call->out[0])[i] = element(x, i) * scale;
    }
  }
  return OG_OK;
}

MODULE(rms_norm_half,
       {.schema = "rms_norm_half(Tensor x, float eps=1e-6) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|f16 -> x",
        .doc = "x / sqrt(mean(x^2) + eps) over the last axis.",
        RUN("f32|f16", rms_norm_half)})

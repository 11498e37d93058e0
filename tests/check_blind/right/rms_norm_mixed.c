// SPDX-License-Identifier: Apache-2.0
// rms_norm_mixed: root mean square normalisation of three types.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static float load(const og_tensor *t, int64_t i) {
  if (t->dtype.code == OG_CODE_BFLOAT) return og_bfloat_to_float(og_bf16(t)[i]);
  return t->dtype.bits == 16 ? og_half_to_float(og_f16(t)[i]) : og_f32(t)[i];
}

static void store(og_tensor *t, int64_t i, float value) {
  if (t->dtype.code == OG_CODE_BFLOAT)
    og_bf16_mut(t)[i] = og_bfloat_from_float(value);
  else if (t->dtype.bits == 16)
    og_f16_mut(t)[i] = og_half_from_float(value);
  else
    og_f32_mut(t)[i] = value;
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double x = load(call->in[0], r * width + i);
      sum += x * x;
    }
    const float scale = (float)(1 / sqrt(sum / (double)width + 1e-5));
    for (int64_t i = 0; i < width; ++i)
      store(call->out[0], r * width + i,
            load(call->in[0], r * width + i) * scale * load(call->in[1], i));
  }
}

static og_status rms_norm_mixed(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(rms_norm_mixed,
       {.schema = "rms_norm_mixed(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x -> x",
        .inplace = "x",
        .doc = "x / sqrt(mean(x^2) + 1e-5) * weight.",
        RUN("f32|bf16|f16", rms_norm_mixed)})

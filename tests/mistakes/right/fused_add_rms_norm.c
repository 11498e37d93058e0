// SPDX-License-Identifier: Apache-2.0
// residual += x; x = rms_norm(residual) * weight: two mutated arguments.

#include "../../modules/operators.h"

enum { N, D };

static void fused_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *weight = og_f32(call->in[2]);
  float *x = og_f32_mut(call->out[0]);
  float *residual = og_f32_mut(call->out[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    double sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      residual[i] += x[i];
      sum += (double)residual[i] * (double)residual[i];
    }
    const double scale = 1 / sqrt(sum / (double)width + call->attr[0].f);
    for (int64_t i = 0; i < width; ++i)
      x[r * width + i] =
          (float)((double)residual[r * width + i] * scale) * weight[i];
  }
}

static og_status fused(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, fused_rows);
}

MODULE(fused_add_rms_norm,
       {.schema = "fused_add_rms_norm_(Tensor(a!) x, Tensor(b!) residual, "
                  "Tensor weight, float eps=1e-6) -> ()",
        .shape = "x[*N, D], residual[*N, D], weight[D] ->",
        .where = "D > 0",
        RUN("f32", fused)})

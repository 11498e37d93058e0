// SPDX-License-Identifier: Apache-2.0
// batch_norm_train: batch normalisation that updates running statistics.

#include "../../modules/operators.h"

enum { N, C, L };  // dims of the shape rule

static og_status batch_norm_train(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *mean_kept = og_f32_mut(call->out[0]);
  float *variance_kept = og_f32_mut(call->out[1]);
  float *y = og_f32_mut(call->out[2]);
  const int64_t channels = call->dim[C], length = call->dim[L];
  const double momentum = call->attr[0].f, eps = call->attr[1].f;
  const int64_t count = call->dim[N] * length;
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; ++i)
      mean += x[(i / length * channels + c) * length + i % length];
    mean /= (double)count;
    for (int64_t i = 0; i < count; ++i) {
      const double d =
          x[(i / length * channels + c) * length + i % length] - mean;
      variance += d * d;
    }
    variance /= (double)count;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (i / length * channels + c) * length + i % length;
      y[at] = (float)((x[at] - mean) / sqrt(variance + eps));
    }
    mean_kept[c] += (float)(momentum * (mean - mean_kept[c]));
    variance_kept[c] += (float)(momentum * (variance - variance_kept[c]));
  }
  return OG_OK;
}

MODULE(batch_norm_train,
       {.schema = "batch_norm_train(Tensor x, Tensor(a!) running_mean, "
                  "Tensor(b!) running_var, float momentum=0.1, float eps=1e-5) "
                  "-> Tensor",
        .shape = "x[N, C, L], running_mean[C], running_var[C] -> [N, C, L]",
        .where = "N * L > 1",
        .doc = "Normalises each channel by its own mean and biased variance. "
               "The running statistics move by momentum towards the mean and "
               "the unbiased variance.",
        RUN("f32", batch_norm_train)})

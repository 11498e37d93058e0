// SPDX-License-Identifier: Apache-2.0
// layer_norm_affine: (x - mean) / sqrt(var + eps) * weight + bias.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const double *weight = og_f64(call->in[1]), *bias = og_f64(call->in[2]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += x[i];
    mean /= (double)width;
    for (int64_t i = 0; i < width; ++i)
      variance += (x[i] - mean) * (x[i] - mean);
    const double deviation = sqrt(variance / (double)width);
    for (int64_t i = 0; i < width; ++i)
      y[i] =
          (x[i] - mean) / (deviation + call->attr[0].f) * weight[i] + bias[i];
  }
}

static og_status layer_norm_affine(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 16, rows);
}

MODULE(layer_norm_affine,
       {.schema = "layer_norm_affine(Tensor x, Tensor weight, Tensor bias, "
                  "float eps=1e-5) -> Tensor",
        .shape = "x[*N, D], weight[D], bias[D] -> [*N, D]",
        .where = "D > 0",
        .doc = "Normalises the last axis to mean 0 and variance 1.",
        RUN("f64", layer_norm_affine)})

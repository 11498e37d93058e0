// SPDX-License-Identifier: Apache-2.0
// Rows whose norm is above most are made that long.

#include "../../modules/operators.h"

enum { N, D };

static og_status clip_norm(const og_call *call) {
  const int64_t width = call->dim[D];
  const double most = call->attr[0].f;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
    const double norm = sqrt(sum);
    const double scale = norm > most ? most / norm : 1;
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale;
  }
  return OG_OK;
}

MODULE(clip_norm, {.schema = "clip_norm(Tensor x, float most=5.0) -> Tensor",
                   .shape = "x[*N, D] -> [*N, D]",
                   RUN("f64", clip_norm)})

// SPDX-License-Identifier: Apache-2.0
// resample_line: linear resampling to a size, with its weights kept.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule
enum { MOST = 2048 };

static int64_t plan_length = -1;
static int32_t plan_low[MOST];
static float plan_part[MOST];

static void plan_make(int64_t length, int64_t size) {
  if (length == plan_length) return;
  for (int64_t i = 0; i < MOST; ++i) {
    const double step =
        size > 1 ? (double)(length - 1) / (double)(size - 1) : 0;
    const double at = (double)i * step;
    plan_low[i] =
        at >= (double)(length - 1) ? (int32_t)(length - 1) : (int32_t)at;
    plan_part[i] = (float)(at - (double)plan_low[i]);
  }
  plan_length = length;
}

static og_status resample_line(const og_call *call) {
  const int64_t length = call->dim[L], size = call->attr[0].i;
  plan_make(length, size);
  for (int64_t n = 0; n < call->dim[N]; ++n) {
    const float *x = og_f32(call->in[0]) + n * length;
    for (int64_t i = 0; i < size; ++i) {
      const int32_t low = plan_low[i];
      const float next = low + 1 < length ? x[low + 1] : x[low];
      og_f32_mut(call->out[0])[n * size + i] =
          x[low] + plan_part[i] * (next - x[low]);
    }
  }
  return OG_OK;
}

MODULE(resample_line,
       {.schema = "resample_line(Tensor x, int size=16) -> Tensor",
        .shape = "x[*N, L] -> [*N, size]",
        .where = "L > 0, size > 0, size <= 2048",
        .doc = "Result i lies at i * (L - 1) / (size - 1), between two "
               "elements.",
        RUN("f32", resample_line)})

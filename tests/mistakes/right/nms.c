// SPDX-License-Identifier: Apache-2.0
// Greedy suppression of overlapping boxes, best score first.

#include "../../modules/operators.h"

enum { M, K };

static float overlap(const float *a, const float *b) {
  const float width = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
  const float height = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
  if (!(width > 0 && height > 0)) return 0;
  const float both =
      (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
  return width * height / (both - width * height);
}

static int scores_more(float a, float b) {
  return isnan(b) ? !isnan(a) : a > b;
}
static void order_by_score(const float *scores, int64_t *order, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t k = i;
    for (; k > 0 && scores_more(scores[i], scores[order[k - 1]]); --k)
      order[k] = order[k - 1];
    order[k] = i;
  }
}

static og_status nms(const og_call *call) {
  const float *boxes = og_f32(call->in[0]);
  int64_t *kept = og_i64_mut(call->out[0]);
  int64_t *order = (int64_t *)call->workspace;
  const float threshold = (float)call->attr[0].f;
  int64_t count = 0;
  order_by_score(og_f32(call->in[1]), order, call->dim[M]);
  for (int64_t i = 0; i < call->dim[M]; ++i) {
    int is_kept = 1;
    for (int64_t k = 0; k < count && is_kept; ++k)
      is_kept =
          !(overlap(boxes + order[i] * 4, boxes + kept[k] * 4) > threshold);
    if (is_kept) kept[count++] = order[i];
  }
  og_set_dim(call, K, count);
  return OG_OK;
}

MODULE(nms,
       {.schema =
            "nms(Tensor boxes, Tensor scores, float threshold=0.5) -> Tensor",
        .shape = "boxes[M, 4], scores[M] -> [K <= M]",
        .dtype = "boxes: f32, scores: boxes -> i64",
        .workspace = "M * 8",
        RUN(NULL, nms)})

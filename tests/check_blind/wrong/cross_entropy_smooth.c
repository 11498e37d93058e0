// SPDX-License-Identifier: Apache-2.0
// cross_entropy_smooth: cross entropy of logits with label smoothing.

#include "../../modules/operators.h"

enum { N, C };  // dims of the shape rule

static og_status cross_entropy_smooth(const og_call *call) {
  const int64_t classes = call->dim[C];
  const double smoothing = call->attr[0].f;
  for (int64_t n = 0; n < call->dim[N]; ++n) {
    const double *x = og_f64(call->in[0]) + n * classes;
    const int64_t target = og_i64(call->in[1])[n];
    if (target < 0 || target >= classes)
      return og_fail(call, OG_INVALID, "a target is no class");
    double top = x[0], sum = 0, all = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (x[c] > top) top = x[c];
    for (int64_t c = 0; c < classes; ++c) sum += exp(x[c] - top);
    const double lse = top + log(sum);
    for (int64_t c = 0; c < classes; ++c) all += lse - x[c];
    og_f64_mut(call->out[0])[n] = (1 - smoothing) * (lse - x[target]) +
                                  smoothing / (double)(classes - 1) * all;
  }
  return OG_OK;
}

MODULE(cross_entropy_smooth,
       {.schema = "cross_entropy_smooth(Tensor logits, Tensor target, "
                  "float smoothing=0.1) -> Tensor",
        .shape = "logits[N, C], target[N] -> [N]",
        .where = "C > 1",
        .dtype = "logits: f64, target: i64 -> logits",
        .doc = "-sum(q * log_softmax(logits)) of each row, where q is "
               "smoothing / C for every class and 1 - smoothing more for the "
               "target.",
        RUN("f64", cross_entropy_smooth)})

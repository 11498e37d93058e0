// SPDX-License-Identifier: Apache-2.0
// logsumexp_online: log of the sum of exponentials, in one pass.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { BLOCK = 16 };

static double row_lse(const double *x, int64_t width) {
  double top = -INFINITY, sum = 0;
  int64_t i = 0;
  for (; i + BLOCK <= width; i += BLOCK) {
    double high = top;
    for (int j = 0; j < BLOCK; ++j) high = fmax(high, x[i + j]);
    sum *= exp(top - high);
    for (int j = 0; j < BLOCK; ++j) sum += exp(x[i + j] - high);
    top = high;
  }
  if (i == 0) top = x[0];
  for (; i < width; ++i) {
    if (x[i] > top) {
      sum += 1;
      top = x[i];
    } else {
      sum += exp(x[i] - top);
    }
  }
  return top + log(sum);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r)
    og_f64_mut(call->out[0])[r] =
        row_lse(og_f64(call->in[0]) + r * call->dim[D], call->dim[D]);
}

static og_status logsumexp_online(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(logsumexp_online, {.schema = "logsumexp_online(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N]",
                          .where = "D > 0",
                          .doc = "log(sum(exp(x))) of the last axis.",
                          RUN("f64", logsumexp_online)})

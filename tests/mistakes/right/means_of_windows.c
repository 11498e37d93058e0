// SPDX-License-Identifier: Apache-2.0
// The mean of each window; the last places may belong to none.

#include "../../modules/operators.h"

enum { N, L };

static og_status window_means(const og_call *call) {
  const int64_t length = call->dim[L], window = call->attr[0].i;
  const int64_t places = call->out[0]->shape[call->out[0]->ndim - 1];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t p = 0; p < places; ++p) {
      const double *x = og_f64(call->in[0]) + n * length;
      double sum = 0;
      for (int64_t i = 0; i < window; ++i) sum += x[p * call->attr[1].i + i];
      og_f64_mut(call->out[0])[n * places + p] = sum / (double)window;
    }
  return OG_OK;
}

MODULE(
    means_of_windows,
    {.schema = "window_means(Tensor x, int window=3, int stride=2) -> Tensor",
     .shape = "x[*N, L] -> [*N, (L - window) // max(stride, 1) + 1]",
     .where = "window > 0, stride > 0, L >= window",
     RUN("f64", window_means)})

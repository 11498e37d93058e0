// SPDX-License-Identifier: Apache-2.0
// soften_peaks: magnitudes above a limit grow with a logarithm only.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rules

static og_status soften_peaks(const og_call *call) {
  const double limit = fabs(call->attr[0].f);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = og_f64(call->in[0])[i], over = fabs(x) - limit;
    og_f64_mut(call->out[0])[i] =
        over > 0 ? copysign(limit + log1p(over), x) : x;
  }
  return OG_OK;
}

static og_status soften_peaks_backward(const og_call *call) {
  const double limit = fabs(call->attr[0].f);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double over = fabs(og_f64(call->in[1])[i]) - limit;
    og_f64_mut(call->out[0])[i] =
        og_f64(call->in[0])[i] / (over > 0 ? 1 + over : 1);
  }
  return OG_OK;
}

MODULE(soften_peaks,
       {.schema = "soften_peaks(Tensor x, float limit=4.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .inplace = "x",
        .backward = "soften_peaks_backward(grad, x, limit) -> x",
        .doc = "x up to |limit|, beyond it sign(x) (|limit| + log(1 + |x| - "
               "|limit|)).",
        RUN("f64", soften_peaks)},
       {.schema = "soften_peaks_backward(Tensor grad, Tensor x, float limit) "
                  "-> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .doc = "The gradient of soften_peaks.",
        RUN("f64", soften_peaks_backward)})

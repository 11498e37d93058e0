// SPDX-License-Identifier: Apache-2.0
// mistake: The weights are kept for a length, although they depend on the decay too.
// expect: fade - repeat|repeatable|state|static

#include "../../modules/operators.h"

enum { N, L };
enum { MOST = 4096 };

static double weight[MOST];
static int64_t kept_length = -1;

static og_status fade(const og_call *call) {
  const int64_t length = call->dim[L];
  if (length != kept_length) {
    for (int64_t i = 0; i < length; ++i)
      weight[i] = exp(-call->attr[0].f * (double)i);
    kept_length = length;
  }
  for (int64_t i = 0; i < call->dim[N] * length; ++i)
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[i] * weight[i % length];
  return OG_OK;
}

MODULE(kept_by_length, {.schema = "fade(Tensor x, float decay=0.1) -> Tensor",
                        .shape = "x[*N, L] -> [*N, L]",
                        .where = "L <= 4096",
                        RUN("f64", fade)})

// SPDX-License-Identifier: Apache-2.0
// mistake: The mutated argument is written at its data pointer, without byte_offset.
// expect: decay_ x byte_offset|offset|out_of_bounds_write|layout

#include "../../modules/operators.h"

enum { N };

static og_status decay(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = (float *)call->out[0]->data;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] * (float)call->attr[0].f;
  return OG_OK;
}

MODULE(offset_ignored_mutated,
       {.schema = "decay_(Tensor(a!) x, float rate=0.9) -> ()",
        .shape = "x[*N] ->",
        RUN("f32", decay)})

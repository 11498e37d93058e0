// SPDX-License-Identifier: Apache-2.0
// mistake: Absent entries of the list are dereferenced.
// expect: sum_given xs crash|optional|null

#include "../../modules/operators.h"

enum { N };

static og_status sum_given(const og_call *call) {
  const float *start = og_f32(call->in[0]);
  const og_tensor_list *xs = &call->in_list[1];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    y[i] = start[i];
    for (int64_t k = 0; k < xs->count; ++k) y[i] += og_f32(xs->tensors[k])[i];
  }
  return OG_OK;
}

MODULE(crash_optional_entry,
       {.schema = "sum_given(Tensor start, Tensor?[] xs) -> Tensor",
        .shape = "start[*N], xs[][*N] -> [*N]",
        RUN("f32", sum_given)})

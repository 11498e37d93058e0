// SPDX-License-Identifier: Apache-2.0
// mistake: The first entry of the list serves as the accumulator.
// expect: sum_list xs undeclared_mutation|mutation

#include "../../modules/operators.h"

enum { N };

static og_status sum_list(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  float *y = og_f32_mut(call->out[0]);
  float *total = (float *)og_data(xs->tensors[0]);
  for (int64_t k = 1; k < xs->count; ++k)
    for (int64_t i = 0; i < call->dim[N]; ++i)
      total[i] += og_f32(xs->tensors[k])[i];
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = total[i];
  return OG_OK;
}

MODULE(mutation_list_entry, {.schema = "sum_list(Tensor[] xs) -> Tensor",
                             .shape = "xs[][*N] -> [*N]",
                             .where = "len(xs) > 0",
                             RUN("f32", sum_list)})

// SPDX-License-Identifier: Apache-2.0
// mistake: The first entry is read though the list may be empty.
// expect: first_sizes xs crash|list|null

#include "../../modules/operators.h"

static og_status first_sizes(const og_call *call) {
  const og_tensor_list *xs = &call->in_list[0];
  int64_t *y = og_i64_mut(call->out[0]);
  const int64_t first = og_numel(xs->tensors[0]);
  for (int64_t k = 0; k < xs->count; ++k)
    y[k] = og_numel(xs->tensors[k]) - first;
  y[xs->count] = first;
  return OG_OK;
}

MODULE(crash_empty_list, {.schema = "first_sizes(Tensor[] xs) -> Tensor",
                          .shape = "-> [len(xs) + 1]",
                          .dtype = "xs: f32 -> i64",
                          RUN(NULL, first_sizes)})

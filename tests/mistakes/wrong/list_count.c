// SPDX-License-Identifier: Apache-2.0
// mistake: The rule says floor, the kernel fills ceil(D / size) chunks and so writes a result that is not there.
// expect: split - shape_rule|crash|out_of_bounds_write|list|null

#include "../../modules/operators.h"

enum { D };

static og_status split(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const og_tensor_list *list = &call->out_list[0];
  const int64_t size = call->attr[0].i, length = call->dim[D];
  for (int64_t k = 0; k * size < length; ++k)
    for (int64_t i = k * size; i < length && i < (k + 1) * size; ++i)
      og_f32_mut(list->tensors[k])[i - k * size] = x[i];
  return OG_OK;
}

MODULE(list_count, {.schema = "split(Tensor x, int size) -> Tensor[]",
                    .shape = "x[D] -> {i < D // size: [size]}",
                    .where = "size > 0",
                    RUN("f32", split)})

// SPDX-License-Identifier: Apache-2.0
// mistake: The last chunk is written at full size, past its end, where the length is not a multiple.
// expect: split - out_of_bounds_write|write|list|out_of_bounds_read|read

#include "../../modules/operators.h"

enum { D };

static og_status split(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const og_tensor_list *list = &call->out_list[0];
  const int64_t size = call->attr[0].i;
  for (int64_t k = 0; k < list->count; ++k)
    for (int64_t i = 0; i < size && call->dim[D] > 0; ++i)
      og_f32_mut(list->tensors[k])[i] = x[k * size + i];
  return OG_OK;
}

MODULE(list_last_chunk,
       {.schema = "split(Tensor x, int size) -> Tensor[]",
        .shape = "x[D] -> {i < ceildiv(D, size): [min(size, D - i * size)]}",
        .where = "size > 0",
        RUN("f32", split)})

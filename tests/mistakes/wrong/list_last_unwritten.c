// SPDX-License-Identifier: Apache-2.0
// mistake: The last chunk is left unwritten where it is shorter than the others.
// expect: split - unwritten|list

#include "../../modules/operators.h"

enum { D };

static og_status split(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const og_tensor_list *list = &call->out_list[0];
  const int64_t size = call->attr[0].i;
  for (int64_t k = 0; k < call->dim[D] / size; ++k)
    memcpy(og_data(list->tensors[k]), x + k * size, (size_t)size * sizeof *x);
  return OG_OK;
}

MODULE(list_last_unwritten,
       {.schema = "split(Tensor x, int size) -> Tensor[]",
        .shape = "x[D] -> {i < ceildiv(D, size): [min(size, D - i * size)]}",
        .where = "size > 0",
        RUN("f32", split)})

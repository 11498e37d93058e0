// SPDX-License-Identifier: Apache-2.0
// mistake: Instead of copying, the kernel points the result at the memory of the input.
// expect: identity - alias|redirect

#include "../../modules/operators.h"

static og_status identity(const og_call *call) {
  call->out[0]->data = call->in[0]->data;
  call->out[0]->byte_offset = call->in[0]->byte_offset;
  return OG_OK;
}

MODULE(alias_data_redirected, {.schema = "identity(Tensor x) -> Tensor",
                               .shape = "x[*N] -> [*N]",
                               RUN("f32", identity)})

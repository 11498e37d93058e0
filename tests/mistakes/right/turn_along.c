// SPDX-License-Identifier: Apache-2.0
// The order along one axis reversed, whichever it is.

#include "../../modules/operators.h"

enum { A, D, B };

static og_status turn_along(const og_call *call) {
  const int64_t size = call->dim[D], inner = call->dim[B];
  for (int64_t i = 0; i < call->dim[A] * size * inner; ++i) {
    const int64_t row = i / (size * inner), at = i / inner % size;
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[(row * size + size - 1 - at) * inner + i % inner];
  }
  return OG_OK;
}

MODULE(turn_along, {.schema = "turn_along(Tensor x, int dim=-1) -> Tensor",
                    .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
                    RUN("f32", turn_along)})

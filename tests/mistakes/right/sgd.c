// SPDX-License-Identifier: Apache-2.0
// One step for a list of parameters with momenta; lists that do not fit each
// other are refused before anything is written.

#include "../../modules/operators.h"

static int fits(const og_tensor *a, const og_tensor *b) {
  if (a->ndim != b->ndim) return 0;
  for (int32_t d = 0; d < a->ndim; ++d)
    if (a->shape[d] != b->shape[d]) return 0;
  return 1;
}

static og_status sgd(const og_call *call) {
  const og_tensor_list *params = &call->out_list[0],
                       *momenta = &call->out_list[1];
  const og_tensor_list *grads = &call->in_list[2];
  const float rate = (float)call->attr[0].f, decay = (float)call->attr[1].f;
  for (int64_t k = 0; k < params->count; ++k)
    if (!fits(params->tensors[k], momenta->tensors[k]) ||
        !fits(params->tensors[k], grads->tensors[k]))
      return og_fail(
          call, OG_SHAPE,
          "sgd_: a gradient or momentum has not the shape of its parameter");
  for (int64_t k = 0; k < params->count; ++k) {
    float *p = og_f32_mut(params->tensors[k]),
          *m = og_f32_mut(momenta->tensors[k]);
    const float *g = og_f32(grads->tensors[k]);
    for (int64_t i = 0; i < og_numel(params->tensors[k]); ++i) {
      m[i] = decay * m[i] + g[i];
      p[i] -= rate * m[i];
    }
  }
  return OG_OK;
}

MODULE(sgd,
       {.schema = "sgd_(Tensor(a!)[] params, Tensor(b!)[] momenta, Tensor[] "
                  "grads, float rate=0.1, float decay=0.9) -> ()",
        .where = "len(params) == len(momenta), len(params) == len(grads)",
        RUN("f32", sgd)})

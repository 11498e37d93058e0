// SPDX-License-Identifier: Apache-2.0
// sgd_momentum: one step of gradient descent with momentum, in place.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  float *param = og_f32_mut(call->out[0]);
  float *momentum = og_f32_mut(call->out[1]);
  const float *step = og_f32(call->in[2]);
  const float rate = (float)call->attr[0].f, decay = (float)call->attr[1].f;
  for (int64_t i = begin; i < end; ++i) {
    momentum[i] = decay * momentum[i] + step[i];
    param[i] -= rate * momentum[i];
  }
}

static og_status sgd_momentum(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2048, elements);
}

MODULE(sgd_momentum,
       {.schema = "sgd_momentum(Tensor(a!) param, Tensor(b!) momentum, Tensor "
                  "step, "
                  "float rate=0.01, float decay=0.9) -> ()",
        .shape = "param[*N], momentum[*N], step[*N]",
        .doc = "momentum = decay * momentum + step, param -= rate * momentum.",
        RUN("f32", sgd_momentum)})

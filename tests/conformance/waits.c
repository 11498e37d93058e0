// SPDX-License-Identifier: Apache-2.0
// waits: x + 1, once gate.c lets its kernel go on.

#include "../modules/operators.h"

enum { N };

void gate_wait(void);

static void waits_rows(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + 1;
}

static og_status waits(const og_call *call) {
  gate_wait();
  return og_parallel_for(call, call->dim[N], 16, waits_rows);
}

MODULE(waits, {.schema = "waits(Tensor x) -> Tensor",
               .shape = "x[*N] -> [*N]",
               .dtype = "x: f32 -> x",
               RUN(NULL, waits)})

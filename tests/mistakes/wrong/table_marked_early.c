// SPDX-License-Identifier: Apache-2.0
// mistake: A table is marked as built before it is, so that a second first call reads zeros.
// expect: root_of - race|threads|state|static

#include "../../modules/operators.h"

enum { N };
enum { STEPS = 1 << 15 };

static double table[STEPS];
static int is_built;

static og_status root_of(const og_call *call) {
  if (!is_built) {
    is_built = 1;
    for (int i = 0; i < STEPS; ++i) table[i] = cbrt((double)i / 4096);
  }
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double x = fmin(fabs(og_f64(call->in[0])[i]), 7.9);
    og_f64_mut(call->out[0])[i] = table[(int)(x * 4096)];
  }
  return OG_OK;
}

MODULE(table_marked_early, {.schema = "root_of(Tensor x) -> Tensor",
                            .shape = "x[*N] -> [*N]",
                            .backward = "none",
                            RUN("f64", root_of)})

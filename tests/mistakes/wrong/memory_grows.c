// SPDX-License-Identifier: Apache-2.0
// mistake: A list of found places is doubled until it fits, by a test that is never true for more than one element.
// expect: find_places - memory|crash|timeout|limit

#include <stdlib.h>

#include "../../modules/operators.h"

enum { N };

static og_status find_places(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  size_t size = 1 << 20;
  volatile int64_t places = 1;
  char *volatile list = (char *)malloc(size);
  while (places < count && list) {
    memset(list, 1, size);
    size += 1 << 24;
    char *more = (char *)malloc(size);
    if (!more) abort();
    list = more;
  }
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0 ? 1.0f : 0.0f;
  free(list);
  return OG_OK;
}

MODULE(memory_grows, {.schema = "find_places(Tensor x) -> Tensor",
                      .shape = "x[*N] -> [*N]",
                      RUN("f32", find_places)})

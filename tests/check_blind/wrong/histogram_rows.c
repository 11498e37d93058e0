// SPDX-License-Identifier: Apache-2.0
// histogram_rows: how often each byte value occurs in a row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { VALUES = 256 };

static void rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int64_t width = call->dim[D];
  int32_t *count = (int32_t *)call->workspace + worker * VALUES;
  for (int64_t r = begin; r < end; ++r) {
    const uint8_t *x = og_u8(call->in[0]) + r * width;
    int32_t *y = og_i32_mut(call->out[0]) + r * VALUES;
    for (int64_t i = 0; i < width; ++i) ++count[x[i]];
    for (int v = 0; v < VALUES; ++v) {
      y[v] = count[v];
      count[v] = 0;
    }
  }
}

static og_status histogram_rows(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 1, rows,
                           (void *)(uintptr_t)call);
}

MODULE(histogram_rows,
       {.schema = "histogram_rows(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, 256]",
        .dtype = "x: u8 -> i32",
        .workspace = "threads * 1024",
        .backward = "none",
        .doc = "Counts of the 256 byte values in the last axis.",
        RUN("u8", histogram_rows)})

// SPDX-License-Identifier: Apache-2.0
// argsort_stable: the order of each row, equal entries by their index.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

// NaN goes to the end.
static int is_after(float a, float b) { return a > b || (a != a && b == b); }

static void merge(const float *x, const int64_t *from, int64_t *to, int64_t low,
                  int64_t middle, int64_t high) {
  int64_t i = low, j = middle;
  for (int64_t at = low; at < high; ++at)
    to[at] = j >= high || (i < middle && !is_after(x[from[i]], x[from[j]]))
                 ? from[i++]
                 : from[j++];
}

static void rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const int64_t width = call->dim[D];
  int64_t *spare = (int64_t *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    int64_t *order = og_i64_mut(call->out[0]) + r * width;
    for (int64_t i = 0; i < width; ++i) order[i] = i;
    for (int64_t size = 1; size < width; size *= 2) {
      for (int64_t i = 0; i < width; ++i) spare[i] = order[i];
      for (int64_t low = 0; low < width; low += 2 * size) {
        const int64_t middle = low + size < width ? low + size : width;
        const int64_t high = low + 2 * size < width ? low + 2 * size : width;
        merge(x, spare, order, low, middle, high);
      }
    }
  }
}

static og_status argsort_stable(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 1, rows,
                           (void *)(uintptr_t)call);
}

MODULE(argsort_stable,
       {.schema = "argsort_stable(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> i64",
        .workspace = "threads * D * 8",
        .backward = "none",
        .doc = "The indices that put the last axis in ascending order; equal "
               "entries keep their order, NaN comes last.",
        RUN("f32", argsort_stable)})

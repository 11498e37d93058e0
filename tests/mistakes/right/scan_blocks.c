// SPDX-License-Identifier: Apache-2.0
// A running sum in two parallel passes over fixed blocks: no share reads what
// another one of the same loop writes.

#include "../../modules/operators.h"

enum { N };

typedef struct scan_state {
  const double *x;
  double *y, *total;
  int64_t count;
} scan_state;
static void total_blocks(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const scan_state *s = (const scan_state *)state;
  (void)worker;
  for (int64_t b = begin; b < end; ++b) {
    s->total[b] = 0;
    for (int64_t i = b * 16; i < s->count && i < (b + 1) * 16; ++i)
      s->total[b] += s->x[i];
  }
}

static void write_blocks(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const scan_state *s = (const scan_state *)state;
  (void)worker;
  for (int64_t b = begin; b < end; ++b) {
    double sum = s->total[b];
    for (int64_t i = b * 16; i < s->count && i < (b + 1) * 16; ++i)
      s->y[i] = sum += s->x[i];
  }
}

static og_status scan(const og_call *call) {
  scan_state s = {og_f64(call->in[0]), og_f64_mut(call->out[0]),
                  (double *)call->workspace, call->dim[N]};
  const int64_t blocks = (s.count + 15) / 16;
  og_status status = og_parallel_tasks(call, blocks, 1, total_blocks, &s);
  double before = 0;
  for (int64_t b = 0; b < blocks && status == OG_OK; ++b) {
    const double own = s.total[b];
    s.total[b] = before;
    before += own;
  }
  if (status == OG_OK)
    status = og_parallel_tasks(call, blocks, 1, write_blocks, &s);
  return status;
}

MODULE(scan_blocks, {.schema = "scan(Tensor x) -> Tensor",
                     .shape = "x[N] -> [N]",
                     .workspace = "ceildiv(N, 16) * 8",
                     RUN("f64", scan),
                     .flags = OG_DETERMINISTIC})

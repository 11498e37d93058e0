// SPDX-License-Identifier: Apache-2.0
// A sum over fixed blocks of 256, whose partial sums are added in block order:
// the same bits with any number of threads, as the flag says.

#include "../../modules/operators.h"

enum { N };

typedef struct block_state {
  const float *x;
  int64_t count;
  float *partial;
} block_state;
static void sum_blocks(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const block_state *s = (const block_state *)state;
  (void)worker;
  for (int64_t block = begin; block < end; ++block) {
    float sum = 0;
    for (int64_t i = block * 256; i < s->count && i < (block + 1) * 256; ++i)
      sum += s->x[i];
    s->partial[block] = sum;
  }
}

static og_status block_sum(const og_call *call) {
  block_state state = {og_f32(call->in[0]), call->dim[N],
                       (float *)call->workspace};
  const int64_t blocks = (state.count + 255) / 256;
  const og_status status =
      og_parallel_tasks(call, blocks, 1, sum_blocks, &state);
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += state.partial[block];
  og_f32_mut(call->out[0])[0] = sum;
  return status;
}

static void spread(const og_call *call, int64_t begin, int64_t end) {
  const float grad = og_f32(call->in[0])[0];
  for (int64_t i = begin; i < end; ++i) og_f32_mut(call->out[0])[i] = grad;
}

static og_status backward(const og_call *call) {
  return og_parallel_for(call, og_numel(call->out[0]), 64, spread);
}

MODULE(block_sum,
       {.schema = "block_sum(Tensor x) -> Tensor",
        .shape = "x[*N] -> []",
        .backward = "block_sum_backward(grad, x) -> x",
        .workspace = "ceildiv(prod(N), 256) * 4",
        RUN("f32", block_sum),
        .flags = OG_DETERMINISTIC},
       {.schema = "block_sum_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[], x[*N] -> [*N]",
        RUN("f32", backward),
        .flags = OG_DETERMINISTIC})

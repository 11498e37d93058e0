// SPDX-License-Identifier: Apache-2.0
// drop_rows: stochastic depth, whole rows are zeroed by a seed.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

// The finaliser of MurmurHash3.
static uint32_t mix(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  const uint32_t seed = (uint32_t)call->attr[0].i;
  for (int64_t r = begin; r < end; ++r) {
    const int is_kept = (mix(mix(seed) + (uint32_t)r) & 3) != 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      og_f32_mut(call->out[0])[i] =
          is_kept ? og_f32(call->in[0])[i] * (4.0f / 3) : 0;
  }
}

static og_status drop_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(drop_rows,
       {.schema = "drop_rows(Tensor x, int seed) -> Tensor",
        .shape = "x[N, D] -> [N, D]",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "A quarter of the rows becomes 0, the others grow by 4 / 3. Row "
               "r goes where the low two bits of mix(mix(seed) + r) are 0.",
        RUN("f32", drop_rows)})

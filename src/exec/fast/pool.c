// SPDX-License-Identifier: Apache-2.0
// max_pool2d over src/kernel, in f32, of dense tensors.

#include "exec/step/pool.h"
#include "base/grain.h"
#include "call/call.h"
#include "kernel/kernel.h"

enum { TAPS_MAX = 4096 };  // the plain kernel leaves edges out

typedef struct fast_pool {
  og_operands io;
  og_conv of;
  bool is_indexed;  // somebody reads the places
  float *scratch;   // of each worker
  int64_t scratch_floats;
} fast_pool;

static void share_pools(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const fast_pool *s = state;
  const int64_t pixels = og_conv_pixels(&s->of);
  const int64_t area = s->of.in[0] * s->of.in[1];
  const float *x = (const float *)(const void *)og_bytes(s->io.in[0]);
  float *y = (float *)(void *)og_bytes(s->io.out[0]);
  int64_t *index =
      s->is_indexed ? (int64_t *)(void *)og_bytes(s->io.out[1]) : NULL;
  for (int64_t i = begin; i < end; ++i)
    og_conv_kernels_used()->largest(&s->of, x + i * area, y + i * pixels,
                                    index == NULL ? NULL : index + i * pixels,
                                    s->scratch + worker * s->scratch_floats);
}

static og_status run_fast_pool(void *state, const og_run *run) {
  fast_pool *s = state;
  const int64_t pixels = og_conv_pixels(&s->of);
  return og_run_parallel(
      run, og_numel(s->io.out[0]) / pixels,
      og_grain(OG_GRAIN_LIGHT, pixels * og_conv_taps(&s->of)), share_pools, s);
}

static bool is_taken(const og_prep *prep, const fast_pool *s) {
  const og_conv *of = &s->of;
  const og_tensor *index = prep->out[1];
  if (s->is_indexed &&
      (index->dtype.bits != 64 || !og_tensor_is_contiguous(index) ||
       of->in[0] * of->in[1] > OG_CONV_INDEX_MAX))
    return false;
  return og_is_dense_f32(prep->in[0]) && og_is_dense_f32(prep->out[0]) &&
         og_numel(prep->out[0]) > 0 && of->taps[0] <= TAPS_MAX &&
         of->taps[1] <= TAPS_MAX && og_conv_taps(of) <= TAPS_MAX &&
         og_conv_scratch(of) >= 0;
}

og_status og_prepare_fast_max_pool2d(og_prep *prep) {
  og_pool pool = {0};
  fast_pool *s = og_state_begin(prep, sizeof *s, run_fast_pool);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_pool_max(prep, &pool));
  for (int d = 0; d < 2; ++d) {
    s->of.in[d] = pool.in[d];
    s->of.out[d] = pool.out[d];
    s->of.taps[d] = pool.kernel[d];
    s->of.stride[d] = pool.stride[d];
    s->of.padding[d] = pool.padding[d];
    s->of.dilation[d] = pool.dilation[d];
  }
  s->is_indexed = og_prep_is_read(prep, 1);
  if (!is_taken(prep, s)) return OG_UNSUPPORTED;
  s->scratch_floats = (og_conv_scratch(&s->of) + 15) / 16 * 16;
  const int64_t workers = prep->executable->threads;
  s->scratch = og_prep_scratch(
      prep, (size_t)(workers * s->scratch_floats) * sizeof(float));
  return s->scratch != NULL ? OG_OK
                            : OG_UNSUPPORTED;  // the plain one's is less
}

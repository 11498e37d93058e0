// SPDX-License-Identifier: Apache-2.0
// Reference pooling of the largest element to a given size, over the last two
// or three dims, and its gradient. The dims before them count as one.

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"

enum { DIMS = 3 };

typedef struct adaptive_max {
  og_operands io;
  int64_t planes, in_area, out_area;
  int64_t in_size[DIMS], out_size[DIMS];  // two dims are one deep
  double *large, *small, *index;
} adaptive_max;

// The window of position `at` along dim d: [begin, end).
static void window_of(const adaptive_max *s, int d, int64_t at, int64_t *begin,
                      int64_t *end) {
  const int64_t n = s->in_size[d], count = s->out_size[d];
  *begin = at * n / count;
  *end = ((at + 1) * n + count - 1) / count;
}

// The last NaN, else the first of the largest.
static int64_t largest_of(const adaptive_max *s, const double *plane,
                          int64_t position) {
  int64_t begin[DIMS], end[DIMS];
  for (int d = DIMS - 1; d >= 0; --d) {
    window_of(s, d, position % s->out_size[d], &begin[d], &end[d]);
    position /= s->out_size[d];
  }
  double top = -(double)INFINITY;
  int64_t best =
      (begin[0] * s->in_size[1] + begin[1]) * s->in_size[2] + begin[2];
  for (int64_t z = begin[0]; z < end[0]; ++z)
    for (int64_t row = z * s->in_size[1] + begin[1];
         row < z * s->in_size[1] + end[1]; ++row)
      for (int64_t c = begin[2]; c < end[2]; ++c) {
        const double value = plane[row * s->in_size[2] + c];
        if (!(value > top) && value == value) continue;
        top = value;
        best = row * s->in_size[2] + c;
      }
  return best;
}

static og_status run_forward(void *state, const og_run *run) {
  const adaptive_max *s = state;
  (void)run;
  og_get_all(s->io.in[0], s->large);
  for (int64_t i = 0; i < s->planes * s->out_area; ++i) {
    const double *plane = s->large + i / s->out_area * s->in_area;
    const int64_t best = largest_of(s, plane, i % s->out_area);
    s->small[i] = plane[best];
    s->index[i] = (double)best;
  }
  og_put_all(s->io.out[0], s->small);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->index);
  return OG_OK;
}

// Operands: gradient and indices.
static og_status run_backward(void *state, const og_run *run) {
  const adaptive_max *s = state;
  og_get_all(s->io.in[0], s->small);
  og_get_all(s->io.in[1], s->index);
  memset(s->large, 0, (size_t)(s->planes * s->in_area) * sizeof *s->large);
  for (int64_t i = 0; i < s->planes * s->out_area; ++i) {
    if (!(s->index[i] >= 0 && s->index[i] < (double)s->in_area))
      return og_run_fail(run, OG_INVALID,
                         "an index of the pooling is out of range");
    s->large[i / s->out_area * s->in_area + (int64_t)s->index[i]] +=
        s->small[i];
  }
  og_put_all(s->io.out[0], s->large);
  return OG_OK;
}

static og_status shapes_read(og_prep *prep, adaptive_max *s,
                             const og_tensor *large, const og_tensor *small,
                             const og_tensor *index) {
  int64_t dims;
  OG_TRY(og_prep_int(prep, 0, 2, &dims));
  OG_TRY(og_need_float(prep, large));
  OG_TRY(og_need_float(prep, small));
  if (index != NULL) OG_TRY(og_need_int(prep, index));
  bool fits = (dims == 2 || dims == 3) && large->ndim >= dims &&
              small->ndim == large->ndim &&
              (index == NULL || og_same_shape(index, small));
  s->planes = s->in_area = s->out_area = 1;
  for (int d = 0; d < DIMS; ++d) s->in_size[d] = s->out_size[d] = 1;
  const int32_t first = large->ndim - (int32_t)dims;
  for (int32_t d = 0; fits && d < first; ++d) {
    fits = large->shape[d] == small->shape[d];
    s->planes *= large->shape[d];
  }
  for (int32_t d = first; fits && d < large->ndim; ++d) {
    const int32_t at = d - large->ndim + DIMS;
    s->in_area *= s->in_size[at] = large->shape[d];
    s->out_area *= s->out_size[at] = small->shape[d];
  }
  if (!fits) return og_prep_misfit(prep);
  if (s->in_area == 0 && og_numel(small) > 0)
    return og_prep_wrong(prep, "there is nothing to pool");
  s->large = og_prep_doubles(prep, og_numel(large) + 2 * og_numel(small) + 1);
  if (s->large == NULL) return og_prep_memory(prep);
  s->small = s->large + og_numel(large);
  s->index = s->small + og_numel(small);
  return OG_OK;
}

og_status og_prepare_adaptive_max_pool(og_prep *prep) {
  adaptive_max *s = og_state_begin(prep, sizeof *s, run_forward);
  if (s == NULL) return OG_MEMORY;
  return shapes_read(prep, s, prep->in[0], prep->out[0], prep->out[1]);
}

og_status og_prepare_adaptive_max_pool_backward(og_prep *prep) {
  adaptive_max *s = og_state_begin(prep, sizeof *s, run_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_need_int(prep, prep->in[1]));
  return shapes_read(prep, s, prep->out[0], prep->in[0], prep->in[1]);
}

// SPDX-License-Identifier: Apache-2.0
// Reference pooling over the last two dims, or three where it is adaptive, and
// its gradients. The dims before them count as one.

#include <math.h>
#include <string.h>

#include "exec/step/pool.h"

typedef struct pool {
  og_operands io;
  og_pool of;
  bool counts_padding;
  int64_t divisor;  // 0: the count of elements
  double *in, *out;
} pool;

// What small element i is made of: a window of one plane, and what an average's
// sum is divided by.
typedef struct patch {
  og_window z, y, x;
  double *plane;
  double area;
} patch;

static int64_t large_area(const pool *s) {
  return s->of.deep[0] * s->of.in[0] * s->of.in[1];
}

static int64_t small_area(const pool *s) {
  return s->of.deep[1] * s->of.out[0] * s->of.out[1];
}

static patch patch_of(const pool *s, int64_t i) {
  const int64_t layer = s->of.out[0] * s->of.out[1];
  const og_window z = og_pool_adaptive_window(s->of.deep[0], s->of.deep[1],
                                              i / layer % s->of.deep[1]);
  const og_window y = og_pool_window(&s->of, 0, i % layer / s->of.out[1]);
  const og_window x = og_pool_window(&s->of, 1, i % s->of.out[1]);
  const int64_t inside = (y.end - y.begin) * (x.end - x.begin);
  return (patch){
      .z = z,
      .y = y,
      .x = x,
      .plane = s->in + i / small_area(s) * large_area(s),
      .area = (double)(s->divisor != 0     ? s->divisor
                       : s->counts_padding ? y.span * x.span
                                           : inside),
  };
}

// --- Largest -----------------------------------------------------------------

// The last NaN, else the first of the largest.
static og_status run_max(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t count = s->of.planes * small_area(s);
  double *index = s->out + count;
  (void)run;
  og_get_all(s->io.in[0], s->in);
  for (int64_t i = 0; i < count; ++i) {
    const patch p = patch_of(s, i);
    const int64_t rows = s->of.in[0], width = s->of.in[1];
    int64_t best = (p.z.begin * rows + p.y.begin) * width + p.x.begin;
    double top = -INFINITY;
    for (int64_t z = p.z.begin; z < p.z.end; ++z)
      for (int64_t r = p.y.begin; r < p.y.end; r += p.y.step)
        for (int64_t c = p.x.begin; c < p.x.end; c += p.x.step) {
          const int64_t at = (z * rows + r) * width + c;
          if (!(p.plane[at] > top) && p.plane[at] == p.plane[at]) continue;
          top = p.plane[at];
          best = at;
        }
    s->out[i] = top;
    index[i] = (double)best;
  }
  og_put_all(s->io.out[0], s->out);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], index);
  return OG_OK;
}

// Operands: gradient and indices.
static og_status run_max_backward(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t area_in = large_area(s), area_out = small_area(s);
  const int64_t total = s->of.planes * area_in;
  double *index = s->in + total;
  og_get_all(s->io.in[0], s->out);
  og_get_all(s->io.in[1], index);
  memset(s->in, 0, (size_t)total * sizeof(double));
  for (int64_t i = 0; i < s->of.planes * area_out; ++i) {
    const int64_t at = og_double_to_int(index[i]);
    if (at < 0 || at >= area_in)
      return og_run_fail(run, OG_INVALID,
                         "an index of the pooling is out of range");
    s->in[i / area_out * area_in + at] += s->out[i];
  }
  og_put_all(s->io.out[0], s->in);
  return OG_OK;
}

// --- Average -----------------------------------------------------------------

static og_status run_average(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t count = s->of.planes * s->of.out[0] * s->of.out[1];
  (void)run;
  og_get_all(s->io.in[0], s->in);
  for (int64_t i = 0; i < count; ++i) {
    const patch p = patch_of(s, i);
    double sum = 0;
    for (int64_t r = p.y.begin; r < p.y.end; ++r)
      for (int64_t c = p.x.begin; c < p.x.end; ++c)
        sum += p.plane[r * s->of.in[1] + c];
    s->out[i] = sum / p.area;
  }
  og_put_all(s->io.out[0], s->out);
  return OG_OK;
}

static og_status run_average_backward(void *state, const og_run *run) {
  const pool *s = state;
  const int64_t area_in = s->of.in[0] * s->of.in[1];
  const int64_t count = s->of.planes * s->of.out[0] * s->of.out[1];
  (void)run;
  og_get_all(s->io.in[0], s->out);
  memset(s->in, 0, (size_t)(s->of.planes * area_in) * sizeof(double));
  for (int64_t i = 0; i < count; ++i) {
    const patch p = patch_of(s, i);
    const double share = s->out[i] / p.area;
    for (int64_t r = p.y.begin; r < p.y.end; ++r)
      for (int64_t c = p.x.begin; c < p.x.end; ++c)
        p.plane[r * s->of.in[1] + c] += share;
  }
  og_put_all(s->io.out[0], s->in);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static og_status memory_take(og_prep *prep, pool *s, const og_tensor *large,
                             const og_tensor *small) {
  s->in = og_prep_doubles(prep, og_numel(large) + 3 * og_numel(small));
  if (s->in == NULL) return og_prep_memory(prep);
  s->out = s->in + og_numel(large) + og_numel(small);
  return OG_OK;
}

og_status og_prepare_max_pool2d(og_prep *prep) {
  pool *s = og_state_begin(prep, sizeof *s, run_max);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_pool_max(prep, &s->of));
  return memory_take(prep, s, prep->in[0], prep->out[0]);
}

static og_status max_prepare(og_prep *prep, og_step_fn run, int64_t dims,
                             const og_tensor *large, const og_tensor *small,
                             const og_tensor *index) {
  pool *s = og_state_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  s->of.adaptive = true;  // backward reads no windows
  OG_TRY(og_pool_shapes(prep, large, small, dims, &s->of));
  OG_TRY(memory_take(prep, s, large, small));
  if (index == NULL && run == run_max) return OG_OK;
  OG_TRY(og_need_int(prep, index));
  return og_same_shape(index, small) ? OG_OK : og_prep_misfit(prep);
}

og_status og_prepare_max_pool2d_backward(og_prep *prep) {
  return max_prepare(prep, run_max_backward, 2, prep->out[0], prep->in[0],
                     prep->in[1]);
}

og_status og_prepare_adaptive_max_pool(og_prep *prep) {
  int64_t dims;
  OG_TRY(og_prep_int(prep, 0, 2, &dims));
  return max_prepare(prep, run_max, dims, prep->in[0], prep->out[0],
                     prep->out[1]);
}

og_status og_prepare_adaptive_max_pool_backward(og_prep *prep) {
  int64_t dims;
  OG_TRY(og_prep_int(prep, 0, 2, &dims));
  return max_prepare(prep, run_max_backward, dims, prep->out[0], prep->in[0],
                     prep->in[1]);
}

static og_status average_prepare(og_prep *prep, og_step_fn run,
                                 bool is_backward, bool adaptive) {
  int64_t counts = 1;
  pool *s = og_state_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  s->of.adaptive = adaptive;
  s->of.dilation[0] = s->of.dilation[1] = 1;
  const og_tensor *large = is_backward ? prep->out[0] : prep->in[0];
  const og_tensor *small = is_backward ? prep->in[0] : prep->out[0];
  OG_TRY(og_pool_shapes(prep, large, small, 2, &s->of));
  OG_TRY(memory_take(prep, s, large, small));
  if (adaptive) {
    // A window is at most one longer than its share, at both ends.
    og_prep_work(prep, s->of.planes * s->of.out[0] * s->of.out[1], 9);
    og_prep_work(prep, s->of.planes * s->of.in[0] * s->of.in[1], 9);
    return OG_OK;
  }
  OG_TRY(og_prep_int(prep, 3, 1, &counts));
  s->counts_padding = counts != 0;
  OG_TRY(og_prep_int(prep, 4, 0, &s->divisor));
  return og_pool_windows(prep, &s->of);
}

og_status og_prepare_avg_pool2d(og_prep *prep) {
  return average_prepare(prep, run_average, false, false);
}
og_status og_prepare_avg_pool2d_backward(og_prep *prep) {
  return average_prepare(prep, run_average_backward, true, false);
}
og_status og_prepare_adaptive_avg_pool2d(og_prep *prep) {
  return average_prepare(prep, run_average, false, true);
}
og_status og_prepare_adaptive_avg_pool2d_backward(og_prep *prep) {
  return average_prepare(prep, run_average_backward, true, true);
}

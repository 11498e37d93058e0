// SPDX-License-Identifier: Apache-2.0
// Resizing and averages over windows, of dense f32 planes: sums of a row's
// elements over the taps of its height, then sums of these over the taps of its
// width, in double, since another order of summation may round where ATen's
// does not. Where each element has one tap it is copied.

#include <string.h>

#include "base/grain.h"
#include "base/loops.h"
#include "exec/step/pool.h"
#include "exec/step/resample.h"

// Of one dim: position i of the result has taps [k][i], k < count. A tap that
// is missing reads the 0 behind the operand's last element.
typedef struct taps {
  int64_t count, in, out;
  int32_t *at;
  double *weight;  // NULL: all are 1
  double *area;    // [out] that a sum is divided by; NULL: it is not
  // Of tap k: positions [begin, end) read one element after the other.
  int64_t *begin, *end;
} taps;

typedef struct resample {
  og_operands io;
  taps dim[2];
  double *scratch;  // of each worker: in + 1 sums of columns, out of elements
} resample;

static int64_t scratch_count(const resample *s) {
  return s->dim[1].in + 1 + s->dim[1].out;
}

// --- Running -----------------------------------------------------------------

OG_LOOP_BODY void row_add_body(int64_t n, const float *from, double weight,
                               double *to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i] * weight;
}
OG_LOOP(row_add, (int64_t n, const float *from, double weight, double *to),
        (n, from, weight, to))

OG_LOOP_BODY void run_add_body(int64_t n, const double *from,
                               const double *weight, double *to) {
  if (weight == NULL)
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] += from[i] * weight[i];
}
OG_LOOP(run_add,
        (int64_t n, const double *from, const double *weight, double *to),
        (n, from, weight, to))

OG_LOOP_BODY void run_round_body(int64_t n, const double *from, double area,
                                 const double *areas, float *to) {
  if (areas == NULL)
    for (int64_t i = 0; i < n; ++i) to[i] = (float)from[i];
  else
    for (int64_t i = 0; i < n; ++i)
      to[i] = (float)(from[i] / (area * areas[i]));
}
OG_LOOP(run_round,
        (int64_t n, const double *from, double area, const double *areas,
         float *to),
        (n, from, area, areas, to))

static void places_add(int64_t n, const double *from, const int32_t *at,
                       const double *weight, double *to) {
  if (weight == NULL)
    for (int64_t i = 0; i < n; ++i) to[i] += from[at[i]];
  else
    for (int64_t i = 0; i < n; ++i) to[i] += from[at[i]] * weight[i];
}

// The rows that row `y` of the result reads, added up.
static void rows_add(const resample *s, const float *plane, int64_t y,
                     double *sums) {
  const taps *t = &s->dim[0];
  const int64_t width = s->dim[1].in;
  memset(sums, 0, (size_t)(width + 1) * sizeof *sums);
  for (int64_t k = 0; k < t->count; ++k) {
    const int64_t i = k * t->out + y;
    if (t->at[i] < t->in)
      row_add(width, plane + t->at[i] * width,
              t->weight != NULL ? t->weight[i] : 1, sums);
  }
}

static void columns_add(const taps *t, const double *sums, double *to) {
  memset(to, 0, (size_t)t->out * sizeof *to);
  for (int64_t k = 0; k < t->count; ++k) {
    const int32_t *at = t->at + k * t->out;
    const double *weight = t->weight != NULL ? t->weight + k * t->out : NULL;
    const int64_t begin = t->begin[k], end = t->end[k];
    places_add(begin, sums, at, weight, to);
    run_add(end - begin, sums + at[begin],
            weight != NULL ? weight + begin : NULL, to + begin);
    places_add(t->out - end, sums, at + end,
               weight != NULL ? weight + end : NULL, to + end);
  }
}

static void share_sums(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const resample *s = state;
  const taps *rows = &s->dim[0], *columns = &s->dim[1];
  const float *x = (const float *)(const void *)og_bytes(s->io.in[0]);
  float *y = (float *)(void *)og_bytes(s->io.out[0]);
  double *sums = s->scratch + worker * scratch_count(s);
  double *wide = sums + columns->in + 1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i % rows->out;
    rows_add(s, x + i / rows->out * rows->in * columns->in, row, sums);
    columns_add(columns, sums, wide);
    run_round(columns->out, wide, rows->area != NULL ? rows->area[row] : 1,
              columns->area, y + i * columns->out);
  }
}

static void share_copies(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const resample *s = state;
  const taps *rows = &s->dim[0], *columns = &s->dim[1];
  const float *x = (const float *)(const void *)og_bytes(s->io.in[0]);
  float *y = (float *)(void *)og_bytes(s->io.out[0]);
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = i % rows->out;
    const float *from =
        x + (i / rows->out * rows->in + rows->at[row]) * columns->in;
    float *to = y + i * columns->out;
    if (i > begin && row > 0 && rows->at[row] == rows->at[row - 1])
      memcpy(to, to - columns->out, (size_t)columns->out * sizeof *to);
    else
      for (int64_t c = 0; c < columns->out; ++c) to[c] = from[columns->at[c]];
  }
}

enum { PARTS = 8 };
OG_LOOP_BODY void plane_add_body(int64_t n, const float *from, double *sums) {
  for (int64_t i = 0; i + PARTS <= n; i += PARTS)
    for (int j = 0; j < PARTS; ++j) sums[j] += from[i + j];
  for (int64_t i = n / PARTS * PARTS; i < n; ++i) sums[0] += from[i];
}
OG_LOOP(plane_add, (int64_t n, const float *from, double *sums),
        (n, from, sums))

static void share_planes(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const resample *s = state;
  const taps *rows = &s->dim[0], *columns = &s->dim[1];
  const int64_t n = rows->in * columns->in;
  const float *x = (const float *)(const void *)og_bytes(s->io.in[0]);
  float *y = (float *)(void *)og_bytes(s->io.out[0]);
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    double sums[PARTS] = {0}, sum = 0;
    plane_add(n, x + i * n, sums);
    for (int j = 0; j < PARTS; ++j) sum += sums[j];
    y[i] = (float)(sum / (rows->area[0] * columns->area[0]));
  }
}

// All of a dim is one window.
static bool is_whole(const taps *t) {
  return t->out == 1 && t->area != NULL && t->count == t->in && t->at[0] == 0 &&
         t->at[t->count - 1] == t->in - 1;
}

// Each element has one tap, which is none of a window that is cut off.
static bool is_copy(const resample *s) {
  return s->dim[0].count == 1 && s->dim[1].count == 1 &&
         s->dim[0].weight == NULL && s->dim[0].area == NULL;
}

static og_status run_resample(void *state, const og_run *run) {
  const resample *s = state;
  const taps *rows = &s->dim[0], *columns = &s->dim[1];
  const int64_t work =
      columns->in * rows->count + columns->out * columns->count;
  return og_run_parallel(run, og_numel(s->io.out[0]) / columns->out,
                         og_grain(OG_GRAIN_LIGHT, work),
                         is_copy(s)                            ? share_copies
                         : is_whole(rows) && is_whole(columns) ? share_planes
                                                               : share_sums,
                         state);
}

// --- Preparation -------------------------------------------------------------

static bool taps_alloc(og_prep *prep, taps *t, int64_t in, int64_t out,
                       int64_t count, bool is_weighed, bool is_divided) {
  enum { COUNT_MOST = 1 << 16 };
  *t = (taps){.count = count, .in = in, .out = out};
  if (count > COUNT_MOST || in >= INT32_MAX || out > INT32_MAX / count)
    return false;
  const size_t all = (size_t)(count * out);
  t->at = og_prep_alloc(prep, (all + 1) * sizeof *t->at);
  t->begin = og_prep_alloc(prep, (size_t)(2 * count) * sizeof *t->begin);
  if (t->at == NULL || t->begin == NULL) return false;
  t->end = t->begin + count;
  if (is_weighed) t->weight = og_prep_alloc(prep, all * sizeof *t->weight);
  if (is_divided) t->area = og_prep_alloc(prep, (size_t)out * sizeof *t->area);
  return (!is_weighed || t->weight != NULL) && (!is_divided || t->area != NULL);
}

// The longest runs in the middle.
static void runs_find(taps *t) {
  for (int64_t k = 0; k < t->count; ++k) {
    const int32_t *at = t->at + k * t->out;
    int64_t best = 0, best_end = 0, begin = 0;
    for (int64_t i = 1; i <= t->out; ++i) {
      if (i < t->out && at[i] == at[i - 1] + 1 && at[i] < t->in) continue;
      if (i - begin > best_end - best && at[begin] < t->in) {
        best = begin;
        best_end = i;
      }
      begin = i;
    }
    t->begin[k] = best;
    t->end[k] = best_end;
  }
}

static bool upsample_taps(og_prep *prep, resample *s, og_status *out_status) {
  og_resample of = {0};
  *out_status = og_resample_read(prep, prep->in[0], prep->out[0], &of);
  for (int d = 0; *out_status == OG_OK && d < 2; ++d) {
    taps *t = &s->dim[d];
    if (!taps_alloc(prep, t, of.in[d], of.out[d], of.count, of.count > 1,
                    false))
      return false;
    for (int64_t i = 0; i < t->out; ++i)
      for (int64_t k = 0; k < t->count; ++k) {
        t->at[k * t->out + i] = (int32_t)of.taps[d][i].at[k];
        if (t->weight != NULL)
          t->weight[k * t->out + i] = of.taps[d][i].weight[k];
      }
  }
  return *out_status == OG_OK;
}

static og_status pool_read(og_prep *prep, og_pool *of, int64_t *out_counts,
                           int64_t *out_divisor) {
  of->dilation[0] = of->dilation[1] = 1;
  of->adaptive = prep->node->op == OG_IR_adaptive_avg_pool2d;
  *out_counts = *out_divisor = 0;
  OG_TRY(og_pool_shapes(prep, prep->in[0], prep->out[0], 2, of));
  if (of->adaptive) return OG_OK;
  OG_TRY(og_prep_int(prep, 3, 1, out_counts));
  OG_TRY(og_prep_int(prep, 4, 0, out_divisor));
  return og_pool_windows(prep, of);
}

static bool pool_taps(og_prep *prep, resample *s, og_status *out_status) {
  og_pool of = {0};
  int64_t counts, divisor;
  *out_status = pool_read(prep, &of, &counts, &divisor);
  for (int d = 0; *out_status == OG_OK && d < 2; ++d) {
    taps *t = &s->dim[d];
    int64_t most = of.adaptive ? 1 : of.kernel[d];
    for (int64_t i = 0; of.adaptive && i < of.out[d]; ++i) {
      const og_window w = og_pool_window(&of, d, i);
      if (w.end - w.begin > most) most = w.end - w.begin;
    }
    if (!taps_alloc(prep, t, of.in[d], of.out[d], most, false, true))
      return false;
    for (int64_t i = 0; i < t->out; ++i) {
      const og_window w = og_pool_window(&of, d, i);
      const int64_t own = counts != 0 ? w.span : w.end - w.begin;
      t->area[i] = (double)(divisor == 0 ? own : d == 0 ? divisor : 1);
      // Taps of equal numbers are neighbours where windows are cut off.
      const int64_t first =
          of.adaptive ? w.begin : i * of.stride[d] - of.padding[d];
      for (int64_t k = 0; k < most; ++k) {
        const int64_t at = first + k;
        t->at[k * t->out + i] =
            (int32_t)(at >= w.begin && at < w.end ? at : t->in);
      }
    }
  }
  return *out_status == OG_OK;
}

og_status og_prepare_resample(og_prep *prep) {
  og_status status = OG_OK;
  resample *s = og_state_begin(prep, sizeof *s, run_resample);
  if (s == NULL) return OG_MEMORY;
  if (!og_is_dense_f32(prep->in[0]) || !og_is_dense_f32(prep->out[0]) ||
      og_numel(prep->in[0]) == 0 || og_numel(prep->out[0]) == 0)
    return OG_UNSUPPORTED;
  const bool pools = prep->node->op == OG_IR_avg_pool2d ||
                     prep->node->op == OG_IR_adaptive_avg_pool2d;
  if (!(pools ? pool_taps : upsample_taps)(prep, s, &status))
    return status != OG_OK ? status : OG_UNSUPPORTED;
  runs_find(&s->dim[0]);
  runs_find(&s->dim[1]);
  s->scratch = og_prep_scratch(
      prep, (size_t)(prep->executable->threads * scratch_count(s)) *
                sizeof *s->scratch);
  return s->scratch != NULL ? OG_OK : OG_UNSUPPORTED;
}

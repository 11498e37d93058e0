// SPDX-License-Identifier: Apache-2.0
// Reference sampling of a tensor [N, C, *size] at the positions of a grid
// [N, *out, dims], whose last coordinate is the first dim's; and its gradients.
// Positions from -1 to 1 span the dims; where f32 is asked for they are rounded
// as f32.

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"

enum { DIMS = 3, TAPS = 4 };
enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct grid_sample {
  og_operands io;
  int64_t mode, padding, align;
  bool is_f64;
  int32_t dims;  // 2 or 3
  int64_t batch, channels, points, area;
  int64_t size[DIMS];
  double *x, *grid, *y;        // operands and result as doubles
  double *x_grad, *grid_grad;  // of the gradient
} grid_sample;

// --- Positions ---------------------------------------------------------------

static double rounded(const grid_sample *s, double x) {
  return s->is_f64 ? x : (double)(float)x;
}

// From [-1, 1] to elements; *slope is the derivative.
static double unnormalized(const grid_sample *s, int d, double x,
                           double *slope) {
  const double n = (double)s->size[d];
  *slope = s->align ? (n - 1) / 2 : n / 2;
  const double from_low = rounded(s, x + 1);
  if (s->align) return rounded(s, rounded(s, from_low / 2) * (n - 1));
  return rounded(s, rounded(s, rounded(s, from_low * n) - 1) / 2);
}

static double clipped(double x, double top, double *slope) {
  if (x > 0 && x < top) return x;
  *slope = 0;
  return x >= top ? top : 0;
}

// Folded back into [low / 2, high / 2].
static double reflected(const grid_sample *s, double x, double low, double high,
                        double *slope) {
  if (low == high) {
    *slope = 0;
    return 0;
  }
  const double least = low / 2, span = (high - low) / 2;
  double from = rounded(s, x - least);
  if (from < 0) {
    from = -from;
    *slope = -*slope;
  }
  const double extra = rounded(s, fmod(from, span));
  if (fmod(floor(from / span), 2) == 0) return rounded(s, extra + least);
  *slope = -*slope;
  return rounded(s, rounded(s, span - extra) + least);
}

static double padded(const grid_sample *s, int d, double x, double *slope) {
  const double n = (double)s->size[d];
  if (s->padding == ZEROS) return x;
  if (s->padding == REFLECTION)
    x = s->align ? reflected(s, x, 0, 2 * (n - 1), slope)
                 : reflected(s, x, -1, 2 * n - 1, slope);
  return clipped(x, n - 1, slope);
}

static bool is_inside(const grid_sample *s, int d, double at) {
  return at >= 0 && at < (double)s->size[d];
}

// --- Elements that a point reads ---------------------------------------------

// At most 4 x 4 elements, their weights, and the weights' derivatives by each
// coordinate of the grid.
typedef struct taps {
  int32_t count;
  int64_t place[TAPS * TAPS];
  double weight[TAPS * TAPS];
  double slope[TAPS * TAPS][DIMS];
} taps;

static void taps_add(const grid_sample *s, taps *t, const double *at,
                     double weight, const double *slope) {
  int64_t place = 0;
  for (int d = 0; d < s->dims; ++d) {
    if (!is_inside(s, d, at[d])) return;
    place = place * s->size[d] + (int64_t)at[d];
  }
  t->place[t->count] = place;
  t->weight[t->count] = weight;
  memcpy(t->slope[t->count++], slope, sizeof t->slope[0]);
}

static void taps_nearest(const grid_sample *s, const double *at, taps *t) {
  static const double flat[DIMS] = {0};
  double nearest[DIMS];
  for (int d = 0; d < s->dims; ++d) nearest[d] = nearbyint(at[d]);
  taps_add(s, t, nearest, 1, flat);
}

static void taps_linear(const grid_sample *s, const double *at,
                        const double *slope, taps *t) {
  for (int corner = 0; corner < 1 << s->dims; ++corner) {
    double place[DIMS], part[DIMS], weight = 1, slopes[DIMS];
    for (int d = 0; d < s->dims; ++d) {
      const bool is_high = corner >> d & 1;
      const double low = floor(at[d]);
      place[d] = low + is_high;
      part[d] = is_high ? at[d] - low : low + 1 - at[d];
      weight *= part[d];
    }
    for (int d = 0; d < s->dims; ++d) {
      slopes[d] = corner >> d & 1 ? slope[d] : -slope[d];
      for (int e = 0; e < s->dims; ++e)
        if (e != d) slopes[d] *= part[e];
    }
    taps_add(s, t, place, weight, slopes);
  }
}

// Keys' convolution with a = -0.75 at distances 1 + t, t, 1 - t, 2 - t.
static void cubic_weights(double t, double *out, double *out_slope) {
  const double a = -0.75;
  for (int k = 0; k < TAPS; ++k) {
    const double x = fabs(t + 1 - k), sign = k < 2 ? 1 : -1;
    const bool is_near = k == 1 || k == 2;
    out[k] = is_near ? ((a + 2) * x - (a + 3)) * x * x + 1
                     : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    out_slope[k] = sign * (is_near ? (3 * (a + 2) * x - 2 * (a + 3)) * x
                                   : (3 * a * x - 10 * a) * x + 8 * a);
  }
}

static void taps_cubic(const grid_sample *s, const double *at,
                       const double *slope, taps *t) {
  double weight[2][TAPS], change[2][TAPS];
  for (int d = 0; d < 2; ++d)
    cubic_weights(at[d] - floor(at[d]), weight[d], change[d]);
  for (int i = 0; i < TAPS; ++i)
    for (int j = 0; j < TAPS; ++j) {
      double unused = 1;
      const double place[DIMS] = {padded(s, 0, floor(at[0]) - 1 + i, &unused),
                                  padded(s, 1, floor(at[1]) - 1 + j, &unused)};
      const double slopes[DIMS] = {change[0][i] * weight[1][j] * slope[0],
                                   weight[0][i] * change[1][j] * slope[1]};
      taps_add(s, t, place, weight[0][i] * weight[1][j], slopes);
    }
}

// `coordinates` are a point's in the grid.
static void taps_find(const grid_sample *s, const double *coordinates,
                      taps *out) {
  double at[DIMS], slope[DIMS];
  out->count = 0;
  for (int d = 0; d < s->dims; ++d) {
    at[d] = unnormalized(s, d, coordinates[s->dims - 1 - d], &slope[d]);
    if (s->mode != BICUBIC) at[d] = padded(s, d, at[d], &slope[d]);
  }
  if (s->mode == NEAREST)
    taps_nearest(s, at, out);
  else if (s->mode == BILINEAR)
    taps_linear(s, at, slope, out);
  else
    taps_cubic(s, at, slope, out);
}

// --- Running -----------------------------------------------------------------

static og_status run_grid_sample(void *state, const og_run *run) {
  const grid_sample *s = state;
  taps t;
  (void)run;
  og_get_all(s->io.in[0], s->x);
  og_get_all(s->io.in[1], s->grid);
  for (int64_t i = 0; i < s->batch * s->points; ++i) {
    const int64_t n = i / s->points, p = i % s->points;
    taps_find(s, s->grid + i * s->dims, &t);
    for (int64_t c = n * s->channels; c < (n + 1) * s->channels; ++c) {
      double sum = 0;
      for (int32_t k = 0; k < t.count; ++k)
        sum += s->x[c * s->area + t.place[k]] * t.weight[k];
      s->y[c * s->points + p] = sum;
    }
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

// What one element of the gradient adds; `change` is the grid's.
static void gradient_add(const grid_sample *s, const taps *t, int64_t channel,
                         double gradient, double *change) {
  for (int32_t k = 0; k < t->count; ++k) {
    const int64_t at = channel * s->area + t->place[k];
    s->x_grad[at] += gradient * t->weight[k];
    for (int d = 0; d < s->dims; ++d)
      change[s->dims - 1 - d] += gradient * s->x[at] * t->slope[k][d];
  }
}

static og_status run_grid_sample_backward(void *state, const og_run *run) {
  const grid_sample *s = state;
  const int64_t points = s->batch * s->points;
  taps t;
  (void)run;
  og_get_all(s->io.in[0], s->y);
  og_get_all(s->io.in[1], s->x);
  og_get_all(s->io.in[2], s->grid);
  memset(s->x_grad, 0,
         (size_t)(s->batch * s->channels * s->area) * sizeof(double));
  memset(s->grid_grad, 0, (size_t)(points * s->dims) * sizeof(double));
  for (int64_t i = 0; i < points; ++i) {
    const int64_t n = i / s->points, p = i % s->points;
    taps_find(s, s->grid + i * s->dims, &t);
    for (int64_t c = n * s->channels; c < (n + 1) * s->channels; ++c)
      gradient_add(s, &t, c, s->y[c * s->points + p],
                   s->grid_grad + i * s->dims);
  }
  if (s->io.out[0] != NULL) og_put_all(s->io.out[0], s->x_grad);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->grid_grad);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static bool shapes_fit(const grid_sample *s, const og_tensor *x,
                       const og_tensor *grid, const og_tensor *y) {
  bool fits = grid->ndim == x->ndim && y->ndim == x->ndim &&
              grid->shape[0] == x->shape[0] && y->shape[0] == x->shape[0] &&
              y->shape[1] == x->shape[1] && grid->shape[x->ndim - 1] == s->dims;
  for (int32_t d = 2; fits && d < x->ndim; ++d)
    fits = y->shape[d] == grid->shape[d - 1];
  return fits && (s->area > 0 || og_numel(y) == 0);
}

static og_status shapes_read(og_prep *prep, grid_sample *s, const og_tensor *x,
                             const og_tensor *grid, const og_tensor *y) {
  OG_TRY(og_need_float(prep, x));
  OG_TRY(og_need_float(prep, grid));
  OG_TRY(og_need_float(prep, y));
  s->dims = x->ndim - 2;
  if (s->dims != 2 && s->dims != 3)
    return og_prep_wrong(prep, "it samples over two or three dims");
  s->is_f64 = og_dtype_class(x->dtype) == OG_CLASS_F64;
  s->batch = x->shape[0];
  s->channels = x->shape[1];
  s->area = s->points = 1;
  for (int32_t d = 0; d < s->dims; ++d) {
    s->area *= s->size[d] = x->shape[d + 2];
    s->points *= y->ndim == x->ndim ? y->shape[d + 2] : 0;
  }
  return shapes_fit(s, x, grid, y) ? OG_OK : og_prep_misfit(prep);
}

static og_status attrs_read(og_prep *prep, grid_sample *s) {
  OG_TRY(og_prep_int(prep, 0, BILINEAR, &s->mode));
  OG_TRY(og_prep_int(prep, 1, ZEROS, &s->padding));
  OG_TRY(og_prep_int(prep, 2, 0, &s->align));
  if (s->mode < BILINEAR || s->mode > (s->dims == 2 ? BICUBIC : NEAREST) ||
      s->padding < ZEROS || s->padding > REFLECTION)
    return og_prep_wrong(prep, "an unknown interpolation or padding");
  return OG_OK;
}

og_status og_prepare_grid_sample(og_prep *prep) {
  const og_tensor *x = prep->in[0], *grid = prep->in[1], *y = prep->out[0];
  grid_sample *s = og_state_begin(prep, sizeof *s, run_grid_sample);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, x, grid, y));
  s->x = og_prep_doubles(prep, og_numel(x) + og_numel(grid) + og_numel(y) + 1);
  if (s->x == NULL) return og_prep_memory(prep);
  s->grid = s->x + og_numel(x);
  s->y = s->grid + og_numel(grid);
  return attrs_read(prep, s);
}

// Operands: gradient, what was sampled, grid.
og_status og_prepare_grid_sample_backward(og_prep *prep) {
  const og_tensor *y = prep->in[0], *x = prep->in[1], *grid = prep->in[2];
  grid_sample *s = og_state_begin(prep, sizeof *s, run_grid_sample_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, x, grid, y));
  for (int r = 0; r < 2; ++r) {
    const og_tensor *of = r == 0 ? x : grid, *out = prep->out[r];
    if (out != NULL && (!og_is_float(out) || !og_same_shape(out, of)))
      return og_prep_wrong(prep, "a gradient has the shape of what it is of");
  }
  s->x = og_prep_doubles(prep,
                         2 * (og_numel(x) + og_numel(grid)) + og_numel(y) + 1);
  if (s->x == NULL) return og_prep_memory(prep);
  s->grid = s->x + og_numel(x);
  s->y = s->grid + og_numel(grid);
  s->x_grad = s->y + og_numel(y);
  s->grid_grad = s->x_grad + og_numel(x);
  return attrs_read(prep, s);
}

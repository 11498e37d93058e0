// SPDX-License-Identifier: Apache-2.0
// Reference bicubic resizing of the last two dims, and its gradient: Keys'
// convolution with a = -0.75 over 4 x 4 elements, those at the border repeated.
// Bytes are resized as PyTorch does it: columns, then rows, with weights of 16
// bits and a result of bytes each; a dim that keeps its size is left alone.

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"

enum { TAPS = 4 };

// Of each position of the result along a dim: the elements and their weights.
typedef struct tap {
  int64_t at[TAPS];
  double weight[TAPS];
} tap;

typedef struct bicubic {
  og_operands io;
  int64_t planes, in_size[2], out_size[2];
  double *x, *y;
  double *wide;  // of bytes: rows of the operand, columns of the result
  tap *taps[2];
} bicubic;

static double cubic(double x) {
  const double a = -0.75;
  x = fabs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
                : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// Elements of the operand for each of the result.
static double ratio(int64_t in, int64_t out, bool aligns, double scale) {
  if (aligns) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return scale > 0 ? 1 / scale : (double)in / (double)out;
}

static void taps_make(bicubic *s, int d, bool aligns, double scale) {
  const int64_t last = s->in_size[d] - 1;
  const double step = ratio(s->in_size[d], s->out_size[d], aligns, scale);
  for (int64_t i = 0; i < s->out_size[d]; ++i) {
    const double at =
        aligns ? step * (double)i : step * ((double)i + 0.5) - 0.5;
    const double low = fmin(floor(at), (double)last);
    for (int k = 0; k < TAPS; ++k) {
      const double place = low - 1 + k;
      s->taps[d][i].at[k] = !(place > 0)            ? 0
                            : place >= (double)last ? last
                                                    : (int64_t)place;
      s->taps[d][i].weight[k] = cubic(fmin(at - low, 1) + 1 - k);
    }
  }
}

// The weights of an element that stands several times are added up in the
// first of its taps. Returns the greatest sum on the way.
static double weights_join(tap *t) {
  double most = 0;
  for (int k = 0, to = 0; k < TAPS; ++k) {
    const double weight = t->weight[k];
    if (t->at[k] != t->at[to]) to = k;
    if (to != k) t->weight[k] = 0;
    t->weight[to] = to != k ? t->weight[to] + weight : weight;
    most = fmax(most, t->weight[to]);
  }
  return most;
}

// Weights that are multiples of a power of two: as fine as 16 bits can say the
// greatest of them.
static void taps_round(bicubic *s, int d) {
  enum { FINEST = 22 };
  double most = 0, unit = 1;
  for (int64_t i = 0; i < s->out_size[d]; ++i)
    most = fmax(most, weights_join(&s->taps[d][i]));
  for (int p = 0; p < FINEST && floor(0.5 + most * unit * 2) < 1 << 15; ++p)
    unit *= 2;
  for (int64_t i = 0; i < s->out_size[d]; ++i)
    for (int k = 0; k < TAPS; ++k) {
      tap *t = &s->taps[d][i];
      t->weight[k] = round(t->weight[k] * unit) / unit;
      if (s->in_size[d] == s->out_size[d]) {
        t->at[k] = i;
        t->weight[k] = k == 0;
      }
    }
}

static og_status run_bicubic(void *state, const og_run *run) {
  const bicubic *s = state;
  const int64_t in = s->in_size[0] * s->in_size[1];
  const int64_t out = s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->io.in[0], s->x);
  for (int64_t i = 0; i < s->planes * out; ++i) {
    const tap *rows = &s->taps[0][i % out / s->out_size[1]];
    const tap *columns = &s->taps[1][i % s->out_size[1]];
    double sum = 0;
    for (int r = 0; r < TAPS; ++r) {
      const double *row = s->x + i / out * in + rows->at[r] * s->in_size[1];
      double part = 0;
      for (int c = 0; c < TAPS; ++c)
        part += row[columns->at[c]] * columns->weight[c];
      sum += part * rows->weight[r];
    }
    s->y[i] = sum;
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

// One line of bytes along dim d.
static void line_resize(const bicubic *s, int d, const double *from, double *to,
                        int64_t stride) {
  for (int64_t i = 0; i < s->out_size[d]; ++i) {
    const tap *t = &s->taps[d][i];
    double sum = 0;
    for (int k = 0; k < TAPS; ++k)
      sum += from[t->at[k] * stride] * t->weight[k];
    to[i * stride] = fmin(fmax(floor(sum + 0.5), 0), 255);
  }
}

static og_status run_bicubic_bytes(void *state, const og_run *run) {
  const bicubic *s = state;
  const int64_t width = s->out_size[1];
  (void)run;
  og_get_all(s->io.in[0], s->x);
  for (int64_t r = 0; r < s->planes * s->in_size[0]; ++r)
    line_resize(s, 1, s->x + r * s->in_size[1], s->wide + r * width, 1);
  for (int64_t i = 0; i < s->planes * width; ++i) {
    const int64_t plane = i / width, column = i % width;
    line_resize(s, 0, s->wide + plane * s->in_size[0] * width + column,
                s->y + plane * s->out_size[0] * width + column, width);
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

static og_status run_bicubic_backward(void *state, const og_run *run) {
  const bicubic *s = state;
  const int64_t in = s->in_size[0] * s->in_size[1];
  const int64_t out = s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->io.in[0], s->y);
  memset(s->x, 0, (size_t)(s->planes * in) * sizeof *s->x);
  for (int64_t i = 0; i < s->planes * out; ++i) {
    const tap *rows = &s->taps[0][i % out / s->out_size[1]];
    const tap *columns = &s->taps[1][i % s->out_size[1]];
    for (int r = 0; r < TAPS; ++r) {
      double *row = s->x + i / out * in + rows->at[r] * s->in_size[1];
      for (int c = 0; c < TAPS; ++c)
        row[columns->at[c]] += s->y[i] * rows->weight[r] * columns->weight[c];
    }
  }
  og_put_all(s->io.out[0], s->x);
  return OG_OK;
}

// `x` is the tensor to resize, or its gradient; `y` the result, or its.
static og_status bicubic_prepare(og_prep *prep, og_step_fn run,
                                 const og_tensor *x, const og_tensor *y) {
  int64_t aligns;
  double scale[2];
  bicubic *s = og_state_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_prep_int(prep, 0, 0, &aligns));
  OG_TRY(og_prep_float(prep, 1, 0, &scale[0]));
  OG_TRY(og_prep_float(prep, 2, 0, &scale[1]));
  if (x->ndim != 4 || y->ndim != 4 || x->shape[0] != y->shape[0] ||
      x->shape[1] != y->shape[1] || (og_numel(x) == 0 && og_numel(y) > 0))
    return og_prep_misfit(prep);
  for (int d = 2; d < 4; ++d)
    if (x->shape[d] == 0 || y->shape[d] == 0)
      return og_prep_refuse(prep, "it resizes to or from a side of 0");
  s->planes = x->shape[0] * x->shape[1];
  int64_t wide = 0, count = og_numel(x) + og_numel(y) + 1;
  if (run == run_bicubic_bytes &&
      !og_i64_mul(s->planes * x->shape[2], y->shape[3], &wide))
    return og_prep_memory(prep);
  s->x = og_i64_add(count, wide, &count) ? og_prep_doubles(prep, count) : NULL;
  if (s->x == NULL) return og_prep_memory(prep);
  s->y = s->x + og_numel(x);
  s->wide = s->y + og_numel(y);
  for (int d = 0; d < 2; ++d) {
    size_t bytes;
    s->in_size[d] = x->shape[2 + d];
    s->out_size[d] = y->shape[2 + d];
    if (!og_size_mul((size_t)s->out_size[d] + 1, sizeof(tap), &bytes))
      return og_prep_memory(prep);
    s->taps[d] = og_prep_alloc(prep, bytes);
    if (s->taps[d] == NULL) return og_prep_memory(prep);
    taps_make(s, d, aligns != 0, scale[d]);
  }
  return OG_OK;
}

static bool is_bytes(const og_tensor *tensor) {
  return tensor != NULL && tensor->dtype.code == OG_CODE_UINT &&
         tensor->dtype.bits == 8 && tensor->dtype.lanes == 1;
}

static og_status bytes_prepare(og_prep *prep) {
  const og_tensor *x = prep->in[0], *y = prep->out[0];
  OG_TRY(bicubic_prepare(prep, run_bicubic_bytes, x, y));
  bicubic *s = prep->step.state;
  taps_round(s, 0);
  taps_round(s, 1);
  return OG_OK;
}

og_status og_prepare_upsample_bicubic2d(og_prep *prep) {
  if (is_bytes(prep->in[0]) && is_bytes(prep->out[0]))
    return bytes_prepare(prep);
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  return bicubic_prepare(prep, run_bicubic, prep->in[0], prep->out[0]);
}

og_status og_prepare_upsample_bicubic2d_backward(og_prep *prep) {
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  return bicubic_prepare(prep, run_bicubic_backward, prep->out[0], prep->in[0]);
}

// SPDX-License-Identifier: Apache-2.0
// Reference resizing of the last two dims, and bicubic's gradient. Elements
// beyond the border are those at it.
// Bytes are resized as PyTorch does it: columns, then rows, with weights of 16
// bits and a result of bytes each; a dim that keeps its size is left alone.

#include <math.h>
#include <string.h>

#include "exec/step/resample.h"

typedef struct upsample {
  og_operands io;
  og_resample of;
  double *x, *y;
  double *wide;  // of bytes: rows of the operand, columns of the result
} upsample;

// The weights of an element that stands several times are added up in the
// first of its taps. Returns the greatest sum on the way.
static double weights_join(og_tap *t) {
  double most = 0;
  for (int k = 0, to = 0; k < OG_TAPS_MOST; ++k) {
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
static void taps_round(upsample *s, int d) {
  enum { FINEST = 22 };
  double most = 0, unit = 1;
  for (int64_t i = 0; i < s->of.out[d]; ++i)
    most = fmax(most, weights_join(&s->of.taps[d][i]));
  for (int p = 0; p < FINEST && floor(0.5 + most * unit * 2) < 1 << 15; ++p)
    unit *= 2;
  for (int64_t i = 0; i < s->of.out[d]; ++i)
    for (int k = 0; k < OG_TAPS_MOST; ++k) {
      og_tap *t = &s->of.taps[d][i];
      t->weight[k] = round(t->weight[k] * unit) / unit;
      if (s->of.in[d] == s->of.out[d]) {
        t->at[k] = i;
        t->weight[k] = k == 0;
      }
    }
}

static og_status run_upsample(void *state, const og_run *run) {
  const upsample *s = state;
  const int64_t in = s->of.in[0] * s->of.in[1];
  const int64_t out = s->of.out[0] * s->of.out[1];
  (void)run;
  og_get_all(s->io.in[0], s->x);
  for (int64_t i = 0; i < s->of.planes * out; ++i) {
    const og_tap *rows = &s->of.taps[0][i % out / s->of.out[1]];
    const og_tap *columns = &s->of.taps[1][i % s->of.out[1]];
    double sum = 0;
    for (int r = 0; r < s->of.count; ++r) {
      const double *row = s->x + i / out * in + rows->at[r] * s->of.in[1];
      double part = 0;
      for (int c = 0; c < s->of.count; ++c)
        part += row[columns->at[c]] * columns->weight[c];
      sum += part * rows->weight[r];
    }
    s->y[i] = sum;
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

// One line of bytes along dim d.
static void line_resize(const upsample *s, int d, const double *from,
                        double *to, int64_t stride) {
  for (int64_t i = 0; i < s->of.out[d]; ++i) {
    const og_tap *t = &s->of.taps[d][i];
    double sum = 0;
    for (int k = 0; k < OG_TAPS_MOST; ++k)
      sum += from[t->at[k] * stride] * t->weight[k];
    to[i * stride] = fmin(fmax(floor(sum + 0.5), 0), 255);
  }
}

static og_status run_bicubic_bytes(void *state, const og_run *run) {
  const upsample *s = state;
  const int64_t width = s->of.out[1];
  (void)run;
  og_get_all(s->io.in[0], s->x);
  for (int64_t r = 0; r < s->of.planes * s->of.in[0]; ++r)
    line_resize(s, 1, s->x + r * s->of.in[1], s->wide + r * width, 1);
  for (int64_t i = 0; i < s->of.planes * width; ++i) {
    const int64_t plane = i / width, column = i % width;
    line_resize(s, 0, s->wide + plane * s->of.in[0] * width + column,
                s->y + plane * s->of.out[0] * width + column, width);
  }
  og_put_all(s->io.out[0], s->y);
  return OG_OK;
}

static og_status run_bicubic_backward(void *state, const og_run *run) {
  const upsample *s = state;
  const int64_t in = s->of.in[0] * s->of.in[1];
  const int64_t out = s->of.out[0] * s->of.out[1];
  (void)run;
  og_get_all(s->io.in[0], s->y);
  memset(s->x, 0, (size_t)(s->of.planes * in) * sizeof *s->x);
  for (int64_t i = 0; i < s->of.planes * out; ++i) {
    const og_tap *rows = &s->of.taps[0][i % out / s->of.out[1]];
    const og_tap *columns = &s->of.taps[1][i % s->of.out[1]];
    for (int r = 0; r < OG_TAPS_MOST; ++r) {
      double *row = s->x + i / out * in + rows->at[r] * s->of.in[1];
      for (int c = 0; c < OG_TAPS_MOST; ++c)
        row[columns->at[c]] += s->y[i] * rows->weight[r] * columns->weight[c];
    }
  }
  og_put_all(s->io.out[0], s->x);
  return OG_OK;
}

static og_status upsample_prepare(og_prep *prep, og_step_fn run,
                                  const og_tensor *x, const og_tensor *y) {
  upsample *s = og_state_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_resample_read(prep, x, y, &s->of));
  int64_t wide = 0, count = og_numel(x) + og_numel(y) + 1;
  if (run == run_bicubic_bytes &&
      !og_i64_mul(s->of.planes * x->shape[2], y->shape[3], &wide))
    return og_prep_memory(prep);
  s->x = og_i64_add(count, wide, &count) ? og_prep_doubles(prep, count) : NULL;
  if (s->x == NULL) return og_prep_memory(prep);
  s->y = s->x + og_numel(x);
  s->wide = s->y + og_numel(y);
  return OG_OK;
}

static bool is_bytes(const og_tensor *tensor) {
  return tensor != NULL && tensor->dtype.code == OG_CODE_UINT &&
         tensor->dtype.bits == 8 && tensor->dtype.lanes == 1;
}

static og_status bytes_prepare(og_prep *prep) {
  const og_tensor *x = prep->in[0], *y = prep->out[0];
  OG_TRY(upsample_prepare(prep, run_bicubic_bytes, x, y));
  upsample *s = prep->step.state;
  taps_round(s, 0);
  taps_round(s, 1);
  return OG_OK;
}

og_status og_prepare_upsample2d(og_prep *prep) {
  if (prep->node->op == OG_IR_upsample_bicubic2d && is_bytes(prep->in[0]) &&
      is_bytes(prep->out[0]))
    return bytes_prepare(prep);
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  return upsample_prepare(prep, run_upsample, prep->in[0], prep->out[0]);
}

og_status og_prepare_upsample_bicubic2d_backward(og_prep *prep) {
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  return upsample_prepare(prep, run_bicubic_backward, prep->out[0],
                          prep->in[0]);
}

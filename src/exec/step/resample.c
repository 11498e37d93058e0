// SPDX-License-Identifier: Apache-2.0

#include "exec/step/resample.h"

#include <math.h>

enum { ALIGN, SCALE };  // attributes

// Keys' convolution.
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

// In the type that PyTorch computes the place in: a rounding decides.
static int64_t nearest(int64_t i, int64_t in, double step, bool is_double) {
  const double at = is_double ? floor((double)i * step)
                              : (double)floorf((float)i * (float)step);
  return at < (double)(in - 1) ? (int64_t)at : in - 1;
}

static void linear(double at, int64_t last, og_tap *out) {
  const double place = fmax(at, 0), low = fmin(floor(place), (double)last);
  out->at[0] = (int64_t)low;
  out->at[1] = out->at[0] + (out->at[0] < last);
  out->weight[1] = fmin(place - low, 1);
  out->weight[0] = 1 - out->weight[1];
}

static void bicubic(double at, int64_t last, og_tap *out) {
  const double low = fmin(floor(at), (double)last);
  for (int k = 0; k < OG_TAPS_MOST; ++k) {
    const double place = low - 1 + k;
    out->at[k] = !(place > 0)            ? 0
                 : place >= (double)last ? last
                                         : (int64_t)place;
    out->weight[k] = cubic(fmin(at - low, 1) + 1 - k);
  }
}

static void taps_make(const og_resample *s, int d, bool aligns, double scale,
                      bool is_double) {
  const int64_t last = s->in[d] - 1;
  const double step = ratio(s->in[d], s->out[d], aligns, scale);
  for (int64_t i = 0; i < s->out[d]; ++i) {
    const double at =
        aligns ? step * (double)i : step * ((double)i + 0.5) - 0.5;
    if (s->count == 1)
      s->taps[d][i] = (og_tap){{nearest(i, last + 1, step, is_double)}, {1}};
    else if (s->count == 2)
      linear(at, last, &s->taps[d][i]);
    else
      bicubic(at, last, &s->taps[d][i]);
  }
}

static int32_t count_of(int32_t op) {
  return op == OG_IR_upsample_nearest2d    ? 1
         : op == OG_IR_upsample_bilinear2d ? 2
                                           : OG_TAPS_MOST;
}

og_status og_resample_read(og_prep *prep, const og_tensor *x,
                           const og_tensor *y, og_resample *s) {
  int64_t aligns;
  double scale[2];
  s->count = count_of(prep->node->op);
  OG_TRY(og_prep_int(prep, ALIGN, 0, &aligns));
  OG_TRY(og_prep_float(prep, SCALE, 0, &scale[0]));
  OG_TRY(og_prep_float(prep, SCALE + 1, 0, &scale[1]));
  if (x->ndim != 4 || y->ndim != 4 || x->shape[0] != y->shape[0] ||
      x->shape[1] != y->shape[1] || (og_numel(x) == 0 && og_numel(y) > 0))
    return og_prep_misfit(prep);
  for (int d = 2; d < 4; ++d)
    if (x->shape[d] == 0 || y->shape[d] == 0)
      return og_prep_refuse(prep, "it resizes to or from a side of 0");
  s->planes = x->shape[0] * x->shape[1];
  for (int d = 0; d < 2; ++d) {
    size_t bytes;
    s->in[d] = x->shape[2 + d];
    s->out[d] = y->shape[2 + d];
    if (!og_size_mul((size_t)s->out[d] + 1, sizeof(og_tap), &bytes))
      return og_prep_memory(prep);
    s->taps[d] = og_prep_alloc(prep, bytes);
    if (s->taps[d] == NULL) return og_prep_memory(prep);
    taps_make(s, d, aligns != 0, scale[d], x->dtype.bits == 64);
  }
  return OG_OK;
}

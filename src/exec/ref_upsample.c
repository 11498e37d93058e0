// SPDX-License-Identifier: Apache-2.0
// Reference bicubic resizing of the last two dims, and its gradient: Keys'
// convolution with a = -0.75 over 4 x 4 elements, those at the border repeated.

#include <math.h>
#include <string.h>

#include "exec/ref.h"

enum { TAPS = 4 };

// Of each position of the result along a dim: the elements and their weights.
typedef struct tap {
  int64_t at[TAPS];
  double weight[TAPS];
} tap;

typedef struct bicubic {
  og_ref ref;
  int64_t planes, in_size[2], out_size[2];
  double *x, *y;
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
    const double low = floor(at);
    for (int k = 0; k < TAPS; ++k) {
      const double place = low - 1 + k;
      s->taps[d][i].at[k] = !(place > 0)            ? 0
                            : place >= (double)last ? last
                                                    : (int64_t)place;
      s->taps[d][i].weight[k] = cubic(at - low + 1 - k);
    }
  }
}

static og_status run_bicubic(void *state, const og_run *run) {
  const bicubic *s = state;
  const int64_t in = s->in_size[0] * s->in_size[1];
  const int64_t out = s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->ref.in[0], s->x);
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
  og_put_all(s->ref.out[0], s->y);
  return OG_OK;
}

static og_status run_bicubic_backward(void *state, const og_run *run) {
  const bicubic *s = state;
  const int64_t in = s->in_size[0] * s->in_size[1];
  const int64_t out = s->out_size[0] * s->out_size[1];
  (void)run;
  og_get_all(s->ref.in[0], s->y);
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
  og_put_all(s->ref.out[0], s->x);
  return OG_OK;
}

// `x` is what is resized, or its gradient; `y` the result, or its.
static og_status bicubic_prepare(og_prep *prep, og_step_fn run,
                                 const og_tensor *x, const og_tensor *y) {
  int64_t aligns;
  double scale[2];
  bicubic *s = og_ref_begin(prep, sizeof *s, run);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_need_float(prep, x));
  OG_TRY(og_need_float(prep, y));
  OG_TRY(og_prep_int(prep, 0, 0, &aligns));
  OG_TRY(og_prep_float(prep, 1, 0, &scale[0]));
  OG_TRY(og_prep_float(prep, 2, 0, &scale[1]));
  if (x->ndim != 4 || y->ndim != 4 || x->shape[0] != y->shape[0] ||
      x->shape[1] != y->shape[1] || (og_numel(x) == 0 && og_numel(y) > 0))
    return og_prep_wrong(prep, "the shapes do not fit");
  s->planes = x->shape[0] * x->shape[1];
  s->x = og_prep_doubles(prep, og_numel(x) + og_numel(y) + 1);
  if (s->x == NULL) return og_prep_memory(prep);
  s->y = s->x + og_numel(x);
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

og_status og_prepare_upsample_bicubic2d(og_prep *prep) {
  return bicubic_prepare(prep, run_bicubic, prep->in[0], prep->out[0]);
}

og_status og_prepare_upsample_bicubic2d_backward(og_prep *prep) {
  return bicubic_prepare(prep, run_bicubic_backward, prep->out[0], prep->in[0]);
}

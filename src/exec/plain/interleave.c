// SPDX-License-Identifier: Apache-2.0
// interleave: the phases of each position, which a plain convolution computes
// as channels, side by side. Of each spatial dim, with stride s, element v of
// the result is element m of phase s - 1 - r, where v + padding = s m + r.

#include <string.h>

#include "base/grain.h"
#include "base/loops.h"
#include "exec/step/operands.h"

enum { SPACE = 3 };

typedef struct interleave {
  og_operands io;
  int32_t space;
  int64_t stride[SPACE], padding[SPACE];
} interleave;

// Where row `index` of the result begins, and its phase 0 of the last dim; the
// rows of the other phases stand `stride` channels apart from it.
static void row_find(const interleave *s, int64_t index, char **to,
                     const char **from) {
  const og_tensor *x = s->io.in[0], *y = s->io.out[0];
  int64_t to_at = 0, from_at = 0, phase = 0, phases = 1;
  for (int32_t d = s->space - 2; d >= 0; --d) {
    const int64_t v = index % y->shape[d + 2], u = v + s->padding[d];
    index /= y->shape[d + 2];
    to_at += v * y->strides[d + 2];
    from_at += u / s->stride[d] * x->strides[d + 2];
    phase += phases * (s->stride[d] - 1 - u % s->stride[d]);
    phases *= s->stride[d];
  }
  const int64_t c = index % y->shape[1], n = index / y->shape[1];
  to_at += n * y->strides[0] + c * y->strides[1];
  from_at += n * x->strides[0] +
             (c * phases + phase) * s->stride[s->space - 1] * x->strides[1];
  *to = og_bytes(y) + to_at * og_item_bytes(y);
  *from = og_bytes(x) + from_at * og_item_bytes(x);
}

#define SPREAD(type)                  \
  for (int64_t i = 0; i < n; ++i)     \
  ((type *)(void *)to)[i * to_step] = \
      ((const type *)(const void *)from)[i * from_step]

// n elements, with steps in elements.
static void spread(int64_t n, int64_t item, char *to, int64_t to_step,
                   const char *from, int64_t from_step) {
  if (item == 4)
    SPREAD(uint32_t);
  else if (item == 8)
    SPREAD(uint64_t);
  else
    for (int64_t i = 0; i < n; ++i)
      memcpy(to + i * to_step * item, from + i * from_step * item,
             (size_t)item);
}

OG_LOOP_BODY void pairs_join_body(int64_t n, const float *a, const float *b,
                                  float *to) {
  for (int64_t i = 0; i < n; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}
OG_LOOP(pairs_join, (int64_t n, const float *a, const float *b, float *to),
        (n, a, b, to))

// Two phases of floats that stand in runs; false where it is another case.
static bool row_join(const interleave *s, const char *from, char *to) {
  const og_tensor *x = s->io.in[0], *y = s->io.out[0];
  const int32_t last = s->space + 1;
  const int64_t width = y->shape[last];
  if (s->stride[s->space - 1] != 2 || og_item_bytes(y) != 4 ||
      x->strides[last] != 1 || y->strides[last] != 1)
    return false;
  const float *even = (const float *)(const void *)from + x->strides[1];
  const float *odd = (const float *)(const void *)from;
  float *out = (float *)(void *)to;
  const bool is_odd = s->padding[s->space - 1] != 0;
  if (is_odd) *out = *odd;
  pairs_join((width - is_odd) / 2, even + is_odd, odd + is_odd, out + is_odd);
  if ((width - is_odd) % 2 != 0)
    out[width - 1] = even[is_odd + (width - is_odd) / 2];
  return true;
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const interleave *s = state;
  const og_tensor *x = s->io.in[0], *y = s->io.out[0];
  const int32_t last = s->space + 1;
  const int64_t width = y->shape[last], item = og_item_bytes(y);
  const int64_t stride = s->stride[s->space - 1];
  const int64_t padding = s->padding[s->space - 1];
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const char *from;
    char *to;
    row_find(s, i, &to, &from);
    if (row_join(s, from, to)) continue;
    for (int64_t v = 0; v < stride && v < width; ++v) {
      const int64_t r = (v + padding) % stride, m = (v + padding) / stride;
      spread((width - v + stride - 1) / stride, item,
             to + v * y->strides[last] * item, stride * y->strides[last],
             from + ((stride - 1 - r) * x->strides[1] + m * x->strides[last]) *
                        item,
             x->strides[last]);
    }
  }
}

static og_status run_interleave(void *state, const og_run *run) {
  const og_tensor *y = ((const interleave *)state)->io.out[0];
  const int64_t width = y->shape[y->ndim - 1];
  return og_run_parallel(run, og_numel(y) / width,
                         og_grain(OG_GRAIN_LIGHT, width), share_rows, state);
}

og_status og_prepare_interleave(og_prep *prep) {
  const og_tensor *x = prep->in[0], *y = prep->out[0];
  int32_t strides, paddings;
  int64_t phases = 1;
  interleave *s = og_state_begin(prep, sizeof *s, run_interleave);
  if (s == NULL) return OG_MEMORY;
  s->space = y->ndim - 2;
  if (s->space < 1 || s->space > SPACE || x == NULL || x->ndim != y->ndim)
    return og_prep_wrong(prep, "it takes one to three spatial dims");
  OG_TRY(og_need_same_type(prep, x, y));
  OG_TRY(og_prep_ints(prep, 0, s->stride, SPACE, &strides));
  OG_TRY(og_prep_ints(prep, 1, s->padding, SPACE, &paddings));
  if (strides != s->space || paddings != s->space)
    return og_prep_wrong(prep, "it needs one number for each spatial dim");
  bool fits = x->shape[0] == y->shape[0];
  for (int32_t d = 0; d < s->space; ++d) {
    if (s->stride[d] < 1 || s->stride[d] > INT32_MAX || s->padding[d] < 0 ||
        s->padding[d] >= s->stride[d])
      return og_prep_wrong(prep, "a stride or padding is out of range");
    fits =
        fits && og_i64_mul(phases, s->stride[d], &phases) &&
        (y->shape[d + 2] - 1 + s->padding[d]) / s->stride[d] < x->shape[d + 2];
  }
  if (og_numel(y) == 0) {
    prep->step.run = NULL;
    return OG_OK;
  }
  return fits && x->shape[1] % phases == 0 &&
                 x->shape[1] / phases == y->shape[1]
             ? OG_OK
             : og_prep_misfit(prep);
}

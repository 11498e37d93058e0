// SPDX-License-Identifier: Apache-2.0
// glu: the first half along a dim, times the sigmoid of the second; and its
// gradient, of which the halves are those of both.

#include <math.h>

#include "exec/step/operands.h"

enum { BLOCK = 256 };

typedef struct glu {
  og_operands io;
  og_nest nest;                // of one half: x, result; gradient, x, result
  int64_t x_bytes, out_bytes;  // from the first half to the second
} glu;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// n elements at these places.
typedef void (*part_fn)(const glu *s, int64_t n, char *const *at,
                        const int64_t *stride);

static void part_forward(const glu *s, int64_t n, char *const *at,
                         const int64_t *stride) {
  const og_tensor *x = s->io.in[0];
  double a[BLOCK], b[BLOCK];
  og_get_doubles(x, at[0], stride[0], n, a);
  og_get_doubles(x, at[0] + s->x_bytes, stride[0], n, b);
  for (int64_t i = 0; i < n; ++i) a[i] *= sigmoid(b[i]);
  og_put_doubles(s->io.out[0], at[1], stride[1], n, a);
}

static void part_backward(const glu *s, int64_t n, char *const *at,
                          const int64_t *stride) {
  const og_tensor *x = s->io.in[1], *out = s->io.out[0];
  double grad[BLOCK], a[BLOCK], b[BLOCK];
  og_get_doubles(s->io.in[0], at[0], stride[0], n, grad);
  og_get_doubles(x, at[1], stride[1], n, a);
  og_get_doubles(x, at[1] + s->x_bytes, stride[1], n, b);
  for (int64_t i = 0; i < n; ++i) {
    const double gate = sigmoid(b[i]);
    b[i] = grad[i] * a[i] * gate * (1 - gate);
    a[i] = grad[i] * gate;
  }
  og_put_doubles(out, at[2], stride[2], n, a);
  og_put_doubles(out, at[2] + s->out_bytes, stride[2], n, b);
}

static void run_parts(const glu *s, const og_tensor *const *tensors,
                      part_fn part) {
  const og_nest *nest = &s->nest;
  const int64_t rows = og_nest_rows(nest), width = og_nest_width(nest);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t offset[OG_NEST_OPERANDS], stride[OG_NEST_OPERANDS] = {0};
    char *at[OG_NEST_OPERANDS];
    og_nest_offsets(nest, row, offset);
    for (int64_t i = 0; i < width; i += BLOCK) {
      for (int32_t k = 0; k < nest->operands; ++k) {
        if (nest->ndim > 0) stride[k] = nest->stride[k][nest->ndim - 1];
        at[k] = og_bytes(tensors[k]) + offset[k] + i * stride[k];
      }
      part(s, width - i < BLOCK ? width - i : BLOCK, at, stride);
    }
  }
}

static og_status run_glu(void *state, const og_run *run) {
  const glu *s = state;
  const og_tensor *const tensors[2] = {s->io.in[0], s->io.out[0]};
  (void)run;
  run_parts(s, tensors, part_forward);
  return OG_OK;
}

static og_status run_glu_backward(void *state, const og_run *run) {
  const glu *s = state;
  const og_tensor *const tensors[3] = {s->io.in[0], s->io.in[1], s->io.out[0]};
  (void)run;
  run_parts(s, tensors, part_backward);
  return OG_OK;
}

static int64_t half_bytes(const og_tensor *tensor, int32_t dim, int64_t half) {
  return half * tensor->strides[dim] * og_item_bytes(tensor);
}

// `half` has the shape of one half; the other tensors twice as much along the
// dim, or the same.
static og_status glu_prepare(og_prep *prep, glu *s, const og_tensor *half,
                             const og_tensor *const *tensors, int32_t count) {
  og_tensor parts[3];
  const og_tensor *pointers[3];
  int32_t dim;
  OG_TRY(og_prep_dim(prep, 0, half->ndim, &dim));
  if (half->ndim == 0) return og_prep_wrong(prep, "it splits no dim");
  for (int32_t k = 0; k < count; ++k) {
    const og_tensor *t = tensors[k];
    OG_TRY(og_need_float(prep, t));
    bool fits = t->ndim == half->ndim;
    for (int32_t d = 0; fits && d < t->ndim; ++d)
      fits = t->shape[d] ==
             (d == dim && t != half ? 2 * half->shape[d] : half->shape[d]);
    if (!fits) return og_prep_misfit(prep);
    parts[k] = *t;
    parts[k].shape = half->shape;
    pointers[k] = &parts[k];
  }
  if (og_numel(half) == 0) {
    prep->step.run = NULL;
    return OG_OK;
  }
  s->x_bytes = half_bytes(tensors[count - 2], dim, half->shape[dim]);
  s->out_bytes = half_bytes(tensors[count - 1], dim, half->shape[dim]);
  return og_nest_init(&s->nest, half->ndim, half->shape, pointers, count)
             ? OG_OK
             : og_prep_misfit(prep);
}

og_status og_prepare_glu(og_prep *prep) {
  const og_tensor *const tensors[2] = {prep->in[0], prep->out[0]};
  glu *s = og_state_begin(prep, sizeof *s, run_glu);
  if (s == NULL) return OG_MEMORY;
  return glu_prepare(prep, s, prep->out[0], tensors, 2);
}

og_status og_prepare_glu_backward(og_prep *prep) {
  const og_tensor *const tensors[3] = {prep->in[0], prep->in[1], prep->out[0]};
  glu *s = og_state_begin(prep, sizeof *s, run_glu_backward);
  if (s == NULL) return OG_MEMORY;
  return glu_prepare(prep, s, prep->in[0], tensors, 3);
}

// SPDX-License-Identifier: Apache-2.0
// Reference matrix products: [.., M, K] x [.., K, N] -> [.., M, N], alone or as
// beta * c + alpha * a b. Floats accumulate in double, integers in int64.

#include <string.h>

#include "exec/step/operands.h"

typedef struct matmul {
  og_operands io;
  const og_tensor *a, *b, *c;
  int64_t m, n, k;
  og_nest batch;  // result, a, b and c over the leading dims
  int64_t batches;
  double alpha, beta;
  bool is_whole;
  og_tensor bias;   // c broadcast to the result's shape
  double *scratch;  // for each worker, ROWS + 1 rows of the result
} matmul;

enum { ROWS = 16 };

static const char *at(const og_tensor *t, int64_t offset, int64_t row,
                      int64_t column) {
  return og_bytes(t) + offset +
         (row * t->strides[t->ndim - 2] + column * t->strides[t->ndim - 1]) *
             og_item_bytes(t);
}

// Rows of one batch: each row of b is converted once for all of them, and its
// products are added up in the order of k, as one element alone would.
static void real_rows(const matmul *s, const int64_t *offset, int64_t row,
                      int64_t rows, double *scratch) {
  const og_tensor *out = s->io.out[0];
  double *line = scratch, *sums = line + s->n;
  memset(sums, 0, (size_t)(rows * s->n) * sizeof *sums);
  for (int64_t k = 0; k < s->k; ++k) {
    og_get_doubles(s->b, at(s->b, offset[2], k, 0),
                   s->b->strides[s->b->ndim - 1] * og_item_bytes(s->b), s->n,
                   line);
    for (int64_t r = 0; r < rows; ++r) {
      const double a =
          og_element_double(s->a->dtype, at(s->a, offset[1], row + r, k));
      double *sum = sums + r * s->n;
      for (int64_t i = 0; i < s->n; ++i) sum[i] += a * line[i];
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    double *sum = sums + r * s->n;
    for (int64_t i = 0; i < s->n; ++i) {
      sum[i] *= s->alpha;
      if (s->c != NULL && s->beta != 0)
        sum[i] +=
            s->beta *
            og_element_double(s->c->dtype, at(&s->bias, offset[3], row + r, i));
    }
    og_put_doubles(out, (char *)(uintptr_t)at(out, offset[0], row + r, 0),
                   out->strides[out->ndim - 1] * og_item_bytes(out), s->n, sum);
  }
}

static void whole_element(const matmul *s, const int64_t *offset, int64_t row,
                          int64_t column) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < s->k; ++k)
    sum +=
        (uint64_t)og_element_int(s->a->dtype, at(s->a, offset[1], row, k)) *
        (uint64_t)og_element_int(s->b->dtype, at(s->b, offset[2], k, column));
  sum *= (uint64_t)og_double_to_int(s->alpha);
  if (s->c != NULL)
    sum += (uint64_t)og_double_to_int(s->beta) *
           (uint64_t)og_element_int(s->c->dtype,
                                    at(&s->bias, offset[3], row, column));
  og_element_set_int(
      s->io.out[0]->dtype,
      (char *)(uintptr_t)at(s->io.out[0], offset[0], row, column),
      (int64_t)sum);
}

// Shares are rows of the result, all batches counted.
static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  matmul *s = state;
  double *scratch = s->scratch + worker * (ROWS + 1) * s->n;
  for (int64_t i = begin; i < end;) {
    int64_t offset[OG_NEST_OPERANDS];
    const int64_t row = i % s->m;
    int64_t rows = s->m - row < end - i ? s->m - row : end - i;
    if (rows > ROWS) rows = ROWS;
    og_nest_point(&s->batch, i / s->m, offset);
    if (!s->is_whole) real_rows(s, offset, row, rows, scratch);
    for (int64_t r = 0; s->is_whole && r < rows; ++r)
      for (int64_t column = 0; column < s->n; ++column)
        whole_element(s, offset, row + r, column);
    i += rows;
  }
}

static og_status run_matmul(void *state, const og_run *run) {
  matmul *s = state;
  if (s->c != NULL) {
    s->bias.data = s->c->data;
    s->bias.byte_offset = s->c->byte_offset;
  }
  int64_t grain = 1 + 65536 / (s->n * (s->k + 1));
  // A share of few rows converts b for few.
  if (grain < ROWS && s->m >= ROWS) grain = ROWS;
  return og_run_parallel(run, s->batches * s->m, grain, share_rows, state);
}

// A bias of fewer dims, or with unit dims, repeats.
static og_status bias_broadcast(og_prep *prep, matmul *s) {
  const og_tensor *out = prep->out[0], *c = s->c;
  if (c->ndim > out->ndim) return og_prep_wrong(prep, "the shapes do not fit");
  s->bias = *out;
  s->bias.dtype = c->dtype;
  s->bias.strides = og_prep_alloc(prep, (size_t)out->ndim * 8);
  if (s->bias.strides == NULL) return og_prep_memory(prep);
  for (int32_t d = out->ndim - c->ndim, own = 0; d < out->ndim; ++d, ++own) {
    if (c->shape[own] != out->shape[d] && c->shape[own] != 1)
      return og_prep_wrong(prep, "the shapes do not fit");
    s->bias.strides[d] = c->shape[own] == 1 ? 0 : c->strides[own];
  }
  return OG_OK;
}

static og_status shapes_check(og_prep *prep, matmul *s) {
  const og_tensor *out = prep->out[0];
  if (s->a == NULL || s->b == NULL || s->a->ndim < 2 || s->b->ndim < 2 ||
      out->ndim < 2)
    return og_prep_wrong(prep, "it takes matrices");
  s->m = out->shape[out->ndim - 2];
  s->n = out->shape[out->ndim - 1];
  s->k = s->a->shape[s->a->ndim - 1];
  const bool fits = s->a->shape[s->a->ndim - 2] == s->m &&
                    s->b->shape[s->b->ndim - 2] == s->k &&
                    s->b->shape[s->b->ndim - 1] == s->n;
  if (!fits) return og_prep_wrong(prep, "the shapes do not fit");
  if (s->c != NULL) OG_TRY(bias_broadcast(prep, s));
  og_tensor parts[4] = {*out, *s->a, *s->b, s->c ? s->bias : *out};
  const og_tensor *tensors[4] = {&parts[0], &parts[1], &parts[2], &parts[3]};
  for (int32_t i = 0; i < 4; ++i) parts[i].ndim -= 2;
  if (!og_nest_init(&s->batch, parts[0].ndim, out->shape, tensors, 4))
    return og_prep_wrong(prep, "the shapes do not fit");
  s->batches = og_nest_points(&s->batch);
  og_prep_work(prep, og_numel(out), s->k);
  return OG_OK;
}

og_status og_prepare_matmul(og_prep *prep) {
  const bool has_bias = prep->node->op == OG_IR_addmm;
  matmul *s = og_state_begin(prep, sizeof *s, run_matmul);
  if (s == NULL) return OG_MEMORY;
  s->c = has_bias ? prep->in[0] : NULL;
  s->a = prep->in[has_bias];
  s->b = prep->in[has_bias + 1];
  if (has_bias && s->c == NULL)
    return og_prep_wrong(prep, "an operand that it needs is none");
  OG_TRY(shapes_check(prep, s));
  s->is_whole = og_is_int(prep->out[0]);
  const bool fits = og_is_float(prep->out[0])
                        ? og_is_float(s->a) && og_is_float(s->b)
                        : s->is_whole && og_is_int(s->a) && og_is_int(s->b);
  if (!fits) return og_prep_wrong(prep, "it cannot compute with these types");
  s->alpha = s->beta = 1;
  if (has_bias) {
    OG_TRY(og_prep_float(prep, 0, 1, &s->beta));
    OG_TRY(og_prep_float(prep, 1, 1, &s->alpha));
  }
  if (og_numel(prep->out[0]) == 0) {
    prep->step.run = NULL;
    return OG_OK;
  }
  if (s->is_whole) return OG_OK;
  s->scratch =
      og_prep_doubles(prep, prep->executable->threads * (ROWS + 1) * s->n);
  return s->scratch != NULL ? OG_OK : og_prep_memory(prep);
}

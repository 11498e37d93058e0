// SPDX-License-Identifier: Apache-2.0
// Reference scaled dot-product attention and its gradient, in double.

#include <math.h>
#include <string.h>

#include "exec/step/heads.h"

typedef struct attention {
  og_heads of;
  double *q, *k, *v, *y, *lse, *row;
  double *grad, *grad_q, *grad_k, *grad_v;
} attention;

static double mask_at(const og_heads *of, const char *from) {
  if (of->is_bool_mask)
    return og_element_int(of->mask.dtype, from) ? 0 : -INFINITY;
  return og_element_double(of->mask.dtype, from);
}

// The scores of one query, before the softmax.
static void scores(const attention *s, int64_t pair, int64_t query) {
  int64_t step = 0;
  const char *mask = s->of.given_mask == NULL
                         ? NULL
                         : og_heads_mask_row(&s->of, pair, query, &step);
  const double *q = s->q + (pair * s->of.queries + query) * s->of.width;
  const double *k =
      s->k + og_heads_key_pair(&s->of, pair) * s->of.keys * s->of.width;
  for (int64_t j = 0; j < s->of.keys; ++j) {
    double dot = 0;
    for (int64_t e = 0; e < s->of.width; ++e)
      dot += q[e] * k[j * s->of.width + e];
    s->row[j] = dot * s->of.scale;
    if (mask != NULL) s->row[j] += mask_at(&s->of, mask + j * step);
    if (s->of.causal && j > query) s->row[j] = -INFINITY;
  }
}

// Turns the row into probabilities and returns log(sum(exp(scores))). A row
// that is masked whole becomes zeros.
static double row_softmax(const attention *s) {
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < s->of.keys; ++j)
    if (s->row[j] > top || s->row[j] != s->row[j]) top = s->row[j];
  if (top == -INFINITY) {
    memset(s->row, 0, (size_t)s->of.keys * sizeof(double));
    return -INFINITY;
  }
  for (int64_t j = 0; j < s->of.keys; ++j) {
    s->row[j] = exp(s->row[j] - top);
    sum += s->row[j];
  }
  for (int64_t j = 0; j < s->of.keys; ++j) s->row[j] /= sum;
  return top + log(sum);
}

static og_status run_attention(void *state, const og_run *run) {
  const attention *s = state;
  const int64_t f = s->of.value_width;
  (void)run;
  og_get_all(s->of.io.in[0], s->q);
  og_get_all(s->of.io.in[1], s->k);
  og_get_all(s->of.io.in[2], s->v);
  for (int64_t i = 0; i < s->of.pairs * s->of.queries; ++i) {
    const int64_t pair = i / s->of.queries;
    const double *v = s->v + og_heads_key_pair(&s->of, pair) * s->of.keys * f;
    double *y = s->y + i * f;
    scores(s, pair, i % s->of.queries);
    s->lse[i] = row_softmax(s);
    memset(y, 0, (size_t)f * sizeof(double));
    for (int64_t j = 0; j < s->of.keys; ++j)
      for (int64_t e = 0; e < f; ++e) y[e] += s->row[j] * v[j * f + e];
  }
  og_put_all(s->of.io.out[0], s->y);
  if (s->of.io.out[1] != NULL) og_put_all(s->of.io.out[1], s->lse);
  return OG_OK;
}

// --- Gradient: dv += p g, ds = p (g v - sum p g v), dq += ds k, dk += ds q ---

static void backward_query(const attention *s, int64_t pair, int64_t query) {
  const int64_t i = pair * s->of.queries + query,
                kp = og_heads_key_pair(&s->of, pair);
  const int64_t f = s->of.value_width, w = s->of.width;
  const double *g = s->grad + i * f;
  double *slope = s->row + s->of.keys;
  double sum = 0;
  scores(s, pair, query);
  row_softmax(s);
  for (int64_t j = 0; j < s->of.keys; ++j) {
    const int64_t at = (kp * s->of.keys + j) * f;
    slope[j] = 0;
    for (int64_t e = 0; e < f; ++e) {
      s->grad_v[at + e] += s->row[j] * g[e];
      slope[j] += g[e] * s->v[at + e];
    }
    sum += s->row[j] * slope[j];
  }
  for (int64_t j = 0; j < s->of.keys; ++j) {
    const double ds = s->row[j] * (slope[j] - sum) * s->of.scale;
    const int64_t at = (kp * s->of.keys + j) * w;
    for (int64_t e = 0; e < w; ++e) {
      s->grad_q[i * w + e] += ds * s->k[at + e];
      s->grad_k[at + e] += ds * s->q[i * w + e];
    }
  }
}

// Operands: grad, q, k, v, out, logsumexp, mask.
static og_status run_attention_backward(void *state, const og_run *run) {
  const attention *s = state;
  (void)run;
  og_get_all(s->of.io.in[0], s->grad);
  og_get_all(s->of.io.in[1], s->q);
  og_get_all(s->of.io.in[2], s->k);
  og_get_all(s->of.io.in[3], s->v);
  memset(s->grad_q, 0, (size_t)og_numel(s->of.io.in[1]) * sizeof(double));
  memset(s->grad_k, 0, (size_t)og_numel(s->of.io.in[2]) * sizeof(double));
  memset(s->grad_v, 0, (size_t)og_numel(s->of.io.in[3]) * sizeof(double));
  for (int64_t i = 0; i < s->of.pairs * s->of.queries; ++i)
    backward_query(s, i / s->of.queries, i % s->of.queries);
  if (s->of.io.out[0] != NULL) og_put_all(s->of.io.out[0], s->grad_q);
  if (s->of.io.out[1] != NULL) og_put_all(s->of.io.out[1], s->grad_k);
  if (s->of.io.out[2] != NULL) og_put_all(s->of.io.out[2], s->grad_v);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static og_status memory_take(og_prep *prep, attention *s) {
  const og_heads *of = &s->of;
  const int64_t qn = og_numel(of->q), kn = og_numel(of->k);
  const int64_t vn = og_numel(of->v);
  const int64_t rows = of->pairs * of->queries, yn = rows * of->value_width;
  double *at =
      og_prep_doubles(prep, 2 * (qn + kn + vn + yn) + rows + 2 * of->keys);
  if (at == NULL) return og_prep_memory(prep);
  s->q = at, s->grad_q = at += qn;
  s->k = at += qn, s->grad_k = at += kn;
  s->v = at += kn, s->grad_v = at += vn;
  s->y = at += vn, s->grad = at += yn;
  s->lse = at += yn;
  s->row = at + rows;
  return OG_OK;
}

og_status og_prepare_attention(og_prep *prep) {
  attention *s = og_state_begin(prep, sizeof *s, run_attention);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_heads_read(prep, &s->of, 0, prep->in[3]));
  OG_TRY(og_heads_need_results(prep, &s->of, prep->out[0], prep->out[1]));
  return memory_take(prep, s);
}

og_status og_prepare_attention_backward(og_prep *prep) {
  attention *s = og_state_begin(prep, sizeof *s, run_attention_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_heads_read(prep, &s->of, 1, prep->in[6]));
  OG_TRY(og_heads_need_results(prep, &s->of, prep->in[0], NULL));
  for (int32_t r = 0; r < 3; ++r)
    if (prep->out[r] != NULL && (!og_is_float(prep->out[r]) ||
                                 !og_same_shape(prep->out[r], prep->in[r + 1])))
      return og_prep_wrong(prep, "a gradient's shape differs from its input's");
  return memory_take(prep, s);
}

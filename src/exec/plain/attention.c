// SPDX-License-Identifier: Apache-2.0
// Reference scaled dot-product attention and its gradient, in double:
// q [B, H, L, E], k [B, H, S, E], v [B, H, S, F], an optional mask that is
// added (or, as bool, kept where true) and broadcasts to [B, H, L, S].

#include <math.h>
#include <string.h>

#include "exec/step/operands.h"
#include "plan/layout.h"

typedef struct attention {
  og_operands io;
  int64_t pairs, heads, queries, keys, width, value_width;
  int64_t key_repeat;  // query heads for each key head
  bool causal, is_bool_mask;
  double scale;
  og_tensor mask;  // broadcast to [B, H, L, S]
  const og_tensor *given_mask;
  double *q, *k, *v, *y, *lse, *row;
  double *grad, *grad_q, *grad_k, *grad_v;
} attention;

static double mask_at(const attention *s, int64_t pair, int64_t query,
                      int64_t key) {
  const int64_t *stride = s->mask.strides;
  const int64_t at = pair / s->heads * stride[0] + pair % s->heads * stride[1] +
                     query * stride[2] + key * stride[3];
  const char *from = og_bytes(s->given_mask) + at * og_item_bytes(&s->mask);
  if (s->is_bool_mask)
    return og_element_int(s->mask.dtype, from) ? 0 : -INFINITY;
  return og_element_double(s->mask.dtype, from);
}

static int64_t key_pair(const attention *s, int64_t pair) {
  const int64_t key_heads = s->heads / s->key_repeat;
  return pair / s->heads * key_heads + pair % s->heads / s->key_repeat;
}

// The scores of one query, before the softmax.
static void scores(const attention *s, int64_t pair, int64_t query) {
  const double *q = s->q + (pair * s->queries + query) * s->width;
  const double *k = s->k + key_pair(s, pair) * s->keys * s->width;
  for (int64_t j = 0; j < s->keys; ++j) {
    double dot = 0;
    for (int64_t e = 0; e < s->width; ++e) dot += q[e] * k[j * s->width + e];
    s->row[j] = dot * s->scale;
    if (s->given_mask != NULL) s->row[j] += mask_at(s, pair, query, j);
    if (s->causal && j > query) s->row[j] = -INFINITY;
  }
}

// Turns the row into probabilities and returns log(sum(exp(scores))). A row
// that is masked whole becomes zeros.
static double row_softmax(const attention *s) {
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < s->keys; ++j)
    if (s->row[j] > top || s->row[j] != s->row[j]) top = s->row[j];
  if (top == -INFINITY) {
    memset(s->row, 0, (size_t)s->keys * sizeof(double));
    return -INFINITY;
  }
  for (int64_t j = 0; j < s->keys; ++j) {
    s->row[j] = exp(s->row[j] - top);
    sum += s->row[j];
  }
  for (int64_t j = 0; j < s->keys; ++j) s->row[j] /= sum;
  return top + log(sum);
}

static og_status run_attention(void *state, const og_run *run) {
  const attention *s = state;
  const int64_t f = s->value_width;
  (void)run;
  og_get_all(s->io.in[0], s->q);
  og_get_all(s->io.in[1], s->k);
  og_get_all(s->io.in[2], s->v);
  for (int64_t i = 0; i < s->pairs * s->queries; ++i) {
    const int64_t pair = i / s->queries;
    const double *v = s->v + key_pair(s, pair) * s->keys * f;
    double *y = s->y + i * f;
    scores(s, pair, i % s->queries);
    s->lse[i] = row_softmax(s);
    memset(y, 0, (size_t)f * sizeof(double));
    for (int64_t j = 0; j < s->keys; ++j)
      for (int64_t e = 0; e < f; ++e) y[e] += s->row[j] * v[j * f + e];
  }
  og_put_all(s->io.out[0], s->y);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->lse);
  return OG_OK;
}

// --- Gradient: dv += p g, ds = p (g v - sum p g v), dq += ds k, dk += ds q ---

static void backward_query(const attention *s, int64_t pair, int64_t query) {
  const int64_t i = pair * s->queries + query, kp = key_pair(s, pair);
  const int64_t f = s->value_width, w = s->width;
  const double *g = s->grad + i * f;
  double *slope = s->row + s->keys;
  double sum = 0;
  scores(s, pair, query);
  row_softmax(s);
  for (int64_t j = 0; j < s->keys; ++j) {
    const int64_t at = (kp * s->keys + j) * f;
    slope[j] = 0;
    for (int64_t e = 0; e < f; ++e) {
      s->grad_v[at + e] += s->row[j] * g[e];
      slope[j] += g[e] * s->v[at + e];
    }
    sum += s->row[j] * slope[j];
  }
  for (int64_t j = 0; j < s->keys; ++j) {
    const double ds = s->row[j] * (slope[j] - sum) * s->scale;
    const int64_t at = (kp * s->keys + j) * w;
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
  og_get_all(s->io.in[0], s->grad);
  og_get_all(s->io.in[1], s->q);
  og_get_all(s->io.in[2], s->k);
  og_get_all(s->io.in[3], s->v);
  memset(s->grad_q, 0, (size_t)og_numel(s->io.in[1]) * sizeof(double));
  memset(s->grad_k, 0, (size_t)og_numel(s->io.in[2]) * sizeof(double));
  memset(s->grad_v, 0, (size_t)og_numel(s->io.in[3]) * sizeof(double));
  for (int64_t i = 0; i < s->pairs * s->queries; ++i)
    backward_query(s, i / s->queries, i % s->queries);
  if (s->io.out[0] != NULL) og_put_all(s->io.out[0], s->grad_q);
  if (s->io.out[1] != NULL) og_put_all(s->io.out[1], s->grad_k);
  if (s->io.out[2] != NULL) og_put_all(s->io.out[2], s->grad_v);
  return OG_OK;
}

// --- Preparing ---------------------------------------------------------------

static og_status shapes_read(og_prep *prep, attention *s, const og_tensor *q,
                             const og_tensor *k, const og_tensor *v) {
  const og_tensor *all[3] = {q, k, v};
  for (int i = 0; i < 3; ++i) {
    OG_TRY(og_need_float(prep, all[i]));
    if (all[i]->ndim != 4)
      return og_prep_wrong(prep, "it takes tensors of four dims");
  }
  s->heads = q->shape[1];
  s->pairs = q->shape[0] * s->heads;
  s->queries = q->shape[2];
  s->keys = k->shape[2];
  s->width = q->shape[3];
  s->value_width = v->shape[3];
  const bool fits = k->shape[0] == q->shape[0] && v->shape[0] == q->shape[0] &&
                    k->shape[1] == v->shape[1] && k->shape[3] == s->width &&
                    v->shape[2] == s->keys && k->shape[1] > 0 &&
                    s->heads % k->shape[1] == 0;
  if (!fits) return og_prep_wrong(prep, "the shapes do not fit");
  s->key_repeat = s->heads / k->shape[1];
  const int64_t qn = og_numel(q), kn = og_numel(k), vn = og_numel(v);
  int64_t yn;
  if (!og_i64_mul(s->pairs * s->queries, s->value_width, &yn) ||
      yn > OG_LAYOUT_ELEMENTS_MAX)
    return og_prep_wrong(prep, "its result is larger than memory can be");
  og_prep_work(prep, qn, s->keys);
  og_prep_work(prep, yn, s->keys);
  double *at = og_prep_doubles(
      prep, 2 * (qn + kn + vn + yn) + s->pairs * s->queries + 2 * s->keys);
  if (at == NULL) return og_prep_memory(prep);
  s->q = at, s->grad_q = at += qn;
  s->k = at += qn, s->grad_k = at += kn;
  s->v = at += kn, s->grad_v = at += vn;
  s->y = at += vn, s->grad = at += yn;
  s->lse = at += yn;
  s->row = at + s->pairs * s->queries;
  return OG_OK;
}

static og_status mask_read(og_prep *prep, attention *s, const og_tensor *mask) {
  const int64_t wanted[4] = {s->pairs / (s->heads > 0 ? s->heads : 1), s->heads,
                             s->queries, s->keys};
  s->given_mask = mask;
  if (mask == NULL) return OG_OK;
  s->mask = *mask;
  s->is_bool_mask = mask->dtype.code == OG_CODE_BOOL;
  s->mask.strides = og_prep_alloc(prep, 4 * sizeof(int64_t));
  if (s->mask.strides == NULL) return og_prep_memory(prep);
  if (mask->ndim > 4 || og_dtype_class(mask->dtype) == OG_CLASS_NONE)
    return og_prep_wrong(prep, "its mask has more than four dims");
  for (int32_t d = 4 - mask->ndim, own = 0; d < 4; ++d, ++own) {
    if (mask->shape[own] != wanted[d] && mask->shape[own] != 1)
      return og_prep_wrong(prep, "its mask does not broadcast");
    s->mask.strides[d] = mask->shape[own] == 1 ? 0 : mask->strides[own];
  }
  return OG_OK;
}

static og_status numbers_read(og_prep *prep, attention *s) {
  int64_t causal;
  OG_TRY(og_prep_int(prep, 0, 0, &causal));
  s->causal = causal != 0;
  return og_prep_float(prep, 1, 1 / sqrt((double)s->width), &s->scale);
}

og_status og_prepare_attention(og_prep *prep) {
  attention *s = og_state_begin(prep, sizeof *s, run_attention);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->in[0], prep->in[1], prep->in[2]));
  OG_TRY(mask_read(prep, s, prep->in[3]));
  const og_tensor *q = prep->in[0];
  const int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2],
                            s->value_width};
  OG_TRY(og_need_shape(prep, prep->out[0], 4, shape));
  OG_TRY(og_need_float(prep, prep->out[0]));
  if (prep->out[1] != NULL) {
    OG_TRY(og_need_float(prep, prep->out[1]));
    OG_TRY(og_need_shape(prep, prep->out[1], 3, shape));
  }
  return numbers_read(prep, s);
}

og_status og_prepare_attention_backward(og_prep *prep) {
  attention *s = og_state_begin(prep, sizeof *s, run_attention_backward);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(shapes_read(prep, s, prep->in[1], prep->in[2], prep->in[3]));
  OG_TRY(mask_read(prep, s, prep->in[6]));
  const og_tensor *q = prep->in[1];
  const int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2],
                            s->value_width};
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_shape(prep, prep->in[0], 4, shape));
  for (int32_t r = 0; r < 3; ++r)
    if (prep->out[r] != NULL && (!og_is_float(prep->out[r]) ||
                                 !og_same_shape(prep->out[r], prep->in[r + 1])))
      return og_prep_wrong(prep,
                           "a gradient has not the shape of what it is "
                           "of");
  return numbers_read(prep, s);
}

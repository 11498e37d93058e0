// SPDX-License-Identifier: Apache-2.0
// The operands of attention.

#include "exec/step/heads.h"

#include <math.h>

#include "plan/layout.h"

static og_status shapes_read(og_prep *prep, og_heads *s) {
  const og_tensor *q = s->q, *k = s->k, *v = s->v, *all[3] = {q, k, v};
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
  if (!fits) return og_prep_misfit(prep);
  s->key_repeat = s->heads / k->shape[1];
  int64_t yn;
  if (!og_i64_mul(s->pairs * s->queries, s->value_width, &yn) ||
      yn > OG_LAYOUT_ELEMENTS_MAX)
    return og_prep_wrong(prep, "its result is larger than memory can be");
  og_prep_work(prep, og_numel(q), s->keys);
  og_prep_work(prep, yn, s->keys);
  return OG_OK;
}

static og_status mask_read(og_prep *prep, og_heads *s, const og_tensor *mask) {
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

static og_status numbers_read(og_prep *prep, og_heads *s) {
  int64_t causal;
  OG_TRY(og_prep_int(prep, 0, 0, &causal));
  s->causal = causal != 0;
  return og_prep_float(prep, 1, 1 / sqrt((double)s->width), &s->scale);
}

og_status og_heads_read(og_prep *prep, og_heads *s, int32_t first,
                        const og_tensor *mask) {
  s->q = prep->in[first];
  s->k = prep->in[first + 1];
  s->v = prep->in[first + 2];
  OG_TRY(shapes_read(prep, s));
  OG_TRY(mask_read(prep, s, mask));
  return numbers_read(prep, s);
}

og_status og_heads_need_results(og_prep *prep, const og_heads *s,
                                const og_tensor *y, const og_tensor *lse) {
  const int64_t shape[4] = {s->q->shape[0], s->q->shape[1], s->queries,
                            s->value_width};
  OG_TRY(og_need_float(prep, y));
  OG_TRY(og_need_shape(prep, y, 4, shape));
  if (lse == NULL) return OG_OK;
  OG_TRY(og_need_float(prep, lse));
  return og_need_shape(prep, lse, 3, shape);
}

const char *og_heads_mask_row(const og_heads *s, int64_t pair, int64_t query,
                              int64_t *out_step_bytes) {
  const int64_t *stride = s->mask.strides, item = og_item_bytes(&s->mask);
  *out_step_bytes = stride[3] * item;
  return og_bytes(s->given_mask) +
         (pair / s->heads * stride[0] + pair % s->heads * stride[1] +
          query * stride[2]) *
             item;
}

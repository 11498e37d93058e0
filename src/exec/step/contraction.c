// SPDX-License-Identifier: Apache-2.0
// The operands of matmul and addmm.

#include "exec/step/contraction.h"

// A bias of fewer dims, or with unit dims, repeats.
static og_status shift_broadcast(og_prep *prep, og_contraction *s) {
  const og_tensor *out = prep->out[0], *c = s->c;
  if (c->ndim > out->ndim) return og_prep_misfit(prep);
  s->shift = *out;
  s->shift.dtype = c->dtype;
  s->shift.strides = og_prep_alloc(prep, (size_t)out->ndim * 8);
  if (s->shift.strides == NULL) return og_prep_memory(prep);
  for (int32_t d = out->ndim - c->ndim, own = 0; d < out->ndim; ++d, ++own) {
    if (c->shape[own] != out->shape[d] && c->shape[own] != 1)
      return og_prep_misfit(prep);
    s->shift.strides[d] = c->shape[own] == 1 ? 0 : c->strides[own];
  }
  return OG_OK;
}

static og_status shapes_read(og_prep *prep, og_contraction *s) {
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
  if (!fits) return og_prep_misfit(prep);
  if (s->c != NULL) OG_TRY(shift_broadcast(prep, s));
  og_tensor parts[4] = {*out, *s->a, *s->b, s->c ? s->shift : *out};
  const og_tensor *tensors[4] = {&parts[0], &parts[1], &parts[2], &parts[3]};
  for (int32_t i = 0; i < 4; ++i) parts[i].ndim -= 2;
  if (!og_nest_init(&s->batch, parts[0].ndim, out->shape, tensors, 4))
    return og_prep_misfit(prep);
  s->batches = og_nest_points(&s->batch);
  og_prep_work(prep, og_numel(out), s->k);
  return OG_OK;
}

og_status og_contraction_read(og_prep *prep, og_contraction *s) {
  const bool has_shift = prep->node->op == OG_IR_addmm;
  const og_tensor *out = prep->out[0];
  s->c = has_shift ? prep->in[0] : NULL;
  s->a = prep->in[has_shift];
  s->b = prep->in[has_shift + 1];
  if (has_shift && s->c == NULL)
    return og_prep_wrong(prep, "an operand that it needs is missing");
  OG_TRY(shapes_read(prep, s));
  const bool fits =
      og_is_float(out) ? og_is_float(s->a) &&
                             (og_is_float(s->b) || og_contraction_is_int8(prep))
                       : og_is_int(out) && og_is_int(s->a) && og_is_int(s->b);
  if (!fits) return og_prep_wrong(prep, "it cannot compute with these types");
  s->alpha = s->beta = 1;
  if (!has_shift) return OG_OK;
  OG_TRY(og_prep_float(prep, 0, 1, &s->beta));
  return og_prep_float(prep, 1, 1, &s->alpha);
}

void og_contraction_bind(og_contraction *s) {
  if (s->c == NULL) return;
  s->shift.data = s->c->data;
  s->shift.byte_offset = s->c->byte_offset;
}

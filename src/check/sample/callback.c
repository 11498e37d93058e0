// SPDX-License-Identifier: Apache-2.0
// Samples that the operator shapes itself, through og_op's `sample`.

#include "check/sample/callback.h"

#include "check/sample/sample.h"

typedef struct offered {
  og_sample_call call;
  int64_t dim[OPGRAFT_DIM_MAX];
  og_attr attr[OPGRAFT_ATTR_MAX];
  og_tensor *in[OPGRAFT_ARG_MAX];
  og_tensor_list in_list[OPGRAFT_ARG_MAX];
  og_tensor blank[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];  // a type and no shape yet
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
} offered;

static void set_tensors(offered *o, const og_sample *s) {
  const og_decl *decl = s->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (!s->is_given[t]) continue;
    if (decl->params[decl->tensor_params[t]].is_list)
      o->in_list[t] = (og_tensor_list){s->list_count[t], o->entry[t]};
    else
      o->in[t] = o->entry[t][0];
  }
}

static offered *offered_create(const og_sample *s, int32_t step) {
  const og_decl *decl = s->op->decl;
  offered *o = og_alloc_zeroed(1, sizeof *o);
  if (o == NULL) return NULL;
  o->call = (og_sample_call){.struct_size = sizeof o->call,
                             .step = step,
                             .seed = s->structure_seed,
                             .dim = o->dim,
                             .attr = o->attr,
                             .in = o->in,
                             .in_list = o->in_list};
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (!og_sample_dim(s, d, &o->dim[d])) o->dim[d] = 0;
  og_sample_attrs(s, o->attr);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      o->blank[t][e] = (og_tensor){.device = og_cpu, .dtype = s->type[t]};
      o->entry[t][e] = og_sample_has(s, t, e) ? &o->blank[t][e] : NULL;
    }
  return o;
}

// What the operator has set, into the sample; false where it does not fit.
static bool take_attr(og_sample *s, int32_t k, const og_attr *now) {
  const bool has_ints = now->kind == OG_ATTR_INTS || now->kind == OG_ATTR_BOOLS;
  const bool has_floats = now->kind == OG_ATTR_FLOATS;
  if ((has_ints || has_floats) && now->count > OG_SAMPLE_INTS) return false;
  for (int64_t i = 0; has_ints && i < now->count; ++i)
    s->ints[k][i] = now->ints[i];
  for (int64_t i = 0; has_floats && i < now->count; ++i)
    s->floats[k][i] = now->floats[i];
  if (!has_ints && !has_floats) {
    s->attr[k] = *now;
  } else {  // its elements are the sample's own
    s->attr[k].kind = now->kind;
    s->attr[k].count = now->count;
  }
  return true;
}

static bool take(og_sample *s, const offered *o) {
  const og_decl *decl = s->op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (decl->dims[d].kind == OG_DIM_SIZE) s->dim[d] = o->dim[d];
  for (int32_t k = 0; k < decl->attr_count; ++k)
    if (!take_attr(s, k, &o->attr[k])) return false;
  return true;
}

bool og_sample_settle(og_sample *sample, opgraft_error *error) {
  const og_op *record = sample->op->decl->record;
  if (record->sample == NULL) return true;
  offered *o = offered_create(sample, OG_SAMPLE_SIZES);
  if (o == NULL) {
    og_error_set(error, OG_MEMORY, sample->op->decl->name, NULL,
                 "not enough memory to sample calls");
    return false;
  }
  set_tensors(o, sample);
  const bool ok = record->sample(&o->call) == OG_OK && take(sample, o);
  og_free(o);
  if (!ok)
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "%s: its own sample function refuses every size drawn",
                 sample->op->decl->name);
  return ok;
}

bool og_sample_offer(const og_sample *sample,
                     og_tensor *tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST]) {
  const og_decl *decl = sample->op->decl;
  if (decl->record->sample == NULL) return true;
  offered *o = offered_create(sample, OG_SAMPLE_VALUES);
  if (o == NULL) return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (tensor[t][e] != NULL) o->entry[t][e] = tensor[t][e];
  set_tensors(o, sample);
  const bool ok = decl->record->sample(&o->call) == OG_OK;
  og_free(o);
  return ok;
}

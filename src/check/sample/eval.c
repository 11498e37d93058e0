// SPDX-License-Identifier: Apache-2.0
// Expressions over a sample, before there are tensors to infer from.

#include "check/sample/eval.h"

#include <assert.h>

#include "decl/parse/expr.h"

static bool bind_dim(og_sample_names *n, const og_sample *s, int32_t d) {
  og_bound_dim *at = &n->binding.at[d];
  if (!og_sample_dim(s, d, &n->dim[d])) return false;
  n->binding.bound |= (uint64_t)1 << d;
  if (s->op->decl->dims[d].kind == OG_DIM_PACK) {
    at->pack.dims = s->pack[d].size;
    at->pack.rank = s->pack[d].rank;
  }
  if (s->op->decl->dims[d].kind == OG_DIM_VARY) {
    at->vary.tensor = og_sample_tensor_of(s, d);
    at->vary.axis = d;
    assert(at->vary.tensor >= 0);  // a list named it, or it would not vary
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) n->vary[e][d] = s->vary[d][e];
  }
  return true;
}

static void bind_tensor(og_sample_names *n, const og_sample *s, int32_t t) {
  const og_decl *decl = s->op->decl;
  n->in[t] = NULL;
  n->in_list[t] = (og_tensor_list){0};
  if (!s->is_given[t]) return;
  for (int32_t e = 0; e < s->list_count[t]; ++e) {
    n->tensor[t][e] = (og_tensor){.dtype = s->type[t], .shape = n->vary[e]};
    n->entry[t][e] = &n->tensor[t][e];
  }
  if (decl->params[decl->tensor_params[t]].is_list)
    n->in_list[t] = (og_tensor_list){s->list_count[t], n->entry[t]};
  else
    n->in[t] = &n->tensor[t][0];
}

bool og_sample_names_init(og_sample_names *n, const og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  n->binding.bound = 0;
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (!bind_dim(n, sample, d)) return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) bind_tensor(n, sample, t);
  og_sample_attrs(sample, n->attr);
  n->scope = (og_scope){.dim = n->dim,
                        .attr = n->attr,
                        .in = n->in,
                        .in_list = n->in_list,
                        .binding = &n->binding,
                        .threads = 1};
  return true;
}

bool og_sample_eval(const og_sample *sample, const og_expr *expr,
                    int64_t *out_value) {
  const char *why;
  og_sample_names names;
  return og_sample_names_init(&names, sample) &&
         og_eval(expr, &names.scope, 0, out_value, &why);
}

bool og_sample_range(const og_sample *sample, int32_t tensor,
                     int64_t *out_begin, int64_t *out_count) {
  const og_value_range *range = og_value_range_of(sample->op->decl, tensor);
  int64_t end;
  if (range == NULL || range->is_offsets) return false;
  if (!og_sample_eval(sample, &range->begin, out_begin) ||
      !og_sample_eval(sample, &range->end, &end))
    *out_begin = end = 0;
  *out_count = end > *out_begin ? end - *out_begin : 1;
  return true;
}

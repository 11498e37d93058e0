// SPDX-License-Identifier: Apache-2.0
// An argument that picks a dim, `x[*A, D@dim, *B]`, and does not count: picking
// another axis of the same tensor changes nothing.

#include <stdlib.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"

// Whether the one tensor is [*A, D@dim, *B], which the attribute picks from;
// then which its names are.
static bool find_pick(const og_decl *decl, int32_t k, int32_t names[3]) {
  if (decl->tensor_count != 1 || decl->pattern_count != 1) return false;
  const og_pattern *p = &decl->patterns[0];
  if (p->item_count != 3 || p->items[0].kind != OG_ITEM_PACK ||
      p->items[1].kind != OG_ITEM_DIM || p->items[1].attr != k ||
      p->items[2].kind != OG_ITEM_PACK)
    return false;
  for (int32_t i = 0; i < 3; ++i) names[i] = p->items[i].dim;
  return true;
}

// The trial's call with axis `axis` picked; false where it is not allowed.
static bool pick(const og_trial *trial, int32_t k, const int32_t names[3],
                 int32_t axis, og_sample *out) {
  const og_dims *shape = &trial->sample.shape[0][0];
  opgraft_error error;
  *out = trial->sample;
  og_dims *before = &out->pack[names[0]], *after = &out->pack[names[2]];
  before->rank = axis;
  after->rank = shape->rank - axis - 1;
  for (int32_t i = 0; i < shape->rank; ++i) {
    if (i < axis) before->size[i] = shape->size[i];
    if (i > axis) after->size[i - axis - 1] = shape->size[i];
  }
  out->dim[names[1]] = shape->size[axis];
  out->attr[k].i = axis;
  return og_sample_is_valid(out, INT64_MAX, &error) &&
         og_dims_equal(&out->shape[0][0], shape) && out->attr[k].i == axis;
}

// Whether any two axes that may be picked give different results.
static bool differs_by_axis(og_trial *trial, int32_t k, const int32_t names[3],
                            int32_t *out_count) {
  og_sample *s = malloc(sizeof *s);
  og_outputs first = {.count = 0}, out;
  bool differs = false;
  *out_count = 0;
  for (int32_t axis = 0;
       s != NULL && axis < trial->sample.shape[0][0].rank && !differs; ++axis) {
    if (trial->sample.shape[0][0].size[axis] < 2 ||
        !pick(trial, k, names, axis, s) ||
        !og_run_quietly(trial, s, &trial->inputs, &out))
      continue;
    if ((*out_count)++ == 0) {
      first = out;
      continue;
    }
    differs = og_outputs_compare(trial->op, &out, &first, 0).differs;
    og_outputs_reset(&out);
  }
  og_outputs_reset(&first);
  free(s);
  return differs;
}

// What the argument picks, the sizes of the packs beside it tell as well: what
// counts is whether results differ, not whether it is read.
static void see_pick(og_trial *trial, const og_param *param) {
  int32_t names[3], count;
  if (param->type != OG_TYPE_INT || param->is_list ||
      !find_pick(trial->op->decl, param->index, names))
    return;
  const bool differs = differs_by_axis(trial, param->index, names, &count);
  if (count >= 2)
    og_tell_ends(trial->op, param->name,
                 differs ? OG_ENDS_ALL : 1u << OG_END_READ);
}

void og_probe_picked(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      trial->sample.float_values == OG_FLOAT_ZERO)
    return;
  for (int32_t p = 0; p < decl->param_count; ++p)
    see_pick(trial, &decl->params[p]);
}

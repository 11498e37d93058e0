// SPDX-License-Identifier: Apache-2.0
// A run of a kernel in progress, and its memory.

#include "check/run/running.h"

#include <stdlib.h>
#include <string.h>

#include "check/run/fill.h"
#include "check/run/mirror.h"
#include "check/sample/types.h"

// --- Arguments ---------------------------------------------------------------

static bool put_argument(og_running *c, int32_t t, int32_t e,
                         const og_array *value, const int32_t *expanded,
                         og_random *r) {
  const og_decl *decl = c->sample->op->decl;
  const og_param *param = &decl->params[decl->tensor_params[t]];
  og_placed *p = &c->in[t][e];
  p->role = param->is_mutated ? OG_ROLE_MUTATED : OG_ROLE_INPUT;
  p->index = t;
  p->entry = e;
  p->tensor = (og_tensor){
      .device = c->device != NULL ? (og_device){c->device->type, 0} : og_cpu,
      .ndim = value->sizes.rank,
      .dtype = value->type,
      .shape = p->shape,
      .strides = p->strides};
  memcpy(p->shape, value->sizes.size, sizeof value->sizes.size);
  og_placed_lay(p, c->mode, decl->strides[t], expanded[t], r);
  if (!og_placed_put(p, c->mode)) return false;
  og_placed_store(p, value->data);
  return og_placed_keep(p);
}

bool og_running_put_arguments(og_running *c, const og_inputs *inputs) {
  const og_decl *decl = c->sample->op->decl;
  og_random r = {c->mode->seed};
  int32_t expanded[OPGRAFT_ARG_MAX] = {0};
  // Chooses the same dims as og_inputs_expand, whose seed it shares; the
  // values are already equal along them.
  og_inputs same = *inputs;
  if (c->mode->layout == OG_LAYOUT_EXPANDED)
    og_inputs_expand(&same, c->sample, c->mode->seed, expanded);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    c->frame.in[t] = NULL;
    c->frame.in_list[t] = (og_tensor_list){0};
    if (!c->sample->is_given[t]) continue;
    for (int32_t e = 0; e < c->sample->list_count[t]; ++e) {
      if (!og_sample_has(c->sample, t, e)) continue;
      if (!put_argument(c, t, e, &inputs->tensor[t][e], expanded, &r))
        return false;
      c->in_entry[t][e] = &c->in[t][e].tensor;
    }
    if (decl->params[decl->tensor_params[t]].is_list)
      c->frame.in_list[t] =
          (og_tensor_list){c->sample->list_count[t], c->in_entry[t]};
    else
      c->frame.in[t] = &c->in[t][0].tensor;
  }
  return true;
}

// --- Results -----------------------------------------------------------------

const og_placed *og_running_under(const og_running *c, int32_t fresh) {
  const og_decl *decl = c->sample->op->decl;
  if (!c->mode->is_in_place || fresh != 0 || decl->inplace_param < 0)
    return NULL;
  return &c->in[decl->params[decl->inplace_param].index][0];
}

static bool put_result(og_running *c, og_tensor *tensor, int32_t fresh,
                       int32_t entry) {
  if (c->fresh_count == OG_ARRAYS_MAX || tensor->ndim > OG_SAMPLE_RANK)
    return false;
  og_placed *p = calloc(1, sizeof *p);
  if (p == NULL) return false;
  c->fresh[c->fresh_count++] = p;
  p->role = OG_ROLE_RESULT;
  p->index = fresh;
  p->entry = entry;
  p->tensor = *tensor;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    p->shape[d] = tensor->shape[d];
    p->strides[d] = tensor->strides[d];
  }
  const og_placed *under = og_running_under(c, fresh);
  if (under != NULL) {
    p->buffer = under->buffer;
    p->tensor.data = under->tensor.data;
    p->tensor.byte_offset = under->tensor.byte_offset;
  } else {
    if (!og_placed_put(p, c->mode)) return false;
    og_placed_fill(p, p->buffer->data, c->mode->poison);
    if (!og_placed_keep(p)) return false;
  }
  tensor->data = p->tensor.data;
  tensor->byte_offset = p->tensor.byte_offset;
  // The kernel gets the frame's tensor, whose shape arrays are the frame's.
  p->tensor.shape = p->shape;
  p->tensor.strides = p->strides;
  return true;
}

static bool put_workspace(og_running *c) {
  const size_t bytes = c->frame.call.workspace_bytes;
  if (bytes == 0) return true;
  c->workspace =
      og_guard_create(bytes, 64, c->mode->is_left, OG_ROLE_WORKSPACE, 0, 0);
  if (c->workspace == NULL) return false;
  og_poison(c->workspace->data, bytes, c->mode->workspace_poison);
  c->frame.call.workspace = c->workspace->data;
  return true;
}

bool og_running_put_results(og_running *c) {
  const og_decl *decl = c->sample->op->decl;
  for (int32_t i = 0; i < c->frame.fresh_count; ++i) {
    if (!decl->results[decl->fresh_results[i]].is_list) {
      if (!put_result(c, &c->frame.fresh[i], i, 0)) return false;
      continue;
    }
    for (int64_t e = 0; e < c->frame.fresh_list[i].count; ++e)
      if (!put_result(c, c->frame.fresh_list[i].tensors[e], i, (int32_t)e))
        return false;
  }
  return put_workspace(c);
}

og_tensor *og_running_result(og_running *c, const og_placed *p) {
  const og_decl *decl = c->sample->op->decl;
  return decl->results[decl->fresh_results[p->index]].is_list
             ? c->frame.fresh_list[p->index].tensors[p->entry]
             : &c->frame.fresh[p->index];
}

bool og_running_is_bound(const og_running *c, const og_placed *p) {
  const og_decl *decl = c->sample->op->decl;
  if (p->role != OG_ROLE_RESULT) return false;
  const og_shape_rule *rule = &decl->shapes[p->index];
  return rule->kind == OG_SHAPE_ITEMS && rule->item_count > 0 &&
         rule->items[0].kind == OG_ITEM_FOUND;
}

void og_running_destroy(og_running *c) {
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    free(c->fresh[i]->before);
    free(c->fresh[i]);
  }
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) free(c->in[t][e].before);
  opgraft_frame_reset(&c->frame);
  if (c->device != NULL) og_mirrors_drop(c->device);
  og_guards_release();
  free(c);
}

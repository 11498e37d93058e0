// SPDX-License-Identifier: Apache-2.0
// Samples of a given size: a small valid one is drawn, then grown as far as
// the declaration allows.
//
// Invariants: after draw_small the sample held is always one that og_infer
// accepts; a change that it does not accept is undone.

#include <math.h>
#include <opgraft/sample.h>
#include <string.h>

#include "base/sized.h"
#include "check/sample/callback.h"
#include "check/sample/describe.h"
#include "check/sample/draw.h"
#include "check/sample/eval.h"
#include "check/sample/offsets.h"
#include "check/sample/randomize.h"
#include "check/sample/sample.h"
#include "check/sample/solve.h"
#include "check/sample/types.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

enum { TYPES_MAX = 64, DRAWS = 40 };

struct opgraft_sample {
  og_sample plan;
  int64_t element_limit;
  og_attr attr[OPGRAFT_ATTR_MAX];
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
  og_text text;
};

// --- Changes that the declaration may refuse ---------------------------------

// Takes `next` if it is, or by moving a few names becomes, a valid call.
static bool try_take(opgraft_sample *s, og_sample *next, bool may_solve,
                     opgraft_error *error) {
  og_random random = {next->seed};
  og_sample_follow(next, &random);
  if (!og_sample_is_valid(next, s->element_limit, error)) {
    if (!may_solve || !og_sample_solve(next, OG_PROFILE_SMOOTH, &random) ||
        !og_sample_is_valid(next, s->element_limit, error))
      return false;
  }
  s->plan = *next;
  return true;
}

// A pack whose dims an argument picks from shows nothing with one dim only.
static bool is_pack_rearranged(const og_decl *decl, int32_t d) {
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    for (int32_t j = 0; j < decl->shapes[i].item_count; ++j) {
      const og_item *item = &decl->shapes[i].items[j];
      const bool rearranges =
          item->kind == OG_ITEM_PERMUTE || item->kind == OG_ITEM_DROP ||
          item->kind == OG_ITEM_KEEP || item->kind == OG_ITEM_INSERT;
      if (rearranges && item->packs[0] == d) return true;
    }
  return false;
}

static void dim_set(og_sample *plan, int32_t d, int64_t size) {
  const og_decl *decl = plan->op->decl;
  plan->dim[d] = size;
  for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) plan->vary[d][e] = size;
  if (decl->dims[d].kind != OG_DIM_PACK) return;
  plan->pack[d].rank = is_pack_rearranged(decl, d) ? 2 : 1;
  for (int32_t i = 0; i < plan->pack[d].rank; ++i) plan->pack[d].size[i] = size;
}

static void free_shapes_set(og_sample *plan, int64_t size) {
  const og_decl *decl = plan->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; og_pattern_of(decl, t) == NULL && e < OG_SAMPLE_LIST;
         ++e)
      plan->shape[t][e] = (og_dims){.rank = 1, .size = {size}};
}

// What name d is to have, over `divisor` where it was not asked for by name.
static int64_t wanted_size(const opgraft_sample_options *o, const og_decl *decl,
                           int32_t d, int64_t divisor) {
  for (int32_t i = 0; i < o->dim_count; ++i)
    if (strcmp(o->dim_names[i], decl->dims[d].name) == 0)
      return o->dim_sizes[i];
  const bool is_pack = decl->dims[d].kind == OG_DIM_PACK;
  const int64_t size = (is_pack ? o->pack_size : o->size) / divisor;
  return size > 0 ? size : 1;
}

// --- From small to large -----------------------------------------------------

// Arguments as a caller would mostly have them.
static void settle(opgraft_sample *s) {
  const og_decl *decl = s->plan.op->decl;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    og_sample next = s->plan;
    if (param->type == OG_TYPE_TENSOR) {
      next.is_given[param->index] = true;
      try_take(s, &next, false, NULL);
      continue;
    }
    og_attr value = param->default_value;
    if (!param->has_default || value.count > OG_SAMPLE_INTS) continue;
    const bool is_empty = value.count == 0;  // with NULL as its numbers
    if (!is_empty &&
        (value.kind == OG_ATTR_INTS || value.kind == OG_ATTR_BOOLS))
      memcpy(next.ints[param->index], value.ints, (size_t)value.count * 8);
    if (!is_empty && value.kind == OG_ATTR_FLOATS)
      memcpy(next.floats[param->index], value.floats, (size_t)value.count * 8);
    next.attr[param->index] = value;
    try_take(s, &next, false, NULL);
  }
}

// All names at once, since rules mostly tie them together; smaller where that
// is more elements than the limit.
static bool grow_together(opgraft_sample *s, const opgraft_sample_options *o) {
  const og_decl *decl = s->plan.op->decl;
  for (int64_t divisor = 1; divisor <= 64; divisor *= 4) {
    og_sample next = s->plan;
    for (int32_t d = 0; d < decl->dim_count; ++d)
      dim_set(&next, d, wanted_size(o, decl, d, divisor));
    free_shapes_set(&next, o->pack_size / divisor);
    if (try_take(s, &next, false, NULL)) return true;
  }
  return false;
}

// One name after the other, each as far as it goes.
static void grow_apart(opgraft_sample *s, const opgraft_sample_options *o) {
  const og_decl *decl = s->plan.op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    const bool is_pack = decl->dims[d].kind == OG_DIM_PACK;
    for (int64_t size = wanted_size(o, decl, d, 1); size > 8; size /= 4) {
      og_sample next = s->plan;
      dim_set(&next, d, size);
      const bool is_taken = try_take(s, &next, true, NULL);
      const int64_t now = is_pack ? s->plan.pack[d].size[0] : s->plan.dim[d];
      if (is_taken && now == size) break;
    }
  }
  for (int64_t size = o->pack_size; size > 8; size /= 4) {
    og_sample next = s->plan;
    free_shapes_set(&next, size);
    if (try_take(s, &next, false, NULL)) return;
  }
}

static bool is_as_asked(const opgraft_sample *s,
                        const opgraft_sample_options *o, opgraft_error *error) {
  const og_decl *decl = s->plan.op->decl;
  for (int32_t i = 0; i < o->dim_count; ++i) {
    int32_t d = 0;
    while (d < decl->dim_count &&
           strcmp(decl->dims[d].name, o->dim_names[i]) != 0)
      ++d;
    if (d == decl->dim_count) continue;
    const int64_t found = decl->dims[d].kind == OG_DIM_PACK
                              ? s->plan.pack[d].size[0]
                              : s->plan.dim[d];
    if (found == o->dim_sizes[i]) continue;
    og_error_set(error, OG_SHAPE, decl->name, NULL,
                 "%s: no call was found with %s = %lld; its shape rule, its "
                 "conditions or the limit of elements forbid it",
                 decl->name, o->dim_names[i], (long long)o->dim_sizes[i]);
    return false;
  }
  return true;
}

static og_status plan_make(opgraft_sample *s, const opgraft_op *op,
                           const opgraft_sample_options *o,
                           opgraft_error *error) {
  int32_t types[TYPES_MAX][OG_VARIABLE_MAX];
  const int32_t count = og_sample_types(op, TYPES_MAX, types);
  if (o->type_choice < 0 || o->type_choice >= count)
    return og_error_set(error, OG_INVALID, op->decl->name, NULL,
                        "%s: has kernels for %d combinations of types here, "
                        "found choice %d",
                        op->decl->name, (int)count, (int)o->type_choice);
  const int32_t *chosen = types[o->type_choice];
  bool is_drawn = false;
  for (uint64_t i = 0; !is_drawn && i < DRAWS; ++i)
    is_drawn = og_sample_draw(op, OG_PROFILE_SMOOTH, chosen,
                              og_seed_mix(o->seed, i), &s->plan, error);
  if (!is_drawn)
    return og_error_set(error, OG_SHAPE, op->decl->name, NULL,
                        "%s: no call was found that its shape rule and "
                        "conditions allow",
                        op->decl->name);
  settle(s);
  if (!grow_together(s, o)) grow_apart(s, o);
  return is_as_asked(s, o, error) ? OG_OK : OG_SHAPE;
}

// --- Memory and values -------------------------------------------------------

static int64_t smallest_dim(const og_sample *plan) {
  int64_t least = INT64_MAX;
  for (int32_t t = 0; t < plan->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(plan, t, e))
        for (int32_t i = 0; i < plan->shape[t][e].rank; ++i) {
          const int64_t size = plan->shape[t][e].size[i];
          if (size > 0 && size < least) least = size;
        }
  return least == INT64_MAX ? 1 : least;
}

// Element i of `count` integers below `end`.
static double index_value(int64_t i, int64_t count, int64_t end, int32_t order,
                          og_random *random) {
  if (order == OPGRAFT_INDEX_SORTED)
    return (double)i * (double)end / (double)count;
  return (double)og_random_below(random, end);
}

static void tensor_fill(const og_sample *plan, int32_t t,
                        const og_tensor *tensor, int32_t order,
                        og_random *random) {
  const size_t bytes = og_dtype_bytes(tensor->dtype);
  const int64_t count = og_numel(tensor);
  int64_t first = 0, index_end = smallest_dim(plan);
  char *at = tensor->data;
  og_sample_range(plan, t, &first, &index_end);
  if (tensor->dtype.bits == 8 && index_end > 128) index_end = 128;
  for (int64_t i = 0; i < count; ++i, at += bytes)
    for (int32_t part = 0; part < og_parts(tensor->dtype); ++part) {
      double value = og_random_unit(random);
      if (og_is_integral(tensor->dtype))
        value = (double)first +
                floor(index_value(i, count, index_end, order, random));
      else if (tensor->dtype.code == OG_CODE_BOOL)
        value = value < 0.5;
      og_value_set(tensor->dtype, at, part, value);
    }
}

void opgraft_sample_refill(opgraft_sample *sample, int32_t index_order) {
  og_sample *plan = &sample->plan;
  plan->index_values =
      index_order == OPGRAFT_INDEX_SORTED ? OG_INDEX_SORTED : OG_INDEX_RANDOM;
  og_random random = {plan->seed};
  for (int32_t t = 0; t < plan->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(plan, t, e)) {
        if (og_is_offsets_argument(plan->op->decl, t))
          og_offsets_fill(plan, t, sample->tensor[t][e].dtype,
                          sample->tensor[t][e].data,
                          og_numel(&sample->tensor[t][e]), &random);
        else
          tensor_fill(plan, t, &sample->tensor[t][e], index_order, &random);
      }
  // It took these sizes when they were chosen, so it takes them now.
  og_sample_offer(plan, sample->entry);
}

static bool tensor_make(opgraft_sample *s, int32_t t, int32_t e) {
  og_dims *sizes = &s->plan.shape[t][e];
  int64_t *strides = s->strides[t][e];
  og_row_major(sizes->size, sizes->rank, strides);
  og_tensor *tensor = &s->tensor[t][e];
  *tensor = (og_tensor){.device = og_cpu,
                        .ndim = sizes->rank,
                        .dtype = s->plan.type[t],
                        .shape = sizes->size,
                        .strides = strides};
  // The element limit keeps the product small.
  const size_t bytes = (size_t)og_numel(tensor) * og_dtype_bytes(tensor->dtype);
  tensor->data = og_alloc_aligned(64, bytes + 64);
  s->entry[t][e] = tensor;
  return tensor->data != NULL;
}

static og_status memory_make(opgraft_sample *s, opgraft_error *error) {
  const og_sample *plan = &s->plan;
  bool is_made = true;
  for (int32_t t = 0; t < plan->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(plan, t, e)) is_made = is_made && tensor_make(s, t, e);
  og_sample_attrs(plan, s->attr);
  og_sample_describe(plan, &s->text);
  if (!is_made || s->text.failed)
    return og_error_set(error, OG_MEMORY, plan->op->decl->name, NULL,
                        "%s: not enough memory for a sampled call's arguments",
                        plan->op->decl->name);
  opgraft_sample_refill(s, OPGRAFT_INDEX_RANDOM);
  return OG_OK;
}

// --- The public functions ----------------------------------------------------

int32_t opgraft_sample_type_count(const opgraft_op *op) {
  int32_t types[TYPES_MAX][OG_VARIABLE_MAX];
  return og_sample_types(op, TYPES_MAX, types);
}

static og_status options_read(const opgraft_sample_options *given,
                              opgraft_sample_options *out,
                              opgraft_error *error) {
  OG_TRY(
      og_copy_sized("opgraft_sample_options", given, out, sizeof *out, error));
  if (out->size <= 0) out->size = 256;
  if (out->pack_size <= 0) out->pack_size = 1024;
  if (out->element_limit <= 0) out->element_limit = (int64_t)1 << 22;
  return OG_OK;
}

og_status opgraft_sample_create(const opgraft_op *op,
                                const opgraft_sample_options *options,
                                opgraft_sample **out_sample,
                                opgraft_error *error) {
  opgraft_sample_options o;
  *out_sample = NULL;
  OG_TRY(options_read(options, &o, error));
  opgraft_sample *s = og_alloc_zeroed(1, sizeof *s);
  if (s == NULL)
    return og_error_set(error, OG_MEMORY, op->decl->name, NULL,
                        "%s: not enough memory for a sampled call",
                        op->decl->name);
  s->element_limit = o.element_limit;
  og_status status = plan_make(s, op, &o, error);
  if (status == OG_OK) status = memory_make(s, error);
  if (status == OG_OK)
    *out_sample = s;
  else
    opgraft_sample_destroy(s);
  return status;
}

void opgraft_sample_destroy(opgraft_sample *sample) {
  if (sample == NULL) return;
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      og_free(sample->tensor[t][e].data);
  og_text_reset(&sample->text);
  og_free(sample);
}

void opgraft_sample_bind(const opgraft_sample *sample, opgraft_frame *frame) {
  const og_sample *plan = &sample->plan;
  const og_decl *decl = plan->op->decl;
  memcpy(frame->attr, sample->attr,
         (size_t)decl->attr_count * sizeof *frame->attr);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const bool is_list = decl->params[decl->tensor_params[t]].is_list;
    frame->in[t] = plan->is_given[t] && !is_list ? &sample->tensor[t][0] : NULL;
    frame->in_list[t] = (og_tensor_list){0};
    if (plan->is_given[t] && is_list)
      frame->in_list[t] =
          (og_tensor_list){plan->list_count[t], sample->entry[t]};
  }
}

const char *opgraft_sample_text(const opgraft_sample *sample) {
  return sample->text.data;
}

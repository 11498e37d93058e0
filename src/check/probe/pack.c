// SPDX-License-Identifier: Apache-2.0
// Probes of what a leading pack promises: its elements do not meet, so that a
// host may put a batch in front of it (docs/shape-rules.md).

#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/shape.h"
#include "check/sample/value.h"

// --- The pack as a batch -----------------------------------------------------

static bool expr_names_pack(const og_expr *expr, int32_t pack) {
  for (int32_t i = 0; i < expr->count; ++i)
    if (expr->code[i].slot == pack && (expr->code[i].op == OG_CODE_DIM_ ||
                                       expr->code[i].op == OG_CODE_PACK_RANK_ ||
                                       expr->code[i].op == OG_CODE_PACK_AT_))
      return true;
  return false;
}

static bool item_names_pack(const og_item *item, int32_t pack) {
  if (item->kind == OG_ITEM_PACK) return item->dim == pack;
  for (int32_t i = 0; i < item->pack_count; ++i)
    if (item->packs[i] == pack) return true;
  return expr_names_pack(&item->expr, pack);
}

static bool is_pack(const og_item *item, int32_t pack) {
  return item->kind == OG_ITEM_PACK && item->dim == pack;
}

// Whether the items name the pack, if at all, only as their first.
static bool leads(const og_item *items, int32_t count, int32_t pack,
                  bool *out_named) {
  *out_named = count > 0 && is_pack(&items[0], pack);
  for (int32_t i = *out_named ? 1 : 0; i < count; ++i)
    if (item_names_pack(&items[i], pack)) return false;
  return true;
}

// The pack that a host may put a batch in front of, or -1.
static int32_t batch_pack(const og_decl *decl) {
  if (decl->mutated_count > 0 || decl->has_lists || decl->fresh_count == 0 ||
      decl->has_data_dependent_result)
    return -1;
  const og_shape_rule *first = &decl->shapes[0];
  if (first->kind != OG_SHAPE_ITEMS || first->item_count == 0 ||
      first->items[0].kind != OG_ITEM_PACK)
    return -1;
  const int32_t pack = first->items[0].dim;
  bool named;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (decl->shapes[i].kind != OG_SHAPE_ITEMS ||
        !leads(decl->shapes[i].items, decl->shapes[i].item_count, pack,
               &named) ||
        !named)
      return -1;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (!leads(decl->patterns[p].items, decl->patterns[p].item_count, pack,
               &named))
      return -1;
  for (int32_t c = 0; c < decl->condition_count; ++c)
    if (expr_names_pack(&decl->conditions[c].expr, pack)) return -1;
  return pack;
}

static bool has_pack(const og_decl *decl, int32_t tensor, int32_t pack) {
  const og_pattern *pattern = og_pattern_of(decl, tensor);
  return pattern != NULL && pattern->item_count > 0 &&
         pattern->items[0].kind == OG_ITEM_PACK &&
         pattern->items[0].dim == pack;
}

enum { BATCH = 2 };

// Two arrays as the rows of one.
static bool array_stack(const og_array *const row[BATCH], og_array *out) {
  const og_array *a = row[0];
  og_dims sizes = {.rank = a->sizes.rank + 1};
  if (sizes.rank > OG_SAMPLE_RANK) return false;
  sizes.size[0] = BATCH;
  for (int32_t d = 0; d < a->sizes.rank; ++d)
    sizes.size[d + 1] = a->sizes.size[d];
  if (!og_array_create(out, a->type, &sizes)) return false;
  const size_t bytes = (size_t)a->count * og_dtype_bytes(a->type);
  for (size_t b = 0; b < BATCH; ++b)
    memcpy(out->data + b * bytes, row[b]->data, bytes);
  return true;
}

// Stacks what has the pack; the rest is the first row's, in both.
static bool stack_inputs(const og_trial *trial, int32_t pack, og_inputs *second,
                         og_inputs *out) {
  const og_decl *decl = trial->op->decl;
  bool ok = og_inputs_copy(out, &trial->inputs);
  for (int32_t t = 0; ok && t < decl->tensor_count; ++t) {
    og_array *a = &out->tensor[t][0];
    og_array *other = &second->tensor[t][0];
    const og_array *const rows[BATCH] = {&trial->inputs.tensor[t][0], other};
    if (a->data == NULL) continue;
    if (has_pack(decl, t, pack)) {
      free(a->data);
      a->data = NULL;
      ok = array_stack(rows, a);
    } else {
      memcpy(other->data, a->data, (size_t)a->count * og_dtype_bytes(a->type));
    }
  }
  if (!ok) og_inputs_reset(out);
  return ok;
}

// The same call with a batch in front: axes that count from the front move.
static og_sample with_batch(const og_trial *trial, int32_t pack) {
  const og_decl *decl = trial->op->decl;
  og_sample s = trial->sample;
  og_dims *sizes = &s.pack[pack];
  for (int32_t d = sizes->rank; d > 0; --d) sizes->size[d] = sizes->size[d - 1];
  sizes->size[0] = BATCH;
  ++sizes->rank;
  bool moved[OPGRAFT_ATTR_MAX] = {false};
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    for (int32_t i = 0; i < decl->patterns[p].item_count; ++i) {
      const int32_t attr = decl->patterns[p].items[i].attr;
      if (attr < 0 || moved[attr] ||
          decl->patterns[p].items[i].kind != OG_ITEM_DIM)
        continue;
      moved[attr] = true;
      if (s.attr[attr].i >= 0) ++s.attr[attr].i;
    }
  return s;
}

static bool compare_rows(og_trial *trial, const og_outputs *batch,
                         const og_outputs *second, og_verdict *out_verdict) {
  const og_outputs *const row[BATCH] = {&trial->base, second};
  og_outputs stacked = {.count = 0};
  bool ok = batch->count == trial->base.count;
  for (int32_t i = 0; ok && i < batch->count; ++i) {
    const og_array *const rows[BATCH] = {&row[0]->array[i], &row[1]->array[i]};
    ok = array_stack(rows, &stacked.array[i]);
    if (ok) stacked.count = i + 1;
  }
  *out_verdict = og_outputs_compare(trial->op, batch, &stacked, -1);
  og_outputs_reset(&stacked);
  return ok && out_verdict->differs;
}

// Two calls, row by row and as a batch; true if they differ.
static bool batch_differs(og_trial *trial, int32_t pack,
                          og_verdict *out_verdict) {
  og_sample other = trial->sample, both = with_batch(trial, pack);
  og_inputs second, stacked;
  og_outputs row, batch;
  bool differs = false;
  other.seed = og_seed_mix(other.seed, 7);
  if (!og_trial_fill(trial, &other, &second)) return false;
  if (!stack_inputs(trial, pack, &second, &stacked)) goto done;
  if (og_run_quietly(trial, &other, &second, &row)) {
    if (og_sample_build(&both) &&
        og_run_quietly(trial, &both, &stacked, &batch)) {
      differs = compare_rows(trial, &batch, &row, out_verdict);
      og_outputs_reset(&batch);
    }
    og_outputs_reset(&row);
  }
  og_inputs_reset(&stacked);
done:
  og_inputs_reset(&second);
  return differs;
}

void og_probe_batch(og_trial *trial) {
  const int32_t pack = batch_pack(trial->op->decl);
  og_verdict verdict;
  if (pack < 0 || !og_is_comparable(trial) ||
      og_has_flag(trial, OG_BATCH_LOOP | OG_RANDOM) ||
      trial->sample.pack[pack].rank + 1 > OG_SAMPLE_RANK ||
      !batch_differs(trial, pack, &verdict) || !og_trial_is_steady(trial))
    return;
  og_tell_finding(trial->op, OPGRAFT_WRONG_BATCH_RULE, false, verdict.name,
                  "two calls as a batch in front of *%s give another result "
                  "than one by one: %s %s",
                  trial->op->decl->dims[pack].name, verdict.name, verdict.text);
}

// --- One element of the pack -------------------------------------------------

// Whether the items start with the pack, or with a broadcast of it and others,
// and name it nowhere else.
static bool starts_with(const og_item *items, int32_t count, int32_t pack) {
  bool starts = count > 0 && is_pack(&items[0], pack);
  if (count > 0 && items[0].kind == OG_ITEM_BROADCAST)
    for (int32_t i = 0; i < items[0].pack_count; ++i)
      starts |= items[0].packs[i] == pack;
  for (int32_t i = 1; i < count; ++i)
    if (item_names_pack(&items[i], pack)) return false;
  return starts;
}

// Whether the rules say that the pack's elements do not meet.
static bool is_promised(const og_decl *decl, int32_t pack) {
  bool named;
  if (decl->mutated_count > 0 || decl->has_lists || decl->fresh_count == 0 ||
      decl->has_data_dependent_result)
    return false;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (decl->shapes[i].kind != OG_SHAPE_ITEMS ||
        !starts_with(decl->shapes[i].items, decl->shapes[i].item_count, pack))
      return false;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (!leads(decl->patterns[p].items, decl->patterns[p].item_count, pack,
               &named))
      return false;
  for (int32_t c = 0; c < decl->condition_count; ++c)
    if (expr_names_pack(&decl->conditions[c].expr, pack)) return false;
  return true;
}

// What a result starts with: the pack's own sizes, or the broadcast's.
static bool leading_sizes(const og_sample *s, const og_item *first,
                          og_dims *out) {
  *out = (og_dims){0};
  if (first->kind == OG_ITEM_PACK) {
    *out = s->pack[first->dim];
    return true;
  }
  for (int32_t i = 0; i < first->pack_count; ++i) {
    const og_dims *pack = &s->pack[first->packs[i]];
    if (pack->rank > out->rank) out->rank = pack->rank;
  }
  for (int32_t d = 0; d < out->rank; ++d) out->size[d] = 1;
  for (int32_t i = 0; i < first->pack_count; ++i) {
    const og_dims *pack = &s->pack[first->packs[i]];
    int64_t *to = out->size + (out->rank - pack->rank);
    for (int32_t d = 0; d < pack->rank; ++d)
      if (pack->size[d] != 1) to[d] = pack->size[d];
  }
  return out->rank <= OG_SAMPLE_RANK;
}

static int64_t count_of(const og_dims *sizes) {
  int64_t count = 1;
  for (int32_t d = 0; d < sizes->rank; ++d) count *= sizes->size[d];
  return count;
}

// The pack's element that element `at` of what it is broadcast to reads.
static int64_t narrow(int64_t at, const og_dims *full, const og_dims *pack) {
  int64_t place = 0, step = 1;
  for (int32_t i = 1; i <= pack->rank; ++i) {
    const int64_t index = at % full->size[full->rank - i];
    at /= full->size[full->rank - i];
    place += (pack->size[pack->rank - i] == 1 ? 0 : index) * step;
    step *= pack->size[pack->rank - i];
  }
  return place;
}

// Puts back what the result may change in: the places of the pack's element.
static bool hide_own(const og_trial *trial, int32_t i, int32_t pack,
                     int64_t place, og_array *result) {
  const og_item *first =
      &trial->op->decl->shapes[trial->base.index[i]].items[0];
  const og_array *base = &trial->base.array[i];
  og_dims full;
  if (!leading_sizes(&trial->sample, first, &full) ||
      !og_dims_equal(&base->sizes, &result->sizes))
    return false;
  const int64_t outer = count_of(&full);
  if (outer == 0) return true;
  const size_t bytes =
      (size_t)(base->count / outer) * og_dtype_bytes(base->type);
  for (int64_t at = 0; at < outer; ++at)
    if (narrow(at, &full, &trial->sample.pack[pack]) == place)
      memcpy(result->data + (size_t)at * bytes, base->data + (size_t)at * bytes,
             bytes);
  return true;
}

// True if it was reported that elements of the pack meet.
static bool see_element(og_trial *trial, int32_t t, int32_t pack,
                        int64_t element, int64_t place) {
  og_inputs inputs;
  og_outputs got;
  og_verdict verdict = {.differs = false};
  if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
  if (og_array_vary(&inputs.tensor[t][0], element) &&
      og_run_quietly(trial, &trial->sample, &inputs, &got)) {
    bool ok = got.count == trial->base.count;
    for (int32_t i = 0; ok && i < got.count; ++i)
      ok = hide_own(trial, i, pack, place, &got.array[i]);
    if (ok) verdict = og_outputs_compare(trial->op, &got, &trial->base, -1);
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
  if (!verdict.differs || !og_trial_is_steady(trial)) return false;
  const og_decl *decl = trial->op->decl;
  og_tell_finding(trial->op, OPGRAFT_MIXED_PACK, false,
                  decl->params[decl->tensor_params[t]].name,
                  "another value in element %lld of *%s changes %s in others: "
                  "%s",
                  (long long)place, decl->dims[pack].name, verdict.name,
                  verdict.text);
  return true;
}

enum { ELEMENTS = 3 };

void og_probe_pack(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || og_has_flag(trial, OG_BATCH_LOOP | OG_RANDOM))
    return;
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const og_pattern *pattern = &decl->patterns[p];
    const og_array *a = &trial->inputs.tensor[pattern->tensor][0];
    if (pattern->item_count == 0 || pattern->items[0].kind != OG_ITEM_PACK ||
        a->data == NULL || a->count == 0 ||
        !is_promised(decl, pattern->items[0].dim))
      continue;
    const int32_t pack = pattern->items[0].dim;
    const int64_t outer = count_of(&trial->sample.pack[pack]);
    og_random r = {og_seed_mix(trial->sample.seed, 91 + (uint64_t)p)};
    for (int32_t i = 0; i < ELEMENTS && outer > 1; ++i) {
      const int64_t element = og_random_below(&r, a->count);
      if (see_element(trial, pattern->tensor, pack, element,
                      element / (a->count / outer)))
        return;
    }
  }
}

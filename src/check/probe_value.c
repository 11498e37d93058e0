// SPDX-License-Identifier: Apache-2.0
// Probes that compare an operator with itself: by other kernels, row by row,
// expanded, by the pointwise expression.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/derive.h"
#include "check/probe.h"
#include "check/value.h"

// --- Kernels -----------------------------------------------------------------

static bool takes_types(const og_trial *trial, int32_t k) {
  const opgraft_op *op = trial->op;
  const og_decl *decl = op->decl;
  if (decl->kernels[k].device != OG_CPU || !op->kernel_available[k])
    return false;
  for (int32_t v = 0; v < decl->type_variable_count; ++v) {
    const int32_t type =
        og_dtype_index(trial->sample.type[op->variable_tensor[v]]);
    const size_t at = (size_t)k * OG_VARIABLE_MAX + (size_t)v;
    if (!(decl->kernel_types[at] >> type & 1u)) return false;
  }
  return true;
}

void og_probe_kernels(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  int32_t count = 0;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    count += takes_types(trial, k);
  if (count < 2 || !og_is_comparable(trial)) return;
  for (int32_t k = 0; k < decl->kernel_count; ++k) {
    og_mode mode = og_mode_plain;
    og_verdict verdict;
    mode.kernel = &decl->kernels[k];
    if (!takes_types(trial, k) ||
        !og_trial_differs(trial, &mode, -1, &verdict, NULL))
      continue;
    og_trial_report(trial, OPGRAFT_WRONG_VALUES_ACROSS_KERNELS, false,
                    verdict.name, "kernel %d (isa %s): %s %s", (int)k,
                    decl->kernels[k].isa ? decl->kernels[k].isa : "any",
                    verdict.name, verdict.text);
    return;
  }
}

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

// Whether the items name the pack, if at all, only as their first.
static bool leads(const og_item *items, int32_t count, int32_t pack,
                  bool *out_named) {
  *out_named =
      count > 0 && items[0].kind == OG_ITEM_PACK && items[0].dim == pack;
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
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (decl->patterns[p].tensor == tensor && decl->patterns[p].item_count > 0)
      return decl->patterns[p].items[0].kind == OG_ITEM_PACK &&
             decl->patterns[p].items[0].dim == pack;
  return false;
}

enum { BATCH = 2 };

// Two arrays as the rows of one.
static bool array_stack(const og_array *const row[BATCH], og_array *out) {
  const og_array *a = row[0];
  og_sizes sizes = {.rank = a->sizes.rank + 1};
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
  og_sizes *sizes = &s.pack[pack];
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
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  other.seed = og_seed_mix(other.seed, 7);
  if (!og_trial_fill(trial, &other, &second)) return false;
  if (!stack_inputs(trial, pack, &second, &stacked)) goto done;
  if (og_trial_run(trial, &other, &second, &mode, &row) == OG_RAN) {
    if (og_sample_build(&both) &&
        og_trial_run(trial, &both, &stacked, &mode, &batch) == OG_RAN) {
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
  og_trial_report(trial, OPGRAFT_WRONG_BATCH_RULE, false, verdict.name,
                  "two calls as a batch in front of *%s give another result "
                  "than one by one: %s %s",
                  trial->op->decl->dims[pack].name, verdict.name, verdict.text);
}

// --- Expanded arguments ------------------------------------------------------

// `from` with the dims [at, at + rank) as large as `full`, which they end.
static bool array_expand(const og_array *from, int32_t at, int32_t rank,
                         const og_sizes *full, og_array *out) {
  og_sizes sizes = {.rank = from->sizes.rank - rank + full->rank};
  if (sizes.rank > OG_SAMPLE_RANK) return false;
  const int32_t after = at + full->rank;
  for (int32_t d = 0; d < sizes.rank; ++d)
    sizes.size[d] = d < at      ? from->sizes.size[d]
                    : d < after ? full->size[d - at]
                                : from->sizes.size[d - full->rank + rank];
  if (!og_array_create(out, from->type, &sizes)) return false;
  const size_t bytes = og_dtype_bytes(from->type);
  for (int64_t i = 0; i < out->count; ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int32_t d = sizes.rank - 1; d >= 0; --d) {
      const int64_t index = rest % sizes.size[d];
      rest /= sizes.size[d];
      const int32_t old = d < at ? d : d - full->rank + rank;
      if (d < after && old < at && d >= at) continue;  // a new dim
      const int64_t size = from->sizes.size[old];
      place += (size == 1 ? 0 : index) * step;
      step *= size;
    }
    memcpy(out->data + (size_t)i * bytes, from->data + (size_t)place * bytes,
           bytes);
  }
  return true;
}

static bool broadcast_sizes(const og_sizes *a, og_sizes *full) {
  og_sizes out = {.rank = a->rank > full->rank ? a->rank : full->rank};
  for (int32_t i = 1; i <= out.rank; ++i) {
    const int64_t x = i <= a->rank ? a->size[a->rank - i] : 1;
    const int64_t y = i <= full->rank ? full->size[full->rank - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out.size[out.rank - i] = x == 1 ? y : x;
  }
  *full = out;
  return true;
}

static const og_item *find_broadcast(const og_shape_rule *rule) {
  for (int32_t j = 0; j < rule->item_count; ++j)
    if (rule->items[j].kind == OG_ITEM_BROADCAST) return &rule->items[j];
  return NULL;
}

// NULL also where one result is no broadcast: with expanded arguments it has
// other sizes, as the gradients of broadcast arguments have.
static const og_item *broadcast_item(const og_decl *decl) {
  const og_item *first = NULL;
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const og_item *item = find_broadcast(&decl->shapes[i]);
    if (item == NULL) return NULL;
    if (first == NULL) first = item;
  }
  return first;
}

// Expands, in `inputs` and `s`, the packs that the item broadcasts.
static bool expand_patterns(const og_item *item, const og_sizes *full,
                            og_sample *s, og_inputs *inputs) {
  const og_decl *decl = s->op->decl;
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const og_pattern *pattern = &decl->patterns[p];
    og_array *a = &inputs->tensor[pattern->tensor][0];
    int32_t at = 0;
    if (a->data == NULL) continue;
    for (int32_t i = 0; i < pattern->item_count; ++i) {
      const og_item *in = &pattern->items[i];
      const bool is_pack = in->kind == OG_ITEM_PACK;
      const int32_t rank = is_pack ? s->pack[in->dim].rank : 1;
      bool is_named = false;
      for (int32_t k = 0; is_pack && k < item->pack_count; ++k)
        is_named |= item->packs[k] == in->dim;
      if (is_named) {
        og_array wide;
        if (!array_expand(a, at, rank, full, &wide)) return false;
        free(a->data);
        *a = wide;
        break;  // a pattern broadcasts one pack
      }
      at += rank;
    }
  }
  for (int32_t k = 0; k < item->pack_count; ++k)
    s->pack[item->packs[k]] = *full;
  return og_sample_build(s);
}

static bool expand_pointwise(og_sample *s, og_inputs *inputs) {
  const og_decl *decl = s->op->decl;
  og_sizes full = {.rank = 0};
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (s->is_given[t] && !broadcast_sizes(&s->shape[t][0], &full))
      return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    og_array *a = &inputs->tensor[t][0];
    og_array wide;
    if (a->data == NULL) continue;
    if (!array_expand(a, 0, a->sizes.rank, &full, &wide)) return false;
    free(a->data);
    *a = wide;
    s->shape[t][0] = full;
  }
  return true;
}

void og_probe_broadcast(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const og_item *item = broadcast_item(decl);
  const bool is_pointwise = decl->pointwise != NULL && decl->pattern_count == 0;
  if ((item == NULL && !is_pointwise) || !og_is_comparable(trial) ||
      decl->mutated_count > 0 || decl->has_lists)
    return;
  og_sample s = trial->sample;
  og_inputs inputs;
  og_outputs out;
  og_sizes full = {.rank = 0};
  if (!og_inputs_copy(&inputs, &trial->inputs)) return;
  for (int32_t k = 0; item != NULL && k < item->pack_count; ++k)
    if (!broadcast_sizes(&s.pack[item->packs[k]], &full)) goto done;
  if (!(item != NULL ? expand_patterns(item, &full, &s, &inputs)
                     : expand_pointwise(&s, &inputs)))
    goto done;
  if (og_trial_run(trial, &s, &inputs, &og_mode_plain, &out) == OG_RAN) {
    const og_verdict verdict =
        og_outputs_compare(trial->op, &trial->base, &out, -1);
    if (verdict.differs)
      og_trial_report(trial, OPGRAFT_WRONG_BROADCAST, false, verdict.name,
                      "broadcast arguments give another result than expanded "
                      "ones: %s %s",
                      verdict.name, verdict.text);
    og_outputs_reset(&out);
  }
done:
  og_inputs_reset(&inputs);
}

// --- An index out of range ---------------------------------------------------

// A crash here is the finding; the parent knows the probe.
void og_probe_index_range(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  bool any = false;
  og_inputs inputs;
  og_outputs out;
  og_mode mode = og_mode_plain;
  mode.is_quiet = true;
  if (!trial->has_base || trial->forward != NULL || decl->tensor_count < 2 ||
      !og_inputs_copy(&inputs, &trial->inputs))
    return;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs.tensor[t][e];
      if (a->data == NULL || a->type.code != OG_CODE_INT || a->type.bits < 32 ||
          decl->types[t].same_as >= 0)
        continue;
      any |= a->count > 0;
      for (int64_t i = 0; i < a->count; ++i)
        og_value_set(a->type, a->data + (size_t)i * og_dtype_bytes(a->type), 0,
                     i % 2 ? -5000 : 30000);
    }
  if (any &&
      og_trial_run(trial, &trial->sample, &inputs, &mode, &out) == OG_RAN)
    og_outputs_reset(&out);
  og_inputs_reset(&inputs);
}

// --- The pointwise expression ------------------------------------------------

static bool has_complex(const og_trial *trial) {
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (trial->sample.is_given[t] && og_is_complex(trial->sample.type[t]))
      return true;
  return false;
}

// Where both are there, a graph runs the expression and a call the kernel.
void og_probe_pointwise(og_trial *trial) {
  static const og_kernel derived = {.device = OG_CPU, .run = og_pointwise_run};
  const og_decl *decl = trial->op->decl;
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  if (decl->pointwise == NULL || decl->is_pointwise_derived ||
      !og_is_comparable(trial) || has_complex(trial))
    return;
  mode.kernel = &derived;
  if (og_trial_differs(trial, &mode, -1, &verdict, NULL))
    og_trial_report(trial, OPGRAFT_WRONG_POINTWISE, false, verdict.name,
                    "the kernel and the pointwise expression differ: %s %s",
                    verdict.name, verdict.text);
}

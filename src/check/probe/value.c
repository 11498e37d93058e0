// SPDX-License-Identifier: Apache-2.0
// Probes that compare an operator with itself: by other kernels, expanded, by
// the formula.

#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/shape.h"
#include "check/sample/value.h"
#include "decl/formula.h"

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

static void compare_with_host(og_trial *trial, const og_outputs *host) {
  const og_verdict verdict =
      og_outputs_compare(trial->op, &trial->base, host, -1);
  ++trial->reference_count;
  if (verdict.differs && !og_is_border(&verdict) && og_trial_is_steady(trial))
    og_tell_finding(trial->op, OPGRAFT_WRONG_VALUES_ACROSS_KERNELS, false,
                    verdict.name,
                    "the device's kernel and the CPU's differ: %s %s",
                    verdict.name, verdict.text);
}

// The call of a device on the CPU.
static void see_host(og_trial *trial) {
  char refusal[sizeof trial->refusal];
  og_mode mode = og_mode_plain;
  og_outputs host;
  const bool is_refused = !trial->has_base;
  if (is_refused ? !og_is_of_call(trial->refusal_status)
                 : !og_is_comparable(trial) || og_has_flag(trial, OG_RANDOM))
    return;
  memcpy(refusal, trial->refusal, sizeof refusal);
  mode.is_on_host = true;
  mode.is_quiet = true;
  if (og_trial_run(trial, &trial->sample, &trial->inputs, &mode, &host) !=
      OG_RAN)
    return;
  if (is_refused)
    og_tell_finding(trial->op, OPGRAFT_RULE_DISAGREES, false, "",
                    "the device refuses a call that the CPU's kernel takes: "
                    "\"%s\"",
                    refusal);
  else
    compare_with_host(trial, &host);
  og_outputs_reset(&host);
}

void og_probe_kernels(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  int32_t count = 0;
  if (trial->device != NULL) {
    see_host(trial);
    return;
  }
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
    og_tell_finding(trial->op, OPGRAFT_WRONG_VALUES_ACROSS_KERNELS, false,
                    verdict.name, "kernel %d (isa %s): %s %s", (int)k,
                    decl->kernels[k].isa ? decl->kernels[k].isa : "any",
                    verdict.name, verdict.text);
    return;
  }
}

// --- Expanded arguments ------------------------------------------------------

// `from` with the dims [at, at + rank) as large as `full`, which they end.
static bool array_expand(const og_array *from, int32_t at, int32_t rank,
                         const og_dims *full, og_array *out) {
  og_dims sizes = {.rank = from->sizes.rank - rank + full->rank};
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

static bool broadcast_sizes(const og_dims *a, og_dims *full) {
  og_dims out = {.rank = a->rank > full->rank ? a->rank : full->rank};
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

// NULL also where one result is not a broadcast: with expanded arguments it has
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
static bool expand_patterns(const og_item *item, const og_dims *full,
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

void og_probe_broadcast(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const og_item *item = broadcast_item(decl);
  if (item == NULL || !og_is_comparable(trial) || decl->mutated_count > 0 ||
      decl->has_lists)
    return;
  og_sample s = trial->sample;
  og_inputs inputs;
  og_outputs out;
  og_dims full = {.rank = 0};
  if (!og_inputs_copy(&inputs, &trial->inputs)) return;
  for (int32_t k = 0; k < item->pack_count; ++k)
    if (!broadcast_sizes(&s.pack[item->packs[k]], &full)) goto done;
  if (!expand_patterns(item, &full, &s, &inputs)) goto done;
  if (og_trial_run(trial, &s, &inputs, &og_mode_plain, &out) == OG_RAN) {
    const og_verdict verdict =
        og_outputs_compare(trial->op, &trial->base, &out, -1);
    if (verdict.differs)
      og_tell_finding(trial->op, OPGRAFT_WRONG_BROADCAST, false, verdict.name,
                      "broadcast arguments give another result than expanded "
                      "ones: %s %s",
                      verdict.name, verdict.text);
    og_outputs_reset(&out);
  }
done:
  og_inputs_reset(&inputs);
}

// --- The formula -------------------------------------------------------------

static bool has_complex(const og_trial *trial) {
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (trial->sample.is_given[t] && og_is_complex(trial->sample.type[t]))
      return true;
  return false;
}

// Where both are there, a graph runs the expression and a call the kernel.
void og_probe_formula(og_trial *trial) {
  static const og_kernel derived = {.device = OG_CPU, .run = og_formula_run};
  const og_decl *decl = trial->op->decl;
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  if (decl->formula == NULL || decl->is_formula_derived ||
      !og_is_comparable(trial) || has_complex(trial))
    return;
  mode.kernel = &derived;
  if (og_trial_differs(trial, &mode, -1, &verdict, NULL))
    og_tell_finding(trial->op, OPGRAFT_WRONG_FORMULA, false, verdict.name,
                    "the kernel and the formula differ: %s %s", verdict.name,
                    verdict.text);
}

// SPDX-License-Identifier: Apache-2.0
// Arguments that are there in vain: a tensor that no kernel reads, a number
// that it reads and that changes nothing, old values that are all written over.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/probe/uses.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/guard.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/run/watchpoint.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

static const og_param *param_of(const og_trial *trial, int32_t tensor) {
  const og_decl *decl = trial->op->decl;
  return &decl->params[decl->tensor_params[tensor]];
}

// --- Tensors that nobody reads -----------------------------------------------

static bool names_dim(const og_pattern *pattern, int32_t dim) {
  for (int32_t i = 0; i < pattern->item_count; ++i)
    if (pattern->items[i].dim == dim &&
        (pattern->items[i].kind == OG_ITEM_DIM ||
         pattern->items[i].kind == OG_ITEM_PACK))
      return true;
  return false;
}

// Whether the argument's sizes say something: a dim that no other one names.
static bool says_sizes(const og_trial *trial, int32_t tensor) {
  const og_decl *decl = trial->op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    bool is_own = false, is_others = false;
    for (int32_t p = 0; p < decl->pattern_count; ++p) {
      const int32_t t = decl->patterns[p].tensor;
      if (!names_dim(&decl->patterns[p], d)) continue;
      is_own |= t == tensor;
      is_others |= t != tensor && !param_of(trial, t)->is_optional;
    }
    if (is_own && !is_others) return true;
  }
  return decl->pattern_count == 0;
}

// Whether results get their type or their layout from the argument.
static bool is_model_of_result(const og_decl *decl, int32_t tensor) {
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const og_out_type *type = &decl->out_types[i];
    if ((decl->shapes[i].kind == OG_SHAPE_LIKE &&
         decl->shapes[i].like_tensor == tensor) ||
        (type->kind == OG_OUT_TYPE_SAME && type->tensor == tensor))
      return true;
    for (int32_t p = 0; p < type->param_count; ++p)
      if (type->params[p] == decl->tensor_params[tensor]) return true;
  }
  return false;
}

static bool is_for_backward(const og_decl *decl, int32_t param) {
  for (int32_t a = 0; a < decl->grad.arg_count; ++a)
    if (decl->grad.args[a].source == OPGRAFT_GRAD_PARAM &&
        decl->grad.args[a].index == param)
      return true;
  return false;
}

static void see_reads(og_trial *trial, int32_t tensor) {
  const og_param *param = param_of(trial, tensor);
  const og_array *a = &trial->inputs.tensor[tensor][0];
  og_mode mode = og_mode_plain;
  og_outputs out;
  mode.is_quiet = true;
  mode.watched_tensor = 1 + tensor;
  if (param->is_mutated || param->is_list || a->data == NULL || a->count == 0 ||
      says_sizes(trial, tensor) ||
      is_model_of_result(trial->op->decl, tensor) ||
      og_trial_run(trial, &trial->sample, &trial->inputs, &mode, &out) !=
          OG_RAN)
    return;
  og_outputs_reset(&out);
  const bool is_read = trial->tensor_read;
  const bool is_saved =
      is_for_backward(trial->op->decl, trial->op->decl->tensor_params[tensor]);
  og_tell_use(trial->op, param->name,
              (uint32_t)(is_read || is_saved) << OG_USE_ANY |
                  (uint32_t)is_read << OG_USE_OWN);
}

// --- Old values that do not count --------------------------------------------

static bool changes_all(og_trial *trial, int32_t tensor, bool *out_ran) {
  og_inputs inputs;
  og_outputs got;
  bool differs = false;
  *out_ran = false;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
  og_array *a = &inputs.tensor[tensor][0];
  for (int64_t i = 0; i < a->count; ++i) og_array_vary(a, i);
  *out_ran = og_run_quietly(trial, &trial->sample, &inputs, &got);
  if (*out_ran) {
    differs = og_outputs_compare(trial->op, &got, &trial->base, 0).differs;
    og_outputs_reset(&got);
  }
  og_inputs_reset(&inputs);
  return differs;
}

static void see_old_values(og_trial *trial, int32_t tensor) {
  const og_param *param = param_of(trial, tensor);
  const og_array *a = &trial->inputs.tensor[tensor][0];
  char name[64];
  bool ran;
  if (!param->is_mutated || param->is_list || a->data == NULL || a->count == 0)
    return;
  const bool counts = changes_all(trial, tensor, &ran);
  snprintf(name, sizeof name, "%.60s=", param->name);
  if (ran)
    og_tell_use(
        trial->op, name,
        (uint32_t)counts << OG_USE_ANY | (uint32_t)counts << OG_USE_OWN);
}

// --- Numbers that change nothing ---------------------------------------------

enum { OTHERS = 8, RUNS_MIN = 3 };

// Another value for the argument; false where there is none of that number.
static bool set_other(og_attr *a, int32_t which) {
  const double floats[OTHERS] = {0, 1, -1, 2 * a->f + 1, 1000, 1e-3, 0.25, 7};
  const int64_t ints[OTHERS] = {0, 1, 2, 3, -1, a->i + 1, a->i - 1, 100};
  const og_attr old = *a;
  if (which >= OTHERS || (a->kind == OG_ATTR_BOOL && which > 0)) return false;
  if (a->kind == OG_ATTR_FLOAT)
    a->f = floats[which];
  else
    a->i = a->kind == OG_ATTR_BOOL ? !a->i : ints[which];
  return a->kind == OG_ATTR_FLOAT ? a->f != old.f : a->i != old.i;
}

// Whether another value of the argument changes the results; in how many calls
// it was another.
static bool counts(og_trial *trial, int32_t k, int32_t *out_runs) {
  og_sample *s = malloc(sizeof *s);
  bool differs = false;
  *out_runs = 0;
  for (int32_t i = 0; s != NULL && i < OTHERS && !differs; ++i) {
    opgraft_error error;
    og_outputs out;
    *s = trial->sample;
    if (!set_other(&s->attr[k], i) ||
        !og_sample_is_valid(s, INT64_MAX, &error) ||
        !og_run_quietly(trial, s, &trial->inputs, &out))
      continue;
    ++*out_runs;
    differs = og_outputs_compare(trial->op, &out, &trial->base, 0).differs;
    og_outputs_reset(&out);
  }
  free(s);
  return differs;
}

static bool is_number(const og_attr *a) {
  return a->kind == OG_ATTR_FLOAT || a->kind == OG_ATTR_INT ||
         a->kind == OG_ATTR_BOOL;
}

// What the kernel reads in the trial's own call: bits of arguments, asked once.
typedef struct reads {
  bool is_known;
  uint32_t bits;
} reads;

static bool is_read(og_trial *trial, reads *known, int32_t k) {
  og_mode mode = og_mode_plain;
  og_outputs out;
  mode.is_quiet = mode.watches_arguments = true;
  if (!known->is_known && og_trial_run(trial, &trial->sample, &trial->inputs,
                                       &mode, &out) == OG_RAN) {
    known->bits = trial->arguments_read;
    og_outputs_reset(&out);
  }
  known->is_known = true;
  return known->bits >> k & 1u;
}

static void see_number(og_trial *trial, const og_param *param, reads *known) {
  const og_decl *decl = trial->op->decl;
  const int32_t k = param->index;
  int32_t runs;
  if (param->type == OG_TYPE_TENSOR || param->is_list ||
      !is_number(&trial->sample.attr[k]) || og_is_in_rules(decl, k) ||
      is_for_backward(decl, (int32_t)(param - decl->params)))
    return;
  const bool is_used = counts(trial, k, &runs);
  char name[64];
  snprintf(name, sizeof name, "%.60s~", param->name);
  if (is_used)
    og_tell_ends(trial->op, name, OG_ENDS_ALL);
  else if (runs >= (trial->sample.attr[k].kind == OG_ATTR_BOOL ? 1 : RUNS_MIN))
    og_tell_ends(trial->op, name,
                 (uint32_t)is_read(trial, known, k) << OG_END_READ);
}

// A word that chooses among ways to compute may leave numbers to one of them.
static bool has_words(const og_decl *decl) {
  for (int32_t p = 0; p < decl->param_count; ++p)
    if (decl->params[p].type == OG_TYPE_STR) return true;
  return false;
}

void og_probe_vain(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      trial->base.count == 0)
    return;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (trial->device == NULL) see_reads(trial, t);
    see_old_values(trial, t);
  }
  if (!og_watch_works() || has_words(decl)) return;
  reads known = {.is_known = false};
  for (int32_t p = 0; p < decl->param_count; ++p)
    see_number(trial, &decl->params[p], &known);
}

// SPDX-License-Identifier: Apache-2.0
// A dim cut short, or taken in two parts.
//
// cut: where the first results do not depend on what later places hold (a
// running sum, a causal mask), they are the same without those places. A kernel
// that works in blocks may lose the last, partial one: then they differ at the
// sizes that leave one.
//
// joined: the declaration's `.reduce` says how the results of parts of a dim
// that no result names give the result of the whole.

#include "check/probe/cut.h"

#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/sweep.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

static bool sized(const og_sample *s, int32_t d, int64_t size, og_sample *out) {
  opgraft_error error;
  *out = *s;
  out->dim[d] = size;
  return og_sample_is_valid(out, INT64_MAX, &error) && out->dim[d] == size;
}

// --- The first half of twice the size ----------------------------------------

// The arguments with other values at the places of the dim from `begin` on.
static bool change_from(const og_sample *whole, int32_t d, int64_t begin,
                        const og_inputs *inputs, og_inputs *out) {
  og_sample other = *whole;
  og_inputs drawn;
  bool ok = true;
  other.seed = og_seed_mix(whole->seed, 515);
  if (!og_inputs_fill(&drawn, &other)) return false;
  if (!og_inputs_copy(out, inputs)) {
    og_inputs_reset(&drawn);
    return false;
  }
  for (int32_t t = 0; ok && t < whole->op->decl->tensor_count; ++t) {
    const int32_t axis = og_argument_axis(whole, t, d);
    og_array part;
    if (out->tensor[t][0].data == NULL || axis == OG_NO_AXIS) continue;
    ok = axis != OG_SEVERAL_AXES &&
         og_array_slice(&drawn.tensor[t][0], axis, begin, whole->dim[d] - begin,
                        &part);
    if (!ok) break;
    og_array_place(&out->tensor[t][0], axis, begin, &part);
    free(part.data);
  }
  og_inputs_reset(&drawn);
  if (!ok) og_inputs_reset(out);
  return ok;
}

// The first `count` places of what a run gives; false where a result is not one
// of the dim.
static bool run_first(og_sweep *w, const og_sample *whole, int64_t count,
                      const og_inputs *inputs, og_outputs *out) {
  if (!og_run_quietly(w->trial, whole, inputs, out)) return false;
  bool ok = true;
  for (int32_t i = 0; ok && i < out->count; ++i)
    ok = og_output_axis(whole, out, i, w->dim) >= 0;
  ok = ok && og_outputs_cut(whole, out, w->dim, count);
  if (!ok) og_outputs_reset(out);
  return ok;
}

// Whether the first `count` places stay as they are where those behind change.
static bool is_apart(og_sweep *w, const og_sample *whole, int64_t count,
                     const og_inputs *inputs, const og_outputs *first) {
  og_inputs changed;
  og_outputs other;
  bool ok = false;
  if (!change_from(whole, w->dim, count, inputs, &changed)) return false;
  if (run_first(w, whole, count, &changed, &other)) {
    ok = !og_outputs_compare(w->trial->op, &other, first, 0).differs;
    og_outputs_reset(&other);
  }
  og_inputs_reset(&changed);
  return ok;
}

static bool try_cut(og_sweep *w, const og_sample *s, uint64_t seed,
                    og_outcome known[OG_FORMS_MAX]) {
  og_sample *whole = malloc(sizeof *whole);
  og_inputs inputs, part;
  og_outputs first, alone;
  bool ok = false;
  (void)seed;  // the sample has it
  if (whole == NULL) return false;
  if (!sized(s, w->dim, 2 * s->dim[w->dim], whole) ||
      !og_inputs_fill(&inputs, whole))
    goto done;
  og_tell_shown(s, NULL);  // of a crash
  if (run_first(w, whole, s->dim[w->dim], &inputs, &first)) {
    if (is_apart(w, whole, s->dim[w->dim], &inputs, &first) &&
        og_inputs_slice(whole, &inputs, w->dim, 0, s->dim[w->dim], &part)) {
      ok = og_run_quietly(w->trial, s, &part, &alone);
      if (ok) {
        og_sweep_take(w, 0, s, &alone, &first, known);
        og_outputs_reset(&alone);
      }
      og_inputs_reset(&part);
    }
    og_outputs_reset(&first);
  }
  og_inputs_reset(&inputs);
done:
  free(whole);
  return ok;
}

static const og_relation relation = {
    .form_count = 1,
    .text = {"arguments without the second half along %s give the first half "
             "of the result, which the second one does not change,"},
    .is_from_start = true,
    .try_call = try_cut,
};

// Whether the last place changes no result but its own.
static bool is_last_apart(og_sweep *w, const og_sample *s) {
  const int64_t count = s->dim[w->dim] - 1;
  og_inputs inputs;
  og_outputs first;
  bool ok = false;
  if (!og_inputs_fill(&inputs, s)) return false;
  og_tell_shown(s, NULL);  // of a crash
  if (run_first(w, s, count, &inputs, &first)) {
    ok = is_apart(w, s, count, &inputs, &first);
    og_outputs_reset(&first);
  }
  og_inputs_reset(&inputs);
  return ok;
}

bool og_is_causal(og_trial *trial, int32_t dim) {
  static const int32_t sizes[] = {32, 48, 64, 96};  // those of whole groups
  og_sweep *w = calloc(1, sizeof *w);
  og_sample *s = malloc(sizeof *s);
  int32_t held = 0, tried = 0;
  for (size_t i = 0; w != NULL && s != NULL && i < sizeof sizes / sizeof *sizes;
       ++i) {
    w->trial = trial;
    w->dim = dim;
    if (!sized(&trial->sample, dim, sizes[i], s)) continue;
    s->float_values = OG_FLOAT_NORMAL;
    ++tried;
    held += is_last_apart(w, s);
  }
  free(s);
  free(w);
  return tried > 0 && held == tried;
}

void og_probe_cut(og_trial *trial) {
  const int32_t d = og_may_sweep(trial) ? og_sweep_dim(trial) : -1;
  if (d < 0 || trial->op->decl->mutated_count > 0 || trial->is_slow) return;
  og_sweep *w = calloc(1, sizeof *w);
  if (w == NULL) return;
  w->trial = trial;
  w->dim = d;
  w->relation = &relation;
  if (og_sweep_holds(w)) og_sweep_run(w);
  og_tell_shown(&trial->sample, &trial->inputs);
  free(w);
}

// --- What `.reduce` says -----------------------------------------------------

typedef double (*join_fn)(double a, double b);
static double join_sum(double a, double b) { return a + b; }
static double join_prod(double a, double b) { return a * b; }
static double join_max(double a, double b) { return a > b ? a : b; }
static double join_min(double a, double b) { return a < b ? a : b; }

static join_fn find_join(const char *name) {
  static const struct {
    const char *name;
    join_fn join;
  } joins[] = {{"sum", join_sum},
               {"prod", join_prod},
               {"max", join_max},
               {"min", join_min}};
  for (size_t i = 0; name != NULL && i < sizeof joins / sizeof *joins; ++i)
    if (strcmp(joins[i].name, name) == 0) return joins[i].join;
  return NULL;
}

// A plain dim of at least two places that no result names; -1: there is none.
static int32_t joined_dim(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    bool is_free =
        decl->dims[d].kind == OG_DIM_SIZE && trial->sample.dim[d] >= 2;
    bool is_named = false;
    for (int32_t t = 0; is_free && t < decl->tensor_count; ++t) {
      if (!trial->sample.is_given[t]) continue;
      const int32_t axis = og_argument_axis(&trial->sample, t, d);
      is_free = axis != OG_SEVERAL_AXES;
      is_named |= axis >= 0;
    }
    for (int32_t i = 0; is_free && i < trial->base.count; ++i)
      is_free =
          og_output_axis(&trial->sample, &trial->base, i, d) == OG_NO_AXIS;
    if (is_free && is_named) return d;
  }
  return -1;
}

static void outputs_join(og_outputs *to, const og_outputs *from, join_fn join) {
  for (int32_t i = 0; i < to->count; ++i) {
    og_array *a = &to->array[i];
    for (int64_t j = 0; j < a->count && !og_is_complex(a->type); ++j)
      og_array_set(a, j,
                   join(og_array_get(a, j), og_array_get(&from->array[i], j)));
  }
}

static bool run_part(og_trial *trial, int32_t d, int64_t begin, int64_t count,
                     og_outputs *out) {
  og_sample *part = malloc(sizeof *part);
  og_inputs inputs;
  bool ok = false;
  if (part != NULL && sized(&trial->sample, d, count, part) &&
      og_inputs_slice(&trial->sample, &trial->inputs, d, begin, count,
                      &inputs)) {
    ok = og_run_quietly(trial, part, &inputs, out);
    og_inputs_reset(&inputs);
  }
  free(part);
  return ok;
}

// Sums of narrow floats round after each part.
static bool has_narrow_result(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (!og_is_integral(out->array[i].type) &&
        !(og_is_floating(out->array[i].type) && out->array[i].type.bits >= 32))
      return true;
  return false;
}

void og_probe_joined(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const join_fn join = find_join(decl->record->reduce);
  og_outputs first, second;
  if (join == NULL || !og_may_sweep(trial) || decl->mutated_count > 0 ||
      has_narrow_result(&trial->base))
    return;
  const int32_t d = joined_dim(trial);
  if (d < 0) return;
  const int64_t size = trial->sample.dim[d], half = size / 2;
  if (!run_part(trial, d, 0, half, &first)) return;
  if (run_part(trial, d, half, size - half, &second)) {
    outputs_join(&first, &second, join);
    const og_verdict verdict =
        og_outputs_compare(trial->op, &first, &trial->base, -1);
    if (verdict.differs && og_trial_is_steady(trial))
      og_tell_finding(trial->op, OPGRAFT_RULE_DISAGREES, false, verdict.name,
                      "the results of two parts of %s, joined by \"%s\" as "
                      ".reduce says, are not that of the whole: %s",
                      decl->dims[d].name, decl->record->reduce, verdict.text);
    og_outputs_reset(&second);
  }
  og_outputs_reset(&first);
}

// SPDX-License-Identifier: Apache-2.0
// One argument twice as large, larger by one, or a sum of two.
//
// A product doubles with its argument, a norm does not change, a softmax does
// not change where one is added, a mean grows by one, a contraction of a sum is
// the sum of contractions. Which of these an operator has nobody says; one that
// it has at some sizes of a dim only is a fault (probe/sweep.h). Asked of
// operators whose places along the dim are alike, or do not depend on later
// ones: one that works on whole groups and leaves the rest as it is has such
// relations at multiples of its group.

#include <string.h>

#include "check/probe/cut.h"
#include "check/probe/permuted.h"
#include "check/probe/steady.h"
#include "check/probe/sweep.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

enum { DOUBLED, SCALE_FREE, GROWN, SHIFT_FREE, ADDED };

// Replaces each number of a float array by `scale` times it and `more`.
static void array_change(og_array *a, double scale, double more) {
  for (int64_t i = 0; og_is_floating(a->type) && i < a->count; ++i)
    og_array_set(a, i, scale * og_array_get(a, i) + more);
}

static void outputs_change(og_outputs *out, double scale, double more) {
  for (int32_t i = 0; i < out->count; ++i)
    array_change(&out->array[i], scale, more);
}

// Runs with the argument `scale` times itself and `more`, and compares with the
// result as it is (`form_same`) and changed likewise (`form_along`).
static bool see_changed(og_sweep *w, const og_sample *s,
                        const og_inputs *inputs, double scale, double more,
                        int32_t form_along, int32_t form_same,
                        og_outcome known[OG_FORMS_MAX]) {
  og_inputs changed;
  og_outputs base, found;
  bool ok = false;
  if (!og_inputs_copy(&changed, inputs)) return false;
  array_change(&changed.tensor[w->tensor][0], scale, more);
  if (!og_run_quietly(w->trial, s, inputs, &base)) goto done;
  if (og_run_quietly(w->trial, s, &changed, &found)) {
    og_sweep_take(w, form_same, s, &found, &base, known);
    outputs_change(&base, scale, more);
    og_sweep_take(w, form_along, s, &found, &base, known);
    og_outputs_reset(&found);
    ok = true;
  }
  og_outputs_reset(&base);
done:
  og_inputs_reset(&changed);
  return ok;
}

// The sum of two values of the argument, beside what each of them gives.
static bool see_added(og_sweep *w, const og_sample *s, const og_inputs *inputs,
                      og_outcome known[OG_FORMS_MAX]) {
  og_sample other = *s;
  og_inputs second, sum;
  og_outputs a, b, both;
  bool ok = false;
  other.seed = og_seed_mix(s->seed, 777);
  if (!og_inputs_fill(&second, &other)) return false;
  if (!og_inputs_copy(&sum, inputs)) goto done_second;
  og_array_add(&sum.tensor[w->tensor][0], &second.tensor[w->tensor][0]);
  if (!og_run_quietly(w->trial, s, inputs, &a)) goto done_sum;
  if (!og_run_quietly(w->trial, s, &sum, &both)) goto done_a;
  // The other arguments stay as they are.
  og_inputs_reset(&sum);
  if (og_inputs_copy(&sum, inputs)) {
    og_array *x = &sum.tensor[w->tensor][0];
    memcpy(x->data, second.tensor[w->tensor][0].data,
           (size_t)x->count * og_dtype_bytes(x->type));
    ok = og_run_quietly(w->trial, s, &sum, &b);
  }
  if (ok) {
    for (int32_t i = 0; i < a.count; ++i)
      og_array_add(&a.array[i], &b.array[i]);
    og_sweep_take(w, ADDED, s, &both, &a, known);
    og_outputs_reset(&b);
  }
  og_outputs_reset(&both);
done_a:
  og_outputs_reset(&a);
done_sum:
  og_inputs_reset(&sum);
done_second:
  og_inputs_reset(&second);
  return ok;
}

static bool try_scaled(og_sweep *w, const og_sample *s, uint64_t seed,
                       og_outcome known[OG_FORMS_MAX]) {
  og_inputs inputs;
  (void)seed;  // the sample has it
  if (!og_inputs_fill(&inputs, s)) return false;
  og_tell_shown(s, NULL);  // of a crash
  const bool ok =
      see_changed(w, s, &inputs, 2, 0, DOUBLED, SCALE_FREE, known) &&
      see_changed(w, s, &inputs, 1, 1, GROWN, SHIFT_FREE, known) &&
      see_added(w, s, &inputs, known);
  og_inputs_reset(&inputs);
  return ok;
}

static const og_relation relation = {
    .form_count = 5,
    .text = {[DOUBLED] = "an argument twice as large gives twice the result",
             [SCALE_FREE] = "an argument twice as large gives the same result",
             [GROWN] = "an argument larger by 1 gives a result larger by 1",
             [SHIFT_FREE] = "an argument larger by 1 gives the same result",
             [ADDED] = "the sum of two arguments gives the sum of their "
                       "results"},
    .is_mostly = true,
    .try_call = try_scaled,
};

// A wide float argument, in the next call another one; -1: there is none.
static int32_t choose_tensor(const og_trial *trial) {
  const og_sample *s = &trial->sample;
  int32_t found[OPGRAFT_ARG_MAX], count = 0;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (s->is_given[t] && og_is_floating(s->type[t]) && s->type[t].bits >= 32)
      found[count++] = t;
  return count > 0 ? found[s->seed / 7 % (uint64_t)count] : -1;
}

static bool has_wide_results(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (!og_is_floating(out->array[i].type) || out->array[i].type.bits < 32)
      return false;
  return true;
}

void og_probe_scaled(og_trial *trial) {
  if (!og_may_sweep(trial) || trial->op->decl->mutated_count > 0 ||
      trial->is_slow || !has_wide_results(&trial->base))
    return;
  const int32_t d = og_sweep_dim(trial), tensor = choose_tensor(trial);
  if (d >= 0 && tensor >= 0 &&
      (og_is_symmetric(trial, d) || og_is_causal(trial, d)))
    og_sweep_run(trial, &relation, d, tensor);
}

// SPDX-License-Identifier: Apache-2.0
// A dim cut short.
//
// Where the first results do not depend on what later places hold (a
// running sum, a causal mask), they are the same without those places. A kernel
// that works in blocks may lose the last, partial one: then they differ at the
// sizes that leave one.

#include "check/probe/cut.h"

#include <stdlib.h>

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
  og_tell_shown(&trial->sample, &trial->inputs);
  free(s);
  free(w);
  return tried > 0 && held == tried;
}

void og_probe_cut(og_trial *trial) {
  const int32_t d = og_may_sweep(trial) ? og_sweep_dim(trial) : -1;
  if (d >= 0 && trial->op->decl->mutated_count == 0 && !trial->is_slow &&
      og_sweep_holds(trial, &relation, d))
    og_sweep_run(trial, &relation, d, -1);
}

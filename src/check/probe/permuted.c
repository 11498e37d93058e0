// SPDX-License-Identifier: Apache-2.0
// A symmetry that holds for some sizes and is broken for others: a lost tail or
// block.
//
// Where the places of a plain dim are taken in another order, in each argument
// and result that names it, most operators give the same result in that order,
// or (a sort, a sum) the same result as before. One that groups, windows or
// masks by position has no such symmetry from the size of its group on; one
// that loses the rest of a division has it at some sizes, not at larger ones,
// and at still larger ones again. Only that is a finding: none of the sizes is
// known to be right, but both cannot be. One whose result is the same for
// nearly all long rows (is_sorted) has no such size below the broken ones.

#include "check/probe/permuted.h"

#include "check/probe/steady.h"
#include "check/probe/sweep.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/fill.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"

// What becomes of the results.
enum {
  REORDERED,  // they come in the new order, where they name the dim
  UNCHANGED,  // they stay as they are
};

// A permutation that leaves nothing in its place. Source: Sattolo, "An
// algorithm to generate a random cyclic permutation", 1986.
static void order_draw(int32_t size, og_random *r, int32_t *order) {
  for (int32_t i = 0; i < size; ++i) order[i] = i;
  for (int32_t i = size - 1; i > 0; --i) {
    const int32_t j = (int32_t)og_random_below(r, i);
    const int32_t held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
}

static bool inputs_reorder(const og_sample *s, og_inputs *inputs, int32_t d,
                           const int32_t *order) {
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    uint32_t axes;
    if (inputs->tensor[t][0].data == NULL) continue;
    if (!og_argument_axes(s, t, d, &axes) ||
        !og_array_reorder(&inputs->tensor[t][0], axes, order))
      return false;
  }
  return true;
}

static bool outputs_reorder(const og_sample *s, og_outputs *out, int32_t d,
                            const int32_t *order, bool *out_is_named) {
  *out_is_named = false;
  for (int32_t i = 0; i < out->count; ++i) {
    uint32_t axes;
    if (!og_output_axes(s, out, i, d, &axes) ||
        !og_array_reorder(&out->array[i], axes, order))
      return false;
    *out_is_named |= axes != 0;
  }
  return true;
}

// Compares both runs; `base` is reordered for it.
static bool take_both(og_sweep *w, const og_sample *s, const int32_t *order,
                      const og_outputs *moved, og_outputs *base,
                      og_outcome known[OG_FORMS_MAX]) {
  bool is_named;
  og_sweep_take(w, UNCHANGED, s, moved, base, known);
  if (!outputs_reorder(s, base, w->dim, order, &is_named)) return false;
  if (is_named)
    og_sweep_take(w, REORDERED, s, moved, base, known);
  else
    known[REORDERED] = OG_OUTCOME_UNKNOWN;
  return true;
}

// Runs the call in both orders; false where it has no meaning.
static bool try_order(og_sweep *w, const og_sample *s, uint64_t seed,
                      og_outcome known[OG_FORMS_MAX]) {
  int32_t order[OG_ORDER_MAX];
  og_inputs inputs;
  og_outputs base, moved;
  bool ok = false;
  og_random r = {seed};
  if (!og_inputs_fill(&inputs, s)) return false;
  og_tell_shown(s, NULL);  // of a crash
  if (!og_run_quietly(w->trial, s, &inputs, &base)) goto done;
  order_draw((int32_t)s->dim[w->dim], &r, order);
  if (inputs_reorder(s, &inputs, w->dim, order) &&
      og_run_quietly(w->trial, s, &inputs, &moved)) {
    ok = take_both(w, s, order, &moved, &base, known);
    og_outputs_reset(&moved);
  }
  og_outputs_reset(&base);
done:
  og_inputs_reset(&inputs);
  return ok;
}

static const og_relation permuted = {
    .form_count = 2,
    .text = {[REORDERED] = "arguments in another order along %s give the "
                           "result in that order",
             [UNCHANGED] = "arguments in another order along %s give the same "
                           "result"},
    .try_call = try_order,
};

bool og_is_symmetric(og_trial *trial, int32_t dim) {
  return og_sweep_holds(trial, &permuted, dim);
}

void og_probe_permuted(og_trial *trial) {
  const int32_t d = og_may_sweep(trial) ? og_sweep_dim(trial) : -1;
  if (d >= 0) og_sweep_run(trial, &permuted, d, -1);
}

// SPDX-License-Identifier: Apache-2.0
// A dim of twice the size: the halves apart, one half twice, zeros for the
// other half.
//
// A sum over the dim is the sum of its halves, a mean of one half twice is that
// of the half, a contraction does not change with zeros, and a result that
// names the dim often is its halves. Which of these an operator has nobody
// says; one that it has at some sizes only is a fault (probe/sweep.h). Asked of
// operators whose places along the dim are alike: one that groups by position
// has such relations at multiples of its group.

#include <stdlib.h>
#include <string.h>

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
#include "check/sample/valid.h"
#include "check/sample/value.h"

enum {
  PARTS,     // the halves' results one after the other, or their sum
  REPEATED,  // one half twice
  ZEROS,     // zeros for the other half
};

// One try: the call, its half as large, and the arguments of the whole.
typedef struct halves {
  og_sweep *sweep;
  const og_sample *whole;
  og_sample half;
  int64_t size;  // of a half
  og_inputs inputs;
} halves;

// --- Arguments ---------------------------------------------------------------

// Makes the second half equal to the first, or zero.
static bool set_second(halves *h, bool is_zero) {
  for (int32_t t = 0; t < h->whole->op->decl->tensor_count; ++t) {
    og_array *a = &h->inputs.tensor[t][0], part;
    const int32_t axis = og_argument_axis(h->whole, t, h->sweep->dim);
    if (a->data == NULL || axis == OG_NO_AXIS) continue;
    if (!og_array_slice(a, axis, 0, h->size, &part)) return false;
    if (is_zero)
      memset(part.data, 0, (size_t)part.count * og_dtype_bytes(part.type));
    og_array_place(a, axis, h->size, &part);
    free(part.data);
  }
  return true;
}

// --- Results -----------------------------------------------------------------

// What the whole result is of its halves `a` and `b`: one behind the other, or,
// where it does not name the dim, `a`, to which `b` is added if `is_sum`.
static bool outputs_join(const halves *h, const og_outputs *like,
                         const og_outputs *a, const og_outputs *b, bool is_sum,
                         og_outputs *out) {
  *out = *like;
  out->count = 0;
  for (int32_t i = 0; i < like->count; ++i) {
    const og_array *from = &like->array[i], *first = &a->array[i];
    og_array *to = &out->array[i];
    const int32_t axis = og_output_axis(h->whole, like, i, h->sweep->dim);
    if (axis == OG_SEVERAL_AXES ||
        !og_array_create(to, from->type, &from->sizes))
      return false;
    out->count = i + 1;
    if (axis != OG_NO_AXIS) {
      og_array_place(to, axis, 0, first);
      og_array_place(to, axis, h->size, &b->array[i]);
      continue;
    }
    if (first->count != to->count) return false;
    memcpy(to->data, first->data, (size_t)to->count * og_dtype_bytes(to->type));
    if (is_sum) og_array_add(to, &b->array[i]);
  }
  return true;
}

// --- One try -----------------------------------------------------------------

static bool run_half(const halves *h, int64_t begin, og_outputs *out) {
  og_inputs inputs;
  if (!og_inputs_slice(h->whole, &h->inputs, h->sweep->dim, begin, h->size,
                       &inputs))
    return false;
  const bool ok = og_run_quietly(h->sweep->trial, &h->half, &inputs, out);
  og_inputs_reset(&inputs);
  return ok;
}

static bool run_whole(const halves *h, og_outputs *out) {
  return og_run_quietly(h->sweep->trial, h->whole, &h->inputs, out);
}

static bool see_joined(const halves *h, int32_t form, const og_outputs *a,
                       const og_outputs *b, og_outcome known[OG_FORMS_MAX]) {
  og_outputs found, wanted;
  if (!run_whole(h, &found)) return false;
  const bool ok = outputs_join(h, &found, a, b, form == PARTS, &wanted);
  if (ok) og_sweep_take(h->sweep, form, h->whole, &found, &wanted, known);
  og_outputs_reset(&wanted);
  og_outputs_reset(&found);
  return ok;
}

static bool see_zeros(halves *h, const og_outputs *first,
                      og_outcome known[OG_FORMS_MAX]) {
  og_outputs found;
  if (!set_second(h, true) || !run_whole(h, &found)) return false;
  const bool ok = og_outputs_cut(h->whole, &found, h->sweep->dim, h->size);
  if (ok) og_sweep_take(h->sweep, ZEROS, h->whole, &found, first, known);
  og_outputs_reset(&found);
  return ok;
}

static bool see_all(halves *h, og_outcome known[OG_FORMS_MAX]) {
  og_outputs first, second;
  bool ok = false;
  if (!run_half(h, 0, &first)) return false;
  if (run_half(h, h->size, &second)) {
    ok = see_joined(h, PARTS, &first, &second, known) && set_second(h, false) &&
         see_joined(h, REPEATED, &first, &first, known) &&
         see_zeros(h, &first, known);
    og_outputs_reset(&second);
  }
  og_outputs_reset(&first);
  return ok;
}

static bool try_halves(og_sweep *w, const og_sample *s, uint64_t seed,
                       og_outcome known[OG_FORMS_MAX]) {
  opgraft_error error;
  halves *h = calloc(1, sizeof *h);
  bool ok = false;
  (void)seed;  // the sample has it
  if (h == NULL) return false;
  h->sweep = w;
  h->whole = s;
  h->half = *s;
  h->size = s->dim[w->dim] / 2;
  h->half.dim[w->dim] = h->size;
  if (og_sample_is_valid(&h->half, INT64_MAX, &error) &&
      h->half.dim[w->dim] == h->size && og_inputs_fill(&h->inputs, s)) {
    og_tell_shown(s, NULL);  // of a crash
    ok = see_all(h, known);
    og_inputs_reset(&h->inputs);
  }
  free(h);
  return ok;
}

// --- The probe ---------------------------------------------------------------

static const og_relation relation = {
    .form_count = 3,
    .text = {[PARTS] = "the halves along %s by themselves give the halves of "
                       "the result, or add up to it,",
             [REPEATED] = "one half along %s twice gives what the half gives",
             [ZEROS] = "zeros for the second half along %s leave what the "
                       "first half gives"},
    .is_of_halves = true,
    .is_mostly = true,
    .try_call = try_halves,
};

// Narrow floats round what is compared, and an index need not be in the range
// of a half.
static bool are_wide_floats(const og_trial *trial) {
  const og_sample *s = &trial->sample;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (s->is_given[t] && s->type[t].code != OG_CODE_BOOL &&
        !(og_is_floating(s->type[t]) && s->type[t].bits >= 32))
      return false;
  return true;
}

void og_probe_halves(og_trial *trial) {
  if (!og_may_sweep(trial) || trial->op->decl->mutated_count > 0 ||
      trial->is_slow || !are_wide_floats(trial))
    return;
  const int32_t d = og_sweep_dim(trial);
  if (d >= 0 && og_is_symmetric(trial, d))
    og_sweep_run(trial, &relation, d, -1);
}

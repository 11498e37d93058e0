// SPDX-License-Identifier: Apache-2.0
// Sums in a type narrower than the result's, where no wider kernel shows them:
// beside integer codes the halves of a long row in exchange give the same sum,
// but for its roundings.

#include <math.h>
#include <stdlib.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/fill.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

enum { TRIES = 2 };
// Of a sum of 3,000 positive numbers: beyond what f32 rounds away, below what
// sums in f16 and bf16 do. Of short rows: what a sum in any type has at most.
static const double LONG_SLACK = 0x1p-11, SHORT_SLACK = 0x1p-4;

// Bytes along the dim, which are numbers; no indices, which say what a place is
// for.
static bool has_codes(const og_trial *trial, int32_t d) {
  bool found = false;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t) {
    const og_array *a = &trial->inputs.tensor[t][0];
    if (a->data == NULL || !og_is_integral(a->type)) continue;
    if (a->type.bits > 8) return false;
    found |= a->type.code != OG_CODE_BOOL &&
             og_argument_axis(&trial->sample, t, d) >= 0;
  }
  return found;
}

// Exchanges the halves of dim `d` in every argument; false where it does not
// have one axis in all that name it, or fewer than two places.
static bool swap_halves(const og_sample *s, og_inputs *inputs, int32_t d) {
  const int64_t half = s->dim[d] / 2;
  bool any = false;
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    og_array *a = &inputs->tensor[t][0], head;
    const int32_t axis =
        a->data == NULL ? OG_NO_AXIS : og_argument_axis(s, t, d);
    if (axis == OG_NO_AXIS) continue;
    if (axis < 0 || half == 0 || s->list_count[t] > 1 ||
        !og_array_slice(a, axis, 0, half, &head))
      return false;
    og_array tail;
    const bool ok = og_array_slice(a, axis, s->dim[d] - half, half, &tail);
    if (ok) {
      og_array_place(a, axis, 0, &tail);
      og_array_place(a, axis, s->dim[d] - half, &head);
      free(tail.data);
      any = true;
    }
    free(head.data);
    if (!ok) return false;
  }
  return any;
}

// The largest difference of the first result's elements, relative to the
// largest of them.
static double distance(const og_outputs *a, const og_outputs *b) {
  double most = 0, off = 0;
  for (int64_t i = 0; i < a->array[0].count; ++i) {
    const double x = og_array_get(&a->array[0], i);
    const double y = og_array_get(&b->array[0], i);
    most = fmax(most, fmax(fabs(x), fabs(y)));
    off = fmax(off, fabs(x - y));
  }
  return off > 0 ? off / most : 0;
}

// How far apart the results are with the halves in exchange; below 0: no call
// ran.
static double swapped_distance(og_trial *trial, const og_sample *s, int32_t d) {
  og_inputs inputs;
  og_outputs x, y;
  double found = -1;
  if (!og_inputs_fill(&inputs, s)) return found;
  if (og_run_quietly(trial, s, &inputs, &x)) {
    if (swap_halves(s, &inputs, d) && og_run_quietly(trial, s, &inputs, &y)) {
      if (x.array[0].count == y.array[0].count) found = distance(&x, &y);
      og_outputs_reset(&y);
    }
    og_outputs_reset(&x);
  }
  og_inputs_reset(&inputs);
  return found;
}

static int32_t long_dim(const og_sample *from, const og_sample *to) {
  for (int32_t d = 0; d < from->op->decl->dim_count; ++d)
    if (from->dim[d] != to->dim[d]) return d;
  return -1;
}

// Whether it holds for the trial's own size, of numbers of any sign, which show
// where places count, and not for positive ones in the long size of dim `d`.
static bool is_narrow(og_trial *trial, og_sample *s, int32_t d,
                      double *out_off) {
  og_sample own = trial->sample;
  if (!has_codes(trial, d)) return false;
  own.float_values = OG_FLOAT_NORMAL;
  s->float_values = OG_FLOAT_FILLED;
  own.int_values = s->int_values = OG_INT_FEW;
  for (uint64_t i = 0; i < TRIES; ++i) {
    own.seed = s->seed = og_seed_mix(trial->sample.seed, 720 + i);
    const double near = swapped_distance(trial, &own, d);
    *out_off = swapped_distance(trial, s, d);
    if (!(near >= 0 && near<SHORT_SLACK && * out_off> LONG_SLACK)) return false;
  }
  return true;
}

void og_probe_swapped(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  og_sample s;
  double off;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      trial->base.count == 0 || decl->has_data_dependent_result ||
      !og_is_floating(trial->base.array[0].type) ||
      trial->base.array[0].type.bits < 32 ||
      !og_sample_lengthen(&trial->sample, &trial->base, &s))
    return;
  const int32_t d = long_dim(&trial->sample, &s);
  // A result that has the dim does not sum over it.
  if (d < 0 || og_output_axis(&trial->sample, &trial->base, 0, d) >= 0 ||
      !is_narrow(trial, &s, d, &off) || !og_trial_is_steady(trial))
    return;
  char name[64];
  og_name_of(trial->op, trial->base.role[0], trial->base.index[0],
             trial->base.entry[0], name, sizeof name);
  og_tell_shown(&s, NULL);
  og_tell_finding(trial->op, OPGRAFT_WRONG_VALUES_ACROSS_DTYPES, false, name,
                  "of positive numbers it changes by %.2g of itself where the "
                  "halves of a row of %lld are exchanged: something between "
                  "is summed in a narrower type",
                  off, (long long)s.dim[d]);
  og_tell_shown(&trial->sample, &trial->inputs);
}

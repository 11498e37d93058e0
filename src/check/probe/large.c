// SPDX-License-Identifier: Apache-2.0
// Finite arguments that give NaN or infinity.
//
// One argument grows, doubled time after time. Where the results are finite for
// a long way and grow no faster than the argument does, and then are NaN or
// infinite at once, something between has overflowed that need not: exp() of a
// row whose largest number was not subtracted.
//
// A result that grows faster (exp, a product of many) may overflow, and one
// that has no value for small numbers (log of a negative one) may have none for
// large ones.

#include <math.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/parse/expect.h"

enum {
  DOUBLINGS = 10,
  VALUE_MIN = 40,  // an exp() overflows no earlier, even if it is squared
  GROWTH_MAX = 4,  // times the argument's
  TIMES = 2,       // it has to show, with other values
};

// What a run gives: whether all is finite, else where not, and the largest.
typedef struct extent {
  bool is_finite;
  int32_t output;
  int64_t element;
  double value;
  double largest;
} extent;

static extent extent_of(const og_outputs *out) {
  extent e = {.is_finite = true};
  for (int32_t i = 0; i < out->count; ++i) {
    const og_array *a = &out->array[i];
    if (!og_is_floating(a->type)) continue;
    for (int64_t j = 0; j < a->count; ++j) {
      const double value = og_array_get(a, j);
      if (e.is_finite && !isfinite(value))
        e = (extent){false, i, j, value, e.largest};
      if (isfinite(value)) e.largest = fmax(e.largest, fabs(value));
    }
  }
  return e;
}

static double largest_of(const og_array *a) {
  double largest = 0;
  for (int64_t i = 0; i < a->count; ++i)
    largest = fmax(largest, fabs(og_array_get(a, i)));
  return largest;
}

static void array_double(og_array *a) {
  for (int64_t i = 0; i < a->count; ++i)
    og_array_set(a, i, 2 * og_array_get(a, i));
}

static bool run(og_trial *trial, const og_inputs *inputs, extent *out) {
  og_outputs results;
  if (!og_run_quietly(trial, &trial->sample, inputs, &results)) return false;
  *out = extent_of(&results);
  og_outputs_reset(&results);
  return true;
}

// Doubles the argument until a result is not finite, which *out then is. False
// where none is, or where that may be.
static bool grow(og_trial *trial, og_inputs *inputs, int32_t t, extent *out) {
  og_array *a = &inputs->tensor[t][0];
  extent first, before;
  double scale = 1;
  if (!run(trial, inputs, &first) || !first.is_finite) return false;
  before = first;
  for (int32_t i = 0; i < DOUBLINGS; ++i) {
    array_double(a);
    if (!run(trial, inputs, out)) return false;
    if (!out->is_finite)
      return largest_of(a) >= VALUE_MIN &&
             before.largest <= GROWTH_MAX * scale * fmax(first.largest, 1);
    scale *= 2;
    before = *out;
  }
  return false;
}

static void report(og_trial *trial, const og_inputs *inputs, int32_t t,
                   const extent *e) {
  const og_decl *decl = trial->op->decl;
  const og_outputs *base = &trial->base;
  char name[64];
  if (e->output >= base->count) return;
  og_name_of(trial->op, base->role[e->output], base->index[e->output],
             base->entry[e->output], name, sizeof name);
  const double largest = largest_of(&inputs->tensor[t][0]);
  og_tell_expect(trial->op, OG_EXPECT_NAN, name, true);
  og_tell_shown(&trial->sample, inputs);
  og_tell_finding(trial->op, OPGRAFT_NOT_FINITE,
                  og_decl_expects(decl, OG_EXPECT_NAN, name), name,
                  "with numbers up to %.4g in %s, element %lld is %g; with "
                  "numbers up to %.4g every one is finite",
                  largest, decl->params[decl->tensor_params[t]].name,
                  (long long)e->element, e->value, largest / 2);
  og_tell_shown(&trial->sample, &trial->inputs);
}

// A wide float argument, in the next call another one; -1: there is none. A
// narrow one may overflow itself, and what large numbers of it have of
// fractions is so little that some are poles of a function.
static int32_t choose_tensor(const og_trial *trial) {
  int32_t found[OPGRAFT_ARG_MAX], count = 0;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t) {
    const og_array *a = &trial->inputs.tensor[t][0];
    if (a->data != NULL && a->count > 0 && og_is_floating(a->type) &&
        a->type.bits >= 32)
      found[count++] = t;
  }
  return count > 0 ? found[trial->sample.seed % (uint64_t)count] : -1;
}

static bool has_half_result(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (out->array[i].type.code == OG_CODE_FLOAT &&
        out->array[i].type.bits == 16)
      return true;
  return false;
}

void og_probe_large(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL || decl->has_lists ||
      decl->record->sample != NULL || has_half_result(&trial->base) ||
      og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT))
    return;
  const int32_t t = choose_tensor(trial);
  for (int32_t i = 0; t >= 0 && i < TIMES; ++i) {
    og_sample s = trial->sample;
    og_inputs inputs;
    extent e;
    s.float_values = OG_FLOAT_NORMAL;
    if (i > 0) s.seed = og_seed_mix(s.seed, 880 + (uint64_t)i);
    if (!og_inputs_fill(&inputs, &s)) return;
    const bool is_found = grow(trial, &inputs, t, &e);
    if (is_found && i == TIMES - 1) report(trial, &inputs, t, &e);
    og_inputs_reset(&inputs);
    if (!is_found) return;
  }
}

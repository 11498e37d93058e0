// SPDX-License-Identifier: Apache-2.0
// Probes that compare an operator with itself in other types: narrow floats
// with wide ones, integers with wider ones, integers with floats.
//
// The values are such that both types hold them. What may differ by the nature
// of the types is left out: a result that wraps around, one that is not an
// integer in the type that has fractions, the bits of a negative number.

#include <math.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/backward.h"
#include "check/run/compare.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/partner.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/parse/expect.h"

// --- What may be compared ----------------------------------------------------

enum { EXACT_MAX = 1 << 20 };

// Whether an integer of type `narrow` has to be what the wide type gives.
static bool is_comparable_element(og_dtype narrow, og_dtype wide, double y) {
  if (!og_is_integral(narrow)) return true;
  if (og_is_floating(wide))
    return y == nearbyint(y) && fabs(y) < EXACT_MAX &&
           og_integer_holds(narrow, y);
  return og_integer_holds(narrow, y);
}

// Makes equal what need not be equal.
static void leave_out(og_outputs *narrow, og_outputs *wide) {
  for (int32_t i = 0; i < narrow->count && i < wide->count; ++i) {
    og_array *a = &narrow->array[i], *b = &wide->array[i];
    if (og_is_complex(a->type) || !og_dims_equal(&a->sizes, &b->sizes))
      continue;
    const size_t a_bytes = og_dtype_bytes(a->type);
    const size_t b_bytes = og_dtype_bytes(b->type);
    for (int64_t j = 0; j < a->count; ++j) {
      char *x = a->data + (size_t)j * a_bytes;
      char *y = b->data + (size_t)j * b_bytes;
      if (is_comparable_element(a->type, b->type, og_value_get(b->type, y, 0)))
        continue;
      memset(x, 0, a_bytes);
      memset(y, 0, b_bytes);
    }
  }
}

// A rounded number may fall on the other side of a border, and ties may be
// broken in another order: a few integers may differ where the type of the
// result does not follow that of the arguments.
static bool is_few(const og_verdict *verdict) {
  return verdict->is_integral && verdict->count * 5 <= verdict->total;
}

// --- Both types --------------------------------------------------------------

typedef void (*leave_out_fn)(og_outputs *narrow, og_outputs *wide);

// Runs `narrow` on the arguments and `wide` on the same numbers; false where
// one of them does not run. What is found next shows `narrow`.
static bool run_types(og_trial *trial, const og_sample *narrow,
                      const og_sample *wide, const og_inputs *inputs,
                      bool is_quiet, og_outputs *x, og_outputs *y) {
  og_inputs other;
  bool ok = false;
  og_mode mode = og_mode_plain;
  mode.is_quiet = is_quiet;
  if (!og_inputs_copy(&other, inputs)) return false;
  if (!og_inputs_convert(&other, wide)) return false;
  og_tell_shown(wide, &other);  // of a crash
  if (og_trial_run(trial, wide, &other, &mode, y) == OG_RAN) {
    og_tell_shown(narrow, inputs);
    ok = og_trial_run(trial, narrow, inputs, &mode, x) == OG_RAN;
    if (!ok) og_outputs_reset(y);
  }
  og_inputs_reset(&other);
  return ok;
}

// True if the results differ.
static bool types_differ(og_trial *trial, const og_sample *narrow,
                         const og_sample *wide, og_partner kind,
                         leave_out_fn leave, og_verdict *out_verdict) {
  og_inputs inputs;
  og_outputs x, y;
  bool differs = false;
  if (!og_trial_fill(trial, narrow, &inputs)) return false;
  if (run_types(trial, narrow, wide, &inputs, kind != OG_PARTNER_WIDER, &x,
                &y)) {
    if (leave != NULL) leave(&x, &y);
    *out_verdict = og_outputs_compare(trial->op, &x, &y, -1);
    differs = out_verdict->differs &&
              !((kind == OG_PARTNER_WIDER || out_verdict->is_same_type) &&
                is_few(out_verdict));
    og_outputs_reset(&x);
    og_outputs_reset(&y);
  }
  og_inputs_reset(&inputs);
  return differs;
}

// A packed layout may differ by type; then `expect` says so.
static void report(og_trial *trial, const og_sample *wide,
                   const og_verdict *verdict) {
  const opgraft_op *op = trial->op;
  int32_t t = op->variable_tensor[0];
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v)
    if (!og_dtype_equal(trial->sample.type[op->variable_tensor[v]],
                        wide->type[op->variable_tensor[v]]))
      t = op->variable_tensor[v];
  og_tell_finding(
      trial->op, OPGRAFT_WRONG_VALUES_ACROSS_DTYPES,
      og_decl_expects(op->decl, OG_EXPECT_TYPE_DEPENDENT, verdict->name),
      verdict->name, "in %s rather than %s, %s %s",
      og_dtype_name(trial->sample.type[t]), og_dtype_name(wide->type[t]),
      verdict->name, verdict->text);
}

static bool has_fraction(const og_sample *s) {
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k)
    if (s->attr[k].kind == OG_ATTR_FLOAT &&
        s->attr[k].f != nearbyint(s->attr[k].f))
      return true;
  return false;
}

// Backward operators get floats for gradients, whatever the types beside them;
// and an integer kernel cuts an argument that is not an integer.
static bool may_compare(const og_trial *trial, og_partner kind) {
  if (kind == OG_PARTNER_WIDER) return true;
  return trial->forward == NULL &&
         !(kind == OG_PARTNER_FLOAT && has_fraction(&trial->sample));
}

// Large integers do not fit into the floats that they may be joined with.
static og_int_values ints_for(const og_sample *s, og_partner kind) {
  if (kind != OG_PARTNER_INTEGER) return OG_INT_SMALL;
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t)
    if (s->is_given[t] && og_is_floating(s->type[t])) return OG_INT_FEW;
  return OG_INT_NATURAL;
}

// Whether results differ from those of an equal call in a type of that kind.
static bool differs_by(og_trial *trial, og_partner kind, og_sample *wide,
                       og_verdict *verdict, bool *is_compared) {
  og_sample narrow = trial->sample;
  bool differs = may_compare(trial, kind);
  narrow.float_values = OG_FLOAT_COARSE;
  narrow.int_values = ints_for(&narrow, kind);
  for (uint64_t i = 0; i < 2 && differs; ++i) {
    narrow.seed = og_seed_mix(trial->sample.seed, i);
    differs = og_sample_convert(&narrow, kind, wide);
    *is_compared |= differs;
    differs =
        differs &&
        types_differ(trial, &narrow, wide, kind,
                     kind != OG_PARTNER_WIDER ? leave_out : NULL, verdict);
  }
  return differs;
}

// --- Rounding ----------------------------------------------------------------

enum { INEXACT_MIN = 48 };

// Adds what `y` is but for a power of two, which changes no rounding, where it
// is not there yet.
static void size_add(double y, double *sizes, int *count) {
  int exponent;
  const double size = frexp(fabs(y), &exponent);
  for (int i = 0; i < *count; ++i)
    if (sizes[i] == size) return;
  sizes[(*count)++] = size;
}

// Whether all elements that are not exact lie nearer to 0 than in the wide
// type, and are many: of those that are rounded half do.
static bool is_cut(const og_array *narrow, const og_array *wide,
                   int64_t *out_count) {
  double sizes[INEXACT_MIN];
  int sizes_count = 0;
  *out_count = 0;
  if (!og_is_floating(narrow->type) || narrow->type.bits != 16 ||
      !og_is_floating(wide->type) || wide->type.bits < 32)
    return false;
  for (int64_t i = 0; i < narrow->count && i < wide->count; ++i) {
    const double x = og_array_get(narrow, i), y = og_array_get(wide, i);
    if (x == y || !isfinite(x) || !isfinite(y)) continue;
    if (fabs(y) < 1e-3 || fabs(y) >= OG_HALF_MAX) continue;
    if (fabs(x) >= fabs(y)) return false;
    ++*out_count;
    if (sizes_count < INEXACT_MIN) size_add(y, sizes, &sizes_count);
  }
  return sizes_count >= INEXACT_MIN;
}

// Narrow results that are cut where they should be rounded.
static void see_rounding(og_trial *trial) {
  og_sample wide;
  og_outputs x, y;
  if (!og_sample_convert(&trial->sample, OG_PARTNER_WIDER, &wide) ||
      !run_types(trial, &trial->sample, &wide, &trial->inputs, true, &x, &y))
    return;
  for (int32_t i = 0; i < x.count && i < y.count; ++i) {
    char name[64];
    int64_t count;
    if (!is_cut(&x.array[i], &y.array[i], &count)) continue;
    og_name_of(trial->op, x.role[i], x.index[i], x.entry[i], name, sizeof name);
    og_tell_finding(
        trial->op, OPGRAFT_WRONG_VALUES_ACROSS_DTYPES,
        og_decl_expects(trial->op->decl, OG_EXPECT_TYPE_DEPENDENT, name), name,
        "all %lld elements that %s does not hold exactly are nearer to 0 than "
        "in %s: they are cut, not rounded",
        (long long)count, og_dtype_name(x.array[i].type),
        og_dtype_name(y.array[i].type));
    break;
  }
  og_outputs_reset(&x);
  og_outputs_reset(&y);
}

// --- Negative integers -------------------------------------------------------

enum { NEGATIVE_MIN = -9, AGREE_MIN = 2 };

// Whether the one argument is a tensor of integers, and the result as large.
static bool is_integer_map(const og_trial *trial) {
  const og_array *x = &trial->inputs.tensor[0][0], *y = &trial->base.array[0];
  return trial->op->decl->tensor_count == 1 && trial->base.count == 1 &&
         x->data != NULL && x->type.code == OG_CODE_INT &&
         y->type.code == OG_CODE_INT && og_dims_equal(&x->sizes, &y->sizes);
}

// Whether the types agree on some negative numbers and not on others. Where
// the bits of the type matter they agree on none, or on all.
static bool is_split(const og_array *narrow, const og_array *wide,
                     int64_t *out_first) {
  int64_t agree = 0, differ = 0;
  for (int64_t i = 0; i < narrow->count; ++i) {
    const bool is_equal = og_array_get(narrow, i) == og_array_get(wide, i);
    if (!is_equal && differ++ == 0) *out_first = i;
    agree += is_equal;
  }
  return differ > 0 && agree >= AGREE_MIN && agree * 5 >= narrow->count;
}

static void see_negative(og_trial *trial) {
  og_sample wide;
  og_inputs inputs;
  og_outputs x, y;
  if (!is_integer_map(trial) ||
      !og_sample_convert(&trial->sample, OG_PARTNER_INTEGER, &wide) ||
      !og_inputs_copy(&inputs, &trial->inputs))
    return;
  og_array *a = &inputs.tensor[0][0];
  for (int64_t i = 0; i < a->count; ++i)
    og_array_set(a, i, (double)(NEGATIVE_MIN + i % -NEGATIVE_MIN));
  if (run_types(trial, &trial->sample, &wide, &inputs, true, &x, &y)) {
    int64_t at = 0;
    if (is_split(&x.array[0], &y.array[0], &at))
      og_tell_finding(
          trial->op, OPGRAFT_WRONG_VALUES_ACROSS_DTYPES, false, "result",
          "of %g it is %g in %s, but %g in %s; of other negative numbers they "
          "are equal",
          og_array_get(a, at), og_array_get(&x.array[0], at),
          og_dtype_name(a->type), og_array_get(&y.array[0], at),
          og_dtype_name(wide.type[0]));
    og_outputs_reset(&x);
    og_outputs_reset(&y);
  }
  og_inputs_reset(&inputs);
}

// --- The probe ---------------------------------------------------------------

void og_probe_types(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  bool is_compared = false;
  if (!og_is_comparable(trial)) return;
  for (int32_t kind = 0; kind < OG_PARTNER_COUNT; ++kind) {
    og_sample wide;
    og_verdict verdict;
    if (!differs_by(trial, (og_partner)kind, &wide, &verdict, &is_compared))
      continue;
    og_tell_expect(trial->op, OG_EXPECT_TYPE_DEPENDENT, verdict.name, true);
    report(trial, &wide, &verdict);
    og_tell_shown(&trial->sample, &trial->inputs);
    return;
  }
  og_tell_shown(&trial->sample, &trial->inputs);
  for (int32_t i = 0; is_compared && i < decl->expect_count; ++i)
    og_tell_expect(trial->op, OG_EXPECT_TYPE_DEPENDENT, decl->expects[i].name,
                   false);
  if (trial->forward != NULL) return;
  see_rounding(trial);
  see_negative(trial);
  og_tell_shown(&trial->sample, &trial->inputs);
}

// --- Long rows and large numbers ---------------------------------------------

// What the narrow type cannot hold is not its kernel's fault; and numbers that
// are rounded tie in long rows, so that the places of the largest are others.
static void leave_out_large(og_outputs *narrow, og_outputs *wide) {
  for (int32_t i = 0; i < narrow->count && i < wide->count; ++i) {
    og_array *a = &narrow->array[i], *b = &wide->array[i];
    if (!og_dims_equal(&a->sizes, &b->sizes)) continue;
    if (og_is_integral(a->type) && og_dtype_equal(a->type, b->type))
      memcpy(a->data, b->data, (size_t)a->count * og_dtype_bytes(a->type));
    if (!og_is_floating(a->type)) continue;
    for (int64_t j = 0; j < a->count; ++j) {
      if (fabs(og_array_get(b, j)) < OG_HALF_MAX) continue;
      og_array_set(a, j, 0);
      og_array_set(b, j, 0);
    }
  }
}

// Runs `narrow` with values of that kind, and the widest type on the same.
static bool range_differs(og_trial *trial, const og_sample *given,
                          og_float_values values, og_sample *wide,
                          og_verdict *verdict) {
  og_sample narrow = *given;
  narrow.float_values = values;
  for (uint64_t i = 0; i < 2; ++i) {  // both times, or it is chance
    narrow.seed = og_seed_mix(trial->sample.seed, 600 + i);
    if (!og_sample_convert(&narrow, OG_PARTNER_WIDER, wide) ||
        !types_differ(trial, &narrow, wide, OG_PARTNER_WIDER, leave_out_large,
                      verdict))
      return false;
  }
  return true;
}

void og_probe_ranges(og_trial *trial) {
  og_sample narrow, wide;
  og_verdict verdict;
  if (!og_is_comparable(trial) || trial->forward != NULL) return;
  const bool differs =
      (og_sample_lengthen(&trial->sample, &trial->base, &narrow) &&
       range_differs(trial, &narrow, OG_FLOAT_FILLED, &wide, &verdict)) ||
      range_differs(trial, &trial->sample, OG_FLOAT_HALF, &wide, &verdict);
  if (differs) report(trial, &wide, &verdict);
  og_tell_shown(&trial->sample, &trial->inputs);
}

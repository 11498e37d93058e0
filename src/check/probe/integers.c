// SPDX-License-Identifier: Apache-2.0
// Large integers: sums in a type that is too narrow, bytes of the wrong sign,
// results that come back from their limit, integers that pass through floats.
//
// Each is a contradiction of the operator with itself. It adds up for small
// numbers and is wrong by multiples of 2^8, 2^16 or 2^32 for large ones; a byte
// counts one more than the byte before it everywhere but at the sign; a result
// stays at the limit of its type while the argument grows, and leaves it again;
// one more changes a small number's result, and that of a large one never.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/types.h"
#include "check/sample/value.h"

static void tell(og_trial *trial, const og_sample *s, const og_inputs *inputs,
                 int32_t output, const char *text) {
  char name[64];
  if (output >= trial->base.count || !og_trial_is_steady(trial)) return;
  og_name_of(trial->op, trial->base.role[output], trial->base.index[output],
             trial->base.entry[output], name, sizeof name);
  og_tell_shown(s, inputs);
  og_tell_finding(trial->op, OPGRAFT_WRONG_VALUES_ACROSS_DTYPES, false, name,
                  "%s", text);
}

static const char *argument_name(const og_trial *trial, int32_t t) {
  const og_decl *decl = trial->op->decl;
  return decl->params[decl->tensor_params[t]].name;
}

// --- Sums that wrap around ---------------------------------------------------

enum {
  SUM_TRIES = 2,
  VALUE_BITS_MAX = 20,
  SMALL_VALUE = 3,
  WATCHED = 64,
  UNIT_STEPS = 16,
};
static const double NOISE = 1e-5, UNIT_NOISE = 1e-3;  // of results in floats

// Fills an integer argument; the sum of two such numbers fits into its type.
static void draw_ints(og_array *a, bool is_large, og_random *r) {
  const bool is_signed = a->type.code == OG_CODE_INT;
  int bits = a->type.bits - is_signed - 1;
  if (bits > VALUE_BITS_MAX) bits = VALUE_BITS_MAX;
  const int64_t most = is_large ? ((int64_t)1 << bits) - 1 : SMALL_VALUE;
  const bool is_below = is_signed && a->type.bits == 8;
  // Large ones mostly above 0, so that sums become large.
  const int64_t least = !is_below  ? 0
                        : is_large ? -most * og_random_below(r, 3) / 4
                                   : -most;
  for (int64_t i = 0; i < a->count; ++i)
    og_array_set(a, i, (double)og_random_between(r, least, most));
}

// What f(x + y) is beyond f(x) + f(y): the largest of 32, 16 and 8 bits by
// whose range all elements are off; 0: some are off by something else.
typedef struct excess {
  int32_t output;  // the first that is off; -1: none is
  int32_t bits;
  bool is_zero;  // every result is 0
} excess;

static int32_t common_bits(double difference, int32_t bits) {
  for (; bits >= 8; bits /= 2)
    if (fmod(difference, ldexp(1, bits)) == 0) return bits;
  return 0;
}

// Results in floats: what one more in an element adds to each of the first
// elements at least, the unit of what an integer between counts; 0: not known.
typedef struct scale {
  double unit[WATCHED];
  bool is_open;  // whatever is off counts 1
} scale;

static double in_units(const scale *s, int64_t j, double off, double size) {
  if (!(fabs(off) > NOISE * size)) return 0;
  if (s->is_open) return 1;
  if (s->unit[j] == 0) return 0;
  const double units = off / s->unit[j];
  const bool is_whole = fabs(units - rint(units)) < UNIT_NOISE * fabs(units);
  return is_whole ? rint(units) : units;
}

static excess excess_of(const og_outputs *x, const og_outputs *y,
                        const og_outputs *both, const scale *floats) {
  excess e = {.output = -1, .bits = 32, .is_zero = true};
  for (int32_t i = 0; i < (floats == NULL ? both->count : 1); ++i)
    for (int64_t j = 0; j < both->array[i].count; ++j) {
      const double sum = og_array_get(&both->array[i], j);
      const double a = og_array_get(&x->array[i], j);
      const double b = og_array_get(&y->array[i], j);
      double off = sum - a - b;
      e.is_zero = e.is_zero && sum == 0;
      if (floats != NULL && j == WATCHED) break;
      if (floats != NULL)
        off = in_units(floats, j, off, fabs(sum) + fabs(a) + fabs(b));
      if (off == 0) continue;
      if (e.output < 0) e.output = i;
      e.bits = common_bits(off, e.bits);
    }
  return e;
}

// False where a call does not run.
static bool find_units(og_trial *trial, const og_sample *s, int32_t t,
                       scale *out) {
  double *unit = out->unit;
  og_inputs inputs;
  og_outputs zero, one;
  *out = (scale){.is_open = false};
  if (!og_inputs_fill(&inputs, s)) return false;
  og_array *a = &inputs.tensor[t][0];
  for (int64_t i = 0; i < a->count; ++i) og_array_set(a, i, 0);
  bool ok = og_run_quietly(trial, s, &inputs, &zero);
  const int64_t steps = a->count < UNIT_STEPS ? a->count : UNIT_STEPS;
  for (int64_t k = 0; ok && k < steps; ++k) {
    const int64_t at = k * a->count / steps;
    og_array_set(a, at, 1);
    ok = og_run_quietly(trial, s, &inputs, &one);
    og_array_set(a, at, 0);
    for (int64_t j = 0; ok && j < WATCHED && j < one.array[0].count; ++j) {
      const double step = fabs(og_array_get(&one.array[0], j) -
                               og_array_get(&zero.array[0], j));
      if (step > 0 && (unit[j] == 0 || step < unit[j])) unit[j] = step;
    }
    if (ok) og_outputs_reset(&one);
  }
  og_outputs_reset(&zero);
  og_inputs_reset(&inputs);
  return ok;
}

static bool has_equal_sizes(const og_outputs *a, const og_outputs *b) {
  for (int32_t i = 0; i < a->count; ++i)
    if (!og_dims_equal(&a->array[i].sizes, &b->array[i].sizes)) return false;
  return a->count == b->count;
}

// Runs with `inputs`, with another value of argument t, and with their sum,
// which stays in `inputs`.
static bool see_sum(og_trial *trial, const og_sample *s, og_inputs *inputs,
                    int32_t t, bool is_large, const scale *floats, og_random *r,
                    excess *out) {
  og_array *a = &inputs->tensor[t][0], other;
  og_outputs x, y, both;
  bool ok = false;
  if (!og_array_create(&other, a->type, &a->sizes)) return false;
  draw_ints(&other, is_large, r);
  if (!og_run_quietly(trial, s, inputs, &x)) goto done;
  const og_array held = *a;
  *a = other;
  const bool ran = og_run_quietly(trial, s, inputs, &y);
  *a = held;
  if (ran) {
    for (int64_t i = 0; i < a->count; ++i)
      og_array_set(a, i, og_array_get(a, i) + og_array_get(&other, i));
    if (og_run_quietly(trial, s, inputs, &both)) {
      ok = has_equal_sizes(&x, &both) && has_equal_sizes(&y, &both);
      if (ok) *out = excess_of(&x, &y, &both, floats);
      og_outputs_reset(&both);
    }
    og_outputs_reset(&y);
  }
  og_outputs_reset(&x);
done:
  free(other.data);
  return ok;
}

// Whether the results of small numbers add up in argument t.
static bool is_additive(og_trial *trial, const og_sample *s, int32_t t,
                        bool is_float) {
  const scale open = {.is_open = true};
  og_random r = {og_seed_mix(s->seed, 31 + (uint64_t)t)};
  bool ok = true;
  for (int32_t i = 0; i < SUM_TRIES && ok; ++i) {
    og_inputs inputs;
    excess e = {0};
    if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
    draw_ints(&inputs.tensor[t][0], false, &r);
    ok =
        see_sum(trial, s, &inputs, t, false, is_float ? &open : NULL, &r, &e) &&
        e.output < 0 && !e.is_zero;
    og_inputs_reset(&inputs);
  }
  return ok;
}

static bool is_plain_int(const og_trial *trial, int32_t t) {
  const og_array *a = &trial->inputs.tensor[t][0];
  const og_param *param =
      &trial->op->decl->params[trial->op->decl->tensor_params[t]];
  return a->data != NULL && a->count > 0 && og_is_integral(a->type) &&
         !param->is_list && !param->is_mutated &&
         !og_is_offsets_argument(trial->op->decl, t);
}

static bool is_wide_float(const og_array *a) {
  return a->data != NULL && a->count > 0 && og_is_floating(a->type) &&
         a->type.bits >= 32;
}

static bool has_only_integers(const og_outputs *out) {
  for (int32_t i = 0; i < out->count; ++i)
    if (!og_is_integral(out->array[i].type)) return false;
  return out->count > 0;
}

// One call of large numbers in all of `arguments`, in long rows.
static bool wraps(og_trial *trial, const og_sample *s, uint32_t arguments,
                  int32_t t, bool is_float, og_inputs *inputs, excess *out) {
  og_random r = {og_seed_mix(s->seed, 77)};
  scale floats;
  if ((is_float && !find_units(trial, s, t, &floats)) ||
      !og_inputs_fill(inputs, s))
    return false;
  for (int32_t i = 0; i < OPGRAFT_ARG_MAX; ++i)
    if (arguments >> i & 1u) draw_ints(&inputs->tensor[i][0], true, &r);
  if (see_sum(trial, s, inputs, t, true, is_float ? &floats : NULL, &r, out) &&
      out->output >= 0 && out->bits > 0 &&
      (is_float || out->bits < trial->base.array[out->output].type.bits))
    return true;
  og_inputs_reset(inputs);
  return false;
}

static bool see_wraps(og_trial *trial) {
  uint32_t arguments = 0;
  int32_t t = -1;
  og_sample s = trial->sample;
  const bool is_float = is_wide_float(&trial->base.array[0]);
  if (!is_float && !has_only_integers(&trial->base)) return false;
  for (int32_t i = 0; i < trial->op->decl->tensor_count; ++i)
    if (is_plain_int(trial, i) &&
        is_additive(trial, &trial->sample, i, is_float)) {
      arguments |= 1u << i;
      t = i;
    }
  if (t < 0) return false;
  og_sample_lengthen(&trial->sample, &trial->base, &s);
  excess e;
  og_inputs inputs;
  for (int32_t i = 0; i < SUM_TRIES; ++i) {
    s.seed = og_seed_mix(trial->sample.seed, 640 + (uint64_t)i);
    if (!wraps(trial, &s, arguments, t, is_float, &inputs, &e)) return false;
    if (i + 1 < SUM_TRIES) og_inputs_reset(&inputs);
  }
  char text[200];
  snprintf(text, sizeof text,
           "small numbers in %s add up; with large ones the result is off by "
           "multiples of 2^%d: something between has %d bits",
           argument_name(trial, t), (int)e.bits, (int)e.bits);
  tell(trial, &s, &inputs, e.output, text);
  og_inputs_reset(&inputs);
  return true;
}

// --- The sign of bytes -------------------------------------------------------

enum { BYTE_STEPS = 255 };

// The results with every element of argument t equal to `value`.
static bool run_filled(og_trial *trial, int32_t t, double value,
                       og_inputs *inputs, og_outputs *out) {
  og_array *a = &inputs->tensor[t][0];
  for (int64_t i = 0; i < a->count; ++i) og_array_set(a, i, value);
  return og_run_quietly(trial, &trial->sample, inputs, out);
}

// What one more than `from` adds to each element of output i.
static bool step_at(og_trial *trial, int32_t t, double from, og_inputs *inputs,
                    int32_t i, double *out_step, int64_t count) {
  og_outputs a, b;
  bool ok = false;
  if (!run_filled(trial, t, from, inputs, &a)) return false;
  if (run_filled(trial, t, from + 1, inputs, &b)) {
    ok = i < a.count && i < b.count && a.array[i].count >= count &&
         b.array[i].count >= count;
    for (int64_t j = 0; ok && j < count; ++j)
      out_step[j] = og_array_get(&b.array[i], j) - og_array_get(&a.array[i], j);
    og_outputs_reset(&b);
  }
  og_outputs_reset(&a);
  return ok;
}

static bool is_near(double a, double b) {
  return fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b));
}

enum { ELEMENTS_MAX = 8 };

// Whether each step adds as much, but the one at the sign takes 255 times that
// away.
static bool turns_at_sign(og_trial *trial, int32_t t, og_inputs *inputs,
                          int32_t i) {
  const bool is_signed = trial->inputs.tensor[t][0].type.code == OG_CODE_INT;
  const double low = is_signed ? -128 : 0, sign = low + 127;
  const double places[] = {low, low + 40, sign - 1, sign + 1, low + 254};
  double first[ELEMENTS_MAX], step[ELEMENTS_MAX];
  int64_t count = trial->base.array[i].count, moved = 0;
  if (count > ELEMENTS_MAX) count = ELEMENTS_MAX;
  if (!step_at(trial, t, places[0], inputs, i, first, count)) return false;
  for (size_t p = 1; p < sizeof places / sizeof *places; ++p) {
    if (!step_at(trial, t, places[p], inputs, i, step, count)) return false;
    for (int64_t j = 0; j < count; ++j)
      if (!is_near(step[j], first[j])) return false;
  }
  if (!step_at(trial, t, sign, inputs, i, step, count)) return false;
  for (int64_t j = 0; j < count; ++j) {
    if (!is_near(step[j], -BYTE_STEPS * first[j])) return false;
    moved += first[j] != 0;
  }
  return moved > 0;
}

static bool see_bytes(og_trial *trial) {
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t) {
    og_inputs inputs;
    if (!is_plain_int(trial, t) || trial->inputs.tensor[t][0].type.bits != 8 ||
        !og_inputs_copy(&inputs, &trial->inputs))
      continue;
    for (int32_t i = 0; i < trial->base.count; ++i) {
      char text[200];
      if (trial->base.array[i].type.bits == 8 ||
          !turns_at_sign(trial, t, &inputs, i))
        continue;
      const bool is_signed =
          trial->inputs.tensor[t][0].type.code == OG_CODE_INT;
      snprintf(text, sizeof text,
               "a byte of %s counts one more than the byte before it, but %s "
               "counts 255 less: it is read as %s",
               argument_name(trial, t), is_signed ? "0" : "128",
               is_signed ? "unsigned" : "signed");
      tell(trial, &trial->sample, &inputs, i, text);
      og_inputs_reset(&inputs);
      return true;
    }
    og_inputs_reset(&inputs);
  }
  return false;
}

// --- Results that leave their limit ------------------------------------------

enum { LIMIT_DOUBLINGS = 18, AT_LIMIT_MIN = 4, LIMIT_TRIES = 2 };

// 1 at the largest number of the type, -1 at the smallest negative one.
static int32_t limit_of(og_dtype type, double value) {
  const bool is_signed = type.code == OG_CODE_INT;
  const double high = ldexp(1, type.bits - is_signed) - 1;
  if (value == high) return 1;
  return is_signed && value == -high - 1 ? -1 : 0;
}

// Doubles argument t time after time; true where an element of an output stays
// at a limit of its type and then leaves it.
static bool leaves_limit(og_trial *trial, const og_sample *s, int32_t t,
                         int32_t output, og_inputs *inputs) {
  og_array *a = &inputs->tensor[t][0];
  int32_t times[WATCHED] = {0};  // at the upper limit; below 0: at the lower
  bool is_left = false;
  for (int32_t k = 0; k < LIMIT_DOUBLINGS && !is_left; ++k) {
    og_outputs out;
    if (!og_run_quietly(trial, s, inputs, &out)) return false;
    const og_array *y = &out.array[output];
    for (int64_t j = 0; j < y->count && j < WATCHED; ++j) {
      const int32_t limit = limit_of(y->type, og_array_get(y, j));
      const bool stays = limit * times[j] > 0;
      is_left |= !stays && abs(times[j]) >= AT_LIMIT_MIN;
      times[j] = stays ? times[j] + limit : limit;
    }
    og_outputs_reset(&out);
    for (int64_t i = 0; i < a->count && !is_left; ++i)
      og_array_set(a, i, 2 * og_array_get(a, i));
  }
  return is_left;
}

static bool see_limit(og_trial *trial, int32_t t, int32_t output) {
  for (int32_t i = 0; i < LIMIT_TRIES; ++i) {
    og_sample s = trial->sample;
    og_inputs inputs;
    char text[200];
    s.float_values = OG_FLOAT_NORMAL;
    s.seed = og_seed_mix(s.seed, 660 + (uint64_t)i);
    if (!og_inputs_fill(&inputs, &s)) return false;
    const bool is_left = leaves_limit(trial, &s, t, output, &inputs);
    if (is_left && i + 1 == LIMIT_TRIES) {
      snprintf(text, sizeof text,
               "while %s grows, a result stays at the limit of its type, and "
               "then leaves it: something between wraps around",
               argument_name(trial, t));
      tell(trial, &s, &inputs, output, text);
    }
    og_inputs_reset(&inputs);
    if (!is_left) return false;
  }
  return true;
}

static bool see_limits(og_trial *trial) {
  for (int32_t i = 0; i < trial->base.count; ++i) {
    const og_array *y = &trial->base.array[i];
    if (!og_is_integral(y->type) || y->type.bits > 16) continue;
    for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
      if (is_wide_float(&trial->inputs.tensor[t][0]) && see_limit(trial, t, i))
        return true;
  }
  return false;
}

// --- Integers that pass through floats ---------------------------------------

enum {
  STEP_TRIES = 16,
  STEPS_MIN = 8,
};

// What is added to each element, and what then tells a float: a step of
// 2^never bits is below half of what it tells apart, one of 2^always above it.
// A root, whose result changes as rarely, has another border.
typedef struct blur {
  int32_t bits;  // of the integer
  int32_t far;   // 2^far is added, and 2^beside: no perfect square is near
  int32_t beside;
  int32_t never;
  int32_t always;
} blur;
static const blur blurs[] = {{64, 57, 28, 30, 35},  // f32
                             {64, 57, 28, 1, 6},    // f64
                             {32, 28, 13, 1, 6}};   // f32

static void add(og_array *a, int64_t i, int64_t more) {
  if (a->type.bits != 64) {
    og_array_set(a, i, og_array_get(a, i) + (double)more);
    return;
  }
  int64_t value;
  memcpy(&value, a->data + (size_t)i * sizeof value, sizeof value);
  value += more;
  memcpy(a->data + (size_t)i * sizeof value, &value, sizeof value);
}

// In how many of some tries a step in about half of the elements changes the
// result; -1 where a call does not run.
static int32_t count_changes(og_trial *trial, const og_inputs *inputs,
                             int32_t t, int64_t step) {
  og_random r = {og_seed_mix(trial->sample.seed, 680)};
  og_outputs base;
  int32_t changed = 0;
  if (!og_run_quietly(trial, &trial->sample, inputs, &base)) return -1;
  for (int32_t k = 0; k < STEP_TRIES && changed >= 0; ++k) {
    og_inputs other;
    og_outputs out;
    if (!og_inputs_copy(&other, inputs)) break;
    og_array *a = &other.tensor[t][0];
    for (int64_t i = 0; i < a->count; ++i)
      if (og_random_chance(&r, 50)) add(a, i, step);
    if (og_run_quietly(trial, &trial->sample, &other, &out)) {
      changed += og_outputs_compare(trial->op, &out, &base, 0).differs;
      og_outputs_reset(&out);
    } else {
      changed = -1;
    }
    og_inputs_reset(&other);
  }
  og_outputs_reset(&base);
  return changed;
}

// Whether argument t, an integer that does not count places, may be so large.
static bool may_be_far(const og_trial *trial, int32_t t) {
  const og_array *a = &trial->inputs.tensor[t][0];
  return is_plain_int(trial, t) && a->type.bits >= 32 && a->count > 1 &&
         !og_is_index_argument(trial->op->decl, t);
}

// Whether argument t, in the call that `inputs` are a copy of, is seen through
// a float.
static bool is_blurred(og_trial *trial, og_inputs *inputs, int32_t t,
                       const blur *b) {
  og_array *a = &inputs->tensor[t][0];
  if (a->type.bits != b->bits || count_changes(trial, inputs, t, 1) < STEPS_MIN)
    return false;
  for (int64_t i = 0; i < a->count; ++i)
    add(a, i, ((int64_t)1 << b->far) + ((int64_t)1 << b->beside));
  return count_changes(trial, inputs, t, (int64_t)1 << b->never) == 0 &&
         count_changes(trial, inputs, t, (int64_t)1 << b->always) >= STEPS_MIN;
}

static bool see_argument_blurred(og_trial *trial, int32_t t) {
  bool is_found = false;
  for (size_t k = 0; k < sizeof blurs / sizeof *blurs && !is_found; ++k) {
    og_inputs inputs;
    if (!og_inputs_copy(&inputs, &trial->inputs)) return false;
    is_found = is_blurred(trial, &inputs, t, &blurs[k]);
    if (is_found) {
      char text[200];
      snprintf(text, sizeof text,
               "one more in %s changes the result of small numbers, and never "
               "that of numbers above 2^%d: they pass through a float",
               argument_name(trial, t), (int)blurs[k].far);
      tell(trial, &trial->sample, &inputs, 0, text);
    }
    og_inputs_reset(&inputs);
  }
  return is_found;
}

static void see_blurred(og_trial *trial) {
  if (!has_only_integers(&trial->base)) return;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (may_be_far(trial, t) && see_argument_blurred(trial, t)) return;
}

void og_probe_integers(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL || decl->has_lists ||
      decl->has_data_dependent_result || decl->record->sample != NULL ||
      trial->base.count == 0 || og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT))
    return;
  if (!see_wraps(trial) && !see_bytes(trial) && !see_limits(trial))
    see_blurred(trial);
  og_tell_shown(&trial->sample, &trial->inputs);
}

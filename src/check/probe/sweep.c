// SPDX-License-Identifier: Apache-2.0
// Relations between calls, at many sizes of one dim.
//
// Invariants: a finding needs sizes that hold below and above those that are
// broken, several of them large, and each that it rests on shows the same again
// with other values. Sizes up to an int argument do not count: an operator may
// shift, split or wrap around by it.

#include "check/probe/sweep.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/compare.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"

enum {
  SMALL_MAX = 40,  // every size from 2 to it, then those around powers of two
  ELEMENT_LIMIT = 1 << 14,
  TRIES = 2,
  TRIES_AGAIN = 8,     // of a size that a finding rests on
  MOSTLY = 6,          // of those
  LARGE_MIN = 32,      // sizes above it are large
  HELD_MIN = 4,        // sizes that hold above the first broken one
  HELD_LARGE_MIN = 4,  // large ones of them
  BROKEN_MIN = 3,      // sizes that are broken below the last that holds
  START_MIN = 8,       // sizes that hold before any is broken (is_from_start)
  SHOWN = 3,
};

static const int32_t large_sizes[] = {47,  48,  49,  63,  64,  65,
                                      80,  95,  96,  112, 127, 128,
                                      129, 160, 255, 256, 257, 512};
enum { LARGE_COUNT = sizeof large_sizes / sizeof *large_sizes };
static_assert(SMALL_MAX - 1 + LARGE_COUNT == OG_SWEEP_SIZES, "each has a row");

static int32_t size_at(int32_t i) {
  return i < SMALL_MAX - 1 ? i + 2 : large_sizes[i - (SMALL_MAX - 1)];
}

// --- One size ----------------------------------------------------------------

// A sum in another order differs by its rounding, which counts as none; what
// lies between that and a difference proves nothing.
static double tight_slack(const og_outputs *out) {
  double slack = 0;
  for (int32_t i = 0; i < out->count; ++i) {
    const double one = og_value_slack(out->array[i].type) / 10;
    if (one > slack) slack = one;
  }
  return slack;
}

static og_outcome compare(const og_trial *trial, const og_outputs *found,
                          const og_outputs *wanted, og_verdict *out_verdict) {
  *out_verdict = og_outputs_compare(trial->op, found, wanted, -1);
  if (out_verdict->differs)
    return og_is_border(out_verdict) ? OG_OUTCOME_UNKNOWN : OG_OUTCOME_BROKEN;
  const og_verdict tight =
      og_outputs_compare(trial->op, found, wanted, tight_slack(wanted));
  return tight.differs ? OG_OUTCOME_UNKNOWN : OG_OUTCOME_HELD;
}

static void note_result(og_sweep *w, int32_t form, const og_outputs *found) {
  og_outputs *first = &w->first[form];
  og_verdict verdict;
  if (first->count == 0) {
    og_outputs_copy(first, found);
    return;
  }
  for (int32_t i = 0; i < first->count && i < found->count; ++i)
    if (og_arrays_differ(&found->array[i], &first->array[i], -1, &verdict))
      w->varied[form] |= (uint64_t)1 << i;
}

static_assert(OG_ARRAYS_MAX <= 64, "each has a bit");

// A result that is the same for all values obeys by chance: beyond a threshold
// a gate is 1, and a bucket the last one, whatever is done to the arguments.
static bool is_varied(const og_sweep *w, int32_t form) {
  const og_outputs *first = &w->first[form];
  for (int32_t i = 0; i < first->count; ++i)
    if (first->array[i].count > 0 && !(w->varied[form] >> i & 1u)) return false;
  return first->count > 0;
}

static void forget_results(og_sweep *w) {
  for (int32_t k = 0; k < OG_FORMS_MAX; ++k) {
    og_outputs_reset(&w->first[k]);
    w->varied[k] = 0;
  }
}

void og_sweep_take(og_sweep *w, int32_t form, const og_sample *s,
                   const og_outputs *found, const og_outputs *wanted,
                   og_outcome known[OG_FORMS_MAX]) {
  og_verdict verdict;
  const og_outcome one = compare(w->trial, found, wanted, &verdict);
  note_result(w, form, found);
  if (one == OG_OUTCOME_BROKEN) {
    w->broken[form] = verdict;
    w->broken_size[form] = (int32_t)s->dim[w->dim];
    w->broken_sample[form] = *s;
  }
  if (known[form] == OG_OUTCOME_BROKEN) return;
  const bool is_held = one == OG_OUTCOME_HELD && known[form] == OG_OUTCOME_HELD;
  known[form] = one == OG_OUTCOME_BROKEN ? one
                : is_held                ? OG_OUTCOME_HELD
                                         : OG_OUTCOME_UNKNOWN;
}

// The call with the dim as large as that; false where there is none.
static bool sized(const og_sweep *w, int32_t size, uint64_t seed,
                  og_sample *out) {
  opgraft_error error;
  *out = w->trial->sample;
  out->dim[w->dim] = size;
  out->seed = seed;
  out->float_values = OG_FLOAT_NORMAL;
  return og_sample_is_valid(out, ELEMENT_LIMIT, &error) &&
         out->dim[w->dim] == size;
}

static bool try_all(og_sweep *w, int32_t size, int32_t tries, uint64_t salt,
                    og_outcome out[OG_FORMS_MAX]) {
  for (int32_t i = 0; i < tries; ++i) {
    og_sample s;
    const uint64_t seed =
        og_seed_mix(w->trial->sample.seed, salt + (uint64_t)(size * 16 + i));
    if (!sized(w, size, seed, &s) || !w->relation->try_call(w, &s, seed, out))
      return false;
  }
  return true;
}

// One try alone does not show whether its result is the same for all values.
static void try_size(og_sweep *w, int32_t size, int32_t tries, uint64_t salt,
                     og_outcome out[OG_FORMS_MAX]) {
  for (int32_t k = 0; k < OG_FORMS_MAX; ++k) out[k] = OG_OUTCOME_HELD;
  const bool is_tried = try_all(w, size, tries, salt, out);
  for (int32_t k = 0; k < OG_FORMS_MAX; ++k)
    if (!is_tried ||
        (out[k] == OG_OUTCOME_HELD && tries > 1 && !is_varied(w, k)))
      out[k] = OG_OUTCOME_UNKNOWN;
  forget_results(w);
}

// --- The verdict -------------------------------------------------------------

typedef struct evidence {
  int32_t first_held;            // below the broken ones
  int32_t held[OG_SWEEP_SIZES];  // above the first broken one
  int32_t held_count;
  int32_t broken[OG_SWEEP_SIZES];  // between the first and the last that hold
  int32_t broken_count;
} evidence;

static bool evidence_find(const og_outcome *at, evidence *out) {
  int32_t first_held = OG_SWEEP_SIZES, first_broken = OG_SWEEP_SIZES;
  int32_t last_held = -1, large = 0;
  *out = (evidence){.held_count = 0};
  for (int32_t i = 0; i < OG_SWEEP_SIZES; ++i) {
    if (at[i] == OG_OUTCOME_HELD && i < first_held) first_held = i;
    if (at[i] == OG_OUTCOME_BROKEN && i > first_held && i < first_broken)
      first_broken = i;
    if (at[i] == OG_OUTCOME_HELD) last_held = i;
  }
  if (first_broken == OG_SWEEP_SIZES) return false;
  out->first_held = size_at(first_held);
  for (int32_t i = first_held; i < OG_SWEEP_SIZES; ++i) {
    if (at[i] == OG_OUTCOME_HELD && i > first_broken) {
      out->held[out->held_count++] = size_at(i);
      large += size_at(i) > LARGE_MIN;
    }
    if (at[i] == OG_OUTCOME_BROKEN && i < last_held)
      out->broken[out->broken_count++] = size_at(i);
  }
  return out->held_count >= HELD_MIN && large >= HELD_LARGE_MIN &&
         out->broken_count >= BROKEN_MIN;
}

static bool holds_from_start(const og_outcome *at) {
  int32_t held = 0;
  for (int32_t i = 0; i < OG_SWEEP_SIZES && at[i] != OG_OUTCOME_BROKEN; ++i)
    held += at[i] == OG_OUTCOME_HELD;
  return held >= START_MIN;
}

static const uint64_t salt_again = 0x9000;

// Whether the sizes hold again, with other values.
static bool hold_again(og_sweep *w, int32_t form, const int32_t *sizes,
                       int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    og_outcome again[OG_FORMS_MAX];
    try_size(w, sizes[i], TRIES_AGAIN, salt_again, again);
    if (again[form] != OG_OUTCOME_HELD) return false;
  }
  return true;
}

static bool is_broken_again(og_sweep *w, int32_t form, int32_t size) {
  int32_t count = 0;
  for (uint64_t i = 0; i < TRIES_AGAIN; ++i) {
    og_outcome again[OG_FORMS_MAX];
    try_size(w, size, 1, salt_again + i, again);
    count += again[form] == OG_OUTCOME_BROKEN;
  }
  return count >= (w->relation->is_mostly ? MOSTLY : 1);
}

static bool is_sure(og_sweep *w, int32_t form, const evidence *e) {
  const int32_t *largest = e->held + e->held_count - HELD_MIN;
  if (!hold_again(w, form, &e->first_held, 1) ||
      !hold_again(w, form, largest, HELD_MIN))
    return false;
  for (int32_t i = 0; i < BROKEN_MIN; ++i)
    if (!is_broken_again(w, form, e->broken[i])) return false;
  return og_trial_is_steady(w->trial);
}

static void write_sizes(const int32_t *sizes, int32_t count, char *out,
                        size_t size) {
  size_t used = 0;
  for (int32_t i = 0; i < count && i < SHOWN && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s%d", i > 0 ? ", " : "",
                             (int)sizes[i]);
}

static void report(og_sweep *w, int32_t form, const evidence *e) {
  const char *dim = w->trial->op->decl->dims[w->dim].name;
  char relation[160], held[48], broken[48];
  const char *text = w->relation->text[form], *at = strstr(text, "%s");
  snprintf(relation, sizeof relation, "%.*s%s%s",
           at != NULL ? (int)(at - text) : (int)strlen(text), text,
           at != NULL ? dim : "", at != NULL ? at + 2 : "");
  write_sizes(e->held + e->held_count - HELD_MIN, HELD_MIN, held, sizeof held);
  write_sizes(e->broken, e->broken_count, broken, sizeof broken);
  og_tell_shown(&w->broken_sample[form], NULL);
  og_tell_finding(
      w->trial->op, OPGRAFT_SIZE_DEPENDENT, false, w->broken[form].name,
      "%s for %s = %s, but not for %s = %s: at %s = %d %s", relation, dim, held,
      dim, broken, dim, (int)w->broken_size[form], w->broken[form].text);
}

// --- The sweep ---------------------------------------------------------------

int64_t og_largest_int(const og_sample *s) {
  int64_t largest = 1;
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k) {
    const og_attr *a = &s->attr[k];
    const bool is_list = a->kind == OG_ATTR_INTS;
    const int64_t count = is_list ? a->count : a->kind == OG_ATTR_INT;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = is_list ? s->ints[k][i] : a->i;
      const int64_t size = value == INT64_MIN ? INT64_MAX : llabs(value);
      if (size > largest) largest = size;
    }
  }
  return largest;
}

// Whether each argument and result has the dim at one place, or not at all.
// What offsets count has to stay as they say.
static bool is_placed(const og_trial *trial, int32_t d) {
  const og_decl *decl = trial->op->decl;
  bool is_argument_dim = false;
  uint32_t axes;
  if (decl->dims[d].kind != OG_DIM_SIZE || og_bounds_values(decl, d))
    return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (!trial->sample.is_given[t]) continue;
    if (!og_argument_axes(&trial->sample, t, d, &axes)) return false;
    is_argument_dim |= axes != 0;
  }
  for (int32_t i = 0; i < trial->base.count; ++i)
    if (!og_output_axes(&trial->sample, &trial->base, i, d, &axes))
      return false;
  return is_argument_dim;
}

int32_t og_sweep_dim(const og_trial *trial) {
  int32_t dims[OPGRAFT_DIM_MAX], count = 0;
  for (int32_t d = 0; d < trial->op->decl->dim_count; ++d)
    if (is_placed(trial, d)) dims[count++] = d;
  if (count == 0) return -1;
  return dims[trial->sample.seed % (uint64_t)count];
}

bool og_may_sweep(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  return og_is_comparable(trial) && trial->forward == NULL &&
         !decl->has_lists && !decl->has_data_dependent_result &&
         decl->record->sample == NULL &&  // values that must fit each other
         trial->base.count > 0 &&
         !og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT);
}

static og_sweep *sweep_create(og_trial *trial, const og_relation *relation,
                              int32_t dim, int32_t tensor) {
  og_sweep *w = calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->trial = trial;
  w->relation = relation;
  w->dim = dim;
  w->tensor = tensor;
  return w;
}

static void run(og_sweep *w) {
  const int64_t beyond = og_largest_int(&w->trial->sample);
  for (int32_t i = 0; i < OG_SWEEP_SIZES; ++i) {
    og_outcome one[OG_FORMS_MAX] = {OG_OUTCOME_UNKNOWN};
    const int32_t size = size_at(i);
    const bool is_tried =
        !w->relation->is_of_halves || (size % 2 == 0 && size > 2);
    if (is_tried && size > beyond) try_size(w, size, TRIES, 0, one);
    for (int32_t k = 0; k < OG_FORMS_MAX; ++k) w->at[k][i] = one[k];
  }
  for (int32_t k = 0; k < w->relation->form_count; ++k) {
    evidence e;
    if (!evidence_find(w->at[k], &e) ||
        (w->relation->is_from_start && !holds_from_start(w->at[k])) ||
        !is_sure(w, k, &e))
      continue;
    report(w, k, &e);
    return;
  }
}

void og_sweep_run(og_trial *trial, const og_relation *relation, int32_t dim,
                  int32_t tensor) {
  og_sweep *w = sweep_create(trial, relation, dim, tensor);
  if (w == NULL) return;
  run(w);
  og_tell_shown(&trial->sample, &trial->inputs);
  free(w);
}

static bool holds(og_sweep *w) {
  static const int32_t sizes[] = {32, 48, 64, 96, 128};
  enum { ENOUGH = 3 };
  int32_t held[OG_FORMS_MAX] = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    og_outcome one[OG_FORMS_MAX];
    try_size(w, sizes[i], 1, 0x7000, one);
    for (int32_t k = 0; k < w->relation->form_count; ++k) {
      held[k] += one[k] == OG_OUTCOME_HELD;
      if (held[k] >= ENOUGH) return true;
    }
  }
  return false;
}

bool og_sweep_holds(og_trial *trial, const og_relation *relation, int32_t dim) {
  og_sweep *w = sweep_create(trial, relation, dim, -1);
  const bool does = w != NULL && holds(w);
  og_tell_shown(&trial->sample, &trial->inputs);
  free(w);
  return does;
}

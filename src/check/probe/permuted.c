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
//
// Invariants: a size counts as broken if one try is clearly off, and as held if
// all tries agree as sums in another order do; what lies between counts as
// neither. Sizes up to an int argument do not count: an operator may shift,
// split or wrap around by it.

#include <stdio.h>
#include <stdlib.h>

#include "check/probe/steady.h"
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

enum {
  SMALL_MAX = 40,  // every size from 2 to it, then those around powers of two
  ELEMENT_LIMIT = 1 << 14,
  TRIES = 2,
  TRIES_AGAIN = 8,     // of a size that a finding rests on
  LARGE_MIN = 32,      // sizes above it are large
  HELD_MIN = 4,        // sizes that hold above the first broken one
  HELD_LARGE_MIN = 4,  // large ones of them
  BROKEN_MIN = 3,      // sizes that are broken below the last that holds
  SHOWN = 3,
};

static const int32_t large_sizes[] = {47, 48,  49,  63,  64,  65,  95,
                                      96, 127, 128, 129, 255, 256, 257};
enum {
  LARGE_COUNT = sizeof large_sizes / sizeof *large_sizes,
  SIZES = SMALL_MAX - 1 + LARGE_COUNT,
};

static int32_t size_at(int32_t i) {
  return i < SMALL_MAX - 1 ? i + 2 : large_sizes[i - (SMALL_MAX - 1)];
}

typedef enum outcome { UNKNOWN, HELD, BROKEN } outcome;

// What becomes of the results.
typedef enum symmetry {
  REORDERED,  // they come in the new order
  UNCHANGED,  // they stay as they are, though they name the dim
  SYMMETRIES,
} symmetry;

typedef struct sweep {
  og_trial *trial;
  int32_t dim;
  bool is_result_dim;  // some result names it
  outcome at[SYMMETRIES][SIZES];
  og_verdict broken[SYMMETRIES];  // of the last size that was
  int32_t broken_size[SYMMETRIES];
  og_sample broken_sample[SYMMETRIES];
} sweep;

// --- One size ----------------------------------------------------------------

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
  for (int32_t i = 0; i < out->count; ++i) {
    uint32_t axes;
    if (!og_output_axes(s, out, i, d, &axes) ||
        !og_array_reorder(&out->array[i], axes, order))
      return false;
    *out_is_named |= axes != 0;
  }
  return true;
}

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

static outcome compare(const og_trial *trial, const og_outputs *moved,
                       const og_outputs *wanted, og_verdict *out_verdict) {
  *out_verdict = og_outputs_compare(trial->op, moved, wanted, -1);
  if (out_verdict->differs) return og_is_border(out_verdict) ? UNKNOWN : BROKEN;
  const og_verdict tight =
      og_outputs_compare(trial->op, moved, wanted, tight_slack(wanted));
  return tight.differs ? UNKNOWN : HELD;
}

// Takes one try's outcome into what is known of the size.
static void take(sweep *w, symmetry kind, outcome one, const og_verdict *v,
                 const og_sample *s, outcome *known) {
  if (one == BROKEN) {
    w->broken[kind] = *v;
    w->broken_size[kind] = (int32_t)s->dim[w->dim];
    w->broken_sample[kind] = *s;
  }
  if (*known == BROKEN) return;
  *known = one == BROKEN                   ? BROKEN
           : one == HELD && *known == HELD ? HELD
                                           : UNKNOWN;
}

// Runs the call in both orders; false where it has no meaning.
static bool try_order(sweep *w, const og_sample *s, uint64_t seed,
                      outcome known[SYMMETRIES]) {
  int32_t order[OG_ORDER_MAX];
  og_inputs inputs;
  og_outputs base, moved;
  og_verdict verdict;
  og_mode mode = og_mode_plain;
  bool ok = false;
  og_random r = {seed};
  mode.is_quiet = true;
  if (!og_inputs_fill(&inputs, s)) return false;
  og_tell_shown(s, NULL);  // of a crash
  if (og_trial_run(w->trial, s, &inputs, &mode, &base) != OG_RAN) goto done;
  order_draw((int32_t)s->dim[w->dim], &r, order);
  if (inputs_reorder(s, &inputs, w->dim, order) &&
      og_trial_run(w->trial, s, &inputs, &mode, &moved) == OG_RAN) {
    const outcome same = compare(w->trial, &moved, &base, &verdict);
    take(w, UNCHANGED, same, &verdict, s, &known[UNCHANGED]);
    ok = outputs_reorder(s, &base, w->dim, order, &w->is_result_dim);
    if (ok)
      take(w, REORDERED, compare(w->trial, &moved, &base, &verdict), &verdict,
           s, &known[REORDERED]);
    og_outputs_reset(&moved);
  }
  og_outputs_reset(&base);
done:
  og_inputs_reset(&inputs);
  return ok;
}

// The call with the dim as large as that; false where there is none.
static bool sized(const sweep *w, int32_t size, uint64_t seed, og_sample *out) {
  opgraft_error error;
  *out = w->trial->sample;
  out->dim[w->dim] = size;
  out->seed = seed;
  out->float_values = OG_FLOAT_NORMAL;
  return og_sample_is_valid(out, ELEMENT_LIMIT, &error) &&
         out->dim[w->dim] == size;
}

static void try_size(sweep *w, int32_t size, int32_t tries, uint64_t salt,
                     outcome out[SYMMETRIES]) {
  out[REORDERED] = out[UNCHANGED] = HELD;
  for (int32_t i = 0; i < tries; ++i) {
    og_sample s;
    const uint64_t seed =
        og_seed_mix(w->trial->sample.seed, salt + (uint64_t)(size * 16 + i));
    if (sized(w, size, seed, &s) && try_order(w, &s, seed, out)) continue;
    out[REORDERED] = out[UNCHANGED] = UNKNOWN;
    return;
  }
}

// --- The verdict -------------------------------------------------------------

typedef struct evidence {
  int32_t first_held;   // below the broken ones
  int32_t held[SIZES];  // above the first broken one
  int32_t held_count;
  int32_t broken[SIZES];  // between the first and the last that hold
  int32_t broken_count;
} evidence;

static bool evidence_find(const outcome *at, evidence *out) {
  int32_t first_held = SIZES, first_broken = SIZES, last_held = -1, large = 0;
  *out = (evidence){.held_count = 0};
  for (int32_t i = 0; i < SIZES; ++i) {
    if (at[i] == HELD && i < first_held) first_held = i;
    if (at[i] == BROKEN && i > first_held && i < first_broken) first_broken = i;
    if (at[i] == HELD) last_held = i;
  }
  if (first_broken == SIZES) return false;
  out->first_held = size_at(first_held);
  for (int32_t i = first_held; i < SIZES; ++i) {
    if (at[i] == HELD && i > first_broken) {
      out->held[out->held_count++] = size_at(i);
      large += size_at(i) > LARGE_MIN;
    }
    if (at[i] == BROKEN && i < last_held)
      out->broken[out->broken_count++] = size_at(i);
  }
  return out->held_count >= HELD_MIN && large >= HELD_LARGE_MIN &&
         out->broken_count >= BROKEN_MIN;
}

// Whether `wanted` comes out again for `count` sizes, with other values.
static bool comes_again(sweep *w, symmetry kind, const int32_t *sizes,
                        int32_t count, outcome wanted) {
  for (int32_t i = 0; i < count; ++i) {
    outcome again[SYMMETRIES];
    try_size(w, sizes[i], TRIES_AGAIN, 0x9000, again);
    if (again[kind] != wanted) return false;
  }
  return true;
}

static bool is_sure(sweep *w, symmetry kind, evidence *e) {
  const int32_t *largest = e->held + e->held_count - HELD_MIN;
  return comes_again(w, kind, &e->first_held, 1, HELD) &&
         comes_again(w, kind, largest, HELD_MIN, HELD) &&
         comes_again(w, kind, e->broken, BROKEN_MIN, BROKEN) &&
         og_trial_is_steady(w->trial);
}

static void write_sizes(const int32_t *sizes, int32_t count, char *out,
                        size_t size) {
  size_t used = 0;
  for (int32_t i = 0; i < count && i < SHOWN && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s%d", i > 0 ? ", " : "",
                             (int)sizes[i]);
}

static void report(sweep *w, symmetry kind, const evidence *e) {
  const og_decl *decl = w->trial->op->decl;
  const char *dim = decl->dims[w->dim].name;
  char held[48], broken[48];
  write_sizes(e->held + e->held_count - HELD_MIN, HELD_MIN, held, sizeof held);
  write_sizes(e->broken, e->broken_count, broken, sizeof broken);
  og_tell_shown(&w->broken_sample[kind], NULL);
  og_tell_finding(
      w->trial->op, OPGRAFT_SIZE_DEPENDENT, false, w->broken[kind].name,
      "arguments in another order along %s give %s for %s = %s, but not for "
      "%s = %s: at %s = %d %s",
      dim,
      kind == REORDERED && w->is_result_dim ? "the result in that order"
                                            : "the same result",
      dim, held, dim, broken, dim, (int)w->broken_size[kind],
      w->broken[kind].text);
}

// --- The probe ---------------------------------------------------------------

// The largest int argument: beyond it, what an operator does by it does not
// come back.
static int64_t largest_int(const og_sample *s) {
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

static bool is_placed(const og_trial *trial, int32_t d) {
  const og_decl *decl = trial->op->decl;
  bool is_argument_dim = false;
  uint32_t axes;
  if (decl->dims[d].kind != OG_DIM_SIZE) return false;
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

// One dim a call, another one in the next; -1: there is none.
static int32_t choose_dim(const og_trial *trial) {
  int32_t dims[OPGRAFT_DIM_MAX], count = 0;
  for (int32_t d = 0; d < trial->op->decl->dim_count; ++d)
    if (is_placed(trial, d)) dims[count++] = d;
  if (count == 0) return -1;
  return dims[trial->sample.seed % (uint64_t)count];
}

static void sweep_run(sweep *w) {
  const int64_t beyond = largest_int(&w->trial->sample);
  for (int32_t i = 0; i < SIZES; ++i) {
    outcome one[SYMMETRIES] = {UNKNOWN, UNKNOWN};
    if (size_at(i) > beyond) try_size(w, size_at(i), TRIES, 0, one);
    for (int32_t k = 0; k < SYMMETRIES; ++k) w->at[k][i] = one[k];
  }
  for (int32_t k = 0; k < SYMMETRIES; ++k) {
    evidence e;
    if (k == UNCHANGED && !w->is_result_dim) return;  // the same question
    if (!evidence_find(w->at[k], &e) || !is_sure(w, (symmetry)k, &e)) continue;
    report(w, (symmetry)k, &e);
    return;
  }
}

void og_probe_permuted(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL || decl->has_lists ||
      decl->has_data_dependent_result || trial->base.count == 0 ||
      og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT))
    return;
  const int32_t d = choose_dim(trial);
  if (d < 0) return;
  sweep *w = calloc(1, sizeof *w);
  if (w == NULL) return;
  w->trial = trial;
  w->dim = d;
  sweep_run(w);
  og_tell_shown(&trial->sample, &trial->inputs);
  free(w);
}

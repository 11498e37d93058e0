// SPDX-License-Identifier: Apache-2.0
// What `.reduce` says: the results of two parts, joined, against the whole.
//
// Invariants: the part is the trial's call, or one with its dims rounded up to
// whole blocks, and the whole has each dim that is cut twice as large: sizes
// that fit each other in the call still do.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/fill.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"
#include "decl/parse/reduce.h"

enum { NONE = -1, PARTS = 2, TRIES = 3, ELEMENT_LIMIT = 1 << 16 };

// A cut, its whole call and that of a part.
typedef struct joined {
  og_trial *trial;
  const og_cut *cut;
  int32_t place[OG_CUT_DIMS_MAX];  // of a pack, the dim in it that is cut
  bool is_cut[OG_CUT_DIMS_MAX];    // else the dim stays whole
  og_sample part;
  og_sample whole;
  og_inputs inputs;  // of the whole
} joined;

// --- Sizes -------------------------------------------------------------------

static int64_t *size_of(og_sample *s, int32_t dim, int32_t place) {
  return s->op->decl->dims[dim].kind == OG_DIM_PACK ? &s->pack[dim].size[place]
                                                    : &s->dim[dim];
}

// Which dims are cut: of several one of size 1 stays whole, unless all are 1.
static bool dims_choose(joined *j) {
  const og_decl *decl = j->part.op->decl;
  bool is_larger = j->cut->dim_count == 1;
  for (int32_t i = 0; i < j->cut->dim_count; ++i) {
    const int32_t d = j->cut->dims[i];
    j->place[i] = 0;
    if (decl->dims[d].kind == OG_DIM_PACK && j->part.pack[d].rank == 0)
      return false;
    const int64_t size = *size_of(&j->part, d, 0);
    if (size < 1) return false;
    is_larger |= size > 1;
  }
  for (int32_t i = 0; i < j->cut->dim_count; ++i)
    j->is_cut[i] = j->cut->dim_count == 1 || !is_larger ||
                   *size_of(&j->part, j->cut->dims[i], 0) > 1;
  return true;
}

static bool sizes_set(joined *j) {
  const int64_t block = j->cut->block;
  int64_t want[OG_CUT_DIMS_MAX] = {0};
  opgraft_error error;
  for (int32_t i = 0; i < j->cut->dim_count; ++i) {
    int64_t *size = size_of(&j->part, j->cut->dims[i], j->place[i]);
    if (j->is_cut[i]) *size = (*size + block - 1) / block * block;
    want[i] = *size;
  }
  j->whole = j->part;
  for (int32_t i = 0; i < j->cut->dim_count; ++i)
    if (j->is_cut[i])
      *size_of(&j->whole, j->cut->dims[i], j->place[i]) *= PARTS;
  if (!og_sample_is_valid(&j->part, ELEMENT_LIMIT, &error) ||
      !og_sample_is_valid(&j->whole, ELEMENT_LIMIT, &error))
    return false;
  for (int32_t i = 0; i < j->cut->dim_count; ++i) {
    const int32_t d = j->cut->dims[i];
    if (*size_of(&j->part, d, j->place[i]) != want[i] ||
        *size_of(&j->whole, d, j->place[i]) !=
            want[i] * (j->is_cut[i] ? PARTS : 1))
      return false;
  }
  return true;
}

// --- Axes --------------------------------------------------------------------

// The axis of a tensor of these items that is cut, else NONE. False where an
// item before it has an unknown rank.
static bool axis_find(const joined *j, const og_item *items, int32_t count,
                      int32_t *out_axis) {
  *out_axis = NONE;
  for (int32_t i = 0; i < j->cut->dim_count; ++i) {
    int32_t at = 0, item;
    if (!j->is_cut[i] ||
        og_items_hold(items, count, j->cut->dims[i], &item) != OG_HELD_ONCE)
      continue;
    for (int32_t k = 0; k < item; ++k) {
      const int32_t rank = og_item_rank(&j->whole, &items[k]);
      if (rank == OG_ANY_RANK) return false;
      at += rank;
    }
    *out_axis = at + j->place[i];
  }
  return true;
}

static bool argument_axis(const joined *j, int32_t tensor, int32_t *out_axis) {
  const og_pattern *pattern = og_pattern_of(j->whole.op->decl, tensor);
  *out_axis = NONE;
  return pattern == NULL ||
         axis_find(j, pattern->items, pattern->item_count, out_axis);
}

static bool output_axis(const joined *j, const og_outputs *out, int32_t i,
                        int32_t *out_axis) {
  const og_decl *decl = j->whole.op->decl;
  if (out->role[i] == OG_ROLE_MUTATED)
    return argument_axis(j, out->index[i], out_axis);
  const og_items of =
      og_output_items(decl, decl->mutated_count + out->index[i]);
  return axis_find(j, of.items, of.count, out_axis);
}

// --- Arguments of a part -----------------------------------------------------

static bool tensor_slice(const joined *j, int32_t t, int32_t part,
                         og_array *a) {
  int32_t axis;
  og_array own;
  if (!argument_axis(j, t, &axis)) return false;
  if (axis == NONE) {
    if (part > 0 && j->cut->once >> t & 1u)
      memset(a->data, 0, (size_t)a->count * og_dtype_bytes(a->type));
    return true;
  }
  const int64_t size = a->sizes.size[axis] / PARTS;
  if (!og_array_slice(a, axis, part * size, size, &own)) return false;
  free(a->data);
  *a = own;
  return true;
}

static bool part_run(const joined *j, int32_t part, og_outputs *out) {
  og_inputs inputs;
  bool ok = true;
  if (!og_inputs_copy(&inputs, &j->inputs)) return false;
  for (int32_t t = 0; ok && t < j->whole.op->decl->tensor_count; ++t)
    if (inputs.tensor[t][0].data != NULL)
      ok = tensor_slice(j, t, part, &inputs.tensor[t][0]);
  ok = ok && og_run_quietly(j->trial, &j->part, &inputs, out);
  og_inputs_reset(&inputs);
  return ok;
}

// --- Results of the parts ----------------------------------------------------

static double join_two(og_parts_join join, double a, double b) {
  switch (join) {
    case OG_JOIN_SUM:
      return a + b;
    case OG_JOIN_PROD:
      return a * b;
    case OG_JOIN_MAX:
      return fmax(a, b);
    case OG_JOIN_MIN:
      return fmin(a, b);
    default:
      return a;
  }
}

static void array_join(og_parts_join join, og_array *to, const og_array *from) {
  const size_t bytes = og_dtype_bytes(to->type);
  for (int64_t i = 0; i < to->count; ++i)
    for (int32_t k = 0; k < og_parts(to->type); ++k) {
      char *at = to->data + (size_t)i * bytes;
      const double a = og_value_get(to->type, at, k);
      const double b =
          og_value_get(to->type, from->data + (size_t)i * bytes, k);
      og_value_set(to->type, at, k, join_two(join, a, b));
    }
}

// `out` begins as the results of the first part; the array becomes that of
// both. False where their sizes do not fit the whole's.
static bool output_join(const joined *j, const og_array *whole, int32_t i,
                        const og_outputs *second, og_outputs *out) {
  const og_array *b = &second->array[i];
  og_array *a = &out->array[i], both;
  int32_t axis;
  if (!output_axis(j, out, i, &axis)) return false;
  if (axis == NONE) {
    if (!og_dims_equal(&a->sizes, &whole->sizes)) return false;
    if (j->cut->join > OG_JOIN_SAME) array_join(j->cut->join, a, b);
    return true;
  }
  og_dims sizes = a->sizes;
  sizes.size[axis] += b->sizes.size[axis];
  if (!og_dims_equal(&sizes, &whole->sizes) ||
      !og_array_create(&both, a->type, &sizes))
    return false;
  og_array_place(&both, axis, 0, a);
  og_array_place(&both, axis, a->sizes.size[axis], b);
  free(a->data);
  *a = both;
  return true;
}

static bool outputs_join(const joined *j, const og_outputs *whole,
                         const og_outputs *second, og_outputs *out) {
  if (whole->count != out->count || second->count != out->count) return false;
  for (int32_t i = 0; i < out->count; ++i)
    if (!output_join(j, &whole->array[i], i, second, out)) return false;
  return true;
}

// --- One try -----------------------------------------------------------------

typedef enum outcome { FAILED, HELD, BROKEN } outcome;

// The first part's results say the same as the second's where both have the
// whole.
static bool same_differs(const joined *j, const og_outputs *a,
                         const og_outputs *b, og_verdict *out_verdict) {
  int32_t axis;
  if (j->cut->join != OG_JOIN_SAME) return false;
  for (int32_t i = 0; i < a->count && i < b->count; ++i)
    if (output_axis(j, a, i, &axis) && axis == NONE &&
        og_arrays_differ(&b->array[i], &a->array[i], -1, out_verdict))
      return true;
  return false;
}

static outcome compare(const joined *j, const og_outputs *whole,
                       og_outputs *first, const og_outputs *second,
                       og_verdict *out_verdict) {
  *out_verdict = (og_verdict){.differs = false};
  if (same_differs(j, first, second, out_verdict)) return BROKEN;
  if (!outputs_join(j, whole, second, first)) return FAILED;
  *out_verdict = og_outputs_compare(j->trial->op, first, whole, -1);
  return out_verdict->differs && !og_is_border(out_verdict) ? BROKEN : HELD;
}

static outcome try_once(joined *j, og_verdict *out_verdict) {
  og_outputs whole, first, second;
  outcome found = FAILED;
  if (!og_run_quietly(j->trial, &j->whole, &j->inputs, &whole)) return FAILED;
  if (part_run(j, 0, &first)) {
    if (part_run(j, 1, &second)) {
      found = compare(j, &whole, &first, &second, out_verdict);
      og_outputs_reset(&second);
    }
    og_outputs_reset(&first);
  }
  og_outputs_reset(&whole);
  return found;
}

// Whether each of several calls differs: one alone may be a sum whose terms
// cancel.
static bool is_broken(joined *j, og_verdict *out_verdict) {
  bool is_all = true;
  for (int32_t i = 0; is_all && i < TRIES; ++i) {
    j->whole.seed = og_seed_mix(j->part.seed, 0x70 + (uint64_t)i);
    j->whole.float_values = OG_FLOAT_NORMAL;
    if (!og_inputs_fill(&j->inputs, &j->whole)) return false;
    is_all = try_once(j, out_verdict) == BROKEN;
    og_inputs_reset(&j->inputs);
  }
  return is_all;
}

// --- The probe ---------------------------------------------------------------

static bool is_excepted(const og_sample *s, const og_cut *cut) {
  if (cut->unless_attr < 0) return false;
  const og_attr *attr = &s->attr[cut->unless_attr];
  return attr->kind == OG_ATTR_STR && strcmp(attr->s, cut->unless_text) == 0;
}

// A sum of parts that were rounded to a narrow type is not the rounded sum.
static bool is_narrow(const og_trial *trial, const og_cut *cut) {
  if (cut->join <= OG_JOIN_SAME) return false;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    if (trial->sample.is_given[t] && og_is_floating(trial->sample.type[t]) &&
        trial->sample.type[t].bits < 32)
      return true;
  return false;
}

static void report(const joined *j, const og_verdict *verdict) {
  const og_decl *decl = j->trial->op->decl;
  char dims[120];
  og_cut_write(decl, j->cut, dims, sizeof dims);
  og_tell_shown(&j->whole, NULL);
  og_tell_finding(j->trial->op, OPGRAFT_RULE_DISAGREES, false, verdict->name,
                  "two parts along %s, joined as .reduce says, give another "
                  "result than the whole: %s",
                  dims, verdict->text);
}

void og_probe_joined(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (decl->cut_count == 0 || !og_is_comparable(trial) ||
      og_has_flag(trial, OG_RANDOM | OG_SIDE_EFFECT))
    return;
  joined *j = calloc(1, sizeof *j);
  if (j == NULL) return;
  for (int32_t i = 0; i < decl->cut_count; ++i) {
    og_verdict verdict;
    *j = (joined){.trial = trial, .cut = &decl->cuts[i], .part = trial->sample};
    if (is_excepted(&trial->sample, j->cut) || is_narrow(trial, j->cut) ||
        !dims_choose(j) || !sizes_set(j))
      continue;
    og_tell_shown(&j->whole, NULL);  // of a crash
    if (is_broken(j, &verdict) && og_trial_is_steady(trial))
      report(j, &verdict);
  }
  og_tell_shown(&trial->sample, &trial->inputs);
  free(j);
}

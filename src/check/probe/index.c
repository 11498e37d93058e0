// SPDX-License-Identifier: Apache-2.0
// Probes of indices out of range.
//
// On the CPU a kernel that takes one reaches an unreadable page, and crashes.
// On a device it reaches the bytes beside a tensor: there are so many that it
// stays among them, and they show it.

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"
#include "decl/parse/expr.h"

enum { FAR = 30000, FAR_BELOW = -5000 };
enum { AROUND_BYTES_MAX = 1 << 20, OTHER_REDZONE = 0x5b };

static bool is_index(const og_decl *decl, int32_t t, const og_array *a) {
  return a->data != NULL && a->type.code == OG_CODE_INT && a->type.bits >= 32 &&
         decl->types[t].same_as < 0;
}

static void index_set(og_array *a, int64_t i, int64_t value) {
  og_value_set(a->type, a->data + (size_t)i * og_dtype_bytes(a->type), 0,
               (double)value);
}

// An index is one into another argument, or below an int that is given.
static bool may_have_index(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  bool has_bound = decl->tensor_count >= 2;
  for (int32_t k = 0; k < decl->attr_count; ++k)
    has_bound |= trial->sample.attr[k].kind == OG_ATTR_INT;
  return trial->has_base && trial->forward == NULL && has_bound;
}

// --- A run -------------------------------------------------------------------

static int64_t array_bytes(const og_array *a) {
  return a->data == NULL ? 0 : a->count * (int64_t)og_dtype_bytes(a->type);
}

// How many times its own size the bytes on each side of a buffer have to be for
// an index up to this one; 0: that is too much memory.
static int32_t reach_of(const og_trial *trial, int64_t index) {
  int64_t bytes = 1;
  for (int32_t t = 0; t < trial->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      bytes += array_bytes(&trial->inputs.tensor[t][e]);
  for (int32_t i = 0; i < trial->base.count; ++i)
    bytes += array_bytes(&trial->base.array[i]);
  const int64_t most = AROUND_BYTES_MAX / bytes;
  return index < most ? (int32_t)index + 1 : 0;
}

// Whether the results change with the bytes beside the tensors.
static bool depends_on_beside(og_trial *trial, const og_inputs *inputs,
                              og_mode mode, const og_outputs *out) {
  og_outputs other;
  mode.redzone = OTHER_REDZONE;
  if (!og_is_comparable(trial) ||
      og_trial_run(trial, &trial->sample, inputs, &mode, &other) != OG_RAN)
    return false;
  const bool differs = og_outputs_compare(trial->op, &other, out, 0).differs;
  og_outputs_reset(&other);
  return differs;
}

// A run with indices out of range, none of which is larger than `index` in
// size. *out_is_stray: the kernel touched memory beside its own; the CPU's
// crashes there.
static og_ran run_wild(og_trial *trial, const og_inputs *inputs, int64_t index,
                       bool is_quiet, og_outputs *out, bool *out_is_stray) {
  og_mode mode = og_mode_plain;
  *out_is_stray = false;
  mode.is_quiet = is_quiet;
  if (trial->device == NULL)
    return og_trial_run(trial, &trial->sample, inputs, &mode, out);
  mode.is_quiet = true;
  mode.reach = reach_of(trial, index);
  if (mode.reach == 0) return OG_RAN_FAILED;
  const og_ran ran = og_trial_run(trial, &trial->sample, inputs, &mode, out);
  *out_is_stray = ran == OG_RAN
                      ? depends_on_beside(trial, inputs, mode, out)
                      : ran == OG_RAN_WRONG && trial->refusal_status == OG_OK;
  return ran;
}

// --- All indices -------------------------------------------------------------

// What indices out of range are: on both sides in turn, all on one. A kernel
// that looks at some of them only may refuse one of these.
typedef enum far_side { FAR_BOTH, FAR_ABOVE, FAR_UNDER, FAR_SIDES } far_side;

typedef struct range {
  int64_t below;
  int64_t above;
} range;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Values that are out of any range: far, or, on a device, as near as they may
// be.
static range range_outside(const og_trial *trial) {
  const og_sample *s = &trial->sample;
  int64_t largest = 0;
  if (trial->device == NULL) return (range){FAR_BELOW, FAR};
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      for (int32_t d = 0; og_sample_has(s, t, e) && d < s->shape[t][e].rank;
           ++d)
        largest = larger(largest, s->shape[t][e].size[d]);
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k)
    if (s->attr[k].kind == OG_ATTR_INT) largest = larger(largest, s->attr[k].i);
  return (range){-2, largest < FAR ? largest + 1 : FAR};
}

static int64_t value_outside(const range *r, far_side side, int64_t i) {
  const bool is_above = side == FAR_BOTH ? i % 2 == 0 : side == FAR_ABOVE;
  return is_above ? r->above : r->below;
}

// Sets all indices; false where there is none.
static bool set_outside(og_inputs *inputs, const og_decl *decl, const range *r,
                        far_side side) {
  bool any = false;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs->tensor[t][e];
      if (!is_index(decl, t, a)) continue;
      any |= a->count > 0;
      for (int64_t i = 0; i < a->count; ++i)
        index_set(a, i, value_outside(r, side, i));
    }
  return any;
}

static void tell_stray(const og_trial *trial, const char *text) {
  og_tell_finding(trial->op, OPGRAFT_UNCHECKED_INDEX,
                  og_sample_has_index_hazard(&trial->sample), "", "%s", text);
}

// All indices out of range; OG_RAN_FAILED: there is none.
static og_ran run_outside(og_trial *trial, const range *r, far_side side) {
  og_inputs inputs;
  og_outputs out;
  bool is_stray = false;
  og_ran ran = OG_RAN_FAILED;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return ran;
  if (set_outside(&inputs, trial->op->decl, r, side)) {
    og_tell_index_far(&trial->sample, &inputs);
    ran = run_wild(trial, &inputs, larger(r->above, -r->below), true, &out,
                   &is_stray);
    if (is_stray && og_trial_is_steady(trial))
      tell_stray(trial,
                 "with an index out of range the kernel touches memory that "
                 "is not its own");
    og_tell_shown(&trial->sample, &trial->inputs);
  }
  if (ran == OG_RAN) og_outputs_reset(&out);
  og_inputs_reset(&inputs);
  return is_stray ? OG_RAN_WRONG : ran;
}

enum { EDGES_MAX = 12, PLACES = 3 };

// Values beside a range: one behind each dim and each int that is given, one
// before 0, and those outside of any.
static int32_t edge_values(const og_trial *trial, const range *outside,
                           int64_t out[EDGES_MAX]) {
  const og_sample *s = &trial->sample;
  int32_t count = 0;
  out[count++] = outside->above;
  out[count++] = outside->below;
  out[count++] = -1;
  for (int32_t d = 0; d < s->op->decl->dim_count && count < EDGES_MAX; ++d)
    if (s->op->decl->dims[d].kind == OG_DIM_SIZE && s->dim[d] > 0)
      out[count++] = s->dim[d];
  for (int32_t k = 0; k < s->op->decl->attr_count && count < EDGES_MAX; ++k)
    if (s->attr[k].kind == OG_ATTR_INT && s->attr[k].i > 0)
      out[count++] = s->attr[k].i;
  return count;
}

// On the CPU a crash is the finding; the parent knows the probe.
void og_probe_index_range(og_trial *trial) {
  const range outside = range_outside(trial);
  int64_t values[EDGES_MAX];
  if (!may_have_index(trial)) return;
  if (trial->device == NULL) {
    run_outside(trial, &outside, FAR_BOTH);
    return;
  }
  const int32_t count = edge_values(trial, &outside, values);
  for (int32_t k = 0; k < count; ++k) {
    const range same = {values[k], values[k]};
    if (run_outside(trial, &same, FAR_BOTH) == OG_RAN_WRONG) return;
  }
}

// --- One index ---------------------------------------------------------------

// What a kernel does with an index at one place.
typedef enum index_use {
  INDEX_UNKNOWN,  // it takes it, and nothing depends on it
  INDEX_TAKEN,
  INDEX_REFUSED,
  INDEX_STRAY,  // it takes it, and touches memory beside its own
} index_use;

static index_use try_index(og_trial *trial, int32_t t, int64_t element,
                           int64_t value) {
  og_inputs inputs;
  og_outputs out;
  bool is_stray;
  index_use use = INDEX_UNKNOWN;
  if (!og_inputs_copy(&inputs, &trial->inputs)) return use;
  index_set(&inputs.tensor[t][0], element, value);
  og_tell_shown(&trial->sample, &inputs);
  const og_ran ran = run_wild(trial, &inputs, value < 0 ? -value : value, false,
                              &out, &is_stray);
  if (ran == OG_RAN_REFUSED) use = INDEX_REFUSED;
  if (ran == OG_RAN) {
    if (og_is_comparable(trial) &&
        og_outputs_compare(trial->op, &out, &trial->base, 0).differs)
      use = INDEX_TAKEN;
    og_outputs_reset(&out);
  }
  og_inputs_reset(&inputs);
  return is_stray ? INDEX_STRAY : use;
}

// Where `where` says the ranges of others, one of which it says none has no
// range that holds at every place: a position in a request, by its length.
static bool is_range_unsaid(const og_decl *decl, int32_t t) {
  return decl->range_count > 0 && og_value_range_of(decl, t) == NULL;
}

// One value at several places. An index that is taken at one of them and
// refused at another is in range by its place: a check of the whole tensor
// instead of its row. Where indices have to be in order, places do differ.
// False where the kernel touched what is not its own, which is told.
static bool try_edge(og_trial *trial, int32_t t, const int64_t places[PLACES],
                     int64_t value) {
  const og_decl *decl = trial->op->decl;
  int64_t taken = -1, refused = -1;
  for (int32_t i = 0; i < PLACES; ++i) {
    const index_use use = try_index(trial, t, places[i], value);
    if (use == INDEX_TAKEN) taken = places[i];
    if (use == INDEX_REFUSED) refused = places[i];
    if (use != INDEX_STRAY || !og_trial_is_steady(trial)) continue;
    tell_stray(trial,
               "the kernel refuses indices that are far out of range, but not "
               "every one that is: it touches memory that is not its own");
    return false;
  }
  const og_index_values drawn = trial->sample.index_values;
  if (taken < 0 || refused < 0 ||
      (drawn != OG_INDEX_RANDOM && drawn != OG_INDEX_DISTINCT) ||
      og_has_fitting_integers(decl, t) || is_range_unsaid(decl, t) ||
      !og_trial_is_steady(trial))
    return true;
  og_tell_finding(trial->op, OPGRAFT_UNCHECKED_INDEX, false,
                  decl->params[decl->tensor_params[t]].name,
                  "%lld is refused at element %lld, and taken at element %lld",
                  (long long)value, (long long)refused, (long long)taken);
  return true;
}

// A kernel that refuses indices is to refuse each that is out of range: the
// one just behind it, and in every place. A crash here is the finding as well.
void og_probe_index_edge(og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  const far_side side = (far_side)(trial->sample.seed % FAR_SIDES);
  const range outside = range_outside(trial);
  int64_t values[EDGES_MAX];
  if (!may_have_index(trial) ||
      run_outside(trial, &outside, side) != OG_RAN_REFUSED)
    return;
  const int32_t count = edge_values(trial, &outside, values);
  bool goes_on = true;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_array *a = &trial->inputs.tensor[t][0];
    if (!is_index(decl, t, a) || a->count == 0) continue;
    const int64_t places[PLACES] = {0, a->count / 2, a->count - 1};
    for (int32_t k = 0; k < count && goes_on; ++k)
      goes_on = try_edge(trial, t, places, values[k]);
  }
  og_tell_shown(&trial->sample, &trial->inputs);
}

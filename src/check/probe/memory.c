// SPDX-License-Identifier: Apache-2.0
// Probes of what a kernel touches: bounds, poison, arguments, layouts.

#include <string.h>

#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/trial.h"
#include "check/sample/value.h"
#include "decl/parse/expect.h"

// The plain run was made when the trial began: nothing is left to do.
void og_probe_base(og_trial *trial) { (void)trial; }

// The kernel reads of in, out, attr and dim only what the declaration has.
void og_probe_arrays(og_trial *trial) {
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  mode.guards_arrays = true;
  og_trial_differs(trial, &mode, -1, &verdict, NULL);
}

void og_probe_left(og_trial *trial) {
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  mode.is_left = true;
  if (!og_trial_differs(trial, &mode, -1, &verdict, NULL) ||
      !og_is_comparable(trial))
    return;
  // The same call at another place: what differs is the alignment, or what
  // lies around the arguments.
  og_mode again = og_mode_plain;
  og_verdict second;
  if (og_trial_differs(trial, &again, -1, &second, NULL) ||
      !og_trial_is_steady(trial))
    return;
  og_tell_finding(trial->op, OPGRAFT_ALIGNMENT_ASSUMED, false, verdict.name,
                  "the result depends on where in a page the arguments lie: "
                  "%s",
                  verdict.text);
}

// --- Poison ------------------------------------------------------------------

enum { OTHER_POISON = 0x5b, ZERO_POISON = 0 };

static bool is_poison(const char *element, size_t bytes, int poison) {
  for (size_t i = 0; i < bytes; ++i)
    if ((uint8_t)element[i] != poison) return false;
  return true;
}

// Elements that hold the poison of all runs were never written. A sum with
// the poison may look like it in two of them, but not in three.
static int64_t unwritten(const og_array *a, const og_array *b,
                         const og_array *c, int64_t *out_first) {
  const size_t bytes = og_dtype_bytes(a->type);
  int64_t count = 0;
  for (int64_t i = 0; i < a->count; ++i) {
    const size_t at = (size_t)i * bytes;
    if (!is_poison(a->data + at, bytes, og_mode_plain.poison) ||
        !is_poison(b->data + at, bytes, OTHER_POISON) ||
        !is_poison(c->data + at, bytes, ZERO_POISON))
      continue;
    if (count++ == 0) *out_first = i;
  }
  return count;
}

static bool report_unwritten(og_trial *trial, const og_outputs *other,
                             const og_outputs *zero) {
  char name[64];
  for (int32_t i = 0; i < other->count && i < zero->count; ++i) {
    const og_array *a = &trial->base.array[i];
    const og_array *b = &other->array[i];
    const og_array *c = &zero->array[i];
    int64_t first = 0;
    if (other->role[i] != OG_ROLE_RESULT || a->count != b->count ||
        a->count != c->count)
      continue;
    const int64_t count = unwritten(a, b, c, &first);
    if (count == 0) continue;
    og_name_of(trial->op, other->role[i], other->index[i], other->entry[i],
               name, sizeof name);
    og_tell_finding(trial->op, OPGRAFT_OUTPUT_NOT_WRITTEN, false, name,
                    "%lld of %lld element%s not written, the first is element "
                    "%lld",
                    (long long)count, (long long)a->count,
                    a->count == 1 ? " is" : "s are", (long long)first);
    return true;
  }
  return false;
}

static void see_poison(og_trial *trial, const og_mode *mode, int32_t kind,
                       const char *argument, const char *what) {
  og_verdict verdict;
  if (!og_is_comparable(trial) ||
      !og_trial_differs(trial, mode, 0, &verdict, NULL) ||
      !og_trial_is_steady(trial))
    return;
  trial->is_settled = true;
  og_tell_finding(trial->op, kind, false,
                  argument != NULL ? argument : verdict.name,
                  "the result depends on what %s held before: %s %s", what,
                  verdict.name, verdict.text);
}

static bool has_unwritten(og_trial *trial) {
  og_mode mode = og_mode_plain;
  og_outputs other, zero;
  bool found = false;
  mode.poison = OTHER_POISON;
  if (og_trial_run(trial, &trial->sample, &trial->inputs, &mode, &other) !=
      OG_RAN)
    return false;
  mode.poison = ZERO_POISON;
  if (og_trial_run(trial, &trial->sample, &trial->inputs, &mode, &zero) ==
      OG_RAN) {
    found = report_unwritten(trial, &other, &zero);
    og_outputs_reset(&zero);
  }
  og_outputs_reset(&other);
  return found;
}

void og_probe_poison(og_trial *trial) {
  if (!trial->has_base) return;
  if (has_unwritten(trial)) {
    trial->is_settled = true;
    return;
  }
  static const uint16_t others[] = {OTHER_POISON, ZERO_POISON, OG_POISON_SMALL};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    og_mode mode = og_mode_plain;
    mode.poison = others[i];
    see_poison(trial, &mode, OPGRAFT_OUTPUT_READ, NULL, "its memory");
    mode = og_mode_plain;
    mode.workspace_poison = others[i];
    see_poison(trial, &mode, OPGRAFT_WORKSPACE_UNINITIALISED, "workspace",
               "the workspace");
    mode = og_mode_plain;
    mode.stack_poison = others[i];
    see_poison(trial, &mode, OPGRAFT_UNINITIALISED, NULL, "the stack");
  }
  if (trial->device == NULL) return;
  og_mode mode = og_mode_plain;
  mode.redzone = OTHER_POISON;
  see_poison(trial, &mode, OPGRAFT_OUT_OF_BOUNDS_READ, NULL,
             "the memory beside the tensors");
}

// --- Arguments ---------------------------------------------------------------

// A mutated argument that this call left as it was: a fault where all calls do.
static void see_unchanged(og_trial *trial) {
  const opgraft_op *op = trial->op;
  for (int32_t i = 0; i < trial->base.count; ++i) {
    const og_array *now = &trial->base.array[i];
    char name[64];
    if (trial->base.role[i] != OG_ROLE_MUTATED) continue;
    const og_array *before =
        &trial->inputs.tensor[trial->base.index[i]][trial->base.entry[i]];
    const bool is_unchanged =
        og_compare_bits(now->type, now->data, before->data, now->count).count ==
        0;
    og_name_of(op, trial->base.role[i], trial->base.index[i],
               trial->base.entry[i], name, sizeof name);
    og_tell_expect(op, OG_EXPECT_UNMUTATED, name, is_unchanged);
    if (is_unchanged)
      og_tell_finding(op, OPGRAFT_NEVER_MUTATED,
                      og_decl_expects(op->decl, OG_EXPECT_UNMUTATED, name),
                      name,
                      "it is declared as mutated, but no call changed it");
  }
}

void og_probe_read_only(og_trial *trial) {
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  if (trial->has_base) see_unchanged(trial);
  mode.is_read_only = true;
  og_trial_differs(trial, &mode, -1, &verdict, NULL);
}

static void layout_probe(og_trial *trial, const og_mode *mode,
                         const char *what) {
  og_verdict verdict;
  if (!og_is_comparable(trial)) return;
  if (og_trial_differs(trial, mode, -1, &verdict, NULL) &&
      og_trial_is_steady(trial))
    og_tell_finding(trial->op, OPGRAFT_LAYOUT_DEPENDENT, false, verdict.name,
                    "%s: %s %s", what, verdict.name, verdict.text);
}

void og_probe_offset(og_trial *trial) {
  og_mode mode = og_mode_plain;
  mode.is_left = true;
  mode.has_offset = true;
  layout_probe(trial, &mode, "with a byte_offset the result differs");
}

void og_probe_loose(og_trial *trial) {
  og_mode mode = og_mode_plain;
  mode.layout = OG_LAYOUT_LOOSE;
  layout_probe(trial, &mode,
               "where a dim of size 1 has another stride the result differs");
}

static bool takes_strides(const og_decl *decl) {
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (decl->strides[t] != OG_STRIDES_CONTIGUOUS) return true;
  return false;
}

void og_probe_strided(og_trial *trial) {
  if (!takes_strides(trial->op->decl)) return;
  for (uint64_t i = 0; i < 3; ++i) {
    og_mode mode = og_mode_plain;
    mode.layout = OG_LAYOUT_STRIDED;
    mode.seed = og_seed_mix(trial->sample.seed, i);
    mode.is_left = i == 1;
    mode.has_offset = i == 1;
    mode.is_packed = i == 2;
    layout_probe(trial, &mode, "with strided arguments the result differs");
  }
}

void og_probe_expanded(og_trial *trial) {
  if (!takes_strides(trial->op->decl) || !og_is_comparable(trial)) return;
  og_inputs equal;
  og_outputs dense, expanded;
  int32_t dim[OPGRAFT_ARG_MAX];
  og_mode mode = og_mode_plain;
  mode.seed = og_seed_mix(trial->sample.seed, 77);
  if (!og_inputs_copy(&equal, &trial->inputs)) return;
  if (!og_inputs_expand(&equal, &trial->sample, mode.seed, dim)) goto done;
  if (og_trial_run(trial, &trial->sample, &equal, &mode, &dense) != OG_RAN)
    goto done;
  mode.layout = OG_LAYOUT_EXPANDED;
  if (og_trial_run(trial, &trial->sample, &equal, &mode, &expanded) == OG_RAN) {
    const og_verdict verdict =
        og_outputs_compare(trial->op, &expanded, &dense, -1);
    if (verdict.differs)
      og_tell_finding(trial->op, OPGRAFT_LAYOUT_DEPENDENT, false, verdict.name,
                      "with an argument of stride 0 the result differs: %s %s",
                      verdict.name, verdict.text);
    og_outputs_reset(&expanded);
  }
  og_outputs_reset(&dense);
done:
  og_inputs_reset(&equal);
}

// A host writes in place only where the result has the argument's shape and
// type.
static bool may_be_in_place(const og_trial *trial) {
  const og_decl *decl = trial->op->decl;
  if (decl->inplace_param < 0 || trial->base.count == 0) return false;
  const og_array *x =
      &trial->inputs.tensor[decl->params[decl->inplace_param].index][0];
  const og_array *y = &trial->base.array[0];
  return x->data != NULL && og_dtype_equal(x->type, y->type) &&
         og_dims_equal(&x->sizes, &y->sizes);
}

void og_probe_in_place(og_trial *trial) {
  if (!og_is_comparable(trial) || !may_be_in_place(trial)) return;
  og_mode mode = og_mode_plain;
  og_verdict verdict;
  mode.is_in_place = true;
  if (og_trial_differs(trial, &mode, -1, &verdict, NULL))
    og_tell_finding(
        trial->op, OPGRAFT_WRONG_IN_PLACE, false,
        trial->op->decl->params[trial->op->decl->inplace_param].name,
        "where the result overwrites the argument, %s %s", verdict.name,
        verdict.text);
}

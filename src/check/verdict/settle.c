// SPDX-License-Identifier: Apache-2.0
// The findings that stay: what only follows from others goes, what all calls
// together show is added, faults come first, and causes before what they cause.

#include "check/verdict/settle.h"

#include <stdio.h>
#include <string.h>

#include "check/verdict/effects.h"
#include "check/verdict/expect.h"
#include "check/verdict/finding.h"

static bool has(const og_findings *all, int32_t kind) {
  for (int32_t i = 0; i < all->count; ++i)
    if (all->entry[i].kind == kind && !all->entry[i].is_note) return true;
  return false;
}

// Comparisons that mean nothing where a result changes by itself.
static bool is_comparison(int32_t kind) {
  return kind == OPGRAFT_THREAD_DEPENDENT || kind == OPGRAFT_THREAD_RACE ||
         kind == OPGRAFT_CHUNK_ORDER_DEPENDENT ||
         kind == OPGRAFT_LAYOUT_DEPENDENT ||
         kind == OPGRAFT_ALIGNMENT_ASSUMED || kind == OPGRAFT_WRONG_IN_PLACE ||
         kind == OPGRAFT_WRONG_BATCH_RULE || kind == OPGRAFT_MIXED_PACK ||
         kind == OPGRAFT_WRONG_BROADCAST ||
         kind == OPGRAFT_WRONG_VALUES_ACROSS_DTYPES ||
         kind == OPGRAFT_WRONG_VALUES_ACROSS_KERNELS ||
         kind == OPGRAFT_WRONG_GRADIENT || kind == OPGRAFT_MISSING_GRADIENT;
}

// Nobody has set a part of the result.
static bool is_unset(int32_t kind) {
  return kind == OPGRAFT_OUTPUT_NOT_WRITTEN || kind == OPGRAFT_OUTPUT_READ ||
         kind == OPGRAFT_UNINITIALISED ||
         kind == OPGRAFT_WORKSPACE_UNINITIALISED;
}

// What a result holds is chance: it is not the kernel's own memory, or nobody
// has set it, or it lay elsewhere.
static bool is_chance(int32_t kind) {
  return kind == OPGRAFT_OUT_OF_BOUNDS_READ || kind == OPGRAFT_OUTPUT_ALIAS ||
         kind == OPGRAFT_KEPT_POINTER || kind == OPGRAFT_ALIGNMENT_ASSUMED ||
         is_unset(kind);
}

// Comparisons that fail by chance, too; for types, layouts and gradients the
// result is computed in another way each time, and a fault of its own likely.
static bool is_of_chance(int32_t kind) {
  return kind == OPGRAFT_THREAD_RACE || kind == OPGRAFT_THREAD_DEPENDENT ||
         kind == OPGRAFT_CHUNK_ORDER_DEPENDENT ||
         kind == OPGRAFT_WRONG_BATCH_RULE || kind == OPGRAFT_MIXED_PACK ||
         kind == OPGRAFT_SIZE_DEPENDENT || kind == OPGRAFT_UNUSED_END;
}

// Whether what the cause makes of a result may look like `f`.
static bool is_by_chance(const og_finding *f, const og_finding *cause) {
  if (!is_chance(cause->kind) || !is_of_chance(f->kind)) return false;
  // What is found in more calls has another cause in some of them. Crashes do
  // not compare so: their probe is not tried again.
  if (is_unset(cause->kind)) return f->count <= cause->count;
  // The values are compared with memory that is aligned.
  const bool is_of_values =
      f->kind == OPGRAFT_SIZE_DEPENDENT || f->kind == OPGRAFT_UNUSED_END;
  return !is_of_values || cause->kind != OPGRAFT_ALIGNMENT_ASSUMED;
}

// On a device, where memory is used again at once, a write that comes too late
// lands in another call's.
static bool is_of_late_write(int32_t kind) {
  return kind == OPGRAFT_OUT_OF_BOUNDS_WRITE ||
         kind == OPGRAFT_UNDECLARED_MUTATION ||
         kind == OPGRAFT_WORKSPACE_OVERRUN ||
         kind == OPGRAFT_OUTPUT_NOT_WRITTEN || kind == OPGRAFT_OUTPUT_READ ||
         kind == OPGRAFT_NOT_REPEATABLE ||
         kind == OPGRAFT_WRONG_VALUES_ACROSS_KERNELS;
}

// Whether `f` follows from `cause`, another finding, when something else is
// tried. What is found in the backward operator does not follow from what the
// operator does, nor the other way round.
static bool is_consequence(const og_finding *f, const og_finding *cause) {
  if (cause->is_note || strcmp(f->op, cause->op) != 0) return false;
  if (is_by_chance(f, cause)) return true;
  switch (cause->kind) {
    case OPGRAFT_OUTPUT_READ:  // adding zero looks like not writing
      return f->kind == OPGRAFT_OUTPUT_NOT_WRITTEN;
    case OPGRAFT_NOT_REPEATABLE:  // a call counter does not read memory
      return (f->kind == OPGRAFT_OUTPUT_READ ||
              f->kind == OPGRAFT_UNINITIALISED ||
              f->kind == OPGRAFT_WORKSPACE_UNINITIALISED) &&
             f->count < cause->count;
    case OPGRAFT_KEPT_POINTER:  // whatever lies there by then
      return f->kind == OPGRAFT_NOT_REPEATABLE;
    case OPGRAFT_DATA_RACE:
      return f->kind == OPGRAFT_THREAD_DEPENDENT ||
             f->kind == OPGRAFT_CHUNK_ORDER_DEPENDENT;
    case OPGRAFT_THREAD_RACE:
      return f->kind == OPGRAFT_DATA_RACE &&
             strcmp(f->name, "static data") == 0;
    case OPGRAFT_WRONG_BATCH_RULE:
      return f->kind == OPGRAFT_MIXED_PACK;
    default:
      return false;
  }
}

static bool follows(const og_findings *all, const og_finding *f) {
  const bool is_erratic = has(all, OPGRAFT_NOT_REPEATABLE) ||
                          has(all, OPGRAFT_UNINITIALISED) ||
                          has(all, OPGRAFT_WORKSPACE_UNINITIALISED) ||
                          has(all, OPGRAFT_OUTPUT_READ);
  if (is_erratic && is_comparison(f->kind) && f->count < 3) return true;
  if (f->kind == OPGRAFT_NEVER_MUTATED &&
      (all->is_stopped || f->count < all->ran_count))
    return true;
  if (all->device[0] != '\0' && has(all, OPGRAFT_KEPT_POINTER) &&
      is_of_late_write(f->kind))
    return true;
  for (int32_t i = 0; i < all->count; ++i)
    if (is_consequence(f, &all->entry[i])) return true;
  // Nothing is known only if nothing was known at most points, or at the one
  // that was asked for.
  return f->kind == OPGRAFT_GRADIENT_UNSURE && f->count < 4 &&
         all->call_count > 1;
}

// Kinds from cause to consequence: memory that is not the kernel's, state that
// calls share, memory that nobody set, shares of a loop, strides, what the
// declaration says, values, gradients. Of one rank the first found comes first.
static const uint8_t rank_of[OPGRAFT_FINDING_COUNT] = {
    [OPGRAFT_OUT_OF_BOUNDS_WRITE] = 1,
    [OPGRAFT_OUT_OF_BOUNDS_READ] = 1,
    [OPGRAFT_WORKSPACE_OVERRUN] = 1,
    [OPGRAFT_BOUND_EXCEEDED] = 1,
    [OPGRAFT_OUTPUT_ALIAS] = 1,
    [OPGRAFT_KEPT_POINTER] = 1,
    [OPGRAFT_UNDECLARED_MUTATION] = 1,
    [OPGRAFT_UNCHECKED_INDEX] = 1,
    [OPGRAFT_CRASH] = 1,
    [OPGRAFT_TIMEOUT] = 1,
    [OPGRAFT_MEMORY_LIMIT] = 1,
    [OPGRAFT_MEMORY_LEAK] = 1,
    [OPGRAFT_BAD_STATUS] = 1,
    [OPGRAFT_NOT_SAMPLED] = 1,
    [OPGRAFT_NEVER_RAN] = 1,
    [OPGRAFT_RULE_DISAGREES] = 1,
    [OPGRAFT_THREAD_RACE] = 2,
    [OPGRAFT_NOT_REPEATABLE] = 2,
    [OPGRAFT_STATIC_DATA] = 2,
    [OPGRAFT_FLOAT_ENVIRONMENT] = 2,
    [OPGRAFT_OUTPUT_NOT_WRITTEN] = 3,
    [OPGRAFT_OUTPUT_READ] = 3,
    [OPGRAFT_UNINITIALISED] = 3,
    [OPGRAFT_WORKSPACE_UNINITIALISED] = 3,
    [OPGRAFT_DATA_RACE] = 4,
    [OPGRAFT_CHUNK_ORDER_DEPENDENT] = 4,
    [OPGRAFT_THREAD_DEPENDENT] = 4,
    [OPGRAFT_ALIGNMENT_ASSUMED] = 5,
    [OPGRAFT_LAYOUT_DEPENDENT] = 5,
    [OPGRAFT_WRONG_IN_PLACE] = 5,
    [OPGRAFT_WRONG_ORDER] = 6,
    [OPGRAFT_MIXED_PACK] = 6,
    [OPGRAFT_WRONG_BATCH_RULE] = 6,
    [OPGRAFT_WRONG_BROADCAST] = 6,
    [OPGRAFT_NEVER_MUTATED] = 6,
    [OPGRAFT_UNTRUE_EXPECT] = 6,
    [OPGRAFT_STATIC_SHAPES] = 6,
    [OPGRAFT_REFUSED_CALLS] = 6,
    [OPGRAFT_UNUSED_ARGUMENT] = 7,
    [OPGRAFT_UNUSED_END] = 7,
    [OPGRAFT_SIZE_DEPENDENT] = 7,
    [OPGRAFT_NOT_FINITE] = 7,
    [OPGRAFT_WRONG_FORMULA] = 7,
    [OPGRAFT_WRONG_VALUES_ACROSS_DTYPES] = 7,
    [OPGRAFT_DIFFERS_FROM_REFERENCE] = 7,
    [OPGRAFT_WRONG_VALUES_ACROSS_KERNELS] = 7,
    [OPGRAFT_WRONG_GRADIENT] = 8,
    [OPGRAFT_GRADIENT_SHAPE] = 8,
    [OPGRAFT_MISSING_GRADIENT] = 8,
    [OPGRAFT_NO_GRADIENT] = 8,
    [OPGRAFT_GRADIENT_UNSURE] = 8,
};

static bool comes_before(const og_finding *a, const og_finding *b) {
  if (a->is_note != b->is_note) return b->is_note;
  return rank_of[a->kind] < rank_of[b->kind];
}

// All are judged before any goes: what goes may be a cause as well.
static void drop_followers(og_findings *all) {
  bool is_dropped[OG_FINDINGS_MAX];
  int32_t kept = 0;
  for (int32_t i = 0; i < all->count; ++i)
    is_dropped[i] = follows(all, &all->entry[i]);
  for (int32_t i = 0; i < all->count; ++i)
    if (!is_dropped[i]) all->entry[kept++] = all->entry[i];
  all->count = kept;
}

static void add_whole(og_findings *all, int32_t kind, bool is_note,
                      const char *text) {
  const og_found_at at = {.call_text = ""};
  og_findings_add(all, kind, is_note, all->op->decl->name, "", text, &at);
}

static void add_refusals(og_findings *all) {
  char text[520];
  if (all->call_count == 0) {
    add_whole(all, OPGRAFT_NOT_SAMPLED, false,
              all->undrawn[0] != '\0'
                  ? all->undrawn
                  : "no sizes were found for which its conditions hold");
    return;
  }
  if (all->ran_count == 0 && all->refused_count > 0 && all->count == 0) {
    snprintf(text, sizeof text,
             "the kernel refused all %d sampled calls: \"%.300s\"",
             all->refused_count, all->refusal);
    add_whole(all, OPGRAFT_NEVER_RAN, false, text);
    return;
  }
  for (int32_t i = 0; i < all->type_count; ++i) {
    // Where many calls are refused anyway, a type may be refused by chance.
    if (all->type[i].refused < all->type[i].drawn || all->type[i].drawn < 6 ||
        all->count > 0 || 2 * all->refused_count > all->call_count)
      continue;
    snprintf(text, sizeof text,
             "the kernel refused all %d sampled calls in %s: \"%.300s\"",
             all->type[i].drawn, all->type[i].name, all->refusal);
    add_whole(all, OPGRAFT_NEVER_RAN, false, text);
  }
  if (all->refused_count == 0) return;
  snprintf(text, sizeof text,
           "the kernel refused %d of %d sampled calls: \"%.300s\"",
           all->refused_count, all->call_count, all->refusal);
  add_whole(all, OPGRAFT_REFUSED_CALLS, true, text);
}

static void add_declaration_notes(og_findings *all) {
  const og_decl *decl = all->op->decl;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (decl->shapes[i].kind == OG_SHAPE_CALLBACK) {
      add_whole(all, OPGRAFT_STATIC_SHAPES, true,
                "the shape rule is a C callback: a graph that holds the "
                "operator has static shapes");
      break;
    }
}

void og_findings_settle(og_findings *all) {
  drop_followers(all);
  if (!all->is_stopped) {  // what all calls together show
    add_refusals(all);
    og_findings_add_effects(all);
    og_findings_add_untrue(all);
    drop_followers(all);
  }
  add_declaration_notes(all);
  for (int32_t i = 1; i < all->count; ++i)
    for (int32_t j = i;
         j > 0 && comes_before(&all->entry[j], &all->entry[j - 1]); --j) {
      const og_finding held = all->entry[j];
      all->entry[j] = all->entry[j - 1];
      all->entry[j - 1] = held;
    }
}

// SPDX-License-Identifier: Apache-2.0
// The findings that stay: what only follows from others goes, what all calls
// together show is added, faults come first.

#include "check/verdict/settle.h"

#include <stdio.h>

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

static bool follows(const og_findings *all, const og_finding *f) {
  const bool is_erratic = has(all, OPGRAFT_NOT_REPEATABLE) ||
                          has(all, OPGRAFT_UNINITIALISED) ||
                          has(all, OPGRAFT_WORKSPACE_UNINITIALISED) ||
                          has(all, OPGRAFT_OUTPUT_READ);
  if (is_erratic && is_comparison(f->kind) && f->count < 3) return true;
  // Adding zero to what was there looks like not writing it.
  if (f->kind == OPGRAFT_OUTPUT_NOT_WRITTEN && has(all, OPGRAFT_OUTPUT_READ))
    return true;
  if (f->kind == OPGRAFT_NEVER_MUTATED &&
      (all->is_stopped || f->count < all->ran_count))
    return true;
  // Nothing is known only if nothing was known at most points.
  return f->kind == OPGRAFT_GRADIENT_UNSURE && f->count < 4;
}

static void drop_followers(og_findings *all) {
  int32_t kept = 0;
  for (int32_t i = 0; i < all->count; ++i)
    if (!follows(all, &all->entry[i])) all->entry[kept++] = all->entry[i];
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
  }
  add_declaration_notes(all);
  // Faults first; otherwise in the order in which they were found.
  for (int32_t i = 1; i < all->count; ++i)
    for (int32_t j = i;
         j > 0 && all->entry[j - 1].is_note && !all->entry[j].is_note; --j) {
      const og_finding held = all->entry[j];
      all->entry[j] = all->entry[j - 1];
      all->entry[j - 1] = held;
    }
}

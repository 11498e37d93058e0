// SPDX-License-Identifier: Apache-2.0
// What `.expect` says, and what calls showed otherwise.

#include "check/verdict/expect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/run/record.h"
#include "check/verdict/finding.h"
#include "decl/parse/expect.h"

OG_PRINTF(3, 4)
static void add_untrue(og_findings *all, const og_expect *e, const char *format,
                       ...) {
  const og_found_at at = {.call_text = ""};
  char text[240];
  const int used =
      snprintf(text, sizeof text, ".expect says %s: ", og_expect_word(e->kind));
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, args);
  va_end(args);
  og_findings_add(all, OPGRAFT_UNTRUE_EXPECT, false, all->op->decl->name,
                  e->name, text, &at);
}

// "xs[]" and "xs[1]" are of xs.
static bool is_of(const char *entry, const char *name) {
  const size_t length = strcspn(entry, "[%~");
  return strlen(name) == length && memcmp(entry, name, length) == 0;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

// Whether other values of it were tried, and changed nothing.
static bool is_without_effect(const og_effects *ends, const char *name) {
  for (int32_t i = 0; i < ends->count; ++i)
    if (is_of(ends->entry[i].name, name))
      return ends->entry[i].used[OG_END_FIRST] == 0;
  return false;
}

// Calls that used the argument, or elements of it: by reading what no tensor
// holds, or by a result that changes with it. What only the backward operator
// reads is unused by this one.
static void see_unused(og_findings *all, const og_expect *e) {
  for (int32_t i = 0; i < all->uses.count; ++i)
    if (strcmp(all->uses.entry[i].name, e->name) == 0 &&
        all->uses.entry[i].used[OG_USE_OWN] > 0 &&
        !is_without_effect(&all->ends, e->name))
      add_untrue(all, e, "%d of %d calls read it",
                 (int)all->uses.entry[i].used[OG_USE_OWN],
                 (int)all->uses.entry[i].tried);
  for (int32_t i = 0; i < all->ends.count; ++i) {
    const int32_t *used = all->ends.entry[i].used;
    const int32_t most = larger(used[OG_END_FIRST],
                                larger(used[OG_END_NONE], used[OG_END_LAST]));
    if (is_of(all->ends.entry[i].name, e->name) && most > 0)
      add_untrue(all, e, "the result changed with it in %d of %d calls",
                 (int)most, (int)all->ends.entry[i].tried);
  }
}

static void see_unused_end(og_findings *all, const og_expect *e) {
  for (int32_t i = 0; i < all->ends.count; ++i) {
    const int32_t *used = all->ends.entry[i].used;
    if (is_of(all->ends.entry[i].name, e->name) && used[OG_END_FIRST] > 0 &&
        used[OG_END_NONE] > 0 && used[OG_END_LAST] > 0)
      add_untrue(all, e,
                 "its last element changed the result in %d of %d calls, and "
                 "so did the first, and those between",
                 (int)used[OG_END_LAST], (int)all->ends.entry[i].tried);
  }
}

// A result whose gradient the backward operator is given.
static void see_result_gradient(og_findings *all, const og_expect *e) {
  const og_decl *decl = all->op->decl;
  for (int32_t a = 0; a < decl->grad.arg_count; ++a) {
    char name[64];
    const opgraft_grad_arg *arg = &decl->grad.args[a];
    if (arg->source != OPGRAFT_GRAD_OF_RESULT) continue;
    og_result_name(decl, arg->index, name, sizeof name);
    if (strcmp(name, e->name) == 0)
      add_untrue(all, e, ".backward is given its gradient");
  }
}

// What one call contradicts, and what some call has to show.
static void see_told(og_findings *all, const og_expect *e, int32_t held,
                     int32_t tried) {
  if (e->kind == OG_EXPECT_UNMUTATED && held < tried)
    add_untrue(all, e, "%d of %d calls changed it", (int)(tried - held),
               (int)tried);
  if (held > 0 || tried < OG_TRIED_MIN) return;
  if (e->kind == OG_EXPECT_NO_GRADIENT)
    add_untrue(all, e, "its gradient was right in all of %d calls", (int)tried);
  if (e->kind == OG_EXPECT_NAN)
    add_untrue(all, e,
               "with a row hidden by the mask it had no NaN in %d calls",
               (int)tried);
  if (e->kind == OG_EXPECT_TYPE_DEPENDENT)
    add_untrue(all, e, "it was the same in all types in %d calls", (int)tried);
}

void og_findings_add_untrue(og_findings *all) {
  for (int32_t i = 0; i < all->op->decl->expect_count; ++i) {
    const og_expect *e = &all->op->decl->expects[i];
    if (e->kind == OG_EXPECT_UNUSED) see_unused(all, e);
    if (e->kind == OG_EXPECT_UNUSED_END) see_unused_end(all, e);
    if (e->kind == OG_EXPECT_NO_GRADIENT) see_result_gradient(all, e);
    const og_effects *told = &all->expects[e->kind];
    for (int32_t k = 0; k < told->count; ++k)
      if (strcmp(told->entry[k].name, e->name) == 0)
        see_told(all, e, told->entry[k].used[0], told->entry[k].tried);
  }
}

// SPDX-License-Identifier: Apache-2.0
// What follows from all calls together.

#include "check/verdict/settle.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check/run/axis_order.h"
#include "check/run/guard.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/verdict/finding.h"
#include "decl/parse/expect.h"

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

enum { TRIED_MIN = 8 };

// An argument that no call has read.
static void add_unused(og_findings *all) {
  char text[160];
  for (int32_t i = 0; i < all->uses.count; ++i) {
    if (all->uses.entry[i].tried < TRIED_MIN || all->uses.entry[i].used[0] > 0)
      continue;
    const og_found_at at = {.call_text = ""};
    snprintf(text, sizeof text, "none of %d calls read it",
             (int)all->uses.entry[i].tried);
    og_findings_add(all, OPGRAFT_UNUSED_ARGUMENT,
                    og_decl_expects(all->op->decl, OG_EXPECT_UNUSED,
                                    all->uses.entry[i].name),
                    all->op->decl->name, all->uses.entry[i].name, text, &at);
  }
}

// An element that has an effect as often as another one has it by chance in
// none of the calls only once in e^12 operators.
enum { EFFECTS_MIN = 6, CHANCE = 12 };

static bool is_never_used(const og_effects *uses, int32_t i, int32_t end,
                          int32_t other) {
  const int32_t tried = uses->entry[i].tried;
  const int32_t *used = uses->entry[i].used;
  if (used[end] > 0 || used[other] < EFFECTS_MIN) return false;
  const double without = (tried - used[other] + 0.5) / (tried + 1);
  return tried * log(without) < -CHANCE;
}

static void add_end(og_findings *all, int32_t i, int32_t end, int32_t other) {
  static const char *const places[] = {
      [OG_END_FIRST] = "first",
      [OG_END_NONE] = "every but the first and the last",
      [OG_END_LAST] = "last"};
  static const char *const others[] = {[OG_END_FIRST] = "the first",
                                       [OG_END_NONE] = "one between",
                                       [OG_END_LAST] = "the last"};
  const og_found_at at = {.call_text = ""};
  char name[64], text[200];
  const size_t length = strcspn(all->ends.entry[i].name, "[");
  const bool is_list = all->ends.entry[i].name[length] != '\0';
  snprintf(name, sizeof name, "%.*s", (int)length, all->ends.entry[i].name);
  snprintf(text, sizeof text,
           "its %s %s changed nothing in %d calls; %s did in %d of them",
           places[end], is_list ? "entry" : "element",
           (int)all->ends.entry[i].tried, others[other],
           (int)all->ends.entry[i].used[other]);
  og_findings_add(all, OPGRAFT_UNUSED_END,
                  og_decl_expects(all->op->decl, OG_EXPECT_UNUSED_END, name),
                  all->op->decl->name, name, text, &at);
}

enum { READS_MIN = 12 };

// The kernel reads it, and nothing depends on it.
static bool is_without_effect(const og_effects *uses, int32_t i) {
  const int32_t *used = uses->entry[i].used;
  return used[OG_END_FIRST] == 0 && used[OG_END_NONE] == 0 &&
         used[OG_END_LAST] == 0 && used[OG_END_READ] >= READS_MIN;
}

static void add_without_effect(og_findings *all, int32_t i) {
  const og_found_at at = {.call_text = ""};
  const char *name = all->ends.entry[i].name;
  char text[160];
  snprintf(text, sizeof text,
           "the kernel read it in %d calls, and no other value of it changed "
           "anything",
           (int)all->ends.entry[i].used[OG_END_READ]);
  og_findings_add(all, OPGRAFT_UNUSED_ARGUMENT,
                  og_decl_expects(all->op->decl, OG_EXPECT_UNUSED, name),
                  all->op->decl->name, name, text, &at);
}

// An end of an argument that nothing depends on, while places between matter;
// or the ends matter, and nothing between.
static void add_ends(og_findings *all) {
  static const int32_t pairs[][2] = {{OG_END_FIRST, OG_END_NONE},
                                     {OG_END_LAST, OG_END_NONE},
                                     {OG_END_NONE, OG_END_FIRST},
                                     {OG_END_NONE, OG_END_LAST}};
  for (int32_t i = 0; i < all->ends.count; ++i) {
    if (is_without_effect(&all->ends, i)) add_without_effect(all, i);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k) {
      if (!is_never_used(&all->ends, i, pairs[k][0], pairs[k][1])) continue;
      add_end(all, i, pairs[k][0], pairs[k][1]);
      break;
    }
  }
}

// "[T, topk]": the items as the rule has them, in another order.
static void order_text(const og_decl *decl, int32_t fresh, int32_t which,
                       char *out, size_t size) {
  const og_shape_rule *rule = &decl->shapes[fresh];
  const char *shape = decl->record->shape;
  int32_t order[OG_ORDER_ITEMS];
  size_t used = (size_t)snprintf(out, size, "[");
  og_order_get(rule->item_count, which, order);
  for (int32_t i = 0; i < rule->item_count && used < size; ++i) {
    const og_item *item = &rule->items[order[i]];
    used +=
        (size_t)snprintf(out + used, size - used, "%s%.*s", i > 0 ? ", " : "",
                         (int)(item->end - item->begin), shape + item->begin);
  }
  if (used < size) snprintf(out + used, size - used, "]");
}

enum { WRONG_MIN = 6 };

static void add_order(og_findings *all, int32_t fresh, int32_t which) {
  const og_found_at at = {.call_text = ""};
  const og_decl *decl = all->op->decl;
  char name[64], order[120], text[300];
  og_name_of(all->op, OG_ROLE_RESULT, fresh, 0, name, sizeof name);
  order_text(decl, fresh, which, order, sizeof order);
  snprintf(text, sizeof text,
           "where an argument changes, it changes as if its dims were %s in "
           "memory",
           order);
  og_findings_add(all, OPGRAFT_WRONG_ORDER, false, decl->name, name, text, &at);
}

static void add_orders(og_findings *all) {
  const og_decl *decl = all->op->decl;
  for (int32_t r = 0; r < decl->fresh_count; ++r) {
    const og_shape_rule *rule = &decl->shapes[r];
    bool is_told = false;
    for (int32_t i = 0; i < OG_ORDER_ITEMS && !is_told; ++i) {
      if (decl->record->shape == NULL || all->order[r][i].wrong < WRONG_MIN)
        continue;
      for (int32_t k = 1; k < og_order_count(rule->item_count) && !is_told; ++k)
        if (!(all->order[r][i].misfit >> k & 1u)) {
          add_order(all, r, k);
          is_told = true;
        }
    }
  }
}

// --- What is expected, and is not so -----------------------------------------

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
  const size_t length = strcspn(entry, "[");
  return strlen(name) == length && memcmp(entry, name, length) == 0;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

// Calls that used the argument, or elements of it: by reading what is no
// tensor, or by a result that changes with it.
static void see_unused(og_findings *all, const og_expect *e) {
  for (int32_t i = 0; i < all->uses.count; ++i)
    if (strcmp(all->uses.entry[i].name, e->name) == 0 &&
        all->uses.entry[i].used[0] > 0)
      add_untrue(all, e, "%d of %d calls read it",
                 (int)all->uses.entry[i].used[0],
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
  if (held > 0 || tried < TRIED_MIN) return;
  if (e->kind == OG_EXPECT_NO_GRADIENT)
    add_untrue(all, e, "its gradient was right in all of %d calls", (int)tried);
  if (e->kind == OG_EXPECT_NAN)
    add_untrue(all, e,
               "with a row hidden by the mask it had no NaN in %d calls",
               (int)tried);
  if (e->kind == OG_EXPECT_TYPE_DEPENDENT)
    add_untrue(all, e, "it was the same in all types in %d calls", (int)tried);
}

static void add_untrue_expects(og_findings *all) {
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
    add_unused(all);
    add_ends(all);
    add_orders(all);
    add_untrue_expects(all);
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

// SPDX-License-Identifier: Apache-2.0
// What all calls together show of effects: an argument or an end of it that
// nothing depends on, a result whose dims lie in another order.

#include "check/verdict/effects.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/run/axis_order.h"
#include "check/run/guard.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/verdict/finding.h"
#include "decl/parse/expect.h"

void og_effects_count(og_effects *uses, const char *name, uint32_t used) {
  int32_t i = 0;
  while (i < uses->count && strcmp(uses->entry[i].name, name) != 0) ++i;
  if (i == OG_EFFECTS_MAX) return;
  if (i == uses->count) {
    snprintf(uses->entry[i].name, sizeof uses->entry[i].name, "%.63s", name);
    ++uses->count;
  }
  ++uses->entry[i].tried;
  for (int32_t k = 0; k < OG_END_COUNT; ++k)
    uses->entry[i].used[k] += (int32_t)(used >> k & 1u);
}

void og_orders_count(og_findings *all, int32_t fresh, int32_t item,
                     uint32_t fits) {
  all->order[fresh][item].wrong += !(fits & 1u);
  all->order[fresh][item].misfit |= ~fits;
}

// An argument that no call has read, or ("total=") whose old value in none
// counted: as an output is written, which a result would be as well.
static void add_unused(og_findings *all) {
  const og_decl *decl = all->op->decl;
  char name[64], text[160];
  for (int32_t i = 0; i < all->uses.count; ++i) {
    if (all->uses.entry[i].tried < OG_TRIED_MIN ||
        all->uses.entry[i].used[OG_USE_ANY] > 0)
      continue;
    const og_found_at at = {.call_text = ""};
    const size_t length = strcspn(all->uses.entry[i].name, "=");
    const bool is_old = all->uses.entry[i].name[length] == '=';
    snprintf(name, sizeof name, "%.*s", (int)length, all->uses.entry[i].name);
    snprintf(text, sizeof text,
             is_old ? "all of it is written over in %d calls, and what it held "
                      "before changes nothing"
                    : "none of %d calls read it",
             (int)all->uses.entry[i].tried);
    og_findings_add(all, OPGRAFT_UNUSED_ARGUMENT,
                    is_old || og_decl_expects(decl, OG_EXPECT_UNUSED, name),
                    decl->name, name, text, &at);
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
  // "sizes[]", "mask.B", "scale%", "row@"
  const char *key = all->ends.entry[i].name;
  const size_t length = strcspn(key, "[.%@");
  const bool is_dim = key[length] == '.';
  const bool is_partial = key[length] == '%';
  snprintf(name, sizeof name, "%.*s", (int)length, key);
  snprintf(text, sizeof text,
           "its %s %s%s changed nothing in %d calls%s; %s did in %d of them",
           places[end],
           is_dim               ? "place along "
           : key[length] == '[' ? "entry"
                                : "element",
           is_dim ? key + length + 1 : "", (int)all->ends.entry[i].tried,
           is_partial ? " whose last group is a part" : "", others[other],
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

// "dim", or "eps~": a number that may say how to compute and not what, or
// matter in calls that are seldom drawn: a note.
static void add_without_effect(og_findings *all, int32_t i) {
  const og_found_at at = {.call_text = ""};
  const char *key = all->ends.entry[i].name;
  const size_t length = strcspn(key, "~");
  char name[64], text[160];
  snprintf(name, sizeof name, "%.*s", (int)length, key);
  snprintf(text, sizeof text,
           "the kernel read it in %d calls, and no other value of it changed "
           "anything",
           (int)all->ends.entry[i].used[OG_END_READ]);
  og_findings_add(all, OPGRAFT_UNUSED_ARGUMENT,
                  key[length] == '~' ||
                      og_decl_expects(all->op->decl, OG_EXPECT_UNUSED, name),
                  all->op->decl->name, name, text, &at);
}

// Numbers that changed nothing; where several are, it is the calls that show
// nothing.
static int32_t count_vain(const og_effects *ends) {
  int32_t count = 0;
  for (int32_t i = 0; i < ends->count; ++i)
    count +=
        strchr(ends->entry[i].name, '~') != NULL && is_without_effect(ends, i);
  return count;
}

// An end of an argument that nothing depends on, while places between matter;
// or the ends matter, and nothing between.
static void add_ends(og_findings *all) {
  static const int32_t pairs[][2] = {{OG_END_FIRST, OG_END_NONE},
                                     {OG_END_LAST, OG_END_NONE},
                                     {OG_END_NONE, OG_END_FIRST},
                                     {OG_END_NONE, OG_END_LAST}};
  const bool is_one_vain = count_vain(&all->ends) == 1;
  for (int32_t i = 0; i < all->ends.count; ++i) {
    if (is_without_effect(&all->ends, i) &&
        (is_one_vain || strchr(all->ends.entry[i].name, '~') == NULL))
      add_without_effect(all, i);
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

void og_findings_add_effects(og_findings *all) {
  add_unused(all);
  add_ends(all);
  add_orders(all);
}

// SPDX-License-Identifier: Apache-2.0
// Findings: one of a kind for each argument, named crashes, what follows.

#include "check/finding.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "check/value.h"

static const struct {
  const char *name;
  const char *fix;
} kinds[OPGRAFT_FINDING_COUNT] = {
#define OPGRAFT_FINDING_ROW(name, text, fix) {text, fix},
    OPGRAFT_FINDING_LIST(OPGRAFT_FINDING_ROW)
#undef OPGRAFT_FINDING_ROW
};

const char *og_finding_name(int32_t kind) {
  return kind >= 0 && kind < OPGRAFT_FINDING_COUNT ? kinds[kind].name : NULL;
}

const char *og_finding_fix(int32_t kind) { return kinds[kind].fix; }

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool og_has_word(const char *text, const char *word) {
  const size_t length = strlen(word);
  if (length == 0) return false;
  for (const char *at = text; (at = strstr(at, word)) != NULL; ++at)
    if ((at == text || !is_letter(at[-1])) && !is_letter(at[length]))
      return true;
  return false;
}

// --- Adding ------------------------------------------------------------------

static void set(og_finding *f, const char *op, const char *name,
                const char *text, const og_found_at *at) {
  f->call = at->call;
  f->probe = at->probe;
  f->numel = at->numel;
  snprintf(f->op, sizeof f->op, "%s", op);
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->text, sizeof f->text, "%s", text);
  snprintf(f->call_text, sizeof f->call_text, "%s", at->call_text);
}

void og_findings_add(og_findings *all, int32_t kind, bool is_note,
                     const char *op, const char *name, const char *text,
                     const og_found_at *at) {
  for (int32_t i = 0; i < all->count; ++i) {
    og_finding *f = &all->entry[i];
    if (f->kind != kind || f->is_note != is_note ||
        strcmp(f->name, name) != 0 || strcmp(f->op, op) != 0)
      continue;
    f->count += f->last != at->call;
    f->last = at->call;
    if (at->numel < f->numel) set(f, op, name, text, at);
    return;
  }
  if (all->count == OG_FINDINGS_MAX) return;
  og_finding *f = &all->entry[all->count++];
  *f = (og_finding){
      .kind = kind, .is_note = is_note, .count = 1, .last = at->call};
  set(f, op, name, text, at);
}

void og_uses_count(og_uses *uses, const char *name, uint32_t used) {
  int32_t i = 0;
  while (i < uses->count && strcmp(uses->entry[i].name, name) != 0) ++i;
  if (i == OG_USES_MAX) return;
  if (i == uses->count) {
    snprintf(uses->entry[i].name, sizeof uses->entry[i].name, "%.63s", name);
    ++uses->count;
  }
  ++uses->entry[i].tried;
  for (int32_t k = 0; k < OG_END_COUNT; ++k)
    uses->entry[i].used[k] += (int32_t)(used >> k & 1u);
}

// --- Crashes -----------------------------------------------------------------

static const char *signal_text(int32_t number) {
  switch (number) {
    case SIGSEGV:
      return "a segmentation fault";
    case SIGBUS:
      return "a bus error";
    case SIGFPE:
      return "a division by zero or integer overflow (SIGFPE)";
    case SIGILL:
      return "an illegal instruction";
    case SIGABRT:
      return "an abort";
    case SIGTRAP:
      return "a trap";
    case SIGSYS:
      return "a forbidden system call";
    default:
      return "a signal";
  }
}

static bool is_layout_probe(int32_t probe) {
  return probe == OG_PROBE_offset_ || probe == OG_PROBE_loose_ ||
         probe == OG_PROBE_strided_ || probe == OG_PROBE_expanded_;
}

static bool is_bounded(const og_record *r) {
  const og_decl *decl = r->op->decl;
  if (r->buffer_role != OG_BUFFER_RESULT) return false;
  const og_shape_rule *rule = &decl->shapes[r->buffer_index];
  return rule->kind == OG_SHAPE_ITEMS && rule->item_count > 0 &&
         rule->items[0].kind == OG_ITEM_FOUND;
}

// What belongs to the call itself, and to no tensor.
static bool is_array(const og_record *r) {
  return r->buffer_role == OG_BUFFER_ARRAY ||
         r->buffer_role == OG_BUFFER_ATTR_LIST;
}

static int32_t fault_kind(const og_record *r, int32_t probe) {
  const bool is_inside = r->before == 0 && r->after == 0;
  if (r->is_released) return OPGRAFT_KEPT_POINTER;
  if (r->buffer_role == OG_BUFFER_WORKSPACE) return OPGRAFT_WORKSPACE_OVERRUN;
  if (is_inside && r->buffer_role == OG_BUFFER_INPUT)
    return OPGRAFT_UNDECLARED_MUTATION;
  if (is_inside && is_array(r)) return OPGRAFT_OUTPUT_ALIAS;
  if (is_layout_probe(probe)) return OPGRAFT_LAYOUT_DEPENDENT;
  if (r->is_write)
    return is_bounded(r) ? OPGRAFT_BOUND_EXCEEDED : OPGRAFT_OUT_OF_BOUNDS_WRITE;
  return OPGRAFT_OUT_OF_BOUNDS_READ;
}

static void fault_text(const og_record *r, int32_t kind, const char *how,
                       char *out, size_t size) {
  const char *verb = r->is_write ? "writes" : "reads";
  if (kind == OPGRAFT_KEPT_POINTER)
    snprintf(out, size, "the kernel %s memory of an earlier call%s", verb, how);
  else if (kind == OPGRAFT_UNDECLARED_MUTATION)
    snprintf(out, size, "the kernel writes the argument%s", how);
  else if (is_array(r))
    snprintf(out, size,
             "the kernel %s byte %lld of the call's array, which has %lld%s",
             verb, (long long)(r->bytes + r->after - 1), (long long)r->bytes,
             how);
  else if (r->before > 0)
    snprintf(out, size, "the kernel %s %lld bytes before its start%s", verb,
             (long long)r->before, how);
  else
    snprintf(out, size, "the kernel %s byte %lld; it has %lld bytes%s", verb,
             (long long)(r->bytes + r->after - 1), (long long)r->bytes, how);
}

// What an argument that is not there would have at its address.
static bool is_null_fault(const og_record *r) {
  return r->signal_number == SIGSEGV && r->address < 4096;
}

static void crash_text(const og_record *r, const og_found_at *at,
                       const char *how, char *out, size_t size) {
  if (is_null_fault(r) && at->missing[0] != '\0')
    snprintf(out, size,
             "segmentation fault at address 0x%llx, in a call in which %s is "
             "not all there%s",
             (unsigned long long)r->address, at->missing, how);
  else if (r->is_return)
    snprintf(out, size,
             "the kernel wrote past the end of a local array: where it should "
             "return to is lost%s",
             how);
  else if (r->is_near_stack)
    snprintf(out, size,
             "the stack is used up: recursion without end, or large local "
             "arrays%s",
             how);
  else if (r->signal_number == SIGSEGV || r->signal_number == SIGBUS)
    snprintf(out, size, "%s at address 0x%llx, which is in no argument%s",
             signal_text(r->signal_number), (unsigned long long)r->address,
             how);
  else
    snprintf(out, size, "%s%s", signal_text(r->signal_number), how);
}

// A fault of an aligned load or store has no address.
static bool is_alignment_fault(const og_record *r) {
  return r->signal_number == SIGBUS ||
         (r->signal_number == SIGSEGV && r->address == 0 &&
          r->signal_code == 128 && !r->is_return);
}

void og_finding_of_crash(const og_record *r, const og_found_at *at,
                         og_finding *out) {
  const char *how = og_probes[at->probe].crash_text;
  char name[64] = "", text[420];
  int32_t kind = OPGRAFT_CRASH;
  if (r->buffer_role >= 0) {
    kind = fault_kind(r, at->probe);
    og_name_of(r->op, (og_buffer_role)r->buffer_role, r->buffer_index,
               r->buffer_entry, name, sizeof name);
    fault_text(r, kind, how, text, sizeof text);
  } else if (r->signal_number == SIGPROF) {
    kind = OPGRAFT_TIMEOUT;
    snprintf(text, sizeof text, "the kernel does not end%s", how);
  } else if (is_alignment_fault(r)) {
    kind = OPGRAFT_ALIGNMENT_ASSUMED;
    snprintf(text, sizeof text,
             "an instruction that wants aligned memory met an argument that "
             "is aligned to its element only%s",
             how);
  } else {
    crash_text(r, at, how, text, sizeof text);
    if (is_null_fault(r)) snprintf(name, sizeof name, "%s", at->missing);
  }
  if (r->is_memory_short && !r->is_near_stack) {
    kind = OPGRAFT_MEMORY_LIMIT;
    snprintf(text, sizeof text, "the kernel allocated until memory ran out");
  }
  memset(out, 0, sizeof *out);
  out->kind = kind;
  const bool is_index = at->probe == OG_PROBE_index_range_ ||
                        (at->has_index_hazard && kind != OPGRAFT_TIMEOUT);
  if (is_index) {
    out->kind = OPGRAFT_UNCHECKED_INDEX;
    out->is_note = true;
    snprintf(text, sizeof text,
             "with an index out of range the kernel touches memory that is "
             "not its own");
    name[0] = '\0';
  }
  set(out, r->op->decl->name, name, text, at);
}

// --- What follows ------------------------------------------------------------

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

static bool has_no_effect_by_doc(const og_findings *all, const char *name) {
  const char *doc = all->op->decl->record->doc;
  return doc != NULL && strstr(doc, "no effect") != NULL &&
         og_has_word(doc, name);
}

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
                    has_no_effect_by_doc(all, all->uses.entry[i].name),
                    all->op->decl->name, all->uses.entry[i].name, text, &at);
  }
}

// An element that has an effect as often as another one has it by chance in
// none of the calls only once in e^12 operators.
enum { EFFECTS_MIN = 6, CHANCE = 12 };

static bool is_never_used(const og_uses *uses, int32_t i, int32_t end,
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
  og_findings_add(all, OPGRAFT_UNUSED_END, has_no_effect_by_doc(all, name),
                  all->op->decl->name, name, text, &at);
}

enum { READS_MIN = 12 };

// The kernel reads it, and nothing depends on it.
static bool is_without_effect(const og_uses *uses, int32_t i) {
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
  og_findings_add(all, OPGRAFT_UNUSED_ARGUMENT, has_no_effect_by_doc(all, name),
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

// --- The order of a result's dims --------------------------------------------

int32_t og_order_count(int32_t items) {
  int32_t count = 1;
  for (int32_t i = 2; i <= items; ++i) count *= i;
  return count;
}

void og_order_get(int32_t items, int32_t which, int32_t out[OG_ORDER_ITEMS]) {
  int32_t left[OG_ORDER_ITEMS];
  for (int32_t i = 0; i < items; ++i) left[i] = i;
  for (int32_t i = 0; i < items; ++i) {
    const int32_t below = og_order_count(items - 1 - i);
    const int32_t pick = which / below;
    which %= below;
    out[i] = left[pick];
    for (int32_t k = pick; k + 1 < items - i; ++k) left[k] = left[k + 1];
  }
}

void og_orders_count(og_findings *all, int32_t fresh, int32_t item,
                     uint32_t fits) {
  all->order[fresh][item].wrong += !(fits & 1u);
  all->order[fresh][item].misfit |= ~fits;
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
  og_name_of(all->op, OG_BUFFER_RESULT, fresh, 0, name, sizeof name);
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

int32_t og_findings_faults(const og_findings *all) {
  int32_t count = 0;
  for (int32_t i = 0; i < all->count; ++i) count += !all->entry[i].is_note;
  return count;
}

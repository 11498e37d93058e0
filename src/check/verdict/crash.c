// SPDX-License-Identifier: Apache-2.0
// What a crash says of the kernel.

#include "check/verdict/crash.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "check/probe/table.h"
#include "check/run/guard.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/verdict/finding.h"

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
      return "an abort (SIGABRT), as by a failed assertion or a damaged heap";
    case SIGTRAP:
      return "a trap";
    case SIGSYS:
      return "a forbidden system call";
    default:
      return "a signal";
  }
}

static bool is_layout_probe(int32_t probe) {
  return (og_probes[probe].flags & OG_PROBE_LAYOUT) != 0;
}

static bool is_bounded(const opgraft_op *op, const og_record_crash *r) {
  const og_decl *decl = op->decl;
  if (r->role != OG_ROLE_RESULT) return false;
  const og_shape_rule *rule = &decl->shapes[r->index];
  return rule->kind == OG_SHAPE_ITEMS && rule->item_count > 0 &&
         rule->items[0].kind == OG_ITEM_FOUND;
}

// What belongs to the call itself, and to no tensor.
static bool is_array(const og_record_crash *r) {
  return r->role == OG_ROLE_ARRAY || r->role == OG_ROLE_ATTR_LIST;
}

static int32_t fault_kind(const opgraft_op *op, const og_record_crash *r,
                          int32_t probe) {
  const bool is_inside = r->before == 0 && r->after == 0;
  if (r->is_released) return OPGRAFT_KEPT_POINTER;
  if (r->role == OG_ROLE_WORKSPACE) return OPGRAFT_WORKSPACE_OVERRUN;
  if (is_inside && r->role == OG_ROLE_INPUT) return OPGRAFT_UNDECLARED_MUTATION;
  if (is_inside && is_array(r)) return OPGRAFT_OUTPUT_ALIAS;
  if (is_layout_probe(probe)) return OPGRAFT_LAYOUT_DEPENDENT;
  if (r->is_write)
    return is_bounded(op, r) ? OPGRAFT_BOUND_EXCEEDED
                             : OPGRAFT_OUT_OF_BOUNDS_WRITE;
  return OPGRAFT_OUT_OF_BOUNDS_READ;
}

static void fault_text(const og_record_crash *r, int32_t kind, const char *how,
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
    snprintf(out, size, "the kernel %s %lld byte%s before its start%s", verb,
             (long long)r->before, og_plural(r->before), how);
  else if (r->role == OG_ROLE_WORKSPACE)
    snprintf(out, size, "the kernel %s byte %lld; it has %lld byte%s%s", verb,
             (long long)(r->bytes + r->after - 1), (long long)r->bytes,
             og_plural(r->bytes), how);
  else
    snprintf(out, size,
             "the kernel %s byte %lld, element %lld; it has %lld byte%s, %lld "
             "element%s%s",
             verb, (long long)(r->bytes + r->after - 1),
             (long long)((r->bytes + r->after - 1) / r->item_bytes),
             (long long)r->bytes, og_plural(r->bytes),
             (long long)(r->bytes / r->item_bytes),
             og_plural(r->bytes / r->item_bytes), how);
}

// What an argument that is not there would have at its address.
static bool is_null_fault(const og_record_crash *r) {
  return r->signal_number == SIGSEGV && r->address < 4096;
}

static void crash_text(const og_record_crash *r, const og_found_at *at,
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
    snprintf(out, size, "the kernel ends by %s%s",
             signal_text(r->signal_number), how);
}

// A fault of an aligned load or store has no address.
static bool is_alignment_fault(const og_record_crash *r) {
  return r->signal_number == SIGBUS ||
         (r->signal_number == SIGSEGV && r->address == 0 &&
          r->signal_code == 128 && !r->is_return);
}

void og_finding_of_crash(const opgraft_op *op, const og_record_crash *r,
                         const og_found_at *at, og_finding *out) {
  const char *how = og_probes[at->probe].crash_text;
  char name[64] = "", text[420];
  int32_t kind = OPGRAFT_CRASH;
  if (r->role >= 0) {
    kind = fault_kind(op, r, at->probe);
    og_name_of(op, (og_role)r->role, r->index, r->entry, name, sizeof name);
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
  const bool is_index =
      at->probe == OG_PROBE_index_range_ ||
      ((at->has_index_hazard || at->is_index_far) && kind != OPGRAFT_TIMEOUT);
  if (is_index) {
    out->kind = OPGRAFT_UNCHECKED_INDEX;
    out->is_note = at->has_index_hazard;  // no index of an empty dim is right
    snprintf(text, sizeof text,
             "with an index out of range the kernel touches memory that is "
             "not its own");
    name[0] = '\0';
  }
  if (at->probe == OG_PROBE_index_edge_ && !at->is_index_far &&
      kind != OPGRAFT_TIMEOUT) {
    out->kind = OPGRAFT_UNCHECKED_INDEX;
    out->is_note = false;
    snprintf(text, sizeof text,
             "the kernel refuses indices that are far out of range, but not "
             "every one that is: it touches memory that is not its own");
    name[0] = '\0';
  }
  og_finding_set(out, op->decl->name, name, text, at);
}

// SPDX-License-Identifier: Apache-2.0
// What a call writes shares memory with nothing else that it is given.
//
// The rules are those of torch's assert_no_internal_overlap and
// assert_no_overlap, but for one: what a cheap look leaves open is decided.

#include "call/written.h"

#include <stdio.h>

#include "call/call.h"
#include "call/overlap.h"
#include "decl/formula.h"

// Something that a call is given: entry `entry` of tensor argument `argument`,
// or fresh result `result`.
typedef struct operand {
  const og_tensor *tensor;
  int32_t argument;  // -1: a result
  int32_t result;    // -1: an argument only
  int64_t entry;     // -1: no list
  og_span span;
} operand;

// --- Words -------------------------------------------------------------------

static void result_name(const og_decl *decl, int32_t fresh, char out[96]) {
  const char *name = decl->results[decl->fresh_results[fresh]].name;
  if (name[0] != '\0')
    snprintf(out, 96, "%s", name);
  else if (decl->fresh_count == 1)
    snprintf(out, 96, "out");
  else
    snprintf(out, 96, "out%d", (int)fresh);
}

static void operand_name(const og_decl *decl, const operand *o, char out[96]) {
  if (o->argument < 0) {
    result_name(decl, o->result, out);
    return;
  }
  const char *name = decl->params[decl->tensor_params[o->argument]].name;
  if (o->entry < 0)
    snprintf(out, 96, "%s", name);
  else
    snprintf(out, 96, "%s[%lld]", name, (long long)o->entry);
}

static og_status fail_within(const og_decl *decl, const operand *written,
                             og_overlap found, opgraft_error *error) {
  char name[96];
  operand_name(decl, written, name);
  return og_error_set(
      error, OG_INVALID, decl->name, name,
      found == OG_OVERLAP_UNDECIDED
          ? "%s: %s is written, and whether its elements share memory takes "
            "too long to decide; clone() it before the call"
          : "%s: %s is written, and several of its elements lie at the same "
            "address, as in an expanded tensor; clone() it before the call",
      decl->name, name);
}

static og_status fail_between(const og_decl *decl, const operand *written,
                              const operand *other, og_overlap found,
                              opgraft_error *error) {
  char name[96], other_name[96];
  operand_name(decl, written, name);
  operand_name(decl, other, other_name);
  const char *what = found == OG_OVERLAP_SAME   ? "is the same memory as"
                     : found == OG_OVERLAP_PART ? "overlaps"
                                                : "may overlap (it takes too "
                                                  "long to decide)";
  return og_error_set(error, OG_INVALID, decl->name, name,
                      "%s: %s is written and %s %s; clone() one of them before "
                      "the call",
                      decl->name, name, what, other_name);
}

// --- Checks ------------------------------------------------------------------

// Whether the operator computes rightly where this operand's memory is the
// written one's.
static bool may_be_same(const og_decl *decl, const operand *written,
                        const operand *other) {
  if (written->result < 0 || other->argument < 0) return false;
  if (decl->is_formula_derived)
    return decl->formula->sums == 0 && decl->formula->index_count == 0;
  return written->result == 0 && decl->inplace_param >= 0 &&
         decl->inplace_param == decl->tensor_params[other->argument];
}

static inline bool crosses(const operand *written, const og_tensor *other) {
  return og_spans_cross(written->span, og_span_of(other));
}

// Two whose ranges cross.
static og_status decide(const og_decl *decl, const operand *written,
                        const operand *other, opgraft_error *error) {
  const og_overlap found = og_overlap_between(written->tensor, other->tensor);
  if (found == OG_OVERLAP_NONE ||
      (found == OG_OVERLAP_SAME && may_be_same(decl, written, other)))
    return OG_OK;
  return fail_between(decl, written, other, found, error);
}

static og_status check_list(const opgraft_frame *frame, const operand *written,
                            int32_t t, opgraft_error *error) {
  const og_tensor_list *list = &frame->in_list[t];
  for (int64_t i = 0; i < list->count; ++i) {
    const operand other = {
        .tensor = list->tensors[i], .argument = t, .result = -1, .entry = i};
    const bool is_itself = written->argument == t && written->entry == i;
    if (other.tensor != NULL && !is_itself && crosses(written, other.tensor))
      OG_TRY(decide(frame->op->decl, written, &other, error));
  }
  return OG_OK;
}

static og_status check_arguments(const opgraft_frame *frame,
                                 const operand *written, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (OG_UNLIKELY(decl->has_lists) &&
        decl->params[decl->tensor_params[t]].is_list) {
      OG_TRY(check_list(frame, written, t, error));
      continue;
    }
    const og_tensor *tensor = frame->in[t];
    if (tensor == NULL || written->argument == t ||
        OG_LIKELY(!crosses(written, tensor)))
      continue;
    const operand other = {
        .tensor = tensor, .argument = t, .result = -1, .entry = -1};
    OG_TRY(decide(decl, written, &other, error));
  }
  return OG_OK;
}

static og_status check_written(const opgraft_frame *frame, operand *written,
                               opgraft_error *error) {
  written->span = og_span_of(written->tensor);
  if (written->span.low == written->span.high) return OG_OK;
  if (OG_UNLIKELY(!og_tensor_is_contiguous(written->tensor))) {
    const og_overlap found = og_overlap_within(written->tensor);
    if (found != OG_OVERLAP_NONE)
      return fail_within(frame->op->decl, written, found, error);
  }
  return check_arguments(frame, written, error);
}

og_status og_frame_check_mutated(const opgraft_frame *frame,
                                 opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  for (int32_t m = 0; m < decl->mutated_count; ++m) {
    const int32_t t = decl->mutated_tensors[m];
    const bool is_list = decl->params[decl->tensor_params[t]].is_list;
    const int64_t count = is_list ? frame->in_list[t].count : 1;
    for (int64_t i = 0; i < count; ++i) {
      operand written = {
          .tensor = is_list ? frame->in_list[t].tensors[i] : frame->in[t],
          .argument = t,
          .result = -1,
          .entry = is_list ? i : -1};
      if (written.tensor != NULL) OG_TRY(check_written(frame, &written, error));
    }
  }
  return OG_OK;
}

og_status og_frame_check_out(const opgraft_frame *frame, int32_t index,
                             const og_tensor *tensor, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  operand written = {
      .tensor = tensor, .argument = -1, .result = index, .entry = -1};
  // The in-place form brings the argument itself, and is named after it.
  const int32_t inplace = decl->inplace_param;
  if (index == 0 && inplace >= 0 &&
      frame->in[decl->params[inplace].index] == tensor)
    written.argument = decl->params[inplace].index;
  OG_TRY(check_written(frame, &written, error));
  for (int32_t i = 0; i < index; ++i) {
    const operand other = {
        .tensor = &frame->fresh[i], .argument = -1, .result = i, .entry = -1};
    if (crosses(&written, other.tensor))
      OG_TRY(decide(decl, &written, &other, error));
  }
  return OG_OK;
}

og_status opgraft_frame_check_written(opgraft_frame *frame,
                                      const og_tensor *const *out,
                                      opgraft_error *error) {
  const int32_t count = out != NULL ? frame->op->decl->fresh_count : 0;
  OG_TRY(og_frame_check_mutated(frame, error));
  for (int32_t i = 0; i < count; ++i) {
    frame->fresh[i] = (og_tensor){0};
    if (out[i] == NULL) continue;
    OG_TRY(og_frame_check_out(frame, i, out[i], error));
    frame->fresh[i] = *out[i];
  }
  return OG_OK;
}

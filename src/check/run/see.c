// SPDX-License-Identifier: Apache-2.0
// What can be seen after a run without knowing what the operator computes.

#include "check/run/see.h"

#include "base/status.h"
#include "check/run/mirror.h"
#include "check/run/name.h"
#include "check/run/record.h"

static void wrong(og_running *c, int32_t kind, const og_placed *p,
                  const char *what, int64_t byte) {
  char name[64];
  c->is_wrong = true;
  if (c->mode->is_quiet) return;
  const int64_t item = (int64_t)og_dtype_bytes(p->tensor.dtype);
  og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
  og_tell_finding(c->trial->op, kind, false, name,
                  "the kernel wrote %s: byte %lld, element %lld; it has %zu "
                  "byte%s, %lld element%s",
                  what, (long long)byte,
                  (long long)(byte < 0 ? (byte + 1) / item - 1 : byte / item),
                  p->buffer->bytes, og_plural((int64_t)p->buffer->bytes),
                  (long long)((int64_t)p->buffer->bytes / item),
                  og_plural((int64_t)p->buffer->bytes / item));
}

static void see_tensor(og_running *c, const og_placed *p,
                       const og_tensor *now) {
  if (og_placed_is_given(p, now)) return;
  c->is_wrong = true;
  if (c->mode->is_quiet) return;
  char name[64];
  og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
  og_tell_finding(c->trial->op, OPGRAFT_OUTPUT_ALIAS, false, name,
                  "the kernel changed the tensor itself (%s)",
                  now->data != p->given.data ? "where its data is"
                                             : "its shape, strides or offset");
}

static bool is_intact(const og_running *c, const og_guard *buffer,
                      int64_t *out_offset) {
  return c->device != NULL ? og_mirror_is_intact(c->device, buffer, out_offset)
                           : og_guard_is_intact(buffer, out_offset);
}

// The bytes around the elements, and those between them.
static void see_surroundings(og_running *c, const og_placed *p) {
  int64_t offset;
  if (!is_intact(c, p->buffer, &offset)) {
    wrong(c,
          og_running_is_bound(c, p) ? OPGRAFT_BOUND_EXCEEDED
                                    : OPGRAFT_OUT_OF_BOUNDS_WRITE,
          p, "out of bounds", offset);
    return;
  }
  offset = og_placed_stray(p);
  if (offset < 0) return;
  if (p->role == OG_ROLE_INPUT)
    wrong(c, OPGRAFT_UNDECLARED_MUTATION, p, "the argument", offset);
  else
    wrong(c, OPGRAFT_OUT_OF_BOUNDS_WRITE, p, "between strided elements",
          offset);
}

static void see_workspace(og_running *c) {
  int64_t offset;
  if (c->workspace == NULL || is_intact(c, c->workspace, &offset)) return;
  c->is_wrong = true;
  if (!c->mode->is_quiet)
    og_tell_finding(c->trial->op, OPGRAFT_WORKSPACE_OVERRUN, false, "workspace",
                    "the kernel wrote byte %lld of a workspace of %zu byte%s",
                    (long long)offset, c->workspace->bytes,
                    og_plural((int64_t)c->workspace->bytes));
}

static void see_dims(og_running *c) {
  const og_decl *decl = c->sample->op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    const int64_t now = c->frame.dim[d], before = c->dim_before[d];
    const bool is_found = decl->dims[d].kind == OG_DIM_FOUND;
    if (is_found ? now >= 0 && now <= before : now == before) continue;
    c->is_wrong = true;
    if (c->mode->is_quiet) continue;
    og_tell_finding(c->trial->op,
                    is_found ? OPGRAFT_BOUND_EXCEEDED : OPGRAFT_OUTPUT_ALIAS,
                    false, decl->dims[d].name,
                    is_found ? "the kernel set %s to %lld, its bound is %lld"
                             : "the kernel changed dim %s to %lld, it was %lld",
                    decl->dims[d].name, (long long)now, (long long)before);
  }
}

void og_see_run(og_running *c) {
  const og_decl *decl = c->sample->op->decl;
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    see_tensor(c, c->fresh[i], og_running_result(c, c->fresh[i]));
    if (c->fresh[i]->before != NULL || c->fresh[i]->buffer->bytes == 0)
      see_surroundings(c, c->fresh[i]);
  }
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_placed *p = &c->in[t][e];
      if (p->buffer == NULL) continue;
      see_tensor(c, p, &p->tensor);
      if (og_running_under(c, 0) != p) see_surroundings(c, p);
    }
  see_workspace(c);
  see_dims(c);
}

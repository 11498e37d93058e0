// SPDX-License-Identifier: Apache-2.0
// The arrays of the call itself, between unreadable pages.

#include "check/run/call_arrays.h"

#include <string.h>

typedef struct call_array {
  void *field;  // the call's pointer to it
  const void *from;
  size_t bytes;
} call_array;

// What an argument that is a list of numbers points to.
static bool guard_list(og_attr *attr, int32_t k) {
  if (attr->kind != OG_ATTR_INTS && attr->kind != OG_ATTR_BOOLS &&
      attr->kind != OG_ATTR_FLOATS)
    return true;
  const size_t bytes = (size_t)attr->count * sizeof(int64_t);
  og_guard *b = og_guard_create(bytes, 8, false, OG_ROLE_ATTR_LIST, k, 0);
  if (b == NULL) return false;
  if (bytes > 0) memcpy(b->data, attr->ints, bytes);
  og_guard_protect(b, true);
  attr->ints = (const int64_t *)(const void *)b->data;
  return true;
}

bool og_guard_arrays(og_running *c, int64_t **out_dim) {
  const og_decl *decl = c->sample->op->decl;
  og_call *call = &c->frame.call;
  const size_t tensors = (size_t)decl->tensor_count;
  const size_t dims = (size_t)decl->dim_count;
  const size_t attrs = (size_t)decl->attr_count;
  const size_t outs = (size_t)(decl->mutated_count + decl->fresh_count);
  const call_array arrays[OG_ARRAY_COUNT] = {
      [OG_ARRAY_IN] = {&call->in, call->in, tensors * sizeof *call->in},
      [OG_ARRAY_OUT] = {&call->out, call->out, outs * sizeof *call->out},
      [OG_ARRAY_IN_LIST] = {&call->in_list, call->in_list,
                            tensors * sizeof *call->in_list},
      [OG_ARRAY_OUT_LIST] = {&call->out_list, call->out_list,
                             outs * sizeof *call->out_list},
      [OG_ARRAY_ATTR] = {&call->attr, call->attr, attrs * sizeof *call->attr},
      [OG_ARRAY_DIM] = {&call->dim, call->dim, dims * sizeof *call->dim}};
  for (int32_t k = 0; k < decl->attr_count; ++k)
    if (!guard_list(&c->frame.attr[k], k)) return false;
  for (int32_t i = 0; i < OG_ARRAY_COUNT; ++i) {
    const call_array *a = &arrays[i];
    og_guard *b = og_guard_create(a->bytes, 8, false, OG_ROLE_ARRAY, i, 0);
    if (b == NULL) return false;
    if (a->bytes > 0) memcpy(b->data, a->from, a->bytes);
    void *data = b->data;
    memcpy(a->field, &data, sizeof data);
    if (i != OG_ARRAY_DIM) og_guard_protect(b, true);
  }
  *out_dim = call->dim;
  return true;
}

// SPDX-License-Identifier: Apache-2.0
// A launch as a stream keeps it: a copy of the call in one block.
//
// The block's size is added up first; what is copied then takes its parts in
// the same order.

#include "npu_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_race.h"

enum { PART_ALIGNMENT = 16, LINE_BYTES = 64 };

typedef struct packer {
  char *next;                // the block's first free byte
  const npu_memory *device;  // NULL: addresses are the driver's already
  npu_call *call;
} packer;

static size_t rounded(size_t size_bytes) {
  return (size_bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

static void *part_take(packer *p, size_t size_bytes) {
  void *part = p->next;
  p->next += rounded(size_bytes);
  return part;
}

static void *part_copy(packer *p, const void *from, size_t size_bytes) {
  void *part = part_take(p, size_bytes);
  if (size_bytes > 0) memcpy(part, from, size_bytes);
  return part;
}

static void *alias_of(const packer *p, void *address) {
  return p->device != NULL ? npu_memory_alias(p->device, address) : address;
}

// --- Sizes -------------------------------------------------------------------

static size_t tensor_bytes(const og_tensor *tensor) {
  return rounded(sizeof *tensor + 2 * (size_t)tensor->ndim * sizeof(int64_t));
}

// Also counts the tensors.
static size_t tensors_bytes(int32_t count, const og_tensor *const *tensors,
                            const og_tensor_list *lists, size_t *found) {
  size_t bytes = rounded((size_t)count * sizeof *tensors) +
                 rounded((size_t)count * sizeof *lists);
  for (int32_t i = 0; i < count; ++i) {
    if (tensors[i] != NULL) {
      bytes += tensor_bytes(tensors[i]);
      ++*found;
      continue;
    }
    bytes += rounded((size_t)lists[i].count * sizeof *tensors);
    for (int64_t k = 0; k < lists[i].count; ++k) {
      if (lists[i].tensors[k] == NULL) continue;
      bytes += tensor_bytes(lists[i].tensors[k]);
      ++*found;
    }
  }
  return bytes;
}

// Of what it points to; of strings without their characters.
static size_t value_bytes(const og_attr *attr) {
  const size_t count = (size_t)attr->count;
  switch (attr->kind) {
    case OG_ATTR_STR:
      return count + 1;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
      return count * sizeof *attr->ints;
    case OG_ATTR_FLOATS:
      return count * sizeof *attr->floats;
    case OG_ATTR_STRS:
      return count * sizeof *attr->strs;
    default:
      return 0;
  }
}

static size_t attrs_bytes(const og_attr *attrs, int32_t count) {
  size_t bytes = rounded((size_t)count * sizeof *attrs);
  for (int32_t i = 0; i < count; ++i) {
    bytes += rounded(value_bytes(&attrs[i]));
    for (int64_t s = 0; attrs[i].kind == OG_ATTR_STRS && s < attrs[i].count;
         ++s)
      bytes += rounded(strlen(attrs[i].strs[s]) + 1);
  }
  return bytes;
}

static size_t call_bytes(const og_launch *launch, bool has_operands) {
  const og_call *call = launch->call;
  size_t found = 0;
  size_t bytes =
      rounded(sizeof(npu_call)) +
      tensors_bytes(launch->out_count, (const og_tensor *const *)call->out,
                    call->out_list, &found) +
      tensors_bytes(launch->in_count, call->in, call->in_list, &found) +
      attrs_bytes(call->attr, launch->attr_count) +
      rounded((size_t)launch->dim_count * sizeof *call->dim);
  if (has_operands)
    bytes += rounded(found * sizeof(npu_operand)) + LINE_BYTES +
             rounded(found * sizeof(og_tensor *));
  return bytes;
}

// --- Tensors and lists -------------------------------------------------------

static void operand_note(npu_call *call, const og_tensor *from, og_tensor *to) {
  const int32_t t = call->operand_count++;
  const npu_ends ends = npu_ends_tensor(from);
  npu_operand *operand = &call->operands[t];
  *operand = (npu_operand){
      .own = *to,
      .lead_bytes = (int64_t)(ends.begin - (uintptr_t)from->data),
      .span_bytes = ends.end - ends.begin,
  };
  operand->own.data = from->data;
  call->tensors[t] = to;
}

static og_tensor *tensor_pack(packer *p, const og_tensor *from) {
  const int32_t rank = from->ndim;
  og_tensor *to = part_take(p, sizeof *to + 2 * (size_t)rank * sizeof(int64_t));
  *to = *from;
  to->data = alias_of(p, from->data);
  to->shape = (int64_t *)(to + 1);
  to->strides = to->shape + rank;
  for (int32_t d = 0; d < rank; ++d) {
    to->shape[d] = from->shape[d];
    to->strides[d] = from->strides[d];
  }
  if (p->call->operands != NULL) operand_note(p->call, from, to);
  return to;
}

static og_tensor_list list_pack(packer *p, const og_tensor_list *from) {
  og_tensor **items = part_take(p, (size_t)from->count * sizeof *items);
  for (int64_t i = 0; i < from->count; ++i)
    items[i] =
        from->tensors[i] != NULL ? tensor_pack(p, from->tensors[i]) : NULL;
  return (og_tensor_list){from->count, items};
}

static og_tensor **tensors_pack(packer *p, int32_t count,
                                const og_tensor *const *from,
                                const og_tensor_list *from_lists,
                                const og_tensor_list **out_lists) {
  og_tensor **to = part_take(p, (size_t)count * sizeof *to);
  og_tensor_list *lists = part_take(p, (size_t)count * sizeof *lists);
  for (int32_t i = 0; i < count; ++i) {
    to[i] = from[i] != NULL ? tensor_pack(p, from[i]) : NULL;
    lists[i] =
        from[i] != NULL ? (og_tensor_list){0} : list_pack(p, &from_lists[i]);
  }
  *out_lists = lists;
  return to;
}

og_status npu_launch_tensors(const og_launch *launch,
                             og_status (*fn)(void *user,
                                             const og_tensor *tensor,
                                             bool is_written),
                             void *user) {
  const og_call *call = launch->call;
  og_status status = OG_OK;
  for (int32_t half = 0; half < 2; ++half) {
    const bool is_out = half == 0;
    const int32_t count = is_out ? launch->out_count : launch->in_count;
    const og_tensor *const *tensors =
        is_out ? (const og_tensor *const *)call->out : call->in;
    const og_tensor_list *lists = is_out ? call->out_list : call->in_list;
    for (int32_t i = 0; status == OG_OK && i < count; ++i) {
      if (tensors[i] != NULL) {
        status = fn(user, tensors[i], is_out);
        continue;
      }
      for (int64_t k = 0; status == OG_OK && k < lists[i].count; ++k)
        if (lists[i].tensors[k] != NULL)
          status = fn(user, lists[i].tensors[k], is_out);
    }
  }
  return status;
}

// --- Attributes --------------------------------------------------------------

static og_attr *attrs_pack(packer *p, const og_attr *from, int32_t count) {
  og_attr *to = part_copy(p, from, (size_t)count * sizeof *from);
  for (int32_t i = 0; i < count; ++i) {
    const size_t bytes = value_bytes(&from[i]);
    if (bytes == 0) continue;
    char *value = part_copy(p, from[i].s, bytes);
    to[i].s = value;
    if (from[i].kind != OG_ATTR_STRS) continue;
    const char **strings = (const char **)(void *)value;
    for (int64_t s = 0; s < from[i].count; ++s)
      strings[s] = part_copy(p, strings[s], strlen(strings[s]) + 1);
  }
  return to;
}

// --- The call ----------------------------------------------------------------

static og_status call_fail(const og_call *call, og_status code,
                           const char *text) {
  npu_call *own = call->host;
  if (own->reason[0] == '\0')
    snprintf(own->reason, sizeof own->reason, "%s", text);
  return code;
}

static void operands_take(packer *p, const og_launch *launch) {
  size_t count = 0;
  const og_call *call = launch->call;
  tensors_bytes(launch->out_count, (const og_tensor *const *)call->out,
                call->out_list, &count);
  tensors_bytes(launch->in_count, call->in, call->in_list, &count);
  p->call->operands = part_take(p, count * sizeof *p->call->operands);
  part_take(p, LINE_BYTES);
  p->call->tensors = part_take(p, count * sizeof *p->call->tensors);
}

static void call_pack(packer *p, const og_launch *launch, bool has_operands) {
  const og_call *from = launch->call;
  npu_call *to = part_take(p, sizeof *to);
  const og_tensor_list *in_list, *out_list;
  p->call = to;
  to->references = 1;
  to->operands = NULL;
  to->tensors = NULL;
  to->operand_count = 0;
  to->reason[0] = '\0';
  if (has_operands) operands_take(p, launch);
  og_tensor **out =
      tensors_pack(p, launch->out_count, (const og_tensor *const *)from->out,
                   from->out_list, &out_list);
  to->written_count = to->operand_count;
  og_tensor **in =
      tensors_pack(p, launch->in_count, from->in, from->in_list, &in_list);
  to->call =
      (og_call){.struct_size = sizeof to->call,
                .flags = from->flags,
                .in = (const og_tensor *const *)in,
                .out = out,
                .in_list = in_list,
                .out_list = out_list,
                .attr = attrs_pack(p, from->attr, launch->attr_count),
                .dim = part_copy(p, from->dim,
                                 (size_t)launch->dim_count * sizeof *from->dim),
                .workspace = alias_of(p, from->workspace),
                .workspace_bytes = from->workspace_bytes,
                .stream = from->stream,
                .threads = 1,
                .fail = call_fail,
                .host = to,
                .derived = from->derived};
  to->launch = *launch;
  to->launch.call = &to->call;
}

npu_call *npu_call_create(const og_launch *launch, const npu_memory *memory,
                          bool has_operands, npu_call *spare) {
  const size_t bytes = call_bytes(launch, has_operands);
  if (spare == NULL || spare->block_bytes < bytes) {
    free(spare);
    spare = malloc(bytes);
    if (spare == NULL) return NULL;
    spare->block_bytes = bytes;
  }
  packer p = {.next = (char *)spare, .device = memory};
  call_pack(&p, launch, has_operands);
  return spare;
}

npu_call *npu_call_copy(const npu_call *call) {
  npu_call *copy = npu_call_create(&call->launch, NULL, true, NULL);
  for (int32_t t = 0; copy != NULL && t < call->operand_count; ++t)
    copy->operands[t].own.data = call->operands[t].own.data;
  return copy;
}

void npu_call_retain(npu_call *call) { ++call->references; }

void npu_call_release(npu_call *call) {
  if (call != NULL && --call->references == 0) free(call);
}

og_status npu_call_run(npu_call *call) { return call->launch.run(&call->call); }

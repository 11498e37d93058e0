// SPDX-License-Identifier: Apache-2.0
// A launch as a stream keeps it: a copy of the call in one block.
//
// A pass fills the block and finds its size; where the first block is too small
// another pass fills one that is not.

#include "npu_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_race.h"

enum { BLOCK_ALIGNMENT = 16, LINE_BYTES = 64, FIRST_BYTES = 1024 };

typedef struct packer {
  char *memory;
  size_t size_bytes;
  size_t used_bytes;         // above size_bytes: what did not fit is left out
  const npu_memory *device;  // NULL: addresses are the driver's already
  npu_call *call;
} packer;

static void *alias_of(const packer *p, void *address) {
  return p->device != NULL ? npu_memory_alias(p->device, address) : address;
}

// Room for a copy of `from`; NULL where it does not fit, and for 0 bytes.
static void *pack(packer *p, const void *from, size_t size_bytes) {
  const size_t at = p->used_bytes;
  p->used_bytes +=
      (size_bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
  if (size_bytes == 0 || size_bytes > p->size_bytes ||
      at > p->size_bytes - size_bytes)
    return NULL;
  if (from != NULL)
    memcpy(p->memory + at, from, size_bytes);
  else
    memset(p->memory + at, 0, size_bytes);
  return p->memory + at;
}

static og_tensor *pack_tensor(packer *p, const og_tensor *from) {
  const size_t dims_bytes = (size_t)from->ndim * sizeof(int64_t);
  og_tensor *to = pack(p, from, sizeof *from);
  int64_t *shape = pack(p, from->shape, dims_bytes);
  int64_t *strides = pack(p, from->strides, dims_bytes);
  if (p->used_bytes > p->size_bytes) return NULL;
  to->shape = shape;
  to->strides = strides;
  to->data = alias_of(p, from->data);
  return to;
}

static void tensor_note(packer *p, const og_tensor *from, og_tensor *to) {
  if (to == NULL) return;
  const int32_t t = p->call->operand_count++;
  npu_operand *operand = &p->call->operands[t];
  const npu_range range = npu_range_tensor(from);
  *operand = (npu_operand){
      .own = *to,
      .lead_bytes = (int64_t)(range.begin - (uintptr_t)from->data),
      .span_bytes = range.end - range.begin,
  };
  operand->own.data = from->data;
  p->call->tensors[t] = to;
}

// --- Tensors and lists -------------------------------------------------------

static og_tensor *const *pack_items(packer *p, const og_tensor_list *list) {
  og_tensor **items = pack(p, NULL, (size_t)list->count * sizeof(og_tensor *));
  for (int64_t i = 0; i < list->count; ++i) {
    if (list->tensors[i] == NULL) continue;
    og_tensor *item = pack_tensor(p, list->tensors[i]);
    if (items == NULL) continue;
    items[i] = item;
    tensor_note(p, list->tensors[i], item);
  }
  return items;
}

typedef struct packed {
  og_tensor **tensors;
  og_tensor_list *lists;
} packed;

static packed pack_tensors(packer *p, int32_t count,
                           const og_tensor *const *tensors,
                           const og_tensor_list *lists) {
  const size_t n = (size_t)count;
  const packed out = {pack(p, NULL, n * sizeof(og_tensor *)),
                      pack(p, NULL, n * sizeof(og_tensor_list))};
  for (int32_t i = 0; i < count; ++i) {
    if (tensors[i] == NULL) {
      og_tensor *const *items = pack_items(p, &lists[i]);
      if (out.lists != NULL)
        out.lists[i] = (og_tensor_list){lists[i].count, items};
      continue;
    }
    og_tensor *to = pack_tensor(p, tensors[i]);
    if (out.tensors == NULL) continue;
    out.tensors[i] = to;
    tensor_note(p, tensors[i], to);
  }
  return out;
}

static int32_t tensors_count(int32_t count, const og_tensor *const *tensors,
                             const og_tensor_list *lists) {
  int64_t found = 0;
  for (int32_t i = 0; i < count; ++i)
    found += tensors[i] != NULL ? 1 : lists[i].count;
  return (int32_t)found;
}

// --- Attributes --------------------------------------------------------------

static void pack_attr(packer *p, const og_attr *from, og_attr *to) {
  const size_t count = (size_t)from->count;
  const void *copy = NULL;
  if (from->kind == OG_ATTR_STR)
    copy = pack(p, from->s, count + 1);
  else if (from->kind == OG_ATTR_INTS || from->kind == OG_ATTR_BOOLS)
    copy = pack(p, from->ints, count * sizeof(int64_t));
  else if (from->kind == OG_ATTR_FLOATS)
    copy = pack(p, from->floats, count * sizeof(double));
  else
    return;
  if (to != NULL) to->s = copy;
}

static void pack_strings(packer *p, const og_attr *from, og_attr *to) {
  const size_t count = (size_t)from->count;
  const char **strings = pack(p, NULL, count * sizeof *strings);
  for (size_t i = 0; i < count; ++i) {
    const char *copy = pack(p, from->strs[i], strlen(from->strs[i]) + 1);
    if (strings != NULL) strings[i] = copy;
  }
  if (to != NULL) to->strs = strings;
}

static og_attr *pack_attrs(packer *p, const og_attr *from, int32_t count) {
  og_attr *to = pack(p, from, (size_t)count * sizeof *from);
  for (int32_t i = 0; i < count; ++i) {
    og_attr *own = to != NULL ? &to[i] : NULL;
    if (from[i].kind == OG_ATTR_STRS)
      pack_strings(p, &from[i], own);
    else
      pack_attr(p, &from[i], own);
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

static void pack_call(packer *p, const og_launch *launch) {
  const og_call *from = launch->call;
  const og_tensor *const *out = (const og_tensor *const *)from->out;
  const int32_t count =
      tensors_count(launch->out_count, out, from->out_list) +
      tensors_count(launch->in_count, from->in, from->in_list);
  npu_call *to = pack(p, NULL, sizeof *to);
  npu_operand *operands = pack(p, NULL, (size_t)count * sizeof *operands);
  pack(p, NULL, LINE_BYTES);
  og_tensor **tensors = pack(p, NULL, (size_t)count * sizeof *tensors);
  if (to != NULL) {
    to->operands = operands;
    to->tensors = tensors;
  }
  p->call = to;
  const packed outs = pack_tensors(p, launch->out_count, out, from->out_list);
  if (to != NULL) to->written_count = to->operand_count;
  const packed ins = pack_tensors(p, launch->in_count, from->in, from->in_list);
  og_attr *attrs = pack_attrs(p, from->attr, launch->attr_count);
  int64_t *dims =
      pack(p, from->dim, (size_t)launch->dim_count * sizeof(int64_t));
  if (to == NULL) return;
  to->launch = *launch;
  to->call = (og_call){.struct_size = sizeof to->call,
                       .flags = from->flags,
                       .in = (const og_tensor *const *)ins.tensors,
                       .out = outs.tensors,
                       .in_list = ins.lists,
                       .out_list = outs.lists,
                       .attr = attrs,
                       .dim = dims,
                       .workspace = alias_of(p, from->workspace),
                       .workspace_bytes = from->workspace_bytes,
                       .stream = from->stream,
                       .threads = 1,
                       .fail = call_fail,
                       .host = to,
                       .derived = from->derived};
  to->launch.call = &to->call;
  to->references = 1;
}

npu_call *npu_call_create(const og_launch *launch, const npu_memory *memory) {
  packer p = {.device = memory, .used_bytes = FIRST_BYTES};
  do {
    free(p.memory);
    p = (packer){.memory = malloc(p.used_bytes),
                 .size_bytes = p.used_bytes,
                 .device = memory};
    if (p.memory == NULL) return NULL;
    pack_call(&p, launch);
  } while (p.used_bytes > p.size_bytes);
  return p.call;
}

npu_call *npu_call_copy(const npu_call *call) {
  npu_call *copy = npu_call_create(&call->launch, NULL);
  for (int32_t t = 0; copy != NULL && t < call->operand_count; ++t)
    copy->operands[t].own.data = call->operands[t].own.data;
  return copy;
}

void npu_call_retain(npu_call *call) { ++call->references; }

void npu_call_release(npu_call *call) {
  if (call != NULL && --call->references == 0) free(call);
}

og_status npu_call_run(npu_call *call) { return call->launch.run(&call->call); }

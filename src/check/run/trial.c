// SPDX-License-Identifier: Apache-2.0
// One run of a kernel: arguments laid out in guarded memory, the call, and
// what can be seen afterwards without knowing what the operator computes.

#include "check/run/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/float_env.h"
#include "call/call.h"
#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/limits.h"
#include "check/run/name.h"
#include "check/run/parallel.h"
#include "check/run/record.h"
#include "check/run/static_data.h"
#include "check/run/watchpoint.h"
#include "check/sample/sample.h"
#include "check/sample/types.h"
#include "decl/types.h"

enum { GAP = 0xc7, STACK_BYTES = 1 << 15, OFFSET_ITEMS = 3 };

// A tensor in guarded memory.
typedef struct placed {
  og_tensor tensor;
  og_tensor copy;  // as the kernel got it
  int64_t shape[OG_SAMPLE_RANK];
  int64_t strides[OG_SAMPLE_RANK];
  int64_t sizes_copy[2 * OG_SAMPLE_RANK];
  og_guard *buffer;
  char *before;  // the buffer's bytes before the call, or NULL
  const og_array *value;
  og_role role;
  int32_t index;
  int32_t entry;
} placed;

typedef struct run {
  og_trial *trial;
  const og_sample *sample;
  const og_mode *mode;
  opgraft_frame frame;
  og_share_host host;
  placed in[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *in_entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  placed *fresh[OG_ARRAYS_MAX];
  int32_t fresh_count;
  og_guard *workspace;
  og_check_device *device;  // NULL: this run is the CPU's
  int64_t dim_before[OPGRAFT_DIM_MAX];
  og_status fail_code;
  bool is_wrong;
} run;

// --- Placing -----------------------------------------------------------------

static int64_t span_of(const placed *p) {
  int64_t last = 0;
  for (int32_t d = 0; d < p->tensor.ndim; ++d) {
    if (p->shape[d] == 0) return 0;
    last += (p->shape[d] - 1) * p->strides[d];
  }
  return last + 1;
}

static void dense_strides(placed *p) {
  og_row_major(p->shape, p->tensor.ndim, p->strides);
}

// Dims in any order in memory, with gaps unless they are to be packed.
static void loose_strides(placed *p, og_stride_rule rule, bool is_packed,
                          og_random *r) {
  const int32_t rank = p->tensor.ndim;
  int32_t axis[OG_SAMPLE_RANK];
  for (int32_t d = 0; d < rank; ++d) axis[d] = d;
  for (int32_t d = rank - 1; d > 0 && rule == OG_STRIDES_ANY; --d) {
    const int32_t j = (int32_t)og_random_below(r, d + 1);
    const int32_t held = axis[d];
    axis[d] = axis[j];
    axis[j] = held;
  }
  int64_t step =
      rule == OG_STRIDES_ANY && !is_packed ? og_random_between(r, 1, 2) : 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    p->strides[axis[d]] = step;
    step = step * (p->shape[axis[d]] > 0 ? p->shape[axis[d]] : 1) +
           (is_packed ? 0 : og_random_between(r, 0, 3));
  }
}

static void choose_strides(const run *c, placed *p, og_stride_rule rule,
                           const int32_t *expanded, og_random *r) {
  dense_strides(p);
  if (c->mode->layout == OG_LAYOUT_STRIDED && rule != OG_STRIDES_CONTIGUOUS)
    loose_strides(p, rule, c->mode->is_packed, r);
  if (c->mode->layout == OG_LAYOUT_EXPANDED && expanded[p->index] >= 0)
    p->strides[expanded[p->index]] = 0;
  for (int32_t d = 0; c->mode->layout == OG_LAYOUT_LOOSE && d < p->tensor.ndim;
       ++d)
    if (p->shape[d] == 1 && (rule != OG_STRIDES_LAST || d + 1 < p->tensor.ndim))
      p->strides[d] = 1000003;
}

// Gives the tensor memory of its own; shape and strides are set.
static bool place(const run *c, placed *p, size_t alignment) {
  const size_t item = og_dtype_bytes(p->tensor.dtype);
  const size_t bytes = (size_t)span_of(p) * item;
  p->buffer = og_guard_create(bytes, alignment, c->mode->is_left, p->role,
                              p->index, p->entry);
  if (p->buffer == NULL) return false;
  // With an offset, `data` itself lies on the unreadable page.
  p->tensor.byte_offset = c->mode->has_offset ? OFFSET_ITEMS * item : 0;
  p->tensor.data = p->buffer->data - p->tensor.byte_offset;
  memset(p->buffer->data, GAP, bytes);
  return true;
}

// Calls `visit` with the byte offset of each element, in row-major order.
typedef void (*visit_fn)(void *state, int64_t element, size_t offset);

static void visit_elements(const placed *p, visit_fn visit, void *state) {
  int64_t at[OG_SAMPLE_RANK] = {0};
  const size_t item = og_dtype_bytes(p->tensor.dtype);
  const int64_t count = og_numel(&p->tensor);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int32_t d = 0; d < p->tensor.ndim; ++d)
      offset += at[d] * p->strides[d];
    visit(state, i, (size_t)offset * item);
    for (int32_t d = p->tensor.ndim - 1; d >= 0; --d) {
      if (++at[d] < p->shape[d]) break;
      at[d] = 0;
    }
  }
}

typedef struct transfer {
  char *memory;
  char *dense;
  size_t item;
  int poison;
} transfer;

static void store_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  memcpy(t->memory + offset, t->dense + (size_t)element * t->item, t->item);
}
static void load_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  memcpy(t->dense + (size_t)element * t->item, t->memory + offset, t->item);
}
static void poison_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  (void)element;
  memset(t->memory + offset, t->poison, t->item);
}

static og_device device_of(const run *c) {
  return c->device != NULL ? (og_device){c->device->type, 0} : og_cpu;
}

static bool place_argument(run *c, int32_t t, int32_t e, const og_array *value,
                           const int32_t *expanded, og_random *r) {
  const og_decl *decl = c->sample->op->decl;
  const og_param *param = &decl->params[decl->tensor_params[t]];
  placed *p = &c->in[t][e];
  p->role = param->is_mutated ? OG_ROLE_MUTATED : OG_ROLE_INPUT;
  p->index = t;
  p->entry = e;
  p->value = value;
  p->tensor = (og_tensor){.device = device_of(c),
                          .ndim = value->sizes.rank,
                          .dtype = value->type,
                          .shape = p->shape,
                          .strides = p->strides};
  memcpy(p->shape, value->sizes.size, sizeof value->sizes.size);
  choose_strides(c, p, decl->strides[t], expanded, r);
  if (!place(c, p, og_dtype_bytes(value->type))) return false;
  transfer move = {p->buffer->data, value->data, og_dtype_bytes(value->type),
                   0};
  visit_elements(p, store_element, &move);
  if (p->buffer->bytes > 0) {
    p->before = malloc(p->buffer->bytes);
    if (p->before == NULL) return false;
    memcpy(p->before, p->buffer->data, p->buffer->bytes);
  }
  return true;
}

static bool place_arguments(run *c, const og_inputs *inputs) {
  const og_decl *decl = c->sample->op->decl;
  og_random r = {c->mode->seed};
  int32_t expanded[OPGRAFT_ARG_MAX] = {0};
  // Chooses the same dims as og_inputs_expand, whose seed it shares; the
  // values are already equal along them.
  og_inputs same = *inputs;
  if (c->mode->layout == OG_LAYOUT_EXPANDED)
    og_inputs_expand(&same, c->sample, c->mode->seed, expanded);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    c->frame.in[t] = NULL;
    c->frame.in_list[t] = (og_tensor_list){0};
    if (!c->sample->is_given[t]) continue;
    for (int32_t e = 0; e < c->sample->list_count[t]; ++e) {
      if (!og_sample_has(c->sample, t, e)) continue;
      if (!place_argument(c, t, e, &inputs->tensor[t][e], expanded, &r))
        return false;
      c->in_entry[t][e] = &c->in[t][e].tensor;
    }
    if (decl->params[decl->tensor_params[t]].is_list)
      c->frame.in_list[t] =
          (og_tensor_list){c->sample->list_count[t], c->in_entry[t]};
    else
      c->frame.in[t] = &c->in[t][0].tensor;
  }
  return true;
}

// --- Results -----------------------------------------------------------------

// In place, the first result's memory is the argument's.
static const placed *in_place_of(const run *c, int32_t fresh) {
  const og_decl *decl = c->sample->op->decl;
  if (!c->mode->is_in_place || fresh != 0 || decl->inplace_param < 0)
    return NULL;
  return &c->in[decl->params[decl->inplace_param].index][0];
}

static bool place_result(run *c, og_tensor *tensor, int32_t fresh,
                         int32_t entry) {
  if (c->fresh_count == OG_ARRAYS_MAX || tensor->ndim > OG_SAMPLE_RANK)
    return false;
  placed *p = calloc(1, sizeof *p);
  if (p == NULL) return false;
  c->fresh[c->fresh_count++] = p;
  p->role = OG_ROLE_RESULT;
  p->index = fresh;
  p->entry = entry;
  p->tensor = *tensor;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    p->shape[d] = tensor->shape[d];
    p->strides[d] = tensor->strides[d];
  }
  const placed *over = in_place_of(c, fresh);
  if (over != NULL) {
    p->buffer = over->buffer;
    p->tensor.data = over->tensor.data;
    p->tensor.byte_offset = over->tensor.byte_offset;
  } else {
    if (!place(c, p, og_dtype_bytes(tensor->dtype))) return false;
    transfer move = {p->buffer->data, NULL, og_dtype_bytes(tensor->dtype),
                     c->mode->poison};
    visit_elements(p, poison_element, &move);
    if (p->buffer->bytes > 0) {
      p->before = malloc(p->buffer->bytes);
      if (p->before == NULL) return false;
      memcpy(p->before, p->buffer->data, p->buffer->bytes);
    }
  }
  tensor->data = p->tensor.data;
  tensor->byte_offset = p->tensor.byte_offset;
  // The kernel gets the frame's tensor, whose shape arrays are the frame's.
  p->tensor.shape = p->shape;
  p->tensor.strides = p->strides;
  return true;
}

static bool place_results(run *c) {
  const og_decl *decl = c->sample->op->decl;
  for (int32_t i = 0; i < c->frame.fresh_count; ++i) {
    if (!decl->results[decl->fresh_results[i]].is_list) {
      if (!place_result(c, &c->frame.fresh[i], i, 0)) return false;
      continue;
    }
    for (int64_t e = 0; e < c->frame.fresh_list[i].count; ++e)
      if (!place_result(c, c->frame.fresh_list[i].tensors[e], i, (int32_t)e))
        return false;
  }
  if (c->frame.call.workspace_bytes == 0) return true;
  const size_t bytes = c->frame.call.workspace_bytes;
  c->workspace =
      og_guard_create(bytes, 64, c->mode->is_left, OG_ROLE_WORKSPACE, 0, 0);
  if (c->workspace == NULL) return false;
  memset(c->workspace->data, c->mode->workspace_poison, bytes);
  c->frame.call.workspace = c->workspace->data;
  return true;
}

// --- The call ----------------------------------------------------------------

static og_status note_refusal(const og_call *call, og_status code,
                              const char *text) {
  const og_share_host *host = call->host;
  og_trial *trial = host->user;
  if (trial->refusal[0] == '\0' && text != NULL)
    snprintf(trial->refusal, sizeof trial->refusal, "%s", text);
  return code;
}

// What a kernel's own locals will find on the stack.
__attribute__((noinline)) static void poison_stack(uint8_t value) {
  uint8_t stack[STACK_BYTES];
  memset(stack, value, sizeof stack);
  __asm__ volatile("" : : "r"(stack) : "memory");  // it is not dead
}

static void watch_writes(run *c) {
  char name[64];
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    const placed *p = c->fresh[i];
    og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
    og_share_watch(&c->host, p->buffer->data, p->buffer->bytes, name, false);
  }
  for (int32_t t = 0; t < c->sample->op->decl->tensor_count; ++t) {
    const placed *p = &c->in[t][0];
    if (p->buffer == NULL || p->role != OG_ROLE_MUTATED) continue;
    og_name_of(c->sample->op, p->role, t, 0, name, sizeof name);
    og_share_watch(&c->host, p->buffer->data, p->buffer->bytes, name, false);
  }
  if (c->workspace != NULL)
    og_share_watch(&c->host, c->workspace->data, c->workspace->bytes,
                   "workspace", true);
  og_data_span spans[4];
  const int32_t count = og_static_spans(c->frame.kernel, spans, 4);
  for (int32_t i = 0; i < count; ++i)
    og_share_watch(&c->host, spans[i].data, spans[i].bytes, "static data",
                   true);
}

static void remember(placed *p, const og_tensor *as_given) {
  p->copy = *as_given;
  const size_t bytes = (size_t)as_given->ndim * sizeof(int64_t);
  memcpy(p->sizes_copy, as_given->shape, bytes);
  memcpy(p->sizes_copy + OG_SAMPLE_RANK, as_given->strides, bytes);
}

static og_tensor *given_result(run *c, const placed *p) {
  const og_decl *decl = c->sample->op->decl;
  return decl->results[decl->fresh_results[p->index]].is_list
             ? c->frame.fresh_list[p->index].tensors[p->entry]
             : &c->frame.fresh[p->index];
}

static void exchange_dims(run *c) {
  const int32_t *dims = c->trial->exchanged;
  if (c->sample->op != c->trial->op) return;
  const int64_t size = c->frame.dim[dims[0]];
  c->frame.dim[dims[0]] = c->frame.dim[dims[1]];
  c->frame.dim[dims[1]] = size;
}

static void prepare(run *c) {
  const og_decl *decl = c->sample->op->decl;
  exchange_dims(c);
  for (int32_t i = 0; i < c->fresh_count; ++i)
    remember(c->fresh[i], given_result(c, c->fresh[i]));
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      placed *p = &c->in[t][e];
      if (p->buffer == NULL) continue;
      remember(p, &p->tensor);
      const bool is_result = in_place_of(c, 0) == p;
      if (c->mode->is_read_only && p->role == OG_ROLE_INPUT && !is_result &&
          c->device == NULL)
        og_guard_protect(p->buffer, true);
    }
  memcpy(c->dim_before, c->frame.dim, sizeof c->dim_before);
  c->host.random.state = c->mode->seed;
  if (c->mode->tracks_writes) watch_writes(c);
}

// --- What can be seen afterwards ---------------------------------------------

static void wrong(run *c, int32_t kind, const placed *p, const char *what,
                  int64_t byte) {
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

static void see_tensor(run *c, const placed *p, const og_tensor *now) {
  const size_t bytes = (size_t)p->copy.ndim * sizeof(int64_t);
  if (memcmp(now, &p->copy, sizeof *now) == 0 &&
      memcmp(now->shape, p->sizes_copy, bytes) == 0 &&
      memcmp(now->strides, p->sizes_copy + OG_SAMPLE_RANK, bytes) == 0)
    return;
  c->is_wrong = true;
  if (c->mode->is_quiet) return;
  char name[64];
  og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
  og_tell_finding(c->trial->op, OPGRAFT_OUTPUT_ALIAS, false, name,
                  "the kernel changed the tensor itself (%s)",
                  now->data != p->copy.data ? "where its data is"
                                            : "its shape, strides or offset");
}

static bool is_bounded_result(const run *c, const placed *p) {
  const og_decl *decl = c->sample->op->decl;
  if (p->role != OG_ROLE_RESULT) return false;
  const og_shape_rule *rule = &decl->shapes[p->index];
  return rule->kind == OG_SHAPE_ITEMS && rule->item_count > 0 &&
         rule->items[0].kind == OG_ITEM_FOUND;
}

static bool is_intact(const run *c, const og_guard *buffer,
                      int64_t *out_offset) {
  return c->device != NULL ? og_mirror_is_intact(c->device, buffer, out_offset)
                           : og_guard_is_intact(buffer, out_offset);
}

// The bytes around the elements, and those between them.
static void see_surroundings(run *c, const placed *p) {
  int64_t offset;
  if (!is_intact(c, p->buffer, &offset)) {
    wrong(c,
          is_bounded_result(c, p) ? OPGRAFT_BOUND_EXCEEDED
                                  : OPGRAFT_OUT_OF_BOUNDS_WRITE,
          p, "out of bounds", offset);
    return;
  }
  if (p->before == NULL) return;
  // Elements are allowed; what is left must be as before.
  transfer blank = {p->before, NULL, og_dtype_bytes(p->tensor.dtype), 0};
  char *now = malloc(p->buffer->bytes);
  if (now == NULL) return;
  memcpy(now, p->buffer->data, p->buffer->bytes);
  if (p->role != OG_ROLE_INPUT) {
    visit_elements(p, poison_element, &blank);
    blank.memory = now;
    visit_elements(p, poison_element, &blank);
  }
  size_t at = 0;
  while (at < p->buffer->bytes && now[at] == p->before[at]) ++at;
  free(now);
  if (at == p->buffer->bytes) return;
  if (p->role == OG_ROLE_INPUT)
    wrong(c, OPGRAFT_UNDECLARED_MUTATION, p, "the argument", (int64_t)at);
  else
    wrong(c, OPGRAFT_OUT_OF_BOUNDS_WRITE, p, "between strided elements",
          (int64_t)at);
}

static void see_workspace(run *c) {
  int64_t offset;
  if (c->workspace == NULL || is_intact(c, c->workspace, &offset)) return;
  c->is_wrong = true;
  if (!c->mode->is_quiet)
    og_tell_finding(c->trial->op, OPGRAFT_WORKSPACE_OVERRUN, false, "workspace",
                    "the kernel wrote byte %lld of a workspace of %zu byte%s",
                    (long long)offset, c->workspace->bytes,
                    og_plural((int64_t)c->workspace->bytes));
}

static void see_dims(run *c) {
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

static void see_all(run *c) {
  const og_decl *decl = c->sample->op->decl;
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    see_tensor(c, c->fresh[i], given_result(c, c->fresh[i]));
    if (c->fresh[i]->before != NULL || c->fresh[i]->buffer->bytes == 0)
      see_surroundings(c, c->fresh[i]);
  }
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const placed *p = &c->in[t][e];
      if (p->buffer == NULL) continue;
      see_tensor(c, p, &p->tensor);
      if (in_place_of(c, 0) != p) see_surroundings(c, p);
    }
  see_workspace(c);
  see_dims(c);
}

// --- Collecting --------------------------------------------------------------

static bool collect_one(run *c, const placed *p, og_outputs *out) {
  if (out->count == OG_ARRAYS_MAX) return true;
  og_array *a = &out->array[out->count];
  og_dims sizes = {.rank = p->tensor.ndim};
  for (int32_t d = 0; d < sizes.rank; ++d) sizes.size[d] = p->shape[d];
  if (!og_array_create(a, p->tensor.dtype, &sizes)) return false;
  transfer move = {p->buffer->data, a->data, og_dtype_bytes(a->type), 0};
  visit_elements(p, load_element, &move);
  if (is_bounded_result(c, p)) {
    const int32_t d = c->sample->op->decl->shapes[p->index].items[0].dim;
    const int64_t rows = a->sizes.size[0];
    a->sizes.size[0] = c->frame.dim[d];
    if (rows > 0) a->count = a->count / rows * c->frame.dim[d];
  }
  out->role[out->count] = p->role;
  out->index[out->count] = p->index;
  out->entry[out->count++] = p->entry;
  return true;
}

static bool collect_all(run *c, og_outputs *out) {
  const og_decl *decl = c->sample->op->decl;
  bool ok = true;
  for (int32_t i = 0; ok && i < c->fresh_count; ++i)
    ok = collect_one(c, c->fresh[i], out);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; ok && e < OG_SAMPLE_LIST; ++e)
      if (c->in[t][e].buffer != NULL && c->in[t][e].role == OG_ROLE_MUTATED)
        ok = collect_one(c, &c->in[t][e], out);
  if (!ok) og_outputs_reset(out);
  return ok;
}

static void run_reset(run *c) {
  for (int32_t i = 0; i < c->fresh_count; ++i) {
    free(c->fresh[i]->before);
    free(c->fresh[i]);
  }
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) free(c->in[t][e].before);
  opgraft_frame_reset(&c->frame);
  if (c->device != NULL) og_mirrors_drop(c->device);
  og_guards_release();
  free(c);
}

// --- All of it ---------------------------------------------------------------

static og_ran refuse(run *c, og_status status) {
  og_trial *trial = c->trial;
  trial->refusal_status = status;
  if (status >= OG_OK && status < OG_INTERNAL) return OG_RAN_REFUSED;
  if (c->mode->is_quiet) return OG_RAN_WRONG;
  if (status == OG_INTERNAL)  // not a call that it refuses: it is at odds
    og_tell_finding(trial->op, OPGRAFT_RULE_DISAGREES, false, "", "%s",
                    trial->refusal[0] != '\0' ? trial->refusal
                                              : "the kernel says OG_INTERNAL");
  else
    og_tell_finding(trial->op, OPGRAFT_BAD_STATUS, false, "",
                    "the kernel returned %d, which is not an og_status",
                    (int)status);
  return OG_RAN_WRONG;
}

// --- The arrays of the call --------------------------------------------------

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

// Moves them between unreadable pages: none has more entries than the
// declaration says. *out_dim is where the dims are now.
static bool guard_arrays(run *c, int64_t **out_dim) {
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

// From here on reads of the arguments that are not tensors are noted; what
// chooses the kernel counts.
static bool watch_arguments(run *c) {
  const og_decl *decl = c->sample->op->decl;
  c->frame.call.attr = og_watch_begin(c->frame.attr, decl->attr_count);
  if (c->frame.call.attr == NULL) return false;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    if (decl->kernels[k].supports != NULL)
      decl->kernels[k].supports(&c->frame.call);
  return true;
}

static void see_float_env(const run *c, og_float_env before) {
  char changed[128];
  og_float_env_name(before, og_float_env_get(), changed, sizeof changed);
  og_float_env_set(before);
  if (changed[0] != '\0' && !c->mode->is_quiet)
    og_tell_finding(c->trial->op, OPGRAFT_FLOAT_ENVIRONMENT, false, "",
                    "the kernel leaves the thread's floating-point "
                    "environment changed: %s",
                    changed);
}

// --- On a device -------------------------------------------------------------

static bool has_types(const opgraft_op *op, int32_t device,
                      const og_sample *sample) {
  int32_t types[OG_VARIABLE_MAX];
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v)
    types[v] = og_dtype_index(sample->type[op->variable_tensor[v]]);
  return og_sample_has_kernel(op, device, types);
}

// A device refuses the call's own types where it has no kernel for them. Runs
// in other types serve for comparisons, and the CPU may do them.
static bool is_on_device(const og_trial *trial, const og_sample *sample,
                         const og_mode *mode) {
  const opgraft_op *op = sample->op;
  if (trial->device == NULL || mode->is_on_host || mode->kernel != NULL ||
      op->module != trial->op->module)
    return false;
  return has_types(op, trial->device->type, sample) ||
         (op == trial->op &&
          memcmp(sample->type, trial->sample.type, sizeof sample->type) == 0);
}

static og_status send_placed(run *c, placed *p, og_tensor *given,
                             opgraft_error *error) {
  char name[64];
  og_name_of(c->sample->op, p->role, p->index, p->entry, name, sizeof name);
  if (og_mirror_data(c->device, p->buffer) == NULL)
    OG_TRY(og_mirror_add(c->device, p->buffer, name, c->mode->redzone, error));
  given->data = og_mirror_data(c->device, p->buffer) - p->tensor.byte_offset;
  p->tensor.data = given->data;
  return OG_OK;
}

static og_status send_all(run *c, opgraft_error *error) {
  for (int32_t t = 0; t < c->sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      placed *p = &c->in[t][e];
      if (p->buffer != NULL) OG_TRY(send_placed(c, p, &p->tensor, error));
    }
  for (int32_t i = 0; i < c->fresh_count; ++i)
    OG_TRY(send_placed(c, c->fresh[i], given_result(c, c->fresh[i]), error));
  if (c->workspace == NULL) return OG_OK;
  OG_TRY(og_mirror_add(c->device, c->workspace, "workspace", c->mode->redzone,
                       error));
  c->frame.call.workspace = og_mirror_data(c->device, c->workspace);
  return OG_OK;
}

// This process cannot go on; the next child does, behind the call.
static void end_device(const run *c, int32_t kind, const char *text) {
  og_tell_finding(c->trial->op, kind, false, "", "%s", text);
  _exit(2);
}

static void see_failure(run *c, og_status status, const opgraft_error *error) {
  char text[300];
  if (status == OG_OK) return;
  if (status == OG_BUSY && c->device->wait_ns >= 0) {
    snprintf(text, sizeof text,
             "the kernel is not done %lld ms after its launch",
             (long long)(c->device->wait_ns / 1000000));
    end_device(c, OPGRAFT_TIMEOUT, text);
  }
  if (og_check_device_is_lost(c->device)) {
    snprintf(text, sizeof text, "the device works no more: %.250s",
             error->text);
    end_device(c, OPGRAFT_CRASH, text);
  }
  if (c->trial->refusal[0] == '\0')
    snprintf(c->trial->refusal, sizeof c->trial->refusal, "%.199s",
             error->text);
}

static og_status launch(run *c, opgraft_error *error) {
  opgraft_error other = {.code = OG_OK};
  og_status status = og_mirrors_launch(c->device, &c->frame, error);
  const og_status done = og_mirrors_fetch(c->device, &other);
  if (status == OG_OK || done == OG_BUSY) {
    status = done;
    *error = other;
  }
  see_failure(c, status, error);
  return status;
}

// What shows once the run's memory is there: the driver's own reports, and
// writes into the memory of the run before.
static void see_device(run *c) {
  char text[400], name[64];
  int64_t offset = 0;
  const bool is_kept = !og_mirrors_end(c->device, name, &offset);
  if (is_kept)
    og_tell_finding(c->trial->op, OPGRAFT_KEPT_POINTER, false, "",
                    "a kernel wrote byte %lld of %s after the stream of its "
                    "call was done: by a pointer that it kept, or by work that "
                    "the stream does not wait for",
                    (long long)offset, name);
  c->is_wrong |= is_kept;
  if (!og_check_device_report(c->device, text, sizeof text)) return;
  c->is_wrong = true;
  og_tell_finding(
      c->trial->op,
      strncmp(text, "race", 4) == 0 ? OPGRAFT_DATA_RACE : OPGRAFT_CRASH, false,
      "", "the driver reports: %.380s", text);
}

// --- The run -----------------------------------------------------------------

static void take_shares(run *c) {
  og_trial *trial = c->trial;
  trial->share_total = c->host.total;
  trial->share_grain = c->host.grain;
  trial->has_clash = c->host.has_clash;
  memcpy(trial->clash_name, c->host.clash_name, sizeof trial->clash_name);
  memcpy(trial->clash_text, c->host.clash_text, sizeof trial->clash_text);
}

static og_status run_kernel(run *c) {
  opgraft_error error = {.code = OG_OK};
  if (c->device != NULL) return launch(c, &error);
  const og_float_env env = og_float_env_get();
  const og_status status = c->frame.kernel->run(&c->frame.call);
  see_float_env(c, env);
  return status;
}

// The call's memory on the device, where the run is one.
static bool place_on_device(run *c) {
  opgraft_error error = {.code = OG_OK};
  // Without a tensor argument the call is the CPU's.
  if (c->frame.kernel->device == OG_CPU) c->device = NULL;
  if (c->device == NULL) return true;
  const og_status status = send_all(c, &error);
  if (status != OG_MEMORY) see_failure(c, status, &error);
  return status == OG_OK;
}

static og_ran run_call(run *c, og_outputs *out) {
  og_trial *trial = c->trial;
  opgraft_error error = {.code = OG_OK};
  trial->refusal[0] = '\0';
  trial->refusal_status = OG_OK;
  trial->has_clash = false;
  const og_status inferred = opgraft_frame_infer(&c->frame, &error);
  if (inferred != OG_OK) {
    snprintf(trial->refusal, sizeof trial->refusal, "%.199s", error.text);
    trial->refusal_status = inferred;
    return OG_RAN_REFUSED;
  }
  if (c->mode->kernel != NULL) {
    c->frame.kernel = c->mode->kernel;
    if (c->frame.kernel->supports != NULL &&
        !c->frame.kernel->supports(&c->frame.call))
      return OG_RAN_REFUSED;
  }
  if (!place_results(c) || !place_on_device(c)) return OG_RAN_FAILED;
  prepare(c);
  ++trial->run_count;
  ++trial->layout_count[c->mode->layout];
  trial->offset_count += c->mode->has_offset;
  og_limits_arm(c->sample->op);
  if (c->mode->watches_arguments && !watch_arguments(c)) return OG_RAN_FAILED;
  poison_stack(c->mode->stack_poison);
  int64_t *dim = NULL;
  if (c->mode->guards_arrays && !guard_arrays(c, &dim)) return OG_RAN_FAILED;
  const og_guard *watched = c->mode->watched_tensor > 0
                                ? c->in[c->mode->watched_tensor - 1][0].buffer
                                : NULL;
  if (watched != NULL) og_watch_pages(watched->page, watched->page_bytes);
  const og_status status = run_kernel(c);
  take_shares(c);
  if (dim != NULL)  // a kernel sets those that it finds
    memcpy(c->frame.dim, dim,
           (size_t)c->sample->op->decl->dim_count * sizeof *dim);
  if (watched != NULL) trial->tensor_read = og_watch_pages_end();
  if (c->mode->watches_arguments) {
    trial->arguments_read = og_watch_end();
    for (int32_t k = 0; k < c->sample->op->decl->attr_count; ++k)
      trial->entries_read[k] = og_watch_entries(k);
  }
  see_all(c);
  if (c->device != NULL) see_device(c);
  if (status != OG_OK) return c->is_wrong ? OG_RAN_WRONG : refuse(c, status);
  if (c->is_wrong) return OG_RAN_WRONG;
  return collect_all(c, out) ? OG_RAN : OG_RAN_FAILED;
}

og_ran og_trial_run(og_trial *trial, const og_sample *sample,
                    const og_inputs *inputs, const og_mode *mode,
                    og_outputs *out) {
  out->count = 0;
  run *c = calloc(1, sizeof *c);
  if (c == NULL) return OG_RAN_FAILED;
  c->trial = trial;
  c->sample = sample;
  c->mode = mode;
  c->host.user = trial;
  c->host.team = trial->team;
  c->host.mode = mode;
  c->device = is_on_device(trial, sample, mode) ? trial->device : NULL;
  opgraft_frame_init(&c->frame, sample->op);
  og_sample_attrs(sample, c->frame.attr);
  c->frame.call.threads = mode->threads;
  c->frame.call.parallel_for = og_share_parallel_for;
  c->frame.call.fail = note_refusal;
  c->frame.call.host = &c->host;
  const og_ran ran =
      place_arguments(c, inputs) ? run_call(c, out) : OG_RAN_FAILED;
  run_reset(c);
  return ran;
}

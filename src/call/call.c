// SPDX-License-Identifier: Apache-2.0
// One call: match arguments, infer, choose a kernel, run.
//
// Invariants: nothing is allocated for a call whose arguments have the strides
// that the kernel takes, whose workspace is small, and that has no lists; what
// is allocated hangs on frame->heap until opgraft_frame_reset.

#include "call/call.h"

#include <stdio.h>
#include <string.h>

#include "call/written.h"
#include "decl/infer/infer.h"

// Memory that a frame owns: blocks in a chain from frame->heap, each an
// og_frame_block header and what follows. NULL when memory is short.
static void *frame_alloc(opgraft_frame *frame, size_t size_bytes) {
  size_t total;
  if (!og_size_add(size_bytes, sizeof(og_frame_block), &total)) return NULL;
  og_frame_block *block = og_alloc_aligned(64, total);
  if (block == NULL) return NULL;
  block->next = frame->heap;
  frame->heap = block;
  return block + 1;
}

void opgraft_frame_reset(opgraft_frame *frame) {
  og_frame_block *block = frame->heap;
  while (block != NULL) {
    og_frame_block *next = block->next;
    og_free(block);
    block = next;
  }
  frame->heap = NULL;
}

// The kernel's reason, said through og_fail. The first one stays: later ones
// follow from it.
static og_status frame_fail(const og_call *call, og_status code,
                            const char *text) {
  const opgraft_frame *frame = (const opgraft_frame *)(const void *)call;
  if (frame->error != NULL && frame->error->code == OG_OK)
    return og_error_set(frame->error, code, frame->op->decl->name, NULL,
                        "%s: %s", frame->op->decl->name, text);
  return code;
}

void opgraft_frame_init(opgraft_frame *frame, const opgraft_op *op) {
  frame->op = op;
  frame->kernel = NULL;
  frame->fresh_count = 0;
  frame->sizes_used = 0;
  frame->heap = NULL;
  frame->error = NULL;
  frame->call = (og_call){
      .struct_size = sizeof(og_call),
      .in = frame->in,
      .out = frame->out,
      .in_list = frame->in_list,
      .out_list = frame->out_list,
      .attr = frame->attr,
      .dim = frame->dim,
      .threads = 1,
      .fail = frame_fail,
      .derived = op->derived,
  };
}

// --- Choosing the kernel -----------------------------------------------------

bool og_kernel_takes(const opgraft_frame *frame, int32_t k,
                     const int32_t *type_index) {
  const opgraft_op *op = frame->op;
  const og_decl *decl = op->decl;
  const og_type_set *sets = decl->kernel_types + (size_t)k * OG_VARIABLE_MAX;
  for (int32_t v = 0; v < decl->type_variable_count; ++v)
    if (type_index[v] >= 0 && !(sets[v] >> type_index[v] & 1u)) return false;
  return true;
}

void og_frame_types(const opgraft_frame *frame, int32_t *out_index) {
  const opgraft_op *op = frame->op;
  const og_decl *decl = op->decl;
  for (int32_t v = 0; v < decl->type_variable_count; ++v) {
    const og_tensor *tensor =
        og_frame_tensor(decl, frame, op->variable_tensor[v]);
    // The argument that has the type by itself is absent: one that must have
    // the same type tells it.
    for (int32_t t = 0; tensor == NULL && t < decl->tensor_count; ++t)
      if (decl->types[t].variable == v)
        tensor = og_frame_tensor(decl, frame, t);
    out_index[v] = tensor == NULL ? -1 : og_dtype_index(tensor->dtype);
  }
}

int32_t og_frame_device(const opgraft_frame *frame) {
  const og_decl *decl = frame->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_tensor *tensor = og_frame_tensor(decl, frame, t);
    if (tensor != NULL) return tensor->device.type;
  }
  return OG_CPU;
}

static og_status no_kernel(const opgraft_frame *frame, int32_t device,
                           opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  bool has_device = false;
  char here[OG_DEVICE_TEXT], devices[64] = "";
  size_t used = 0;
  for (int32_t k = 0; k < decl->kernel_count; ++k) {
    const char *name = og_device_name(decl->kernels[k].device);
    has_device |= decl->kernels[k].device == device;
    if (strstr(devices, name) != NULL) continue;
    used += (size_t)snprintf(devices + used, sizeof devices - used, "%s%s",
                             used > 0 ? ", " : "", name);
  }
  if (!has_device)
    return og_error_set(error, OG_DEVICE, decl->name, NULL,
                        "%s: the arguments are on %s, its kernels are for %s; "
                        "move the arguments",
                        decl->name, og_device_text(device, here), devices);
  return og_error_set(error, OG_UNSUPPORTED, decl->name, NULL,
                      "%s: none of its kernels (%d) takes this call on this "
                      "machine (%s); `opgraft inspect --why` says why",
                      decl->name, (int)decl->kernel_count,
                      og_isa_name(og_isa_used()));
}

static og_status kernel_choose(opgraft_frame *frame, opgraft_error *error) {
  const opgraft_op *op = frame->op;
  const og_decl *decl = op->decl;
  int32_t type_index[OG_VARIABLE_MAX];
  const int32_t device = og_frame_device(frame);
  // One kernel that takes everything needs no looking at types.
  if (decl->type_variable_count > 0) og_frame_types(frame, type_index);
  for (int32_t k = 0; k < decl->kernel_count; ++k) {
    const og_kernel *kernel = &decl->kernels[k];
    if (kernel->device != device || !op->kernel_available[k]) continue;
    if (!og_kernel_takes(frame, k, type_index)) continue;
    if (!og_frame_supports(frame, kernel)) continue;
    frame->kernel = kernel;
    return OG_OK;
  }
  return no_kernel(frame, device, error);
}

og_status opgraft_frame_infer(opgraft_frame *frame, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  OG_TRY(og_infer(decl, frame, error));
  if (decl->mutated_count > 0) OG_TRY(og_frame_check_mutated(frame, error));
  OG_TRY(kernel_choose(frame, error));
  if (OG_LIKELY(decl->workspace.count == 0)) return OG_OK;
  int64_t size;
  OG_TRY(og_expr_eval(decl, &decl->workspace, frame, 0, &size, error));
  if (size < 0)
    return og_error_set(error, OG_INVALID, decl->name, NULL,
                        "%s: its workspace rule gives %lld bytes", decl->name,
                        (long long)size);
  frame->call.workspace_bytes = (size_t)size;
  return OG_OK;
}

// --- Results that the caller brings ------------------------------------------

static void tensor_print(const og_tensor *tensor, char *out, size_t size) {
  size_t used =
      (size_t)snprintf(out, size, "%s[", og_dtype_name(tensor->dtype));
  for (int32_t i = 0; i < tensor->ndim && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s%lld",
                             i > 0 ? ", " : "", (long long)tensor->shape[i]);
  if (used < size) snprintf(out + used, size - used, "]");
}

og_status opgraft_frame_set_out(opgraft_frame *frame, int32_t index,
                                const og_tensor *tensor, opgraft_error *error) {
  og_tensor *fresh = &frame->fresh[index];
  bool is_equal = fresh->ndim == tensor->ndim &&
                  og_dtype_equal(fresh->dtype, tensor->dtype);
  for (int32_t i = 0; is_equal && i < fresh->ndim; ++i)
    is_equal = fresh->shape[i] == tensor->shape[i];
  if (!is_equal) {
    char found[256], wanted[256];
    tensor_print(tensor, found, sizeof found);
    tensor_print(fresh, wanted, sizeof wanted);
    return og_error_set(error, OG_SHAPE, frame->op->decl->name, "out",
                        "%s: out: result %d is %s here, expected %s",
                        frame->op->decl->name, (int)index, found, wanted);
  }
  OG_TRY(og_frame_check_out(frame, index, tensor, error));
  // Its own strides, so that run copies where the kernel cannot take them.
  fresh->data = tensor->data;
  fresh->byte_offset = tensor->byte_offset;
  if (tensor->strides != NULL) fresh->strides = tensor->strides;
  return OG_OK;
}

// --- Strides -----------------------------------------------------------------

// A row-major twin of `tensor` in the frame's memory, with its values where
// `with_values`; NULL when memory is short. Only what lies on a CPU is copied.
static og_tensor *tensor_densify(opgraft_frame *frame, const og_tensor *tensor,
                                 bool with_values) {
  const size_t rank = (size_t)tensor->ndim;
  const bool has_layout =
      tensor->strides == NULL || og_tensor_is_contiguous(tensor);
  const size_t bytes =
      has_layout ? 0 : (size_t)og_numel(tensor) * og_dtype_bytes(tensor->dtype);
  og_tensor *twin = frame_alloc(frame, sizeof *twin + rank * 8 + 64);
  if (twin == NULL) return NULL;
  *twin = *tensor;
  twin->strides = (int64_t *)(void *)(twin + 1);
  og_row_major(tensor->shape, tensor->ndim, twin->strides);
  if (has_layout) return twin;
  twin->data = frame_alloc(frame, bytes);
  twin->byte_offset = 0;
  if (twin->data == NULL) return NULL;
  if (with_values) og_tensor_copy(twin, tensor);
  return twin;
}

static og_status no_memory(const opgraft_frame *frame, opgraft_error *error) {
  return og_error_set(error, OG_MEMORY, frame->op->decl->name, NULL,
                      "%s: not enough memory for a copy of an argument or the "
                      "workspace",
                      frame->op->decl->name);
}

static og_status list_fit(opgraft_frame *frame, og_tensor_list *list,
                          og_stride_rule rule, opgraft_error *error) {
  bool fits = true;
  for (int64_t i = 0; i < list->count; ++i)
    fits &= list->tensors[i] == NULL || og_strides_fit(list->tensors[i], rule);
  if (fits) return OG_OK;
  og_tensor **copy =
      frame_alloc(frame, (size_t)list->count * sizeof(og_tensor *));
  if (copy == NULL) return no_memory(frame, error);
  for (int64_t i = 0; i < list->count; ++i) {
    copy[i] = list->tensors[i];
    if (copy[i] == NULL || og_strides_fit(copy[i], rule)) continue;
    copy[i] = tensor_densify(frame, copy[i], true);
    if (copy[i] == NULL) return no_memory(frame, error);
  }
  list->tensors = copy;
  return OG_OK;
}

// What the caller gave, kept while twins stand in for it.
typedef struct originals {
  int32_t count;
  const og_tensor *twin[OPGRAFT_OUT_MAX];
  og_tensor tensor[OPGRAFT_OUT_MAX];
  og_tensor_list twin_list[OPGRAFT_OUT_MAX];
  og_tensor_list list[OPGRAFT_OUT_MAX];
  int32_t list_count;
} originals;

static og_status argument_fit(opgraft_frame *frame, int32_t t, originals *kept,
                              opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  const og_param *param = &decl->params[decl->tensor_params[t]];
  if (param->is_list) {
    const og_tensor_list given = frame->in_list[t];
    OG_TRY(list_fit(frame, &frame->in_list[t], decl->strides[t], error));
    if (param->is_mutated && frame->in_list[t].tensors != given.tensors) {
      frame->out_list[param->out_index] = frame->in_list[t];
      kept->twin_list[kept->list_count] = frame->in_list[t];
      kept->list[kept->list_count++] = given;
    }
    return OG_OK;
  }
  const og_tensor *given = frame->in[t];
  if (given == NULL || OG_LIKELY(og_strides_fit(given, decl->strides[t])))
    return OG_OK;
  og_tensor *twin = tensor_densify(frame, given, true);
  if (twin == NULL) return no_memory(frame, error);
  frame->in[t] = twin;
  if (param->is_mutated) {
    frame->out[param->out_index] = twin;
    kept->twin[kept->count] = twin;
    kept->tensor[kept->count++] = *given;
  }
  return OG_OK;
}

static og_status results_fit(opgraft_frame *frame, originals *kept,
                             opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    if (decl->results[decl->fresh_results[i]].is_list) continue;
    og_tensor *fresh = &frame->fresh[i];
    if (decl->shapes[i].kind == OG_SHAPE_LIKE ||
        OG_LIKELY(og_tensor_is_contiguous(fresh)))
      continue;
    og_tensor *twin = tensor_densify(frame, fresh, false);
    if (twin == NULL) return no_memory(frame, error);
    kept->twin[kept->count] = twin;
    kept->tensor[kept->count++] = *fresh;
    frame->out[decl->mutated_count + i] = twin;
  }
  return OG_OK;
}

static void originals_restore(const originals *kept) {
  for (int32_t i = 0; i < kept->count; ++i)
    if (kept->twin[i]->data != kept->tensor[i].data)
      og_tensor_copy(&kept->tensor[i], kept->twin[i]);
  for (int32_t l = 0; l < kept->list_count; ++l)
    for (int64_t i = 0; i < kept->list[l].count; ++i) {
      const og_tensor *twin = kept->twin_list[l].tensors[i];
      const og_tensor *given = kept->list[l].tensors[i];
      if (twin != given && twin->data != given->data)
        og_tensor_copy(given, twin);
    }
}

// --- Running -----------------------------------------------------------------

// The sizes that the kernel found go into the results that have them.
static og_status found_dims_set(opgraft_frame *frame, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    const og_shape_rule *rule = &decl->shapes[i];
    if (rule->kind != OG_SHAPE_ITEMS || rule->item_count == 0 ||
        rule->items[0].kind != OG_ITEM_FOUND)
      continue;
    const int32_t d = rule->items[0].dim;
    const int64_t found = frame->dim[d];
    const int64_t bound = frame->fresh[i].shape[0];
    if (found < 0 || found > bound)
      return og_error_set(error, OG_KERNEL, decl->name, NULL,
                          "%s: the kernel set %s to %lld, its rule allows 0 to "
                          "%lld; fix the kernel or the rule",
                          decl->name, decl->dims[d].name, (long long)found,
                          (long long)bound);
    frame->fresh[i].shape[0] = found;
  }
  return OG_OK;
}

og_status opgraft_frame_run(opgraft_frame *frame, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  if (OG_UNLIKELY(frame->kernel->device != OG_CPU))
    return og_frame_launch(frame, error);
  originals kept;
  kept.count = 0;
  kept.list_count = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    OG_TRY(argument_fit(frame, t, &kept, error));
  OG_TRY(results_fit(frame, &kept, error));
  if (frame->call.workspace_bytes > 0) {
    frame->call.workspace = frame_alloc(frame, frame->call.workspace_bytes);
    if (frame->call.workspace == NULL) return no_memory(frame, error);
  }
  OG_TRY(og_frame_run_explained(frame, error));
  originals_restore(&kept);
  return decl->has_data_dependent_result ? found_dims_set(frame, error) : OG_OK;
}

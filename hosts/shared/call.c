// SPDX-License-Identifier: Apache-2.0
// Calls over dense buffers.

#include "shared/call.h"

#include <string.h>

#include "shared/control.h"

void og_host_begin(og_host_call *call, const og_own_op *op) {
  og_own_enter();
  call->op = op;
  call->strides_used = 0;
  call->entries_used = 0;
  call->control = og_control_enter();
  opgraft_frame_init(&call->frame, op->op);
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    call->frame.in[t] = NULL;
    call->frame.in_list[t] = (og_tensor_list){0};
  }
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    call->frame.attr[a] = op->attr_params[a]->default_value;
}

void og_host_written_move(og_tensor *tensor, void *data) {
  const size_t bytes = og_host_bytes(tensor);
  if (data != tensor->data && bytes > 0) memcpy(data, tensor->data, bytes);
  tensor->data = data;
}

void og_host_written(og_host_call *call, int32_t t, const og_tensor *tensor,
                     void *data) {
  og_host_input(call, t, tensor);
  og_host_written_move(&call->inputs[t], data);
}

og_status og_host_entry(og_host_call *call, int32_t t, const og_tensor *tensor,
                        opgraft_error *error) {
  const int32_t at = call->entries_used;
  og_tensor_list *list = &call->frame.in_list[t];
  if (at == OG_HOST_ENTRIES_MAX) {
    return og_own_fail(
        call->op, OG_UNSUPPORTED, error,
        "%s: the lists of a call have more than %d tensors in this "
        "host; pass them in parts",
        call->op->tensor_params[t]->name, OG_HOST_ENTRIES_MAX);
  }
  call->entry_pointers[at] = NULL;
  if (tensor != NULL) {
    call->entries[at] = *tensor;
    og_host_strides(call, &call->entries[at]);
    call->entry_pointers[at] = &call->entries[at];
  }
  if (list->count == 0) list->tensors = &call->entry_pointers[at];
  ++list->count;
  ++call->entries_used;
  return OG_OK;
}

int64_t og_host_results_count(const og_host_call *call) {
  int64_t count = call->op->info.mutated_count;
  for (int32_t i = 0; i < call->op->info.fresh_count; ++i)
    count += og_host_result_count(call, i);
  return count;
}

int og_host_is_shared(const og_host_call *call) {
  size_t bytes = 0;
  for (int32_t t = 0; t < call->op->info.tensor_count; ++t)
    if (call->frame.in[t] != NULL) bytes += og_host_bytes(call->frame.in[t]);
  for (int32_t i = 0; i < call->entries_used; ++i)
    if (call->entry_pointers[i] != NULL)
      bytes += og_host_bytes(call->entry_pointers[i]);
  return bytes >= OG_HOST_SHARED_BYTES;
}

og_status og_host_infer(og_host_call *call, opgraft_error *error) {
  return opgraft_frame_infer(&call->frame, error);
}

og_status og_host_run(og_host_call *call, opgraft_error *error) {
  return opgraft_frame_run(&call->frame, error);
}

void og_host_end(og_host_call *call) {
  opgraft_frame_reset(&call->frame);
  og_control_leave(call->control);
  og_own_leave();
}

// SPDX-License-Identifier: Apache-2.0

#include "torch/base/cuda.h"

#include "torch/base/types.h"

// CU_STREAM_LEGACY: what NULL stands for, where NULL would say that the call
// has no stream.
#define LEGACY_STREAM ((void *)(uintptr_t)1)

int32_t cuda_torch_type(og_device device) {
  if (LIKELY(device.type == OG_CPU)) return shim.aoti_torch_device_type_cpu();
  return device.type == OG_CUDA && shim.aoti_torch_device_type_cuda != NULL
             ? shim.aoti_torch_device_type_cuda()
             : -1;
}

// Of the first tensor that is there, as inference has it.
static og_device call_device(const opgraft_frame *frame, int32_t tensor_count) {
  for (int32_t t = 0; t < tensor_count; ++t) {
    if (frame->in[t] != NULL) return frame->in[t]->device;
    for (int64_t i = 0; i < frame->in_list[t].count; ++i)
      if (frame->in_list[t].tensors[i] != NULL)
        return frame->in_list[t].tensors[i]->device;
  }
  return (og_device){OG_CUDA, 0};
}

static og_status refuse(const opgraft_frame *frame, og_status code,
                        const char *text, opgraft_error *error) {
  error->code = code;
  PyOS_snprintf(error->text, sizeof error->text, "%s: %s",
                opgraft_op_name(frame->op), text);
  return code;
}

og_status cuda_begin(opgraft_frame *frame, int32_t tensor_count,
                     tensor_handle *out_workspace, opgraft_error *error) {
  og_call *call = &frame->call;
  const og_device device = call_device(frame, tensor_count);
  const int64_t size = (int64_t)call->workspace_bytes, stride = 1;
  int32_t byte;
  *out_workspace = NULL;
  if (exchange->current_stream(OG_CUDA, device.id, &call->stream) != 0)
    return refuse(frame, OG_DEVICE,
                  "torch names no current stream of the CUDA device", error);
  if (call->stream == NULL) call->stream = LEGACY_STREAM;
  if (size == 0) return OG_OK;
  if (dtype_to_shim((og_dtype){OG_CODE_UINT, 8, 1}, &byte) != 0 ||
      shim.aoti_torch_empty_strided(1, &size, &stride, byte,
                                    cuda_torch_type(device), device.id,
                                    out_workspace) != 0)
    return refuse(frame, OG_MEMORY,
                  "torch has no CUDA memory for the kernel's workspace", error);
  shim.aoti_torch_get_data_ptr(*out_workspace, &call->workspace);
  return OG_OK;
}

void cuda_end(opgraft_frame *frame, tensor_handle workspace) {
  frame->call.workspace = NULL;
  if (workspace != NULL) shim.aoti_torch_delete_tensor_object(workspace);
}

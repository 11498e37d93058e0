// SPDX-License-Identifier: Apache-2.0
// Why a kernel does not run a call: what choosing one looks at, in words.

#include <stdio.h>

#include "call/call.h"
#include "decl/types.h"

static og_status wrong_types(const opgraft_frame *frame,
                             const og_kernel *kernel, const int32_t *type_index,
                             opgraft_error *out_reason) {
  const og_decl *decl = frame->op->decl;
  char found[256] = "";
  size_t used = 0;
  for (int32_t v = 0; v < decl->type_variable_count; ++v) {
    const int32_t t = frame->op->variable_tensor[v];
    if (type_index[v] < 0 || used >= sizeof found) continue;
    const int wrote = snprintf(found + used, sizeof found - used, "%s%s: %s",
                               used > 0 ? ", " : "",
                               decl->params[decl->tensor_params[t]].name,
                               og_dtype_name(og_dtype_at(type_index[v])));
    if (wrote > 0) used += (size_t)wrote;
  }
  return og_error_set(out_reason, OG_DTYPE, decl->name, NULL,
                      "the call has %s, it takes %s", found, kernel->dtypes);
}

og_status opgraft_frame_explain(const opgraft_frame *frame, int32_t index,
                                opgraft_error *out_reason) {
  const opgraft_op *op = frame->op;
  const og_decl *decl = op->decl;
  if (index < 0 || index >= decl->kernel_count)
    return og_error_set(out_reason, OG_INVALID, decl->name, NULL,
                        "%s: has kernels 0 to %d, found %d", decl->name,
                        (int)decl->kernel_count - 1, (int)index);
  const og_kernel *kernel = &decl->kernels[index];
  const int32_t device = og_frame_device(frame);
  int32_t type_index[OG_VARIABLE_MAX];
  char here[OG_DEVICE_TEXT];
  if (kernel->device != device)
    return og_error_set(out_reason, OG_DEVICE, decl->name, NULL,
                        "the call is on %s, it is for %s",
                        og_device_text(device, here),
                        og_device_name(kernel->device));
  if (!op->kernel_available[index])
    return og_error_set(out_reason, OG_UNSUPPORTED, decl->name, NULL,
                        "it needs %s, the best set here is %s", kernel->isa,
                        og_isa_name(og_isa_used()));
  og_frame_types(frame, type_index);
  if (!og_kernel_takes(frame, index, type_index))
    return wrong_types(frame, kernel, type_index, out_reason);
  if (!og_frame_supports(frame, kernel))
    return og_error_set(out_reason, OG_UNSUPPORTED, decl->name, NULL,
                        "its `supports` refuses these arguments");
  return OG_OK;
}

const char *opgraft_isa(void) { return og_isa_name(og_isa_used()); }

// SPDX-License-Identifier: Apache-2.0
// A node of a session.

#ifndef OG_HOSTS_ONNXRUNTIME_KERNEL_H
#define OG_HOSTS_ONNXRUNTIME_KERNEL_H

#include "onnxruntime/forms.h"

// A status that ONNX Runtime frees.
void *og_ort_fail(ort_api api, const opgraft_error *error);
// An ort_custom_op's kernel_create, kernel_compute and kernel_destroy.
void *og_ort_kernel_create(const ort_custom_op *op, ort_api api,
                           const void *info, void **out_kernel);
void *og_ort_kernel_compute(void *kernel, void *context);
void og_ort_kernel_destroy(void *kernel);

#endif  // OG_HOSTS_ONNXRUNTIME_KERNEL_H

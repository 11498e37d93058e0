// SPDX-License-Identifier: Apache-2.0
// Shapes where a model is loaded.

#ifndef OG_HOSTS_ONNXRUNTIME_INFER_H
#define OG_HOSTS_ONNXRUNTIME_INFER_H

#include "onnxruntime/forms.h"

// An ort_custom_op's infer.
void *og_ort_infer(const ort_custom_op *op, void *context);

#endif  // OG_HOSTS_ONNXRUNTIME_INFER_H

// SPDX-License-Identifier: Apache-2.0
// Outputs in an input's memory.

#ifndef OG_HOSTS_ONNXRUNTIME_INPLACE_H
#define OG_HOSTS_ONNXRUNTIME_INPLACE_H

#include "onnxruntime/forms.h"

// Sets may_inplace where an output may take an input's memory.
void og_ort_inplace_set(og_ort_op *op);

#endif  // OG_HOSTS_ONNXRUNTIME_INPLACE_H

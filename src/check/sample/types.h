// SPDX-License-Identifier: Apache-2.0
// Combinations of types that an operator has kernels for.

#ifndef OG_CHECK_SAMPLE_TYPES_H
#define OG_CHECK_SAMPLE_TYPES_H

#include "check/sample/sample.h"

// Combinations of free types that the operator has kernels for, at most `max`;
// returns their number. types[i][v] is an index into the type table.
int32_t og_sample_types(const opgraft_op *op, int32_t max,
                        int32_t (*out_types)[OG_VARIABLE_MAX]);
// The same of kernels for another device than the CPU.
int32_t og_sample_device_types(const opgraft_op *op, int32_t device,
                               int32_t max,
                               int32_t (*out_types)[OG_VARIABLE_MAX]);
// Whether a kernel for the device takes these free types.
bool og_sample_has_kernel(const opgraft_op *op, int32_t device,
                          const int32_t *types);
bool og_sample_has_types(const opgraft_op *op, const int32_t *types);

// Sets each tensor's type from the free types.
void og_sample_set_types(og_sample *sample,
                         const int32_t types[OG_VARIABLE_MAX]);

// Whether a tensor argument is taken for indices: it has integer types only,
// and is not the operator's one argument.
bool og_is_index_argument(const og_decl *decl, int32_t tensor);

#endif  // OG_CHECK_SAMPLE_TYPES_H

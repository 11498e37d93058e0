// SPDX-License-Identifier: Apache-2.0
// Sizes and types of the fresh results.

#ifndef OG_DECL_INFER_RESULT_H
#define OG_DECL_INFER_RESULT_H

#include "decl/infer/eval.h"

// Sizes the fresh results, whose types and device are set.
og_status og_size_results(const og_decl *decl, opgraft_frame *frame,
                          const og_binding *binding, opgraft_error *error);
og_status og_result_type(const og_decl *decl, const opgraft_frame *frame,
                         const og_out_type *rule, og_dtype *out,
                         opgraft_error *error);
// Their types and device.
og_status og_type_results(const og_decl *decl, opgraft_frame *frame,
                          og_device device, opgraft_error *error);

#endif  // OG_DECL_INFER_RESULT_H

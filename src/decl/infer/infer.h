// SPDX-License-Identifier: Apache-2.0
// Inference on the integers of one call: check the arguments, bind the dims,
// size the results. This is on the path of every call, so it allocates nothing
// (but list results) and formats text only to refuse.

#ifndef OG_DECL_INFER_INFER_H
#define OG_DECL_INFER_INFER_H

#include "decl/decl.h"

// The first tensor that stands for argument t; NULL where there is none.
static inline const og_tensor *og_frame_tensor(const og_decl *decl,
                                               const opgraft_frame *frame,
                                               int32_t t) {
  if (!decl->params[decl->tensor_params[t]].is_list) return frame->in[t];
  const og_tensor_list *list = &frame->in_list[t];
  for (int64_t i = 0; i < list->count; ++i)
    if (list->tensors[i] != NULL) return list->tensors[i];
  return NULL;
}

// The general way, which og_infer takes where the short one does not go.
og_status og_infer_general(const og_decl *decl, opgraft_frame *frame,
                           opgraft_error *error);
// Binds dims from frame->in and in_list, checks types, devices, shapes and
// conditions, then fills frame->dim, frame->fresh, frame->fresh_list,
// frame->out and frame->out_list. A plain fresh result i has fresh[i] (data
// NULL), whose shape and strides are parts of frame->sizes, and fresh_list[i]
// is empty. A list result has fresh_list[i], whose tensors stand in one block
// chained to frame->heap; fresh[i] is zeroed. Does not allocate otherwise.
// Results are row-major, or as their `like` argument where that is dense. A
// data-dependent dim has its bound. The device is that of the first tensor that
// was given, else the first Device argument's, else the CPU. May be called
// again on the same frame. Failure: OG_SHAPE, OG_DTYPE, OG_DEVICE, OG_INVALID
// (a missing argument), OG_MEMORY; the frame's results are then undefined, its
// heap is still sound.
og_status og_infer(const og_decl *decl, opgraft_frame *frame,
                   opgraft_error *error);
// The value of an expression for a call whose dims are bound.
og_status og_expr_eval(const og_decl *decl, const og_expr *expr,
                       const opgraft_frame *frame, int64_t index,
                       int64_t *out_value, opgraft_error *error);

#endif  // OG_DECL_INFER_INFER_H

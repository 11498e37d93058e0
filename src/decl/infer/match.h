// SPDX-License-Identifier: Apache-2.0
// Matches argument patterns: binds names to sizes, or compares.

#ifndef OG_DECL_INFER_MATCH_H
#define OG_DECL_INFER_MATCH_H

#include "decl/infer/eval.h"

// Matches every pattern against the arguments and fills frame->dim.
og_status og_match(const og_decl *decl, opgraft_frame *frame,
                   og_binding *binding, opgraft_error *error);
// The same for a frame whose dims are known: fills `binding` only.
og_status og_match_again(const og_decl *decl, const opgraft_frame *frame,
                         og_binding *binding);

#endif  // OG_DECL_INFER_MATCH_H

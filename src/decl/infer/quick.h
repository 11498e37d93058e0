// SPDX-License-Identifier: Apache-2.0
// The short way through inference, for the rules that most operators have.

#ifndef OG_DECL_INFER_QUICK_H
#define OG_DECL_INFER_QUICK_H

#include "decl/infer/eval.h"

// The short way through inference (quick.c): its tables, which few declarations
// do not have, and a call; false where the general way must decide.
og_status og_quick_create(og_decl *decl, opgraft_error *error);
bool og_quick_infer(const og_decl *decl, opgraft_frame *frame);

#endif  // OG_DECL_INFER_QUICK_H

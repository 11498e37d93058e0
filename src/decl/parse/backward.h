// SPDX-License-Identifier: Apache-2.0
// The backward string, f_backward(grad, x, needs(w)) -> x, w, and whether the
// operator that it names takes what it is given.

#ifndef OG_DECL_PARSE_BACKWARD_H
#define OG_DECL_PARSE_BACKWARD_H

#include "decl/parse/parser.h"

// After all declarations of a module are made: the backward operators exist,
// their parameters and results fit.
og_status og_decl_link(og_decl *const *decls, int32_t count,
                       opgraft_error *error);

#endif  // OG_DECL_PARSE_BACKWARD_H

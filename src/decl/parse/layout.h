// SPDX-License-Identifier: Apache-2.0
// The strides string, and the argument of a derived in-place form.

#ifndef OG_DECL_PARSE_LAYOUT_H
#define OG_DECL_PARSE_LAYOUT_H

#include "decl/parse/parser.h"

og_status og_parse_strides(og_decl *decl, opgraft_error *error);
og_status og_parse_inplace(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_LAYOUT_H

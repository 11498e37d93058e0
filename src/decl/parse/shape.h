// SPDX-License-Identifier: Apache-2.0
// The shape string: x[*N, I], weight[O, I], bias?[O] -> [*N, O].

#ifndef OG_DECL_PARSE_SHAPE_H
#define OG_DECL_PARSE_SHAPE_H

#include "decl/parse/parser.h"

og_status og_parse_shape(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_SHAPE_H

// SPDX-License-Identifier: Apache-2.0
// The pointwise string: a scalar expression over the arguments, and what it
// stands for where shape, dtype or kernels are missing.

#ifndef OG_DECL_PARSE_POINTWISE_H
#define OG_DECL_PARSE_POINTWISE_H

#include "decl/parse/parser.h"

og_status og_parse_pointwise(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_POINTWISE_H

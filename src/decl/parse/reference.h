// SPDX-License-Identifier: Apache-2.0
// The reference string: what the results are, as expressions over named dims.

#ifndef OG_DECL_PARSE_REFERENCE_H
#define OG_DECL_PARSE_REFERENCE_H

#include "decl/parse/parser.h"

og_status og_parse_reference(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_REFERENCE_H

// SPDX-License-Identifier: Apache-2.0
// The kernels' types, and whether every declared combination has a kernel.

#ifndef OG_DECL_PARSE_KERNELS_H
#define OG_DECL_PARSE_KERNELS_H

#include "decl/parse/parser.h"

og_status og_parse_kernels(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_PARSE_KERNELS_H

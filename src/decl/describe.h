// SPDX-License-Identifier: Apache-2.0
// The declaration as JSON, for hosts that run the rules themselves.

#ifndef OG_DECL_DESCRIBE_H
#define OG_DECL_DESCRIBE_H

#include "decl/decl.h"

// The declaration as JSON, for hosts that run the rules themselves.
void og_decl_describe(const og_decl *decl, og_text *out);

#endif  // OG_DECL_DESCRIBE_H

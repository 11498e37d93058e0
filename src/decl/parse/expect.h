// SPDX-License-Identifier: Apache-2.0
// The expect string: what check would find, and is meant.

#ifndef OG_DECL_PARSE_EXPECT_H
#define OG_DECL_PARSE_EXPECT_H

#include "decl/parse/parser.h"

const char *og_expect_word(og_expect_kind kind);  // "unused"
// Whether `expect` says so; "xs[1]" is xs.
bool og_decl_expects(const og_decl *decl, og_expect_kind kind,
                     const char *name);
// What a result is called for people: its name, or "result", or "result_1"
// where there are several.
void og_result_name(const og_decl *decl, int32_t result, char *out,
                    size_t size);

#endif  // OG_DECL_PARSE_EXPECT_H

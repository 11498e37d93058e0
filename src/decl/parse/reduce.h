// SPDX-License-Identifier: Apache-2.0
// The reduce string: which dims may be cut into parts, and how the results of
// the parts join (docs/shape-rules.md).

#ifndef OG_DECL_PARSE_REDUCE_H
#define OG_DECL_PARSE_REDUCE_H

#include "decl/parse/parser.h"

const char *og_join_word(og_parts_join join);  // "sum"; NULL for OG_JOIN_NONE
// "HQ + HK": the dims of a cut.
void og_cut_write(const og_decl *decl, const og_cut *cut, char *out,
                  size_t size);

// How a tensor that these items describe has a dim.
enum {
  OG_HELD_NOT = 0,
  OG_HELD_ONCE,      // in one item: a name, a pack, or a size computed from it
  OG_HELD_OTHERWISE  // several times, or where its place is not known
};
int32_t og_items_hold(const og_item *items, int32_t count, int32_t dim,
                      int32_t *out_item);
// The items of an argument or output; NULL where there are none, or a list's.
typedef struct og_items {
  const og_item *items;
  int32_t count;
} og_items;
og_items og_argument_items(const og_decl *decl, int32_t tensor);
// `output` counts as in call->out: mutated arguments, then fresh results.
og_items og_output_items(const og_decl *decl, int32_t output);

#endif  // OG_DECL_PARSE_REDUCE_H

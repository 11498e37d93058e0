// SPDX-License-Identifier: Apache-2.0
// The host's words for a node: the record's operator and arguments, copied.

#ifndef OG_IMPORT_WORDS_H
#define OG_IMPORT_WORDS_H

#include "import/import.h"

// Copies arguments whose values become positions among the node's operands.
// With `in` NULL the operands are collected, else they must be there.
typedef struct og_words {
  opgraft_value in[OG_IMPORT_OPERANDS];
  int32_t in_count;
  const og_node *node;  // NULL: collect
  bool is_missing;
} og_words;

// The position of `value` among the operands.
int32_t og_words_operand(og_words *w, opgraft_value value);
// A foreign operator of the record's host, with a copy of these arguments.
og_status og_foreign_make(og_import *import, og_words *w, const char *name,
                          const opgraft_arg *args, int32_t arg_count,
                          og_foreign **out_foreign);
// Keeps the record's words with the node just added, for the host.
og_status og_keep_words(og_import *import);

#endif  // OG_IMPORT_WORDS_H

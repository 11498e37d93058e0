// SPDX-License-Identifier: Apache-2.0
// Which kernel runs which node, as text: one rule a line, the first that fits
// a node counts.
//
//   matmul f32[128,768] f32[768,768] -> f32[128,768]: fast  # why
//   convolution: plain
//   *: host
//
// What an executable chose is printed as such text, and can be given to it.

#ifndef OG_EXEC_CHOOSE_RULES_H
#define OG_EXEC_CHOOSE_RULES_H

#include "exec/step/prep.h"

typedef struct og_rule {
  const char *nodes;  // an operator, with its operands and results or without
  og_candidate by;
} og_rule;

struct og_rules {
  char *text;
  og_rule *rules;
  int32_t count;
};

// Failure: OG_INVALID with the line, OG_MEMORY.
og_status og_rules_create(const char *text, og_rules **out_rules,
                          opgraft_error *error);
void og_rules_destroy(og_rules *rules);
// Of the prepared node, by the executable's rules; false where none fits.
bool og_rule_find(const og_prep *prep, og_candidate *out);
// "plain", ...; false for a word that names none.
const char *og_candidate_name(og_candidate by);
bool og_candidate_find(const char *word, og_candidate *out);
// What stands before the colon in a node's line.
void og_rule_node_print(const og_plan *plan, const og_node *node, og_text *out);
// The line for a node, with its reason.
void og_rule_print(const og_plan *plan, const og_node *node,
                   const og_chosen *chosen, og_text *out);

#endif  // OG_EXEC_CHOOSE_RULES_H

// SPDX-License-Identifier: Apache-2.0
// A pass that is wrong on purpose: sums become differences. The graph stays
// one that the verifier takes.

#include "pass/pass.h"

static og_status wrong_run(opgraft_graph *graph, int32_t *out_changes,
                           opgraft_error *error) {
  (void)error;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed || node->op != OG_IR_add) continue;
    node->op = OG_IR_sub;
    ++*out_changes;
  }
  return OG_OK;
}

const og_pass og_pass_wrong = {.name = "wrong", .run = wrong_run};

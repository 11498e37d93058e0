// SPDX-License-Identifier: Apache-2.0
// The machine code of an executable's row programs, as text.

#include <inttypes.h>

#include "base/text.h"
#include "exec/choose/rules.h"
#include "exec/step/looped.h"

static void plan_print(const og_plan_entry *entry, og_isa isa, og_text *out) {
  const opgraft_graph *graph = entry->executable->graph;
  og_text_addf(out, "# graph %s", graph->name);
  for (int32_t s = 0; s < graph->sizes.symbol_count; ++s)
    og_text_addf(out, ", %s = %" PRId64, graph->sizes.symbols[s],
                 entry->plan->symbols[s]);
  og_text_add(out, "\n");
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    const og_loop *loop =
        node->is_removed ? NULL : og_loop_of(entry->idle, node);
    if (loop == NULL) continue;
    og_text_add(out, "\n");
    og_rule_node_print(entry->plan, node, out);
    og_text_addf(out, ": %s\n", og_candidate_name(entry->chosen[n].by));
    og_loop_print(loop, isa, out);
  }
}

og_status opgraft_executable_code(const opgraft_executable *executable,
                                  const char *isa, char *buffer, size_t size,
                                  size_t *out_length, opgraft_error *error) {
  opgraft_executable *own = (opgraft_executable *)(uintptr_t)executable;
  const og_isa set = isa != NULL ? og_isa_parse(isa) : og_isa_used();
  og_text out = {0};
  *out_length = 0;
  if (set == OG_ISA_UNKNOWN)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "isa is \"%s\", expected scalar, avx2, avx512, "
                        "avx512_bf16 or amx_bf16",
                        isa);
  pthread_mutex_lock(&own->mutex);
  for (const og_plan_entry *at = own->plans; at != NULL; at = at->next)
    if (at->idle != NULL && at->chosen != NULL) plan_print(at, set, &out);
  pthread_mutex_unlock(&own->mutex);
  if (out.failed) {
    og_text_reset(&out);
    return og_graph_no_memory(error);
  }
  *out_length = og_text_give(&out, buffer, size);
  return OG_OK;
}

// SPDX-License-Identifier: Apache-2.0
// What an instance reads of its graph's file, checked before it does.

#include "exec/step/checked.h"

#include "base/grain.h"
#include "exec/step/run.h"
#include "exec/step/teams.h"

void og_checked_want(const opgraft_graph *graph, opgraft_value value) {
  const og_value *root = &graph->values[graph->values[value].root];
  if (root->kind == OG_VALUE_CONSTANT)
    og_blocks_want(&graph->blocks, root->data, root->data_bytes);
}

const og_blocks *og_checked_blocks(const opgraft_graph *graph,
                                   opgraft_value value) {
  const og_value *root = &graph->values[graph->values[value].root];
  const bool is_there = root->kind == OG_VALUE_CONSTANT &&
                        og_blocks_have(&graph->blocks, root->data);
  return is_there ? &graph->blocks : NULL;
}

typedef struct checking {
  const og_blocks *blocks;
  const int32_t *indices;
  bool is_wrong;  // atomic
} checking;

static void share_check(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  checking *c = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    if (!og_block_check(c->blocks, c->indices[i]))
      __atomic_store_n(&c->is_wrong, true, __ATOMIC_RELAXED);
}

static og_status blocks_check(opgraft_executable *executable,
                              const int32_t *indices, int32_t count,
                              opgraft_error *error) {
  const og_blocks *blocks = &executable->graph->blocks;
  checking c = {.blocks = blocks, .indices = indices};
  og_team *team = NULL;
  const og_run run = {.executable = executable, .error = error, .team = &team};
  const og_status status =
      og_run_parallel(&run, count, OG_GRAIN_BLOCKS, share_check, &c);
  og_teams_give(team);
  if (status != OG_OK) return status;
  return c.is_wrong ? og_blocks_altered(blocks, error) : OG_OK;
}

og_status og_checked_all(opgraft_executable *executable, opgraft_error *error) {
  const og_blocks *blocks = &executable->graph->blocks;
  if (og_blocks_wanted(blocks, NULL) == 0) return OG_OK;
  // Another thread may want more meanwhile.
  int32_t *indices = og_alloc_zeroed((size_t)blocks->count, sizeof *indices);
  if (indices == NULL) return og_graph_no_memory(error);
  const int32_t count = og_blocks_wanted(blocks, indices);
  const og_status status = blocks_check(executable, indices, count, error);
  og_free(indices);
  return status;
}

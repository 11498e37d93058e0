// SPDX-License-Identifier: Apache-2.0
// The row programs of an instance and the memory of their code.

#include "exec/step/looped.h"

struct og_looped {
  struct og_looped *next;
  og_loop *loop;
  const og_node *node;
  bool is_shared;  // an older one's loop, which releases it
};

// NULL: no node has an equal program.
static og_loop *equal_find(const og_instance *instance,
                           const og_loop_spec *spec) {
  for (const struct og_looped *at = instance->looped; at != NULL; at = at->next)
    if (!at->is_shared && og_loop_is_of(at->loop, spec)) return at->loop;
  return NULL;
}

og_status og_prep_loop(og_prep *prep, const og_loop_spec *spec,
                       og_loop **out_loop) {
  og_instance *instance = prep->instance;
  *out_loop = NULL;
  struct og_looped *kept = og_prep_alloc(prep, sizeof *kept);
  if (kept == NULL) return og_prep_memory(prep);
  if (instance->loop_code == NULL) {
    instance->loop_code = og_loop_code_create();
    if (instance->loop_code == NULL) return og_prep_memory(prep);
  }
  kept->loop = equal_find(instance, spec);
  kept->is_shared = kept->loop != NULL;
  if (!kept->is_shared)
    OG_TRY(og_loop_create(spec, instance->loop_code, &kept->loop, prep->error));
  kept->node = prep->node;
  kept->next = instance->looped;
  instance->looped = kept;
  *out_loop = kept->loop;
  return OG_OK;
}

bool og_loops_seal(og_instance *instance) {
  return instance->loop_code == NULL || og_loop_code_seal(instance->loop_code);
}

const og_loop *og_loop_of(const og_instance *instance, const og_node *node) {
  for (const struct og_looped *at = instance->looped; at != NULL; at = at->next)
    if (at->node == node) return at->loop;
  return NULL;
}

// A program that was tried as an epilogue, and did not fit, runs nowhere.
static bool is_run(const og_instance *instance, const og_loop *loop) {
  for (const struct og_looped *at = instance->looped; at != NULL; at = at->next)
    if (at->loop == loop && og_loop_of(instance, at->node) == loop) return true;
  return false;
}

int32_t og_loops_compiled(const og_instance *instance) {
  int32_t count = 0;
  for (const struct og_looped *at = instance->looped; at != NULL; at = at->next)
    count += !at->is_shared && is_run(instance, at->loop);
  return count;
}

void og_loops_release(og_instance *instance) {
  for (struct og_looped *at = instance->looped; at != NULL; at = at->next)
    if (!at->is_shared) og_loop_destroy(at->loop);
  og_loop_code_destroy(instance->loop_code);
}

// SPDX-License-Identifier: Apache-2.0
// The row programs of an instance and the memory of their code.

#include "exec/step/looped.h"

struct og_looped {
  struct og_looped *next;
  og_loop *loop;
  const og_node *node;
};

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
  OG_TRY(og_loop_create(spec, instance->loop_code, &kept->loop, prep->error));
  kept->node = prep->node;
  kept->next = instance->looped;
  instance->looped = kept;
  *out_loop = kept->loop;
  return OG_OK;
}

void og_loops_seal(og_instance *instance) {
  // Where the system refuses, the programs are interpreted.
  if (instance->loop_code != NULL) og_loop_code_seal(instance->loop_code);
}

const og_loop *og_loop_of(const og_instance *instance, const og_node *node) {
  for (const struct og_looped *at = instance->looped; at != NULL; at = at->next)
    if (at->node == node) return at->loop;
  return NULL;
}

void og_loops_release(og_instance *instance) {
  for (struct og_looped *at = instance->looped; at != NULL; at = at->next)
    og_loop_destroy(at->loop);
  og_loop_code_destroy(instance->loop_code);
}

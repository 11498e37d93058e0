// SPDX-License-Identifier: Apache-2.0
// What moved since a stretch of launches was captured.
//
// Memory moves by base: an input, an output's storage, an arena. All tensors of
// a stretch that lie in one base are one move, which the driver hears of as a
// whole where it can (exec_move), else launch by launch (exec_update). A base
// that no tensor of a launch lies in, but a copy before it, has slots with
// tensor -1; such a stretch is captured again.

#include "exec/device/onboard_moves.h"

#include <stdlib.h>

// A tensor of a launch, and the base that it lies in.
typedef struct use {
  int32_t base;
  int32_t stretch;
  og_slot slot;
} use;

typedef struct collector {
  og_instance *instance;
  use *uses;  // NULL: count only
  int32_t count;
} collector;

// --- Uses --------------------------------------------------------------------

static void value_add(collector *c, const og_captured *launch, int32_t tensor,
                      opgraft_value id) {
  const og_plan *plan = c->instance->entry->plan;
  const int32_t base = id < 0 ? -1 : og_base_of(plan, &plan->places[id]);
  if (base < 0) return;
  if (c->uses != NULL)
    c->uses[c->count] = (use){
        base,
        launch->stretch,
        {launch->index, tensor, plan->places[id].offset_bytes},
    };
  ++c->count;
}

// -1 for constants and workspace, which do not move.
static opgraft_value value_of(const og_instance *instance,
                              const og_tensor *tensor) {
  const uintptr_t first = (uintptr_t)instance->tensors;
  const uintptr_t at = (uintptr_t)tensor;
  const size_t count = (size_t)instance->entry->plan->graph->value_count;
  if (at < first || at >= first + count * sizeof *tensor) return -1;
  return (opgraft_value)((at - first) / sizeof *tensor);
}

static void tensors_add(collector *c, const og_captured *launch, int32_t count,
                        const og_tensor *const *tensors,
                        const og_tensor_list *lists, int32_t *number) {
  for (int32_t i = 0; i < count; ++i) {
    const int64_t items = tensors[i] != NULL ? 1 : lists[i].count;
    for (int64_t k = 0; k < items; ++k) {
      const og_tensor *tensor =
          tensors[i] != NULL ? tensors[i] : lists[i].tensors[k];
      if (tensor == NULL) continue;
      value_add(c, launch, *number, value_of(c->instance, tensor));
      ++*number;
    }
  }
}

static void uses_collect(collector *c, const og_captured *launch) {
  const og_launch *l = launch->launch;
  const og_node *node = launch->node;
  int32_t number = 0;
  tensors_add(c, launch, l->out_count, (const og_tensor *const *)l->call->out,
              l->call->out_list, &number);
  tensors_add(c, launch, l->in_count, l->call->in, l->call->in_list, &number);
  if (!launch->copies_starts) return;
  for (int32_t i = 0; i < node->in_count + node->out_count; ++i)
    value_add(c, launch, -1, og_node_value(node, i));
}

static int by_base(const void *a, const void *b) {
  const use *x = a, *y = b;
  if (x->base != y->base) return x->base < y->base ? -1 : 1;
  if (x->stretch != y->stretch) return x->stretch < y->stretch ? -1 : 1;
  if (x->slot.launch != y->slot.launch)
    return x->slot.launch < y->slot.launch ? -1 : 1;
  return (x->slot.tensor > y->slot.tensor) - (x->slot.tensor < y->slot.tensor);
}

// --- Making ------------------------------------------------------------------

static bool is_same_move(const use *a, const use *b) {
  return a->base == b->base && a->stretch == b->stretch;
}

// Runs of uses become moves; `begin` counts them by base, then sums up.
static og_status moves_fill(og_moves *moves, og_arena *memory, const use *uses,
                            int32_t count) {
  og_slot *slots = og_arena_array(memory, (size_t)count + 1, sizeof *slots);
  moves->moves =
      og_arena_array(memory, (size_t)count + 1, sizeof *moves->moves);
  if (slots == NULL || moves->moves == NULL) return OG_MEMORY;
  int32_t made = 0;
  for (int32_t u = 0; u < count; ++u) {
    slots[u] = uses[u].slot;
    if (u == 0 || !is_same_move(&uses[u - 1], &uses[u])) {
      moves->moves[made++] = (og_move){
          .base = uses[u].base, .stretch = uses[u].stretch, .slots = &slots[u]};
      ++moves->begin[uses[u].base + 1];
    }
    ++moves->moves[made - 1].slot_count;
  }
  for (int32_t b = 0; b < moves->base_count; ++b)
    moves->begin[b + 1] += moves->begin[b];
  return OG_OK;
}

og_status og_moves_make(og_moves *moves, og_instance *instance,
                        og_captured **captured, int32_t count,
                        int32_t stretch_count) {
  og_arena *memory = &instance->memory;
  const int32_t bases = og_base_count(instance->entry->plan);
  moves->base_count = bases;
  const size_t stretches = (size_t)stretch_count + 1;
  collector c = {.instance = instance};
  moves->captured = captured;
  moves->stretch_begin =
      og_arena_array(memory, stretches, sizeof *moves->stretch_begin);
  moves->waiting = og_arena_array(memory, stretches, sizeof *moves->waiting);
  moves->seen = og_arena_array(memory, (size_t)bases + 1, sizeof *moves->seen);
  moves->begin =
      og_arena_array(memory, (size_t)bases + 2, sizeof *moves->begin);
  if (moves->stretch_begin == NULL || moves->waiting == NULL ||
      moves->seen == NULL || moves->begin == NULL)
    return OG_MEMORY;
  for (int32_t i = 0; i < count; ++i) {
    if (captured[i]->index == 0) moves->stretch_begin[captured[i]->stretch] = i;
    uses_collect(&c, captured[i]);
  }
  c.uses = og_alloc_zeroed((size_t)c.count + 1, sizeof *c.uses);
  if (c.uses == NULL) return OG_MEMORY;
  c.count = 0;
  for (int32_t i = 0; i < count; ++i) uses_collect(&c, captured[i]);
  qsort(c.uses, (size_t)c.count, sizeof *c.uses, by_base);
  const og_status status = moves_fill(moves, memory, c.uses, c.count);
  og_free(c.uses);
  return status;
}

// --- A call ------------------------------------------------------------------

static void move_note(og_moves *moves, og_move *move) {
  if (!move->is_told) return;  // no capture has it, or it is in the list
  move->is_told = false;
  move->next = moves->waiting[move->stretch];
  moves->waiting[move->stretch] = move;
}

void og_moves_note(og_moves *moves, og_instance *instance,
                   const opgraft_driver *driver) {
  const int64_t frees = og_driver_free_count(driver);
  const bool may_differ = frees != moves->frees;
  moves->frees = frees;
  for (int32_t b = 0; b < moves->base_count; ++b) {
    const og_reloc_list *list = og_base_list(instance, b);
    if (OG_LIKELY(moves->seen[b] == list->moves && !may_differ)) continue;
    moves->seen[b] = list->moves;
    for (int32_t m = moves->begin[b]; m < moves->begin[b + 1]; ++m)
      move_note(moves, &moves->moves[m]);
  }
}

void og_moves_capture(og_moves *moves, int32_t stretch) {
  const og_move *end = moves->moves + moves->begin[moves->base_count];
  for (og_move *m = moves->moves; m < end; ++m)
    if (m->stretch == stretch) m->is_told = true;
  moves->waiting[stretch] = NULL;
}

bool og_moves_are_none(const og_moves *moves, int32_t stretch) {
  return moves->waiting[stretch] == NULL;
}

static og_status launches_tell(og_moves *moves, opgraft_driver *driver,
                               const og_move *move, void *exec,
                               int32_t *out_index, opgraft_error *error) {
  og_captured **captured =
      &moves->captured[moves->stretch_begin[move->stretch]];
  for (int32_t s = 0; s < move->slot_count; ++s) {
    og_captured *own = captured[move->slots[s].launch];
    if (own->told == moves->round) continue;
    *out_index = own->index;
    OG_TRY(opgraft_driver_exec_update(driver, exec, own->index, own->launch,
                                      error));
    own->told = moves->round;
  }
  return OG_OK;
}

static og_status move_tell(og_moves *moves, const og_instance *instance,
                           opgraft_driver *driver, const og_move *move,
                           void *exec, int32_t *out_index,
                           opgraft_error *error) {
  if (!og_driver_has_moves(driver))
    return launches_tell(moves, driver, move, exec, out_index, error);
  *out_index = move->slots[0].launch;
  return opgraft_driver_exec_move(driver, exec, move->slots, move->slot_count,
                                  og_base_list(instance, move->base)->bound,
                                  error);
}

og_status og_moves_tell(og_moves *moves, const og_instance *instance,
                        opgraft_driver *driver, int32_t stretch, void *exec,
                        int32_t *out_index, opgraft_error *error) {
  og_move **waiting = &moves->waiting[stretch];
  ++moves->round;
  for (; *waiting != NULL; *waiting = (*waiting)->next) {
    OG_TRY(
        move_tell(moves, instance, driver, *waiting, exec, out_index, error));
    (*waiting)->is_told = true;
  }
  return OG_OK;
}

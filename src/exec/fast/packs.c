// SPDX-License-Identifier: Apache-2.0
// Operands of contractions, packed once.
//
// Invariants: a constant's panels do not change. A weight's are written while
// nobody uses them, by the one call that set `is_packing`, after its watch
// began: so panels whose watch holds are those of what the memory has now.

#include "exec/fast/packs.h"

#include <string.h>

#include "base/grain.h"
#include "base/watch.h"
#include "exec/step/teams.h"
#include "kernel/kernel.h"

struct og_pack {
  og_pack *next;
  og_gemm_weights of;
  _Alignas(64) char panels[];
};

static bool is_same(const og_gemm_weights *a, const og_gemm_weights *b) {
  return a->data == b->data && a->n == b->n && a->k == b->k &&
         a->n_stride == b->n_stride && a->k_stride == b->k_stride &&
         a->element == b->element;
}

// Under the mutex.
static og_pack *pack_find(const opgraft_executable *executable,
                          const og_gemm_weights *of) {
  og_pack *at = executable->packs;
  while (at != NULL && !is_same(&at->of, of)) at = at->next;
  return at;
}

// The one of the list: another thread may have been quicker.
static og_pack *pack_add(opgraft_executable *executable, og_pack *pack) {
  pthread_mutex_lock(&executable->mutex);
  og_pack *found = pack_find(executable, &pack->of);
  if (found == NULL) {
    pack->next = executable->packs;
    executable->packs = pack;
  }
  pthread_mutex_unlock(&executable->mutex);
  if (found == NULL) return pack;
  og_free(pack);
  return found;
}

static bool is_within_limit(og_prep *prep, size_t bytes) {
  const int64_t most = prep->executable->host.max_bytes;
  if (most == 0) return true;
  if (bytes > (uint64_t)(most - prep->instance->held_bytes)) return false;
  prep->instance->held_bytes += (int64_t)bytes;
  return true;
}

static opgraft_value operand_b(const og_prep *prep, const og_contraction *of) {
  return prep->node->in[of->c != NULL ? 2 : 1];
}

static bool is_constant(const og_prep *prep, const og_contraction *of) {
  const opgraft_value id = operand_b(prep, of);
  const opgraft_value root = prep->plan->graph->values[id].root;
  return prep->plan->graph->values[root].kind == OG_VALUE_CONSTANT &&
         prep->plan->places[id].kind == OG_PLACE_CONSTANT;
}

static bool has_one_batch(const og_contraction *of) {
  for (int32_t d = 0; d + 2 < of->b->ndim; ++d)
    if (of->b->shape[d] != 1 && of->b->strides[d] != 0) return false;
  return true;
}

static og_gemm_weights weights_of(const og_contraction *of, int element) {
  const og_tensor *b = of->b;
  return (og_gemm_weights){.data = og_bytes(b),
                           .n = of->n,
                           .k = of->k,
                           .n_stride = b->strides[b->ndim - 1],
                           .k_stride = b->strides[b->ndim - 2],
                           .element = element};
}

typedef struct packing {
  og_gemm_weights of;
  char *panels;
} packing;

static void share_panels(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const packing *p = state;
  (void)worker;
  og_gemm_pack(
      &p->of, begin, end,
      p->panels + og_packed_bytes(begin * OG_PANEL, p->of.k, p->of.element));
}

static og_status panels_pack(const og_run *run, const og_gemm_weights *of,
                             char *panels) {
  packing p = {.of = *of, .panels = panels};
  return og_run_parallel(run, (of->n + OG_PANEL - 1) / OG_PANEL,
                         og_grain(OG_GRAIN_LIGHT, of->k * OG_PANEL),
                         share_panels, &p);
}

// Outside of any call.
static og_status constant_pack(og_prep *prep, const og_gemm_weights *of,
                               char *panels) {
  og_team *team = NULL;
  const og_run run = {
      .executable = prep->executable, .error = NULL, .team = &team};
  const og_status status = panels_pack(&run, of, panels);
  og_teams_give(team);
  return status;
}

void og_packs_get(og_prep *prep, const og_contraction *of, int element,
                  const void **out_panels) {
  opgraft_executable *executable = prep->executable;
  *out_panels = NULL;
  if (!is_constant(prep, of) || !has_one_batch(of)) return;
  const og_gemm_weights weights = weights_of(of, element);
  pthread_mutex_lock(&executable->mutex);
  og_pack *pack = pack_find(executable, &weights);
  pthread_mutex_unlock(&executable->mutex);
  if (pack == NULL) {
    const size_t bytes = og_packed_bytes(of->n, of->k, element);
    pack = is_within_limit(prep, bytes)
               ? og_alloc_aligned(_Alignof(og_pack), sizeof *pack + bytes)
               : NULL;
    if (pack == NULL) return;
    *pack = (og_pack){.of = weights};
    if (constant_pack(prep, &weights, pack->panels) != OG_OK) {
      og_free(pack);
      return;
    }
    pack = pack_add(executable, pack);
  }
  *out_panels = pack->panels;
}

void og_packs_destroy(og_pack *packs) {
  while (packs != NULL) {
    og_pack *next = packs->next;
    og_free(packs);
    packs = next;
  }
}

// --- Weights among the inputs ------------------------------------------------

enum {
  LEAST_BYTES = 1 << 14,  // below, to pack costs less than to ask
  LOST_MAX = 8,  // times in a row, after which a weight changes too often
  SETTLED = 64,  // uses after which it does not
};

struct og_kept {
  og_kept *next;
  int32_t input;
  int64_t offset_bytes;
  og_gemm_weights of;  // without data
  pthread_mutex_t mutex;
  og_watch *watch;
  const void *packed_from;  // the memory under the watch
  char *panels;
  int32_t users;    // calls that read the panels
  bool is_packing;  // by one call
  int32_t lost;  // times that the weight was written soon after it was packed
  int32_t uses;  // since
  int32_t wait;  // calls until it is packed again
};

static const og_place *input_place(const og_prep *prep, opgraft_value id) {
  const og_place *place = &prep->plan->places[id];
  const og_value *root =
      &prep->plan->graph->values[prep->plan->graph->values[id].root];
  return place->kind == OG_PLACE_INPUT &&
                 (root->flags & OPGRAFT_INPUT_STATIC) != 0
             ? place
             : NULL;
}

// From its first to its last byte.
static int64_t span_bytes(const og_gemm_weights *w) {
  return ((w->n - 1) * w->n_stride + (w->k - 1) * w->k_stride + 1) *
         (int64_t)og_element_bytes(w->element);
}

bool og_kept_is_offered(const og_prep *prep) {
  const og_node *node = prep->node;
  return og_is_contraction(node) &&
         (prep->executable->host.flags & OPGRAFT_HOST_WEIGHTS_STAY) != 0 &&
         prep->executable->host.max_bytes == 0 &&
         input_place(prep, node->in[node->in_count - 1]) != NULL &&
         og_watch_is_supported();
}

static bool is_taken(const og_prep *prep, const og_contraction *of) {
  const og_tensor *b = of->b;
  return og_kept_is_offered(prep) && has_one_batch(of) && of->n > 0 &&
         of->k > 0 && b->strides[b->ndim - 1] >= 0 &&
         b->strides[b->ndim - 2] >= 0 &&
         of->n * of->k * og_item_bytes(b) >= LEAST_BYTES;
}

static bool kept_is(const og_kept *kept, const og_place *place,
                    const og_gemm_weights *of) {
  return kept->input == place->index &&
         kept->offset_bytes == place->offset_bytes && kept->of.n == of->n &&
         kept->of.k == of->k && kept->of.n_stride == of->n_stride &&
         kept->of.k_stride == of->k_stride && kept->of.element == of->element;
}

og_kept *og_kept_get(og_prep *prep, const og_contraction *of, int element) {
  opgraft_executable *executable = prep->executable;
  og_kept **list = prep->kept != NULL ? prep->kept : &executable->kept;
  if (!is_taken(prep, of)) return NULL;
  const og_place *place = input_place(prep, operand_b(prep, of));
  og_gemm_weights weights = weights_of(of, element);
  weights.data = NULL;
  pthread_mutex_lock(&executable->mutex);
  og_kept *kept = *list;
  while (kept != NULL && !kept_is(kept, place, &weights)) kept = kept->next;
  if (kept == NULL && (kept = og_alloc_zeroed(1, sizeof *kept)) != NULL) {
    *kept = (og_kept){.next = *list,
                      .input = place->index,
                      .offset_bytes = place->offset_bytes,
                      .of = weights};
    pthread_mutex_init(&kept->mutex, NULL);
    *list = kept;
  }
  pthread_mutex_unlock(&executable->mutex);
  return kept;
}

// By the call that set is_packing. False leaves no watch.
static bool kept_pack(og_kept *kept, const void *data, const og_run *run) {
  og_gemm_weights of = kept->of;
  of.data = data;
  og_watch_destroy(kept->watch);
  kept->watch = og_watch_create(data, (size_t)span_bytes(&of));
  if (kept->panels == NULL)
    kept->panels =
        og_alloc_aligned(64, og_packed_bytes(of.n, of.k, of.element));
  kept->packed_from = data;
  const bool is_packed = kept->watch != NULL && kept->panels != NULL &&
                         panels_pack(run, &of, kept->panels) == OG_OK;
  if (is_packed) return true;
  og_watch_destroy(kept->watch);
  kept->watch = NULL;
  return false;
}

// Under the mutex: whether this call is to pack. A weight that is written
// again and again is left for twice as many calls each time, then for good.
static bool is_to_pack(og_kept *kept) {
  if (kept->watch != NULL) {
    og_watch_destroy(kept->watch);
    kept->watch = NULL;
    kept->lost = kept->uses >= SETTLED ? 1 : kept->lost + 1;
    kept->uses = 0;
    kept->wait = kept->lost > 1 ? 1 << kept->lost : 0;
  }
  if (kept->lost > LOST_MAX) return false;
  if (kept->wait > 0) --kept->wait;
  return kept->wait == 0;
}

// Under the mutex, users >= 0: whether the panels are those of `data`.
static bool is_current(const og_kept *kept, const void *data) {
  return kept->watch != NULL && kept->packed_from == data &&
         og_watch_holds(kept->watch);
}

const void *og_kept_enter(og_kept *kept, const og_contraction *of,
                          const og_run *run) {
  const void *data = og_bytes(of->b);
  bool is_ours = false;
  pthread_mutex_lock(&kept->mutex);
  if (!kept->is_packing && is_current(kept, data)) {
    ++kept->users;
    kept->uses += kept->uses < SETTLED;
    pthread_mutex_unlock(&kept->mutex);
    return kept->panels;
  }
  is_ours = !kept->is_packing && kept->users == 0 && is_to_pack(kept);
  kept->is_packing |= is_ours;
  pthread_mutex_unlock(&kept->mutex);
  if (!is_ours) return NULL;
  const bool is_packed = kept_pack(kept, data, run);
  pthread_mutex_lock(&kept->mutex);
  kept->is_packing = false;
  kept->users += is_packed;
  if (!is_packed) kept->lost = LOST_MAX + 1;
  pthread_mutex_unlock(&kept->mutex);
  return is_packed ? kept->panels : NULL;
}

const void *og_kept_try(og_kept *kept, const og_contraction *of) {
  pthread_mutex_lock(&kept->mutex);
  const bool is_there = !kept->is_packing && kept->watch != NULL &&
                        kept->packed_from == og_bytes(of->b) &&
                        !og_watch_is_known_written(kept->watch);
  kept->users += is_there;
  kept->uses += is_there && kept->uses < SETTLED;
  pthread_mutex_unlock(&kept->mutex);
  return is_there ? kept->panels : NULL;
}

// While there are users nobody ends the watch.
bool og_kept_holds(const og_kept *kept) { return og_watch_holds(kept->watch); }

void og_kept_leave(og_kept *kept) {
  pthread_mutex_lock(&kept->mutex);
  --kept->users;
  pthread_mutex_unlock(&kept->mutex);
}

void og_kept_destroy(og_kept *kept) {
  while (kept != NULL) {
    og_kept *next = kept->next;
    og_watch_destroy(kept->watch);
    og_free(kept->panels);
    pthread_mutex_destroy(&kept->mutex);
    og_free(kept);
    kept = next;
  }
}

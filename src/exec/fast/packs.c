// SPDX-License-Identifier: Apache-2.0
// Constant operands of contractions, packed once.

#include "exec/fast/packs.h"

#include <string.h>

#include "kernel/kernel.h"

struct og_pack {
  og_pack *next;
  og_gemm_weights of;
  char panels[];
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

static bool is_constant(const og_prep *prep, const og_contraction *of) {
  const opgraft_value id = prep->node->in[of->c != NULL ? 2 : 1];
  const opgraft_value root = prep->plan->graph->values[id].root;
  return prep->plan->graph->values[root].kind == OG_VALUE_CONSTANT &&
         prep->plan->places[id].kind == OG_PLACE_CONSTANT;
}

static bool has_one_batch(const og_contraction *of) {
  for (int32_t d = 0; d + 2 < of->b->ndim; ++d)
    if (of->b->shape[d] != 1 && of->b->strides[d] != 0) return false;
  return true;
}

void og_packs_get(og_prep *prep, const og_contraction *of, int element,
                  const void **out_panels) {
  const og_tensor *b = of->b;
  opgraft_executable *executable = prep->executable;
  *out_panels = NULL;
  if (!is_constant(prep, of) || !has_one_batch(of)) return;
  const og_gemm_weights weights = {.data = og_bytes(b),
                                   .n = of->n,
                                   .k = of->k,
                                   .n_stride = b->strides[b->ndim - 1],
                                   .k_stride = b->strides[b->ndim - 2],
                                   .element = element};
  pthread_mutex_lock(&executable->mutex);
  og_pack *pack = pack_find(executable, &weights);
  pthread_mutex_unlock(&executable->mutex);
  if (pack == NULL) {
    const size_t bytes = og_packed_bytes(of->n, of->k, element);
    pack = is_within_limit(prep, bytes) ? og_alloc(sizeof *pack + bytes) : NULL;
    if (pack == NULL) return;
    *pack = (og_pack){.of = weights};
    og_gemm_pack(&weights, 0, (of->n + OG_PANEL - 1) / OG_PANEL, pack->panels);
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

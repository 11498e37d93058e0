// SPDX-License-Identifier: Apache-2.0
// Operands of contractions and convolutions, packed once.
//
// Invariants: a constant's panels do not change. A weight's are written while
// nobody uses them, by the one call that set `is_packing`, after its watch
// began: so panels whose watch holds are those of what the memory has now.

#include "exec/fast/packs.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/grain.h"
#include "base/watch.h"
#include "exec/step/teams.h"

struct og_pack {
  og_pack *next;
  og_packing what;
  const char *panels;  // in the graph's file, or `own`
  _Alignas(64) char own[];
};

// But for the memory, and which operand of a node it is.
static bool is_alike(const og_packing *a, const og_packing *b) {
  return a->of.n == b->of.n && a->of.k == b->of.k &&
         a->of.n_stride == b->of.n_stride && a->of.k_stride == b->of.k_stride &&
         a->of.element == b->of.element &&
         a->of.is_rounded == b->of.is_rounded &&
         a->is_winograd == b->is_winograd && a->narrow == b->narrow;
}

// Under the mutex.
static og_pack *pack_find(const opgraft_executable *executable,
                          const og_packing *what) {
  og_pack *at = executable->packs;
  while (at != NULL &&
         (at->what.of.data != what->of.data || !is_alike(&at->what, what)))
    at = at->next;
  return at;
}

// The one of the list: another thread may have been quicker.
static og_pack *pack_add(opgraft_executable *executable, og_pack *pack) {
  pthread_mutex_lock(&executable->mutex);
  og_pack *found = pack_find(executable, &pack->what);
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

static opgraft_value operand_of(const og_prep *prep, const og_packing *what) {
  return prep->node->in[what->operand];
}

bool og_packs_is_constant(const og_prep *prep, const og_packing *what) {
  const opgraft_value id = operand_of(prep, what);
  const opgraft_value root = prep->plan->graph->values[id].root;
  return prep->plan->graph->values[root].kind == OG_VALUE_CONSTANT &&
         prep->plan->places[id].kind == OG_PLACE_CONSTANT;
}

static bool has_one_batch(const og_contraction *of) {
  for (int32_t d = 0; d + 2 < of->b->ndim; ++d)
    if (of->b->shape[d] != 1 && of->b->strides[d] != 0) return false;
  return true;
}

bool og_packing_of(const og_contraction *of, int element, og_packing *out) {
  const og_tensor *b = of->b;
  *out = (og_packing){.of = {.data = og_bytes(b),
                             .n = of->n,
                             .k = of->k,
                             .n_stride = b->strides[b->ndim - 1],
                             .k_stride = b->strides[b->ndim - 2],
                             .element = element},
                      .operand = of->c != NULL ? 2 : 1};
  return has_one_batch(of);
}

static int64_t channels_of(const og_packing *what) {
  return what->of.k / OG_WINOGRAD_TAPS;
}

enum { ERROR_BYTES = 64 };

static int64_t scales_offset(int64_t n, int64_t k, int type) {
  return ((int64_t)og_packed_bytes(n, k, type) + 63) / 64 * 64;
}

const float *og_packs_scales(const void *panels, int64_t n, int64_t k,
                             int type) {
  return (const float *)(const void *)((const char *)panels +
                                       scales_offset(n, k, type));
}

int64_t og_packs_scales_bytes(int64_t n) {
  return (n + OG_PANEL - 1) / OG_PANEL * OG_PANEL * (int64_t)sizeof(float);
}

// Behind the scales, on a line of its own: what og_packs_narrow says of it.
static const float *error_of(const void *panels, const og_packing *what) {
  return og_packs_scales(panels, what->of.n, what->of.k, what->narrow) +
         og_packs_scales_bytes(what->of.n) / (int64_t)sizeof(float);
}

static size_t packed_bytes(const og_packing *what) {
  const og_gemm_weights *of = &what->of;
  if (what->is_winograd) return og_winograd_bytes(of->n, channels_of(what));
  return what->narrow ? (size_t)(scales_offset(of->n, of->k, what->narrow) +
                                 og_packs_scales_bytes(of->n) + ERROR_BYTES)
                      : og_packed_bytes(of->n, of->k, og_panels_type(of));
}

typedef struct packing {
  const og_packing *what;
  char *panels;
  pthread_mutex_t mutex;
  double lost, size;  // squares, of int8 and int4
} packing;

static void share_panels(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const packing *p = state;
  const og_gemm_weights *of = &p->what->of;
  (void)worker;
  og_gemm_pack(
      of, begin, end,
      p->panels + og_packed_bytes(begin * OG_PANEL, of->k, og_panels_type(of)));
}

static void share_narrow(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  packing *p = state;
  const og_gemm_weights *of = &p->what->of;
  float *scales = (float *)(uintptr_t)og_packs_scales(p->panels, of->n, of->k,
                                                      p->what->narrow);
  double lost = 0, size = 0;
  (void)worker;
  const og_gemm_narrow to = {
      .type = p->what->narrow,
      .begin = begin,
      .end = end,
      .packed = (uint8_t *)p->panels +
                og_packed_bytes(begin * OG_PANEL, of->k, p->what->narrow),
      .scales = scales + begin * OG_PANEL};
  og_gemm_quantize(of, &to, &lost, &size);
  pthread_mutex_lock(&p->mutex);
  p->lost += lost;
  p->size += size;
  pthread_mutex_unlock(&p->mutex);
}

static void share_winograd(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const packing *p = state;
  const og_gemm_weights *of = &p->what->of;
  const int64_t channels = channels_of(p->what);
  char *to = p->panels + og_packed_bytes(begin * OG_PANEL, channels, OG_F32);
  (void)worker;
  og_winograd_kernels_used()->pack(of->data, of->n, channels, begin, end,
                                   og_winograd_point(of->n, channels),
                                   (float *)(void *)to);
}

// What rounding lost; OG_UNSUPPORTED where the type cannot hold the weight.
static og_status error_write(const packing *p) {
  float *to = (float *)(uintptr_t)error_of(p->panels, p->what);
  const double error = p->size == 0 ? 0 : sqrt(p->lost / p->size);
  memset(to, 0, ERROR_BYTES);
  *to = (float)error;
  return isfinite(error) ? OG_OK : OG_UNSUPPORTED;
}

static og_status panels_pack(const og_run *run, const og_packing *what,
                             char *panels) {
  packing p = {.what = what, .panels = panels};
  pthread_mutex_init(&p.mutex, NULL);
  const og_status status =
      og_run_parallel(run, (what->of.n + OG_PANEL - 1) / OG_PANEL,
                      og_grain(OG_GRAIN_LIGHT, what->of.k * OG_PANEL),
                      what->is_winograd ? share_winograd
                      : what->narrow    ? share_narrow
                                        : share_panels,
                      &p);
  pthread_mutex_destroy(&p.mutex);
  return status == OG_OK && what->narrow ? error_write(&p) : status;
}

// Outside of any call.
static og_status constant_pack(og_prep *prep, const og_packing *what,
                               char *panels) {
  og_team *team = NULL;
  const og_run run = {
      .executable = prep->executable, .error = NULL, .team = &team};
  const og_status status = panels_pack(&run, what, panels);
  og_teams_give(team);
  return status;
}

// Each layout has a name of its own, by which files hold it: one that changes
// gets another name (docs/graph-file.md). Those of types follow in their order.
static const char *const forms[] = {
    "f32-winograd2",  "f32-panels16",   "bf16-pairs16",   "f16-panels16",
    "i8-quads16",     "f16i4-groups32", "f16i4-groups64", "f16i4-groups128",
    "f16u4-groups32", "f16u4-groups64", "f16u4-groups128"};
static const char *form_of(const og_packing *what) {
  if (what->is_winograd) return forms[0];
  return forms[1 + (what->narrow ? what->narrow : og_panels_type(&what->of))];
}

static og_prepacked packed_of(const opgraft_graph *graph,
                              const og_packing *what) {
  og_prepacked packed = {
      .offset_bytes = (const char *)what->of.data - graph->data,
      .n = what->of.n,
      .k = what->of.k,
      .n_stride = what->of.n_stride,
      .k_stride = what->of.k_stride,
      .size_bytes = (int64_t)packed_bytes(what)};
  memcpy(packed.form, form_of(what), strlen(form_of(what)) + 1);
  return packed;
}

static bool is_of_file(const opgraft_graph *graph, const void *data) {
  return graph->file_text != NULL &&
         (uintptr_t)data >= (uintptr_t)graph->data &&
         (uintptr_t)data - (uintptr_t)graph->data < graph->data_bytes;
}

// The form that the graph's file has; NULL: none.
static const char *mapped_find(const opgraft_graph *graph,
                               const og_packing *what) {
  if (graph->packed_count == 0 || !is_of_file(graph, what->of.data))
    return NULL;
  const og_prepacked wanted = packed_of(graph, what);
  const og_prepacked *found = og_prepacked_find(graph, &wanted);
  return found != NULL ? found->bytes : NULL;
}

static og_pack *pack_make(og_prep *prep, const og_packing *what) {
  const int64_t begun_ns = og_now_ns();
  const char *mapped = mapped_find(prep->plan->graph, what);
  const size_t bytes = mapped != NULL ? 0 : packed_bytes(what);
  og_pack *pack =
      is_within_limit(prep, bytes)
          ? og_alloc_aligned(_Alignof(og_pack), sizeof *pack + bytes)
          : NULL;
  if (pack == NULL) return NULL;
  *pack = (og_pack){.what = *what, .panels = mapped};
  if (mapped != NULL) return pack;
  pack->panels = pack->own;
  const bool is_packed = constant_pack(prep, what, pack->own) == OG_OK;
  prep->instance->pack_ns += og_now_ns() - begun_ns;
  if (is_packed) return pack;
  og_free(pack);
  return NULL;
}

void og_packs_get(og_prep *prep, const og_packing *what,
                  const void **out_panels) {
  opgraft_executable *executable = prep->executable;
  *out_panels = NULL;
  if (!og_packs_is_constant(prep, what)) return;
  pthread_mutex_lock(&executable->mutex);
  og_pack *pack = pack_find(executable, what);
  pthread_mutex_unlock(&executable->mutex);
  if (pack == NULL) {
    pack = pack_make(prep, what);
    if (pack == NULL) return;
    pack = pack_add(executable, pack);
  }
  *out_panels = pack->panels;
  if (pack->panels == pack->own) return;
  if (what->narrow)
    og_blocks_want(&executable->graph->blocks, error_of(pack->panels, what),
                   ERROR_BYTES);
  if (!what->is_winograd) {
    prep->unread = what->operand;
    return;
  }
  // What a transformed weight cannot do, the weight itself does (winograd.c).
  og_blocks_want(&executable->graph->blocks, pack->panels, packed_bytes(what));
}

void og_packs_count(const opgraft_executable *executable, int64_t *out_packed,
                    int64_t *out_mapped) {
  *out_packed = *out_mapped = 0;
  for (const og_pack *at = executable->packs; at != NULL; at = at->next)
    *(at->panels == at->own ? out_packed : out_mapped) +=
        (int64_t)packed_bytes(&at->what);
}

int32_t og_packs_unknown(const opgraft_graph *graph) {
  int32_t count = 0;
  for (int32_t i = 0; i < graph->packed_count; ++i) {
    bool is_known = false;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f)
      is_known |= strcmp(graph->packed[i].form, forms[f]) == 0;
    count += !is_known;
  }
  return count;
}

int32_t og_packs_list(const opgraft_executable *executable, og_prepacked *out) {
  int32_t count = 0;
  for (const og_pack *at = executable->packs; at != NULL; at = at->next) {
    if (!is_of_file(executable->graph, at->what.of.data) ||
        at->what.of.n_stride < 0 || at->what.of.k_stride < 0)
      continue;
    if (out != NULL) {
      out[count] = packed_of(executable->graph, &at->what);
      out[count].bytes = at->panels;
    }
    ++count;
  }
  return count;
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
  og_packing what;  // without data
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

static int32_t weights_operand(const og_node *node) {
  return og_is_contraction(node) ? node->in_count - 1 : 1;
}

bool og_kept_is_offered(const og_prep *prep) {
  const og_node *node = prep->node;
  return og_has_tiles(node) &&
         (prep->executable->host.flags & OPGRAFT_HOST_WEIGHTS_STAY) != 0 &&
         prep->executable->host.max_bytes == 0 &&
         input_place(prep, node->in[weights_operand(node)]) != NULL &&
         og_watch_is_supported();
}

static bool is_taken(const og_prep *prep, const og_gemm_weights *of) {
  return og_kept_is_offered(prep) && of->n > 0 && of->k > 0 &&
         of->n_stride >= 0 && of->k_stride >= 0 &&
         of->n * of->k * (int64_t)og_element_bytes(of->element) >= LEAST_BYTES;
}

static bool kept_is(const og_kept *kept, const og_place *place,
                    const og_packing *what) {
  return kept->input == place->index &&
         kept->offset_bytes == place->offset_bytes &&
         is_alike(&kept->what, what);
}

og_kept *og_kept_get(og_prep *prep, const og_packing *what) {
  opgraft_executable *executable = prep->executable;
  og_kept **list = prep->kept != NULL ? prep->kept : &executable->kept;
  if (!is_taken(prep, &what->of)) return NULL;
  const og_place *place = input_place(prep, operand_of(prep, what));
  pthread_mutex_lock(&executable->mutex);
  og_kept *kept = *list;
  while (kept != NULL && !kept_is(kept, place, what)) kept = kept->next;
  if (kept == NULL && (kept = og_alloc_zeroed(1, sizeof *kept)) != NULL) {
    *kept = (og_kept){.next = *list,
                      .input = place->index,
                      .offset_bytes = place->offset_bytes,
                      .what = *what};
    kept->what.of.data = NULL;
    pthread_mutex_init(&kept->mutex, NULL);
    *list = kept;
  }
  pthread_mutex_unlock(&executable->mutex);
  return kept;
}

// By the call that set is_packing. False leaves no watch.
static bool kept_pack(og_kept *kept, const void *data, const og_run *run) {
  const int64_t begun_ns = og_now_ns();
  og_packing what = kept->what;
  what.of.data = data;
  og_watch_destroy(kept->watch);
  kept->watch = og_watch_create(data, (size_t)span_bytes(&what.of));
  if (kept->panels == NULL)
    kept->panels = og_alloc_aligned(64, packed_bytes(&what));
  kept->packed_from = data;
  const bool is_packed = kept->watch != NULL && kept->panels != NULL &&
                         panels_pack(run, &what, kept->panels) == OG_OK;
  __atomic_add_fetch(&run->executable->pack_ns, og_now_ns() - begun_ns,
                     __ATOMIC_RELAXED);
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

const void *og_kept_enter(og_kept *kept, const void *data, const og_run *run) {
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

const void *og_kept_try(og_kept *kept, const void *data) {
  pthread_mutex_lock(&kept->mutex);
  const bool is_there = !kept->is_packing && kept->watch != NULL &&
                        kept->packed_from == data &&
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

bool og_kept_is_over(og_kept *kept) {
  pthread_mutex_lock(&kept->mutex);
  const bool is_over = kept->lost > LOST_MAX;
  pthread_mutex_unlock(&kept->mutex);
  return is_over;
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

// --- int8 and int4 -----------------------------------------------------------

static void narrow_add(const og_packing *what, const char *panels,
                       int64_t *count, double *error) {
  if (!what->narrow) return;
  const double own = (double)*error_of(panels, what);
  ++*count;
  if (own > *error) *error = own;
}

void og_packs_narrow(const opgraft_executable *executable, int64_t *out_count,
                     double *out_error) {
  *out_count = 0;
  *out_error = 0;
  for (const og_pack *at = executable->packs; at != NULL; at = at->next)
    narrow_add(&at->what, at->panels, out_count, out_error);
  for (og_kept *at = executable->kept; at != NULL; at = at->next) {
    pthread_mutex_lock(&at->mutex);
    if (at->watch != NULL && !at->is_packing)
      narrow_add(&at->what, at->panels, out_count, out_error);
    pthread_mutex_unlock(&at->mutex);
  }
}

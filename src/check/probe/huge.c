// SPDX-License-Identifier: Apache-2.0
// A dim so large that a tensor has more than 2^32 elements: indices, products
// of sizes and byte offsets of 32 bits.
//
// Such tensors need little memory: a few pages with the same rows are mapped
// time after time, and the last rows have pages of their own. In front of them
// lies as much that may not be touched as an index that has become negative can
// reach. Where rows do not depend on each other, as small calls tell, the
// result is the same rows time after time, and those of the last ones.
//
// A call takes seconds, so this is tried only where it is asked for.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "call/call.h"
#include "check/probe/steady.h"
#include "check/probe/table.h"
#include "check/run/array.h"
#include "check/run/axis.h"
#include "check/run/compare.h"
#include "check/run/fill.h"
#include "check/run/guard.h"
#include "check/run/limits.h"
#include "check/run/name.h"
#include "check/run/record.h"
#include "check/run/shown.h"
#include "check/run/trial.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"

enum {
  ROWS = 4,  // that are repeated, and that stand alone at the end
  PAGE = 4096,
  STEP = ROWS * PAGE,  // rows of any size fill whole pages
  CHUNK_BYTES = 4 << 20,
  CHUNK_BYTES_MOST = 256 << 20,
  BEHIND_BYTES = 1 << 20,
  RUN_LIMIT_MS = 120000,
  SECONDS_MOST = 60,  // that a call is expected to take
  ATTEMPTS = 3,       // to see that
  POISON = 0xa5,
};
static const int64_t elements_least = (int64_t)1 << 32;
// How far an index of 32 bits reaches back.
static const int64_t elements_before = (int64_t)1 << 31;

// A tensor in such memory. Without the dim it is an ordinary array.
typedef struct giant {
  char *map;  // NULL: none
  size_t map_bytes;
  char *data;
  char *rows;  // the repeated ones, [count of them a chunk]
  size_t chunk_bytes;
  size_t bulk_bytes;
  size_t row_bytes;
} giant;

typedef struct huge {
  og_trial *trial;
  int32_t dim;
  og_sample small;        // with ROWS places of the dim
  og_inputs first, last;  // arguments of two such calls
  og_outputs wanted_first, wanted_last;
  bool is_alike;  // rows do not depend on each other
  giant in[OPGRAFT_ARG_MAX];
  giant out[OG_ARRAYS_MAX];
} huge;

// --- Memory ------------------------------------------------------------------

static size_t common_divisor(size_t a, size_t b) {
  while (b != 0) {
    const size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void giant_reset(giant *g) {
  if (g->map != NULL) munmap(g->map, g->map_bytes);
  if (g->rows != NULL) munmap(g->rows, g->chunk_bytes);
  *g = (giant){0};
}

// Whole pages of ROWS rows each, as many as fill a chunk.
static size_t chunk_of(size_t row_bytes) {
  const size_t rows = ROWS * row_bytes;
  const size_t unit = rows / common_divisor(rows, PAGE) * PAGE;
  return unit < CHUNK_BYTES ? CHUNK_BYTES / unit * unit : unit;
}

// Maps the rows of `memory` over the bulk.
static bool bulk_map(const giant *g, int memory) {
  enum { ACCESS = PROT_READ | PROT_WRITE };
  for (size_t at = 0; at < g->bulk_bytes; at += g->chunk_bytes) {
    const size_t left = g->bulk_bytes - at;
    if (mmap(g->data + at, left < g->chunk_bytes ? left : g->chunk_bytes,
             ACCESS, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
      return false;
  }
  return true;
}

// `rows` rows, the last ROWS in pages of their own; false, and nothing is held,
// where the system gives no such memory.
static bool giant_create(giant *g, size_t row_bytes, size_t item, int64_t rows,
                         og_role role, int32_t index) {
  enum { ACCESS = PROT_READ | PROT_WRITE, LAZY = MAP_PRIVATE | MAP_ANONYMOUS };
  const size_t before = (size_t)elements_before * item;
  const size_t last = (ROWS * row_bytes + PAGE - 1) / PAGE * PAGE;
  *g = (giant){.row_bytes = row_bytes,
               .chunk_bytes = chunk_of(row_bytes),
               .bulk_bytes = (size_t)(rows - ROWS) * row_bytes};
  if (g->chunk_bytes > CHUNK_BYTES_MOST) return false;
  g->map_bytes = before + g->bulk_bytes + last + BEHIND_BYTES;
  void *map = mmap(NULL, g->map_bytes, PROT_NONE, LAZY | MAP_NORESERVE, -1, 0);
  const int memory = memfd_create("opgraft-huge", MFD_CLOEXEC);
  bool ok = map != MAP_FAILED && memory >= 0 &&
            ftruncate(memory, (off_t)g->chunk_bytes) == 0;
  g->map = map != MAP_FAILED ? map : NULL;
  if (ok) {
    void *chunk = mmap(NULL, g->chunk_bytes, ACCESS, MAP_SHARED, memory, 0);
    g->data = g->map + before;
    g->rows = chunk != MAP_FAILED ? chunk : NULL;
    ok = g->rows != NULL && bulk_map(g, memory) &&
         mmap(g->data + g->bulk_bytes, last, ACCESS, LAZY | MAP_FIXED, -1, 0) !=
             MAP_FAILED;
  }
  if (memory >= 0) close(memory);
  if (!ok) giant_reset(g);
  return ok && og_guard_note(g->map, g->map_bytes, g->data,
                             (size_t)rows * row_bytes, item, role, index);
}

static char *last_rows(const giant *g) { return g->data + g->bulk_bytes; }

static void giant_fill(const giant *g, const char *first, const char *last) {
  const size_t bytes = ROWS * g->row_bytes;
  for (size_t at = 0; at < g->chunk_bytes; at += bytes)
    memcpy(g->rows + at, first, bytes);
  memcpy(last_rows(g), last, bytes);
}

// --- The dim -----------------------------------------------------------------

// A pack stands for its first axis.
static int64_t *places_in(og_sample *s, int32_t d) {
  return s->op->decl->dims[d].kind == OG_DIM_PACK ? &s->pack[d].size[0]
                                                  : &s->dim[d];
}

static int64_t places_read(const og_sample *s, int32_t d) {
  return s->op->decl->dims[d].kind == OG_DIM_PACK ? s->pack[d].size[0]
                                                  : s->dim[d];
}

// 0 where the first item alone is dim or pack `d`, OG_NO_AXIS where none names
// it, else OG_SEVERAL_AXES.
static int32_t axis_in(const og_item *items, int32_t count, int32_t d) {
  int32_t axis = OG_NO_AXIS;
  for (int32_t i = 0; i < count; ++i) {
    const og_item *item = &items[i];
    const bool is_name = (item->kind == OG_ITEM_DIM && item->attr < 0) ||
                         item->kind == OG_ITEM_PACK;
    if (is_name ? item->dim != d : !og_expr_names(&item->expr, d)) continue;
    if (i > 0 || !is_name) return OG_SEVERAL_AXES;
    axis = 0;
  }
  return axis;
}

static int32_t argument_axis(const og_sample *s, int32_t tensor, int32_t d) {
  const og_pattern *pattern = og_pattern_of(s->op->decl, tensor);
  return pattern != NULL ? axis_in(pattern->items, pattern->item_count, d)
                         : OG_SEVERAL_AXES;
}

// Of fresh result i.
static int32_t output_axis(const og_sample *s, int32_t i, int32_t d) {
  const og_shape_rule *rule = &s->op->decl->shapes[i];
  if (rule->kind == OG_SHAPE_LIKE)
    return argument_axis(s, rule->like_tensor, d);
  return rule->kind == OG_SHAPE_ITEMS
             ? axis_in(rule->items, rule->item_count, d)
             : OG_SEVERAL_AXES;
}

// --- The call ----------------------------------------------------------------

static og_status run_whole(const og_call *call, int64_t total, int64_t grain,
                           og_task_fn fn, void *state) {
  (void)call;
  (void)grain;
  if (total > 0) fn(state, 0, total, 0);
  return OG_OK;
}

static og_status refuse(const og_call *call, og_status code, const char *text) {
  (void)call;
  (void)text;
  return code;
}

// A tensor argument of the larger call, whose sizes the sample has.
static bool argument_make(huge *h, const og_sample *s, int32_t t,
                          int64_t *strides, og_tensor *out) {
  const og_array *first = &h->first.tensor[t][0];
  og_array whole = {
      .type = first->type, .sizes = s->shape[t][0], .data = first->data};
  if (argument_axis(s, t, h->dim) == 0) {
    const size_t item = og_dtype_bytes(first->type);
    const size_t row = (size_t)(first->count / ROWS) * item;
    if (!giant_create(&h->in[t], row, item, places_read(s, h->dim),
                      OG_ROLE_INPUT, t))
      return false;
    giant_fill(&h->in[t], first->data, h->last.tensor[t][0].data);
    whole.data = h->in[t].data;
  }
  og_array_as_tensor(&whole, strides, out);
  memcpy(strides + OG_SAMPLE_RANK, whole.sizes.size, sizeof whole.sizes.size);
  out->shape = strides + OG_SAMPLE_RANK;
  return true;
}

static bool results_make(huge *h, const og_sample *s, opgraft_frame *frame) {
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    og_tensor *t = &frame->fresh[i];
    const og_array *small = &h->wanted_first.array[i];
    const size_t item = og_dtype_bytes(t->dtype);
    if (output_axis(s, i, h->dim) != 0) {
      og_guard *b = og_guard_create((size_t)small->count * item, item, false,
                                    OG_ROLE_RESULT, i, 0);
      if (b == NULL) return false;
      t->data = b->data;
      continue;
    }
    giant *g = &h->out[i];
    if (!giant_create(g, (size_t)(small->count / ROWS) * item, item,
                      places_read(s, h->dim), OG_ROLE_RESULT, i))
      return false;
    memset(g->rows, POISON, g->chunk_bytes);
    memset(last_rows(g), POISON, ROWS * g->row_bytes);
    t->data = g->data;
  }
  return true;
}

static bool workspace_make(opgraft_frame *frame, og_guard **out) {
  const size_t bytes = frame->call.workspace_bytes;
  *out = NULL;
  if (bytes == 0) return true;
  *out = og_guard_create(bytes, 64, false, OG_ROLE_WORKSPACE, 0, 0);
  if (*out != NULL) frame->call.workspace = (*out)->data;
  return *out != NULL;
}

static double now_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void giants_reset(huge *h) {
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t) giant_reset(&h->in[t]);
  for (int32_t i = 0; i < OG_ARRAYS_MAX; ++i) giant_reset(&h->out[i]);
  og_guards_release();
}

// Runs the call with so many places of the dim; false where it cannot be made,
// or the kernel refuses it. Its memory is kept until giants_reset.
static bool giant_run(huge *h, const og_sample *s, double *out_seconds) {
  const og_decl *decl = s->op->decl;
  opgraft_error error = {.code = OG_OK};
  opgraft_frame frame;
  og_tensor in[OPGRAFT_ARG_MAX];
  int64_t sizes[OPGRAFT_ARG_MAX][2 * OG_SAMPLE_RANK];
  og_guard *workspace;
  opgraft_frame_init(&frame, s->op);
  og_sample_attrs(s, frame.attr);
  frame.call.threads = 1;
  frame.call.parallel_for = run_whole;
  frame.call.fail = refuse;
  bool ok = true;
  for (int32_t t = 0; ok && t < decl->tensor_count; ++t) {
    frame.in[t] = s->is_given[t] ? &in[t] : NULL;
    if (s->is_given[t]) ok = argument_make(h, s, t, sizes[t], &in[t]);
  }
  ok = ok && opgraft_frame_infer(&frame, &error) == OG_OK &&
       results_make(h, s, &frame) && workspace_make(&frame, &workspace);
  if (ok) {
    og_limits_arm_for(s->op, RUN_LIMIT_MS);
    const double begin = now_seconds();
    ok = frame.kernel->run(&frame.call) == OG_OK;
    *out_seconds = now_seconds() - begin;
    og_limits_arm(s->op);
    ++h->trial->run_count;
  }
  opgraft_frame_reset(&frame);
  return ok;
}

// --- What is expected --------------------------------------------------------

static bool sized(const huge *h, int64_t places, og_sample *out) {
  opgraft_error error;
  *out = h->trial->sample;
  *places_in(out, h->dim) = places;
  return og_sample_is_valid(out, INT64_MAX, &error) &&
         *places_in(out, h->dim) == places;
}

// Whether the dim lies in each argument and result first, or not at all, and in
// some argument.
static bool is_first_dim(const og_trial *trial, int32_t d) {
  const og_sample *s = &trial->sample;
  const og_decl *decl = s->op->decl;
  bool is_named = false;
  if (decl->dims[d].kind == OG_DIM_PACK ? s->pack[d].rank == 0
                                        : decl->dims[d].kind != OG_DIM_SIZE)
    return false;
  if (og_is_offsets_total(decl, d)) return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (!s->is_given[t]) continue;
    const int32_t axis = argument_axis(s, t, d);
    if (axis == OG_SEVERAL_AXES) return false;
    is_named |= axis == 0;
  }
  for (int32_t i = 0; i < trial->base.count; ++i)
    if (output_axis(s, i, d) == OG_SEVERAL_AXES) return false;
  return is_named;
}

// Other values at the places of the dim, those of `from` elsewhere.
static bool other_rows(const huge *h, const og_inputs *from, og_inputs *out) {
  og_sample other = h->small;
  og_inputs drawn;
  other.seed = og_seed_mix(other.seed, 733);
  if (!og_inputs_copy(out, from)) return false;
  if (!og_inputs_fill(&drawn, &other)) {
    og_inputs_reset(out);
    return false;
  }
  for (int32_t t = 0; t < h->small.op->decl->tensor_count; ++t)
    if (out->tensor[t][0].data != NULL &&
        argument_axis(&h->small, t, h->dim) == 0)
      og_array_place(&out->tensor[t][0], 0, 0, &drawn.tensor[t][0]);
  og_inputs_reset(&drawn);
  return true;
}

// Whether results of both calls at once are those of each.
static bool rows_are_alike(const huge *h) {
  og_sample twice;
  og_inputs both;
  og_outputs found;
  bool ok = h->wanted_first.count > 0;
  if (!sized(h, 2 * ROWS, &twice) || !og_inputs_fill(&both, &twice))
    return false;
  for (int32_t t = 0; t < twice.op->decl->tensor_count; ++t) {
    og_array *to = &both.tensor[t][0];
    if (to->data == NULL) continue;
    og_array_place(to, 0, 0, &h->first.tensor[t][0]);
    if (argument_axis(&twice, t, h->dim) == 0)
      og_array_place(to, 0, ROWS, &h->last.tensor[t][0]);
  }
  ok = ok && og_run_quietly(h->trial, &twice, &both, &found);
  og_inputs_reset(&both);
  if (!ok) return false;
  for (int32_t i = 0; ok && i < found.count; ++i) {
    og_verdict verdict;
    og_array first, last;
    ok = output_axis(&twice, i, h->dim) == 0 &&
         og_array_slice(&found.array[i], 0, 0, ROWS, &first);
    if (!ok) break;
    ok = og_array_slice(&found.array[i], 0, ROWS, ROWS, &last);
    if (ok) {
      ok = !og_arrays_differ(&first, &h->wanted_first.array[i], -1, &verdict) &&
           !og_arrays_differ(&last, &h->wanted_last.array[i], -1, &verdict);
      free(last.data);
    }
    free(first.data);
  }
  og_outputs_reset(&found);
  return ok;
}

// Places of the dim that give some argument more than 2^32 elements; 0 where
// there is none with several elements a row, as it should have by its rank.
static int64_t places_of(const huge *h) {
  int64_t most = 0;
  int32_t rank = 0;
  for (int32_t t = 0; t < h->small.op->decl->tensor_count; ++t)
    if (h->first.tensor[t][0].data != NULL &&
        argument_axis(&h->small, t, h->dim) == 0 &&
        h->first.tensor[t][0].count > most) {
      most = h->first.tensor[t][0].count;
      rank = h->first.tensor[t][0].sizes.rank;
    }
  if (most < (rank > 1 ? 2 : 1) * ROWS) return 0;
  const int64_t places = elements_least / (most / ROWS) + 1;
  return (places + STEP - 1) / STEP * STEP + ROWS;
}

// --- What is found -----------------------------------------------------------

static void tell(const huge *h, const og_sample *s, int32_t i,
                 const char *what) {
  char name[64];
  og_name_of(s->op, OG_ROLE_RESULT, i, 0, name, sizeof name);
  og_tell_finding(s->op, OPGRAFT_SIZE_DEPENDENT, false, name,
                  "with %s = %lld, which gives an argument more than 2^32 "
                  "elements, %s: an index, an offset or a product of sizes has "
                  "32 bits",
                  s->op->decl->dims[h->dim].name,
                  (long long)places_read(s, h->dim), what);
}

static bool is_poison(const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if ((unsigned char)at[i] != POISON) return false;
  return true;
}

// The rows at `at` against those of a small call.
static bool rows_differ(const og_array *wanted, char *at, const char *which,
                        char *out, size_t size) {
  og_verdict verdict;
  const og_array found = {.type = wanted->type,
                          .sizes = wanted->sizes,
                          .count = wanted->count,
                          .data = at};
  if (!og_arrays_differ(&found, wanted, -1, &verdict)) return false;
  snprintf(out, size, "of its %s %d places %.200s", which, (int)ROWS,
           verdict.text);
  return true;
}

static void see_results(const huge *h, const og_sample *s) {
  char text[300];
  for (int32_t i = 0; i < h->wanted_first.count; ++i) {
    const giant *g = &h->out[i];
    if (g->map == NULL) continue;
    if (is_poison(last_rows(g), ROWS * g->row_bytes))
      tell(h, s, i, "its last places are not written");
    else if (h->is_alike && (rows_differ(&h->wanted_last.array[i], last_rows(g),
                                         "last", text, sizeof text) ||
                             rows_differ(&h->wanted_first.array[i], g->data,
                                         "first", text, sizeof text)))
      tell(h, s, i, text);
  }
}

// Whether the large call would end soon: its time, from two smaller ones, grows
// with the dim and no faster. Another process may make one of them long.
static bool seems_soon(huge *h, int64_t places) {
  enum { FEW = STEP, MANY = 4 * STEP };
  og_sample s;
  double few = 0, many = 0;
  bool ok = sized(h, FEW + ROWS, &s) && giant_run(h, &s, &few);
  giants_reset(h);
  ok = ok && sized(h, MANY + ROWS, &s) && giant_run(h, &s, &many);
  giants_reset(h);
  return ok && many < 10 * few + 0.01 &&
         many / MANY * (double)places < SECONDS_MOST;
}

static bool is_soon(huge *h, int64_t places) {
  for (int32_t i = 0; i < ATTEMPTS; ++i)
    if (seems_soon(h, places)) return true;
  return false;
}

// False where this call's rows are too short to tell.
static bool try_large(huge *h) {
  const int64_t places = places_of(h);
  og_sample s;
  double seconds;
  if (places == 0) return false;
  if (!is_soon(h, places) || !sized(h, places, &s)) return true;
  og_tell_shown(&s, NULL);  // of a crash, too
  if (giant_run(h, &s, &seconds)) see_results(h, &s);
  giants_reset(h);
  return true;
}

// False where the call with few places does not run, or does not tell.
static bool try_dim(og_trial *trial, int32_t d) {
  huge *h = calloc(1, sizeof *h);
  bool ok = false;
  if (h == NULL) return false;
  h->trial = trial;
  h->dim = d;
  if (!sized(h, ROWS, &h->small) || !og_inputs_fill(&h->first, &h->small))
    goto done;
  if (other_rows(h, &h->first, &h->last)) {
    if (og_run_quietly(trial, &h->small, &h->first, &h->wanted_first)) {
      ok = og_run_quietly(trial, &h->small, &h->last, &h->wanted_last);
      h->is_alike = ok && rows_are_alike(h);
      ok = ok && try_large(h);
      og_outputs_reset(&h->wanted_last);
      og_outputs_reset(&h->wanted_first);
    }
    og_inputs_reset(&h->last);
  }
  og_inputs_reset(&h->first);
done:
  free(h);
  og_tell_shown(&trial->sample, &trial->inputs);
  return ok;
}

// Each dim once: what a call of this size does is the same at any other.
void og_probe_huge(og_trial *trial) {
  static const opgraft_op *of;
  static uint64_t tried;
  const og_decl *decl = trial->op->decl;
  if (!og_is_comparable(trial) || trial->forward != NULL ||
      decl->record->sample != NULL || decl->mutated_count > 0 ||
      decl->has_lists)
    return;
  if (of != trial->op) tried = 0;
  of = trial->op;
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (!(tried >> d & 1) && is_first_dim(trial, d) && try_dim(trial, d))
      tried |= (uint64_t)1 << d;
}

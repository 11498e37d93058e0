// SPDX-License-Identifier: Apache-2.0
// Fused nodes by compiled row programs.
//
// Rows that lie at equal distances are one call. Where rows are no more than
// how elements happen to be counted, they are cut anywhere, so that few long
// rows are shared out too.
//
// Operands whose rows are not in one run, as those of a transposed tensor, are
// turned a few rows at a time, to the worker's scratch.
//
// A program that reads the result of a contraction or convolution element by
// element may run on its finished tiles instead (tile_reader.h): rows are the
// result's then, of a convolution its channels.

#include "base/grain.h"
#include "base/machine.h"
#include "call/call.h"
#include "exec/fast/tile_reader.h"
#include "exec/fast/turn.h"
#include "exec/step/looped.h"
#include "exec/step/rows.h"
#include "exec/step/run.h"

typedef struct fused {
  const og_loop *loop;
  og_rows rows;
  int32_t in_count, out_count;
  void *in[OG_LOOP_INPUTS_MAX];
  int64_t item[OG_LOOP_INPUTS_MAX];  // bytes
  void *out[OG_LOOP_OUTPUTS_MAX];
  char *scratch;  // for each worker
  int64_t worker_bytes;
  int64_t total, grain;
  int32_t tile_input;  // of an epilogue: the operand that tiles are of
  bool is_epilogue, needs_rows;
  // By operand: it is turned. How many rows and elements of each at a time.
  uint32_t turned;
  int64_t turned_rows, turned_width;
  int64_t turned_at;  // in a worker's scratch
  // By result: it is stored past the caches. 0 where none is.
  uint32_t nontemporal;
} fused;

enum { TENSORS_MAX = OG_LOOP_INPUTS_MAX + OG_LOOP_OUTPUTS_MAX };

// --- Running -----------------------------------------------------------------

// Rows of the innermost dim, as blocks of the next dim, in calls of one more.
typedef struct span {
  int64_t rows, blocks, calls;
} span;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// As many rows from `row` on as lie at equal distances, at most `most`.
static span span_from(const fused *s, int64_t row, int64_t most) {
  const int32_t ndim = s->rows.ndim;
  const int64_t *size = s->rows.size + ndim;
  if (ndim == 0) return (span){1, 1, 1};
  const int64_t rows = smaller(size[-1] - row % size[-1], most);
  if (ndim == 1 || rows < size[-1]) return (span){rows, 1, 1};
  row /= rows;
  most /= rows;
  const int64_t blocks = smaller(size[-2] - row % size[-2], most);
  if (ndim == 2 || blocks < size[-2]) return (span){rows, blocks, 1};
  row /= blocks;
  return (span){rows, blocks,
                smaller(size[-3] - row % size[-3], most / blocks)};
}

static int64_t rows_of(span of) { return of.rows * of.blocks * of.calls; }

// How a tensor moves from row to row, and besides from block to block.
static void moves_of(const fused *s, int32_t tensor, int64_t rows,
                     int64_t *out_row, int64_t *out_block) {
  const int64_t *strides = og_rows_strides(&s->rows, tensor);
  const int32_t ndim = s->rows.ndim;
  *out_row = ndim > 0 ? strides[ndim - 1] : 0;
  *out_block = ndim > 1 ? strides[ndim - 2] - rows * *out_row : 0;
}

// The first call of the rows of `of` from `row` on, from element `at` on.
static void call_fill(const fused *s, int64_t row, span of, int64_t at,
                      int64_t width, int32_t worker, og_loop_call *call) {
  int64_t offsets[TENSORS_MAX];
  call->width = width;
  call->rows = of.rows;
  call->blocks = of.blocks;
  call->nontemporal = false;
  call->scratch = s->scratch + worker * s->worker_bytes;
  og_rows_offsets(&s->rows, row, offsets);
  for (int32_t i = 0; i < s->in_count; ++i) {
    const int64_t step = s->rows.step[i];
    call->in[i] = (const char *)s->in[i] + offsets[i] + at * step;
    moves_of(s, i, of.rows, &call->in_row_bytes[i], &call->in_block_bytes[i]);
  }
  for (int32_t r = 0; r < s->out_count; ++r) {
    const int32_t k = s->in_count + r;
    call->out[r] = (char *)s->out[r] + offsets[k] + at * s->rows.step[k];
    moves_of(s, k, of.rows, &call->out_row_bytes[r], &call->out_block_bytes[r]);
  }
}

// Elements before the first whole line of the results; -1 where they begin at
// different places of a line, or between two elements of one.
static int64_t head_of(const fused *s, const og_loop_call *call) {
  int64_t head = -1;
  for (int32_t r = 0; r < s->out_count; ++r) {
    const int64_t bytes = (int64_t)(-(uintptr_t)call->out[r] % OG_LOOP_LINE);
    const int64_t step = s->rows.step[s->in_count + r], own = bytes / step;
    if (!(s->nontemporal >> r & 1)) continue;
    if (bytes % step != 0 || (head >= 0 && own != head)) return -1;
    head = own;
  }
  return head;
}

// To the next one.
static void call_move(const fused *s, og_loop_call *call) {
  const int32_t outer = s->rows.ndim - 3;
  for (int32_t i = 0; i < s->in_count; ++i)
    call->in[i] =
        (const char *)call->in[i] + og_rows_strides(&s->rows, i)[outer];
  for (int32_t r = 0; r < s->out_count; ++r)
    call->out[r] = (char *)call->out[r] +
                   og_rows_strides(&s->rows, s->in_count + r)[outer];
}

// --- Operands that are turned ------------------------------------------------

static void call_turn(const fused *s, int32_t worker, og_loop_call *call) {
  char *to = s->scratch + worker * s->worker_bytes + s->turned_at;
  for (int32_t i = 0; i < s->in_count; ++i) {
    if (!(s->turned >> i & 1)) continue;
    const int64_t item = s->item[i];
    og_turn(call->in[i], call->in_row_bytes[i], s->rows.step[i], call->rows,
            call->width, item, to, call->width * item);
    call->in[i] = to;
    call->in_row_bytes[i] = call->width * item;
    to += s->turned_rows * s->turned_width * item;
  }
}

static void rows_run(const fused *s, int64_t row, span of, int64_t at,
                     int64_t width, int32_t worker) {
  og_loop_call call;
  call_fill(s, row, of, at, width, worker, &call);
  if (s->turned != 0) call_turn(s, worker, &call);
  int64_t head = s->nontemporal != 0 ? head_of(s, &call) : -1;
  if (head > 0 && head < width && rows_of(of) == 1 && !s->needs_rows) {
    call.width = head;
    og_loop_run(s->loop, &call);
    call_fill(s, row, of, at + head, width - head, worker, &call);
    head = 0;
  }
  call.nontemporal = head == 0;
  og_loop_run(s->loop, &call);
  for (int64_t k = 1; k < of.calls; ++k) {
    call_move(s, &call);
    og_loop_run(s->loop, &call);
  }
}

// As span_from, and no more rows than are turned at a time.
static span span_turned(const fused *s, int64_t row, int64_t most) {
  if (s->turned == 0) return span_from(s, row, most);
  const span of = span_from(s, row, smaller(most, s->turned_rows));
  return (span){of.rows, 1, 1};
}

static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const fused *s = state;
  while (begin < end) {
    const span of = span_turned(s, begin, end - begin);
    rows_run(s, begin, of, 0, s->rows.width, worker);
    begin += rows_of(of);
  }
}

static void share_elements(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const fused *s = state;
  const int64_t width = s->rows.width;
  while (begin < end) {
    const int64_t row = begin / width, at = begin % width;
    int64_t n = width - at < end - begin ? width - at : end - begin;
    span of = {1, 1, 1};
    if (s->turned != 0) n = smaller(n, s->turned_width);
    if (n == width) of = span_turned(s, row, (end - begin) / width);
    rows_run(s, row, of, at, n, worker);
    begin += rows_of(of) * n;
  }
}

static void tile_run(void *state, const og_tile *tile, int32_t worker) {
  const fused *s = state;
  const int64_t end = tile->row + tile->rows;
  const char *from = tile->data;
  for (int64_t row = tile->row; row < end;) {
    og_loop_call call;
    span of = span_turned(s, row, end - row);
    of.calls = 1;
    call_fill(s, row, of, tile->column, tile->columns, worker, &call);
    call.in[s->tile_input] = from + (row - tile->row) * tile->row_bytes;
    call.in_row_bytes[s->tile_input] = tile->row_bytes;
    call.in_block_bytes[s->tile_input] = 0;
    if (s->turned != 0) call_turn(s, worker, &call);
    og_loop_run(s->loop, &call);
    row += rows_of(of);
  }
}

static og_status run_rows(void *state, const og_run *run) {
  const fused *s = state;
  return og_run_parallel(run, s->total, s->grain, share_rows, state);
}

static og_status run_elements(void *state, const og_run *run) {
  const fused *s = state;
  return og_run_parallel(run, s->total, s->grain, share_elements, state);
}

// --- Preparing ---------------------------------------------------------------

// Whether a row's elements are not one after the other.
static bool is_apart(const fused *s, int32_t k, const og_tensor *tensor) {
  return s->rows.width > 1 &&
         s->rows.step[k] != (int64_t)og_dtype_bytes(tensor->dtype);
}

// Where rows need not be kept, what does not move along one is one element.
static void inputs_describe(const og_prep *prep, fused *s,
                            const og_fused *meaning, og_loop_operand *out) {
  for (int32_t i = 0; i < s->in_count; ++i) {
    const bool is_row = meaning->needs_rows
                            ? meaning->is_row_input[i]
                            : s->rows.step[i] == 0 && s->rows.width > 1;
    out[i].dtype = prep->in[i]->dtype;
    out[i].form = is_row ? OG_LOOP_ROW : OG_LOOP_RUN;
    s->item[i] = (int64_t)og_dtype_bytes(prep->in[i]->dtype);
    if (!is_row && is_apart(s, i, prep->in[i])) s->turned |= 1u << i;
  }
}

// A line of elements is read whole where rows stand next to each other.
static void turns_cut(fused *s) {
  enum { BYTES = 128 * 1024, WIDTH = 1024, ROWS = 16 };
  const bool takes_all = s->needs_rows || s->is_epilogue;
  s->turned_width = takes_all ? s->rows.width : smaller(s->rows.width, WIDTH);
  const int64_t fit = BYTES / (8 * s->turned_width + 1);
  s->turned_rows = fit > ROWS ? ROWS : fit > 1 ? fit : 1;
}

static bool outputs_describe(const og_prep *prep, const fused *s,
                             const og_fused *meaning, og_loop_operand *out) {
  for (int32_t r = 0; r < s->out_count; ++r) {
    const bool is_row = meaning->is_row_result[r];
    out[r].dtype = prep->out[r]->dtype;
    out[r].form = is_row ? OG_LOOP_ROW : OG_LOOP_RUN;
    if (!is_row && is_apart(s, s->in_count + r, prep->out[r])) return false;
  }
  return true;
}

static bool may_overwrite(const og_prep *prep, const og_loop *loop,
                          uint32_t turned) {
  const og_node *node = prep->node;
  for (int32_t r = 0; r < node->out_count; ++r)
    for (int32_t i = 0; i < node->in_count; ++i)
      if (og_plan_overlaps(prep->plan, node->in[i], node->out[r]) &&
          (turned >> i & 1 || !og_loop_may_overwrite(loop, i)))
        return false;
  return true;
}

// Whether a result shares bytes with an operand other than `but`.
static bool is_over_operand(const og_prep *prep, int32_t result, int32_t but) {
  const og_node *node = prep->node;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (i != but &&
        og_plan_overlaps(prep->plan, node->in[i], node->out[result]))
      return true;
  return false;
}

static bool has_whole_lines(const fused *s, int32_t result) {
  const int64_t *strides = og_rows_strides(&s->rows, s->in_count + result);
  for (int32_t d = 0; d < s->rows.ndim; ++d)
    if (strides[d] % OG_LOOP_LINE != 0) return false;
  return true;
}

// Results that together are larger than the last-level cache: who reads them
// finds little of them there, and a store that a cache takes reads its line
// first.
static uint32_t nontemporal_find(const og_prep *prep, const fused *s,
                                 const og_loop_operand *out) {
  int64_t bytes = 0;
  uint32_t found = 0;
  for (int32_t r = 0; r < s->out_count; ++r) {
    if (!og_loop_may_pass_caches(out[r])) continue;
    if (is_over_operand(prep, r, -1) || !has_whole_lines(s, r)) return 0;
    found |= 1u << r;
    bytes += og_numel(prep->out[r]) * (out[r].dtype.bits / 8);
  }
  return bytes > og_machine_cache_bytes() ? found : 0;
}

// Whether its operands are more than caches hold.
static bool reads_memory(const og_prep *prep, const fused *s) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < s->in_count; ++i)
    bytes +=
        og_numel(prep->in[i]) * (int64_t)og_dtype_bytes(prep->in[i]->dtype);
  return bytes > og_machine_cache_bytes();
}

// Elements of a share: the more, the less is computed of each.
static int64_t grain_of(const og_loop *loop) {
  og_loop_info info;
  og_loop_describe(loop, &info);
  return info.instructions <= 16   ? OG_GRAIN_LIGHT
         : info.instructions <= 64 ? OG_GRAIN_MEDIUM
                                   : OG_GRAIN_HEAVY;
}

static og_status pointers_bind(og_prep *prep, fused *s) {
  for (int32_t i = 0; i < s->in_count; ++i)
    OG_TRY(og_prep_pointer(prep, &s->in[i], prep->in[i]));
  for (int32_t r = 0; r < s->out_count; ++r)
    OG_TRY(og_prep_pointer(prep, &s->out[r], prep->out[r]));
  return OG_OK;
}

static bool scratch_take(og_prep *prep, fused *s,
                         void *(*take)(og_prep *prep, size_t size_bytes)) {
  size_t bytes = (og_loop_scratch_bytes(s->loop, s->rows.width) + 63) / 64 * 64;
  s->turned_at = (int64_t)bytes;
  for (int32_t i = 0; i < s->in_count; ++i)
    if (s->turned >> i & 1)
      bytes += (size_t)(s->turned_rows * s->turned_width * s->item[i]);
  s->worker_bytes = (int64_t)((bytes + 63) / 64 * 64);
  const size_t all =
      (size_t)prep->executable->threads * (size_t)s->worker_bytes;
  char *memory = take(prep, all + 64);
  if (memory == NULL) return false;
  s->scratch = memory + (64 - (uintptr_t)memory % 64) % 64;
  return true;
}

static og_status program_make(og_prep *prep, const og_fused *meaning, fused *s,
                              bool *out_fits) {
  og_loop *loop;
  og_loop_operand in[OG_LOOP_INPUTS_MAX], out[OG_LOOP_OUTPUTS_MAX];
  const uint32_t flags = prep->plan->graph->option_flags;
  og_loop_spec spec = {.text = prep->node->attrs[0].s,
                       .inputs = in,
                       .outputs = out,
                       .input_count = s->in_count,
                       .output_count = s->out_count,
                       .math = flags & OPGRAFT_OPTION_MATH_STRICT
                                   ? OG_LOOP_MATH_STRICT
                                   : OG_LOOP_MATH_FAST,
                       .isa = og_isa_used()};
  inputs_describe(prep, s, meaning, in);
  *out_fits = outputs_describe(prep, s, meaning, out);
  if (!*out_fits) return OG_OK;
  if (!s->is_epilogue && s->turned == 0)
    s->nontemporal = nontemporal_find(prep, s, out);
  spec.nontemporal = s->nontemporal;
  spec.prefetch = !s->is_epilogue && reads_memory(prep, s);
  OG_TRY(og_prep_loop(prep, &spec, &loop));
  *out_fits = may_overwrite(prep, loop, s->turned);
  s->loop = loop;
  return OG_OK;
}

static og_status fused_prepare(og_prep *prep, const og_fused *meaning) {
  bool fits;
  fused *s = og_prep_alloc(prep, sizeof *s);
  if (s == NULL) return og_prep_memory(prep);
  s->in_count = prep->node->in_count;
  s->out_count = prep->node->out_count;
  s->needs_rows = meaning->needs_rows;
  OG_TRY(og_rows_init(prep, meaning, meaning->needs_rows ? 1 : 0, &s->rows));
  OG_TRY(program_make(prep, meaning, s, &fits));
  if (!fits) return OG_UNSUPPORTED;
  OG_TRY(pointers_bind(prep, s));
  turns_cut(s);
  if (!scratch_take(prep, s, og_prep_scratch)) return og_prep_memory(prep);
  og_prep_work(prep, s->rows.count * s->rows.width,
               meaning->program.statement_count);
  s->grain = grain_of(s->loop);
  s->total = s->rows.count;
  if (meaning->needs_rows) {
    s->grain = og_grain(s->grain, s->rows.width);
    prep->step = (og_step){run_rows, s};
  } else {
    s->total *= s->rows.width;
    prep->step = (og_step){run_elements, s};
  }
  if (s->total == 0) prep->step.run = NULL;
  return OG_OK;
}

static og_status meaning_prepare(og_prep *prep,
                                 og_status (*prepare)(og_prep *prep,
                                                      const og_fused *of)) {
  og_arena memory = {0};
  og_fused meaning;
  og_status status = og_fused_read(prep->plan->graph, prep->node, &memory,
                                   &meaning, prep->error);
  if (status == OG_OK) status = prepare(prep, &meaning);
  og_arena_destroy(&memory);
  return status;
}

og_status og_prepare_row_program(og_prep *prep) {
  return meaning_prepare(prep, fused_prepare);
}

// --- As an epilogue ----------------------------------------------------------

static og_status refuse(og_prep *prep, const char *reason) {
  prep->refusal = reason;
  return OG_UNSUPPORTED;
}

// The step of the contraction that the plan joined the node with; NULL where
// it has none.
static const og_step *contraction_step(const og_prep *prep,
                                       const og_join *join) {
  const og_instance *instance = prep->instance;
  const int32_t last = instance->step_count - 1;
  return last >= 0 && instance->step_infos[last].node == join->contraction
             ? &instance->steps[last]
             : NULL;
}

static og_tile_reader *reader_of(const og_step *step) {
  og_tile_reader *reader = og_matmul_reader(step);
  if (reader == NULL) reader = og_convolution_reader(step);
  return reader != NULL ? reader : og_winograd_reader(step);
}

static int32_t tile_input_of(const og_prep *prep, const og_join *join) {
  const opgraft_graph *graph = prep->plan->graph;
  const opgraft_value root = graph->nodes[join->contraction].out[0];
  int32_t i = 0;
  while (graph->values[prep->node->in[i]].root != root) ++i;
  return i;
}

// The last dims of a result that are a row of its tiles: a convolution's are
// pixels.
static int32_t row_dims_of(const og_prep *prep, const og_join *join) {
  const og_node *node = &prep->plan->graph->nodes[join->contraction];
  const int32_t ndim = prep->plan->tensors[node->out[0]].ndim;
  return og_is_contraction(node) ? 1 : ndim - 2;
}

static int64_t last_elements(const og_tensor *t, int32_t dims) {
  int64_t count = 1;
  for (int32_t d = t->ndim - dims; d < t->ndim; ++d) count *= t->shape[d];
  return count;
}

// Whether row r of the program is row r of the result, of all batches.
static bool rows_are_results(const og_prep *prep, const fused *s,
                             const og_tensor *result, int32_t row_dims) {
  const og_tensor *in = prep->in[s->tile_input];
  const int64_t item = (int64_t)og_dtype_bytes(in->dtype);
  int64_t wanted = item * s->rows.width;
  if (prep->plan->graph->values[prep->node->in[s->tile_input]].offset !=
          OG_SIZE_ZERO ||
      s->rows.width != last_elements(result, row_dims) ||
      s->rows.count * s->rows.width != og_numel(result) ||
      (s->rows.width > 1 && s->rows.step[s->tile_input] != item))
    return false;
  for (int32_t d = s->rows.ndim - 1; d >= 0; --d) {
    if (og_rows_strides(&s->rows, s->tile_input)[d] != wanted) return false;
    wanted *= s->rows.size[d];
  }
  return og_tensor_is_contiguous(result);
}

// Tasks write the program's results while others still read the contraction's
// operands.
static bool overwrites_operand(const og_prep *prep, const og_join *join) {
  const og_node *first = &prep->plan->graph->nodes[join->contraction];
  for (int32_t r = 0; r < prep->node->out_count; ++r)
    for (int32_t i = 0; i < first->in_count; ++i)
      if (first->in[i] >= 0 &&
          og_plan_overlaps(prep->plan, first->in[i], prep->node->out[r]))
        return true;
  return false;
}

static og_status reader_make(og_prep *prep, const og_fused *meaning,
                             const og_join *join, fused *s) {
  bool fits;
  const opgraft_value result =
      prep->plan->graph->nodes[join->contraction].out[0];
  s->in_count = prep->node->in_count;
  s->out_count = prep->node->out_count;
  s->tile_input = tile_input_of(prep, join);
  s->is_epilogue = true;
  const int32_t row_dims = row_dims_of(prep, join);
  OG_TRY(og_rows_init(prep, meaning, row_dims, &s->rows));
  if (!rows_are_results(prep, s, &prep->instance->tensors[result], row_dims))
    return refuse(prep, "its rows are not those of the contraction");
  OG_TRY(program_make(prep, meaning, s, &fits));
  if (!fits)
    return refuse(prep,
                  "a result's rows are not in one run, or it overwrites "
                  "what it reads later");
  OG_TRY(pointers_bind(prep, s));
  turns_cut(s);
  // The lane's scratch is the contraction's; as a step of its own the program
  // would share it.
  if (!scratch_take(prep, s, og_prep_alloc))
    return refuse(prep, "there is no memory for its scratch");
  return OG_OK;
}

// A result of floats that lies as the contraction's does.
static void *const *like_result(const og_prep *prep, const fused *s,
                                const og_join *join) {
  const og_node *first = &prep->plan->graph->nodes[join->contraction];
  const og_tensor *like = &prep->instance->tensors[first->out[0]];
  for (int32_t r = 0; r < s->out_count; ++r)
    if (prep->out[r]->dtype.bits == 32 &&
        og_numel(prep->out[r]) == og_numel(like) &&
        og_tensor_is_contiguous(prep->out[r]))
      return &s->out[r];
  return NULL;
}

static og_status epilogue_prepare(og_prep *prep, const og_fused *meaning) {
  const og_plan *plan = prep->plan;
  const og_join *join = &plan->joins[prep->node - plan->graph->nodes];
  if (og_contraction_read_by(plan->graph, prep->node) < 0)
    return OG_UNSUPPORTED;
  if (meaning->needs_rows)
    return refuse(prep, "it needs whole rows, a tile has parts of them");
  if (!join->is_joined)
    return refuse(prep,
                  "another node or a lane's end stands between the two, or it "
                  "reads the result twice");
  const og_step *step = contraction_step(prep, join);
  og_tile_reader *reader = step != NULL ? reader_of(step) : NULL;
  if (reader == NULL)
    return refuse(prep, "another kernel runs the contraction");
  if (overwrites_operand(prep, join))
    return refuse(prep, "it overwrites what the contraction reads");
  fused *s = og_prep_alloc(prep, sizeof *s);
  if (s == NULL) return og_prep_memory(prep);
  OG_TRY(reader_make(prep, meaning, join, s));
  og_prep_work(prep, s->rows.count * s->rows.width,
               meaning->program.statement_count);
  *reader = (og_tile_reader){.run = tile_run,
                             .state = s,
                             .keeps_result = join->keeps_result,
                             .may_repeat = true,
                             .result = like_result(prep, s, join)};
  // The contraction writes the elements of its own result again.
  for (int32_t r = 0; r < s->out_count; ++r)
    if (is_over_operand(prep, r, s->tile_input)) reader->may_repeat = false;
  return OG_OK;
}

og_status og_prepare_epilogue(og_prep *prep) {
  return meaning_prepare(prep, epilogue_prepare);
}

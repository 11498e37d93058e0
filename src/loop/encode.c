// SPDX-License-Identifier: Apache-2.0
// A function: the frame, the loop over rows, passes of row steps and elements.

#include "loop/encode.h"

#include <string.h>

#include "loop/allocate.h"
#include "loop/encode_call.h"
#include "loop/encode_emit.h"
#include "loop/encode_lanes.h"
#include "loop/encode_memory.h"
#include "loop/encode_prefetch.h"
#include "loop/encode_reduce.h"
#include "loop/invariants.h"
#include "loop/lanes.h"

// --- Writing -----------------------------------------------------------------

static void stack(og_encoder *e, og_x86_id id, int32_t reg) {
  og_x86_emit(e->x, (og_x86_instr){.id = id, .reg = reg});
}

static og_x86_rm of_call(size_t offset) {
  return og_x86_at(OG_RDI, (int32_t)offset);
}

// --- The frame ---------------------------------------------------------------

static const int32_t saved[] = {OG_RBX, OG_R12, OG_R13, OG_R14, OG_R15};
enum { SAVED = sizeof saved / sizeof *saved };

static void frame_make(og_encoder *e) {
  const int32_t vector = e->has_wide ? 64 : 32;
  const int32_t lanes = 3 * 64;
  e->rows_at = og_encoder_frame(e, 8);
  e->blocks_at = og_encoder_frame(e, 8);
  e->tail_at = og_encoder_frame(e, 8);
  e->stop_at = og_encoder_frame(e, 8);
  for (int32_t t = 0; t < OG_ENCODER_TAILS; ++t) {
    e->left_at[t] = og_encoder_frame(e, 8);
    e->mask_at[t] = og_encoder_frame(e, 32);
  }
  e->buffer_at = og_encoder_frame(e, OG_ENCODER_BUFFER_BYTES);
  e->lanes_at = og_encoder_frame(e, lanes);
  e->general_at = og_encoder_frame(e, 64);
  if (e->l->has_call)
    e->save_at = og_encoder_frame(e, vector * (e->has_wide ? 32 : 16));
  for (int32_t s = 0; s < e->stream_count; ++s)
    e->stream_at[s] = og_encoder_frame(e, 8);
  for (int32_t r = 0; r < e->l->reduction_count; ++r)
    e->joined_at[r] = og_encoder_frame(e, OG_ENCODER_ROW_BYTES);
  for (int32_t v = 0; v < e->l->count; ++v) {
    const og_loop_instr *i = &e->l->code[v];
    if (!i->is_row || i->op == OG_LANE_number) continue;
    e->row_slot[v] = i->op == OG_LANE_joined
                         ? e->joined_at[i->imm]
                         : og_encoder_frame(e, OG_ENCODER_ROW_BYTES);
  }
}

static bool is_used(const og_encoder *e, int32_t stream) {
  if (stream < OG_STREAM_OUT) return stream < e->spec->input_count;
  if (stream < OG_STREAM_KEEP)
    return stream - OG_STREAM_OUT < e->spec->output_count;
  return true;
}

static void pointers(og_encoder *e) {
  for (int32_t s = 0; s < OG_STREAM_KEEP; ++s) {
    const size_t offset =
        s < OG_STREAM_OUT
            ? offsetof(og_loop_call, in) + 8 * (size_t)s
            : offsetof(og_loop_call, out) + 8 * (size_t)(s - OG_STREAM_OUT);
    if (!is_used(e, s)) continue;
    og_encoder_general(e, OG_X86_mov, OG_RAX, of_call(offset));
    og_encoder_general(e, OG_X86_mov_store, OG_RAX,
                       og_encoder_slot(e->stream_at[s]));
  }
  if (e->l->keep_count == 0) return;
  og_encoder_general(e, OG_X86_mov, OG_RAX,
                     of_call(offsetof(og_loop_call, scratch)));
  og_encoder_general(e, OG_X86_mov, OG_RSI,
                     of_call(offsetof(og_loop_call, width)));
  og_encoder_general_imm(e, OG_X86_add_i, og_x86_reg(OG_RSI),
                         OG_LOOP_PARTIALS - 1);
  og_encoder_general_imm(e, OG_X86_and_i, og_x86_reg(OG_RSI),
                         -OG_LOOP_PARTIALS);
  og_encoder_general_imm(e, OG_X86_shl_i, og_x86_reg(OG_RSI), 2);
  for (int32_t k = 0; k < e->l->keep_count; ++k) {
    og_encoder_general(e, OG_X86_mov_store, OG_RAX,
                       og_encoder_slot(e->stream_at[OG_STREAM_KEEP + k]));
    og_encoder_general(e, OG_X86_add, OG_RAX, og_x86_reg(OG_RSI));
  }
}

static bool has_reduction(const og_loop_pass *pass) {
  for (int32_t k = 0; k < pass->count; ++k)
    if (pass->steps[k].action == OG_LOOP_REDUCE) return true;
  return false;
}

enum { SHORT_COUNT_MIN = 12 };

// Vectors of a step. Without sums one is enough where the loop's own
// instructions do not count.
static int32_t vectors_of(const og_encoder *e, const og_loop_pass *pass) {
  if (has_reduction(pass)) return og_encoder_parts(e);
  return e->has_wide || pass->count > SHORT_COUNT_MIN ? 1 : 2;
}

// The mask of the first rdx lanes, at `mask`.
static void mask_make(og_encoder *e, int32_t mask) {
  int32_t *label = e->has_wide ? &e->word_table : &e->mask_table;
  if (*label < 0) *label = og_x86_label(e->x);
  const og_x86_rm table = {.place = OG_X86_LABEL, .reg = *label};
  og_encoder_general(e, OG_X86_lea, OG_RSI, table);
  if (e->has_wide) {
    og_encoder_general(e, OG_X86_movzx_16, OG_RDX,
                       og_x86_indexed(OG_RSI, OG_RDX, 2, 0));
    og_encoder_general(e, OG_X86_mov_store, OG_RDX, og_encoder_slot(mask));
    return;
  }
  og_encoder_general_imm(e, OG_X86_shl_i, og_x86_reg(OG_RDX), 2);
  og_encoder_general(e, OG_X86_sub, OG_RSI, og_x86_reg(OG_RDX));
  og_encoder_rm(e, OG_X86_vmovups, 0, og_x86_at(OG_RSI, 4 * OG_ENCODER_HALF));
  og_encoder_rm(e, OG_X86_vmovups_store, 0, og_encoder_slot(mask));
}

// What is left of a row behind steps of so many vectors, vector by vector.
static void tails_make(og_encoder *e, int32_t vectors) {
  const int32_t lanes = og_encoder_lanes(e);
  og_encoder_general(e, OG_X86_mov, OG_RAX,
                     of_call(offsetof(og_loop_call, width)));
  og_encoder_general_imm(e, OG_X86_and_i, og_x86_reg(OG_RAX),
                         vectors * lanes - 1);
  for (int32_t t = vectors - 1; t < 2 * vectors - 1; ++t) {
    const int32_t few = og_x86_label(e->x);
    og_encoder_general(e, OG_X86_mov, OG_RDX, og_x86_reg(OG_RAX));
    og_encoder_general_imm(e, OG_X86_cmp_i, og_x86_reg(OG_RDX), lanes);
    og_encoder_jump(e, OG_X86_jbe, few);
    og_encoder_general_imm(e, OG_X86_mov_i, og_x86_reg(OG_RDX), lanes);
    og_x86_place_label(e->x, few);
    og_encoder_general(e, OG_X86_mov_store, OG_RDX,
                       og_encoder_slot(e->left_at[t]));
    og_encoder_general(e, OG_X86_sub, OG_RAX, og_x86_reg(OG_RDX));
    mask_make(e, e->mask_at[t]);
  }
}

static void tails(og_encoder *e) {
  for (int32_t vectors = 1; vectors <= OG_ENCODER_VECTORS; vectors *= 2) {
    bool is_used = false;
    for (int32_t p = 0; p < e->l->pass_count; ++p)
      is_used |= e->l->passes[p].count > 0 &&
                 vectors_of(e, &e->l->passes[p]) == vectors;
    if (is_used) tails_make(e, vectors);
  }
}

// Where the frame's size is written, which is known last.
typedef struct frame_place {
  size_t at, record;
} frame_place;

// Leaves the function where the call's count, then in rax, is 0.
static void end_without(og_encoder *e, size_t count, int32_t end) {
  og_encoder_general(e, OG_X86_mov, OG_RAX, of_call(count));
  og_encoder_general(e, OG_X86_test, OG_RAX, og_x86_reg(OG_RAX));
  og_encoder_jump(e, OG_X86_je, end);
}

static frame_place prologue(og_encoder *e, int32_t end) {
  stack(e, OG_X86_push, OG_RBP);
  og_encoder_general(e, OG_X86_mov, OG_RBP, og_x86_reg(OG_RSP));
  for (int32_t k = 0; k < SAVED; ++k) stack(e, OG_X86_push, saved[k]);
  og_encoder_general_imm(e, OG_X86_sub_i, og_x86_reg(OG_RSP), 0);
  const frame_place place = {e->x->count - 4, e->x->record_count - 1};
  og_encoder_general_imm(e, OG_X86_and_i, og_x86_reg(OG_RSP), -64);
  end_without(e, offsetof(og_loop_call, rows), end);
  end_without(e, offsetof(og_loop_call, blocks), end);
  og_encoder_general(e, OG_X86_mov_store, OG_RAX,
                     og_encoder_slot(e->blocks_at));
  pointers(e);
  e->bits = 256;
  og_encoder_rvm(e, OG_X86_vxorps, 0, 0, og_x86_reg(0));
  for (int32_t at = 0; at < OG_ENCODER_BUFFER_BYTES; at += 32)
    og_encoder_rm(e, OG_X86_vmovups_store, 0,
                  og_encoder_slot(e->buffer_at + at));
  tails(e);
  return place;
}

static void epilogue(og_encoder *e) {
  og_encoder_general(e, OG_X86_lea, OG_RSP, og_x86_at(OG_RBP, -8 * SAVED));
  for (int32_t k = SAVED - 1; k >= 0; --k) stack(e, OG_X86_pop, saved[k]);
  stack(e, OG_X86_pop, OG_RBP);
  og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vzeroupper, .bits = 128});
  og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_ret});
}

// --- Steps -------------------------------------------------------------------

static void step_write(og_encoder *e, const og_loop_step *step, int32_t at) {
  og_encoder_step_begin(e, step);
  switch (step->action) {
    case OG_LOOP_COMPUTE:
      og_encoder_compute(e, step, at);
      break;
    case OG_LOOP_STORE:
      if (e->is_row_section)
        og_encoder_store_row(e, step);
      else
        og_encoder_store_lanes(e, step);
      break;
    case OG_LOOP_REDUCE:
      og_encoder_reduce(e, step);
      break;
    case OG_LOOP_KEEP:
      og_encoder_keep(e, step);
      break;
    case OG_LOOP_RELOAD:
      og_encoder_reload(e, step);
      break;
  }
  og_encoder_step_end(e, step, at);
}

// Row values go to the frame, where every later section finds them.
static void row_steps(og_encoder *e, const og_loop_pass *pass) {
  e->bits = 256;
  e->register_count = 16;
  e->is_row_section = true;
  e->part = 0;
  e->is_masked = false;
  og_encoder_section_begin(e, pass->row_steps, pass->row_count);
  for (int32_t k = 0; k < pass->row_count; ++k) {
    const og_loop_step *step = &pass->row_steps[k];
    e->x->origin = e->pass_origin + k;
    step_write(e, step, k);
    const int32_t reg = e->reg[step->value];
    if (step->action != OG_LOOP_COMPUTE || reg < 0) continue;
    og_encoder_rm(e, OG_X86_vmovups_store, reg,
                  og_encoder_slot(e->row_slot[step->value]));
    if (e->next[step->value] == OG_ENCODER_NEVER) {
      e->owner[reg] = OG_LOOP_NO_VALUE;
      e->reg[step->value] = -1;
    }
  }
  e->is_row_section = false;
  e->x->origin = 0;
}

static void body(og_encoder *e, const og_loop_pass *pass, int32_t part,
                 bool is_masked) {
  e->part = part;
  e->is_masked = is_masked;
  og_encoder_section_begin(e, pass->steps, pass->count);
  for (int32_t k = 0; k < pass->count; ++k) {
    e->x->origin = e->pass_origin + pass->row_count + k;
    step_write(e, &pass->steps[k], k);
  }
  e->x->origin = 0;
}

// --- Passes ------------------------------------------------------------------

static const int32_t stream_registers[] = {
    OG_RBX, OG_R8, OG_R9, OG_R10, OG_R11, OG_R12, OG_R13, OG_R14, OG_R15};
enum { STREAM_REGISTERS = sizeof stream_registers / sizeof *stream_registers };

static void stream_use(og_encoder *e, int32_t stream, int32_t *used) {
  if (e->stream_reg[stream] >= 0 || *used == STREAM_REGISTERS) return;
  e->stream_reg[stream] = stream_registers[(*used)++];
  og_encoder_general(e, OG_X86_mov, e->stream_reg[stream],
                     og_encoder_slot(e->stream_at[stream]));
}

static void step_streams_use(og_encoder *e, const og_loop_step *step,
                             int32_t *used) {
  if (step->action == OG_LOOP_STORE)
    stream_use(e, OG_STREAM_OUT + step->index, used);
  else if (step->action == OG_LOOP_KEEP || step->action == OG_LOOP_RELOAD)
    stream_use(e, OG_STREAM_KEEP + step->index, used);
  else if (og_loop_computes(e->l, step, OG_LANE_load))
    stream_use(e, OG_STREAM_IN + (int32_t)e->l->code[step->value].imm, used);
}

static void streams_use(og_encoder *e, const og_loop_pass *pass) {
  int32_t used = 0;
  for (int32_t s = 0; s < e->stream_count; ++s) e->stream_reg[s] = -1;
  for (int32_t k = 0; k < pass->count; ++k)
    step_streams_use(e, &pass->steps[k], &used);
  for (int32_t k = 0; k < pass->row_count && e->l->pass_count == 1; ++k)
    step_streams_use(e, &pass->row_steps[k], &used);
  og_encoder_prefetch_begin(e, stream_registers + used,
                            STREAM_REGISTERS - used);
}

// From element rcx to rdx, which are apart.
static void steps(og_encoder *e, const og_loop_pass *pass, int32_t vectors) {
  const int32_t again = og_x86_label(e->x);
  og_x86_place_label(e->x, again);
  for (int32_t part = 0; part < vectors; ++part) body(e, pass, part, false);
  og_encoder_general_imm(e, OG_X86_add_i, og_x86_reg(OG_RCX),
                         vectors * og_encoder_lanes(e));
  og_encoder_general(e, OG_X86_cmp, OG_RCX, og_x86_reg(OG_RDX));
  og_encoder_jump(e, OG_X86_jb, again);
}

// Up to rdx in runs, between which partial sums are added to totals.
static void runs(og_encoder *e, const og_loop_pass *pass, int32_t vectors,
                 int32_t end) {
  const int32_t run = og_x86_label(e->x), whole = og_x86_label(e->x);
  og_encoder_general(e, OG_X86_mov_store, OG_RDX, og_encoder_slot(e->stop_at));
  og_x86_place_label(e->x, run);
  og_encoder_general(e, OG_X86_mov, OG_RDX, og_x86_reg(OG_RCX));
  og_encoder_general_imm(e, OG_X86_add_i, og_x86_reg(OG_RDX), OG_LOOP_SUM_RUN);
  og_encoder_general(e, OG_X86_cmp, OG_RDX, og_encoder_slot(e->stop_at));
  og_encoder_jump(e, OG_X86_jbe, whole);
  og_encoder_general(e, OG_X86_mov, OG_RDX, og_encoder_slot(e->stop_at));
  og_x86_place_label(e->x, whole);
  steps(e, pass, vectors);
  og_encoder_general(e, OG_X86_cmp, OG_RDX, og_encoder_slot(e->stop_at));
  og_encoder_jump(e, OG_X86_je, end);
  og_encoder_carry(e);
  og_encoder_jump(e, OG_X86_jmp, run);
}

static void full_steps(og_encoder *e, const og_loop_pass *pass,
                       int32_t vectors) {
  const int32_t end = og_x86_label(e->x);
  og_encoder_general(e, OG_X86_xor, OG_RCX, og_x86_reg(OG_RCX));
  og_encoder_general(e, OG_X86_mov, OG_RDX,
                     of_call(offsetof(og_loop_call, width)));
  og_encoder_general_imm(e, OG_X86_and_i, og_x86_reg(OG_RDX),
                         -vectors * og_encoder_lanes(e));
  og_encoder_jump(e, OG_X86_je, end);
  if (og_encoder_has_sum(e))
    runs(e, pass, vectors, end);
  else
    steps(e, pass, vectors);
  og_x86_place_label(e->x, end);
}

// A masked body where elements are left for it.
static void tail_body(og_encoder *e, const og_loop_pass *pass, int32_t part,
                      int32_t end) {
  og_encoder_general_imm(e, OG_X86_cmp_i, og_encoder_slot(e->left_at[e->tail]),
                         0);
  og_encoder_jump(e, OG_X86_je, end);
  if (e->has_wide) {
    og_encoder_general(e, OG_X86_mov, OG_RAX,
                       og_encoder_slot(e->mask_at[e->tail]));
    og_encoder_general(e, OG_X86_mov_store, OG_RAX,
                       og_encoder_slot(e->tail_at));
    og_encoder_masks(e);
  }
  body(e, pass, part, true);
}

static void elements_write(og_encoder *e, const og_loop_pass *pass) {
  const int32_t end = og_x86_label(e->x);
  const int32_t vectors = vectors_of(e, pass);
  full_steps(e, pass, vectors);
  for (int32_t part = 0; part < vectors; ++part) {
    e->tail = vectors - 1 + part;
    tail_body(e, pass, part, end);
  }
  og_x86_place_label(e->x, end);
}

static void vectors_use(og_encoder *e) {
  e->bits = e->has_wide ? 512 : 256;
  e->register_count = e->has_wide ? 32 : 16;
}

// What elements use besides: what stays from row to row of the only pass is
// made before the rows.
static void elements_begin(og_encoder *e, const og_loop_pass *pass) {
  const bool is_only = e->l->pass_count == 1;
  if (!is_only) og_encoder_invariants_choose(e, pass);
  og_encoder_partials_begin(e);
  if (!og_encoder_numbers_stay(e, pass)) og_encoder_numbers_load(e);
  og_encoder_row_values_load(e);
  if (!is_only) streams_use(e, pass);
}

static void pass_write(og_encoder *e, int32_t p) {
  const og_loop_pass *pass = &e->l->passes[p];
  e->pass = p;
  row_steps(e, pass);
  vectors_use(e);
  if (pass->count == 0) return;
  elements_begin(e, pass);
  elements_write(e, pass);
  og_encoder_join(e);
  og_encoder_running_sums(e);
}

// Every operand moves by what the call has at these places.
static void pointers_move(og_encoder *e, size_t in, size_t out) {
  for (int32_t s = 0; s < OG_STREAM_KEEP; ++s) {
    const size_t offset = s < OG_STREAM_OUT
                              ? in + 8 * (size_t)s
                              : out + 8 * (size_t)(s - OG_STREAM_OUT);
    if (!is_used(e, s)) continue;
    if (e->l->pass_count == 1 && e->stream_reg[s] >= 0) {
      og_encoder_general(e, OG_X86_add, e->stream_reg[s], of_call(offset));
      continue;
    }
    og_encoder_general(e, OG_X86_mov, OG_RAX, of_call(offset));
    og_encoder_general(e, OG_X86_add_store, OG_RAX,
                       og_encoder_slot(e->stream_at[s]));
  }
}

static void rows_begin(og_encoder *e) {
  const og_loop_pass *pass = &e->l->passes[0];
  if (e->l->pass_count != 1) return;
  vectors_use(e);
  og_encoder_invariants_choose(e, pass);
  if (og_encoder_numbers_stay(e, pass)) og_encoder_numbers_load(e);
  streams_use(e, pass);
}

static void again_while(og_encoder *e, int32_t count_at, int32_t again) {
  og_encoder_general_imm(e, OG_X86_dec, og_encoder_slot(count_at), 0);
  og_encoder_jump(e, OG_X86_jne, again);
}

static void rows(og_encoder *e) {
  const int32_t block = og_x86_label(e->x), row = og_x86_label(e->x);
  rows_begin(e);
  og_x86_place_label(e->x, block);
  og_encoder_general(e, OG_X86_mov, OG_RAX,
                     of_call(offsetof(og_loop_call, rows)));
  og_encoder_general(e, OG_X86_mov_store, OG_RAX, og_encoder_slot(e->rows_at));
  og_x86_place_label(e->x, row);
  e->pass_origin = 1;
  for (int32_t p = 0; p < e->l->pass_count; ++p) {
    pass_write(e, p);
    e->pass_origin += e->l->passes[p].row_count + e->l->passes[p].count;
  }
  pointers_move(e, offsetof(og_loop_call, in_row_bytes),
                offsetof(og_loop_call, out_row_bytes));
  again_while(e, e->rows_at, row);
  pointers_move(e, offsetof(og_loop_call, in_block_bytes),
                offsetof(og_loop_call, out_block_bytes));
  again_while(e, e->blocks_at, block);
}

// --- The pool ----------------------------------------------------------------

enum { ONE_BITS = 0x3f800000 };  // 1.0f

static void number_write(og_encoder *e, int32_t label, uint32_t bits) {
  uint32_t lanes[OG_ENCODER_HALF];
  for (int32_t k = 0; k < OG_ENCODER_HALF; ++k) lanes[k] = bits;
  og_x86_place_label(e->x, label);
  og_x86_data(e->x, lanes, sizeof lanes);
}

// A vector of 16 lanes chooses by one bit more, so it has a table twice.
static void table_write(og_encoder *e, int32_t label, const float *table) {
  og_x86_place_label(e->x, label);
  for (int32_t k = 0; k < (e->has_wide ? 2 : 1); ++k)
    og_x86_data(e->x, table, OG_LOOP_TABLE_SIZE * sizeof *table);
}

static void pool_write(og_encoder *e) {
  e->x->code_count = e->x->count;
  og_x86_align(e->x, 64);
  for (int32_t k = 0; k < OG_LOOP_TABLES; ++k)
    if (e->tables[k] >= 0) table_write(e, e->tables[k], og_loop_tables[k]);
  for (int32_t v = 0; v < e->l->count; ++v)
    if (e->pool[v] >= 0) number_write(e, e->pool[v], e->l->code[v].imm);
  for (int32_t kind = 1; kind < OG_LOOP_REDUCTION_COUNT; ++kind)
    if (e->neutral[kind] >= 0)
      number_write(e, e->neutral[kind],
                   og_loop_neutral((og_loop_reduction)kind).u);
  if (e->one >= 0) number_write(e, e->one, ONE_BITS);
  if (e->mask_table >= 0) {
    og_x86_place_label(e->x, e->mask_table);
    for (uint32_t k = 0; k < 2 * OG_ENCODER_HALF; ++k) {
      const uint32_t lane = k < OG_ENCODER_HALF ? ~0u : 0;
      og_x86_data(e->x, &lane, sizeof lane);
    }
  }
  if (e->word_table >= 0) {
    og_x86_place_label(e->x, e->word_table);
    for (uint32_t k = 0; k <= 16; ++k) {
      const uint16_t word = (uint16_t)((1u << k) - 1);
      og_x86_data(e->x, &word, sizeof word);
    }
  }
}

// --- The whole ---------------------------------------------------------------

static bool fill(int32_t **out, og_arena *arena, size_t count) {
  *out = og_arena_array(arena, count, sizeof **out);
  if (*out != NULL) memset(*out, 0xff, count * sizeof **out);
  return *out != NULL;
}

static int32_t steps_most(const og_loop_lowered *l) {
  int32_t most = 1;
  for (int32_t p = 0; p < l->pass_count; ++p) {
    if (l->passes[p].count > most) most = l->passes[p].count;
    if (l->passes[p].row_count > most) most = l->passes[p].row_count;
  }
  return most;
}

static int32_t calls_count(const og_loop_lowered *l) {
  int32_t count = 0;
  for (int32_t p = 0; p < l->pass_count; ++p) {
    const og_loop_pass *pass = &l->passes[p];
    for (int32_t k = 0; k < pass->count; ++k)
      count += 2 * OG_ENCODER_VECTORS *
               (l->code[pass->steps[k].value].op == OG_LANE_call);
    for (int32_t k = 0; k < pass->row_count; ++k)
      count += l->code[pass->row_steps[k].value].op == OG_LANE_call;
  }
  return count;
}

static bool encoder_init(og_encoder *e) {
  const size_t n = (size_t)e->l->count;
  const size_t r = (size_t)e->l->reduction_count;
  const size_t steps = (size_t)steps_most(e->l);
  int32_t *next_after, *partial_reg, *partial_at, *total_at;
  e->stream_count = OG_STREAM_KEEP + e->l->keep_count;
  e->stub_capacity = calls_count(e->l);
  e->is_spilled = og_arena_array(e->arena, n, sizeof(bool));
  e->stubs =
      og_arena_array(e->arena, (size_t)e->stub_capacity, sizeof *e->stubs);
  if (!fill(&e->reg, e->arena, n) || !fill(&e->spill, e->arena, n) ||
      !fill(&e->row_slot, e->arena, n) || !fill(&e->next, e->arena, n) ||
      !fill(&e->pool, e->arena, n) || !fill(&e->held, e->arena, n) ||
      !fill(&e->uses, e->arena, n) || !fill(&next_after, e->arena, 3 * steps) ||
      !fill(&partial_reg, e->arena, OG_ENCODER_PARTS * r) ||
      !fill(&partial_at, e->arena, OG_ENCODER_PARTS * r) ||
      !fill(&total_at, e->arena, OG_ENCODER_VECTORS * r) ||
      !fill(&e->joined_at, e->arena, r) ||
      !fill(&e->stream_at, e->arena, (size_t)e->stream_count) ||
      !fill(&e->stream_reg, e->arena, (size_t)e->stream_count))
    return false;
  e->next_after = (int32_t(*)[3])next_after;
  e->partial_reg = (int32_t(*)[OG_ENCODER_PARTS])partial_reg;
  e->partial_at = (int32_t(*)[OG_ENCODER_PARTS])partial_at;
  e->total_at = (int32_t(*)[OG_ENCODER_VECTORS])total_at;
  e->mask_table = e->word_table = e->one = -1;
  for (int32_t k = 0; k < OG_LOOP_TABLES; ++k)
    e->tables[k] = e->held_tables[k] = -1;
  for (int32_t k = 0; k < OG_LOOP_REDUCTION_COUNT; ++k) e->neutral[k] = -1;
  return e->is_spilled != NULL && e->stubs != NULL;
}

const char *og_loop_encode(const og_loop_spec *spec,
                           const og_loop_lowered *lowered, og_isa isa,
                           og_arena *arena, og_x86 *x) {
  og_encoder e = {.x = x,
                  .arena = arena,
                  .spec = spec,
                  .l = lowered,
                  .has_wide = isa >= OG_ISA_AVX512};
  x->arena = arena;
  if (!encoder_init(&e)) return "out of memory";
  frame_make(&e);
  const int32_t end = og_x86_label(x);
  const frame_place place = prologue(&e, end);
  rows(&e);
  og_x86_place_label(x, end);
  epilogue(&e);
  og_encoder_stubs(&e);
  pool_write(&e);
  og_x86_fix(x);
  if (x->is_short || e.is_short) return "out of memory";
  const int32_t frame = (e.frame_bytes + 63) / 64 * 64;
  memcpy(x->bytes + place.at, &frame, sizeof frame);
  if (x->record_capacity > 0) x->records[place.record].instr.imm = frame;
  return NULL;
}

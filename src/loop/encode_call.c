// SPDX-License-Identifier: Apache-2.0
// Calls of C functions, so what lives in registers is saved. Those of libm
// stand out of line: a step without a lane that needs one passes over a test.
// Running sums are called between passes.

#include "loop/encode_call.h"

#include "loop/allocate.h"
#include "loop/call.h"
#include "loop/encode_emit.h"

enum { LANES_BYTES = 64, GENERALS = 7 };
// That a C function may change and this one keeps.
static const int32_t generals[GENERALS] = {OG_RDI, OG_RCX, OG_RDX, OG_R8,
                                           OG_R9,  OG_R10, OG_R11};

static og_x86_rm operand_home(og_encoder *e, int32_t value) {
  if (value < 0) return (og_x86_rm){.scale = -1};
  return og_encoder_home(e, value);
}

static void test_mask(og_encoder *e, int32_t value, int32_t stub) {
  e->mask_value = OG_LOOP_NO_VALUE;  // the call changes k1
  if (og_loop_is_number(&e->l->code[value])) {
    og_encoder_jump(e, OG_X86_jmp, stub);
    return;
  }
  const int32_t mask = og_encoder_in_register(e, value);
  if (e->bits == 512) {
    og_encoder_rm(e, OG_X86_vpmovd2m, 1, og_x86_reg(mask));
    og_x86_emit(
        e->x,
        (og_x86_instr){
            .id = OG_X86_kortestw, .reg = 1, .rm = og_x86_reg(1), .bits = 128});
    og_encoder_jump(e, OG_X86_jne, stub);
    return;
  }
  og_encoder_rm(e, OG_X86_vmovmskps, OG_RAX, og_x86_reg(mask));
  og_encoder_general(e, OG_X86_test, OG_RAX, og_x86_reg(OG_RAX));
  og_encoder_jump(e, OG_X86_jne, stub);
}

static uint32_t live_registers(const og_encoder *e, int32_t result) {
  uint32_t live = e->reserved;
  for (int32_t r = 0; r < e->register_count; ++r)
    if (e->owner[r] != OG_LOOP_NO_VALUE) live |= 1u << r;
  return live & ~(1u << result);
}

void og_encoder_call(og_encoder *e, int32_t value) {
  const og_loop_instr *i = &e->l->code[value];
  const int32_t stub = og_x86_label(e->x), end = og_x86_label(e->x);
  if (e->stub_count == e->stub_capacity) {
    e->is_short = true;
    return;
  }
  const int32_t result = og_encoder_take(e);
  test_mask(e, i->c, stub);
  og_x86_place_label(e->x, end);
  og_encoder_bind(e, value, result);
  e->stubs[e->stub_count++] = (og_encoder_stub){
      .begin = stub,
      .end = end,
      .instr = i,
      .operands = {operand_home(e, i->a), operand_home(e, i->b),
                   operand_home(e, i->c)},
      .live = live_registers(e, result),
      .result = result,
      .bits = e->bits,
      .origin = e->x->origin};
}

// --- Out of line -------------------------------------------------------------

static og_x86_rm saved(const og_encoder *e, int32_t reg) {
  return og_encoder_slot(e->save_at + reg * (e->has_wide ? 64 : 32));
}

static void registers(og_encoder *e, uint32_t live, og_x86_id id) {
  for (int32_t r = 0; r < OG_ENCODER_REGISTERS_MAX; ++r)
    if (live >> r & 1) og_encoder_rm(e, id, r, saved(e, r));
}

static og_x86_rm lanes_of(const og_encoder *e, int32_t k) {
  return og_encoder_slot(e->lanes_at + k * LANES_BYTES);
}

// Those in registers first; then register 0, which is saved, is free.
static void operands(og_encoder *e, const og_encoder_stub *stub) {
  for (int32_t k = 0; k < 3; ++k) {
    const og_x86_rm *home = &stub->operands[k];
    if (home->scale >= 0 && home->place == OG_X86_REGISTER)
      og_encoder_rm(e, OG_X86_vmovups_store, home->reg, lanes_of(e, k));
  }
  for (int32_t k = 0; k < 3; ++k) {
    og_x86_rm home = stub->operands[k];
    const bool is_broadcast = home.is_broadcast;
    if (home.scale < 0 || home.place == OG_X86_REGISTER) continue;
    home.is_broadcast = false;
    og_encoder_rm(e, is_broadcast ? OG_X86_vbroadcastss : OG_X86_vmovups, 0,
                  home);
    og_encoder_rm(e, OG_X86_vmovups_store, 0, lanes_of(e, k));
  }
}

static void arguments(og_encoder *e, const og_encoder_stub *stub) {
  const int32_t pointers[] = {OG_RDX, OG_RCX, OG_R8, OG_R9};
  const int32_t offsets[] = {0, LANES_BYTES, 2 * LANES_BYTES, 0};
  for (int32_t k = 0; k < 4; ++k)
    og_encoder_general(e, OG_X86_lea, pointers[k],
                       og_encoder_slot(e->lanes_at + offsets[k]));
  og_encoder_general_imm(e, OG_X86_mov_i, og_x86_reg(OG_RDI),
                         (int64_t)stub->instr->imm);
  og_encoder_general_imm(e, OG_X86_mov_i, og_x86_reg(OG_RSI), stub->bits / 32);
}

static void masks_again(og_encoder *e) {
  og_encoder_general(e, OG_X86_mov_32, OG_RAX, og_encoder_slot(e->tail_at));
  og_encoder_masks(e);
}

static void generals_move(og_encoder *e, og_x86_id id) {
  for (int32_t k = 0; k < GENERALS; ++k)
    og_encoder_general(e, id, generals[k],
                       og_encoder_slot(e->general_at + 8 * k));
}

static void function_call(og_encoder *e, intptr_t function) {
  og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vzeroupper, .bits = 128});
  og_x86_emit(e->x, (og_x86_instr){
                        .id = OG_X86_movabs, .reg = OG_RAX, .imm = function});
  og_encoder_general(e, OG_X86_call, 0, og_x86_reg(OG_RAX));
  generals_move(e, OG_X86_mov);
}

static void stub_write(og_encoder *e, const og_encoder_stub *stub) {
  void (*const function)(int32_t, int64_t, const og_loop_lane *,
                         const og_loop_lane *, const og_loop_lane *,
                         og_loop_lane *) = og_loop_call_lanes;
  e->bits = stub->bits;
  e->x->origin = stub->origin;
  og_x86_place_label(e->x, stub->begin);
  registers(e, stub->live, OG_X86_vmovups_store);
  operands(e, stub);
  generals_move(e, OG_X86_mov_store);
  arguments(e, stub);
  function_call(e, (intptr_t)function);
  if (e->has_wide) masks_again(e);
  registers(e, stub->live, OG_X86_vmovups);
  og_encoder_rm(e, OG_X86_vmovups, stub->result, og_encoder_slot(e->lanes_at));
  og_encoder_jump(e, OG_X86_jmp, stub->end);
}

void og_encoder_stubs(og_encoder *e) {
  for (int32_t k = 0; k < e->stub_count; ++k) stub_write(e, &e->stubs[k]);
}

// --- Between passes ----------------------------------------------------------

void og_encoder_running_sums(og_encoder *e) {
  void (*const function)(og_loop_reduction, int64_t, float *) =
      og_loop_running_sum;
  for (int32_t n = 0; n < e->l->running_count; ++n) {
    const og_loop_running *r = &e->l->running[n];
    if (r->pass != e->pass || r->keep < 0) continue;
    generals_move(e, OG_X86_mov_store);
    og_encoder_general(
        e, OG_X86_mov, OG_RSI,
        og_x86_at(OG_RDI, (int32_t)offsetof(og_loop_call, width)));
    og_encoder_general(e, OG_X86_mov, OG_RDX,
                       og_encoder_slot(e->stream_at[OG_STREAM_KEEP + r->keep]));
    og_encoder_general_imm(e, OG_X86_mov_i, og_x86_reg(OG_RDI), r->kind);
    function_call(e, (intptr_t)function);
  }
}

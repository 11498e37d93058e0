// SPDX-License-Identifier: Apache-2.0
// Elements to and from registers. A tail reads and writes its own elements
// only: with masks where the set has them for the type, else one by one through
// a buffer in the frame.

#include "loop/encode_memory.h"

#include "loop/allocate.h"
#include "loop/encode_emit.h"
#include "loop/encode_prefetch.h"

static og_x86_instr instr(og_x86_id id, int32_t reg, og_x86_rm rm,
                          int32_t bits) {
  return (og_x86_instr){.id = id, .reg = reg, .rm = rm, .bits = bits};
}

static void emit(og_encoder *e, og_x86_id id, int32_t reg, og_x86_rm rm,
                 int32_t bits) {
  og_x86_emit(e->x, instr(id, reg, rm, bits));
}

// The register that points to a stream's row.
static int32_t base_of(og_encoder *e, int32_t stream) {
  if (e->stream_reg[stream] >= 0) return e->stream_reg[stream];
  og_encoder_general(e, OG_X86_mov, OG_RAX,
                     og_encoder_slot(e->stream_at[stream]));
  return OG_RAX;
}

static og_x86_rm element(og_encoder *e, int32_t stream, int32_t bytes) {
  return og_x86_indexed(base_of(e, stream), OG_RCX, bytes,
                        e->part * og_encoder_lanes(e) * bytes);
}

// --- A tail through the buffer -----------------------------------------------

static const struct {
  og_x86_id load, store;
} movers[9] = {
    [1] = {OG_X86_movzx_8, OG_X86_mov_store8},
    [2] = {OG_X86_movzx_16, OG_X86_mov_store16},
    [8] = {OG_X86_mov, OG_X86_mov_store},
};

// Copies the elements of this part from or to the buffer; there is one at
// least.
static void copy_left(og_encoder *e, int32_t stream, int32_t bytes,
                      bool to_buffer) {
  const og_x86_rm at = element(e, stream, bytes);
  const og_x86_rm in_row = og_x86_indexed(OG_RAX, OG_RDX, bytes, 0);
  const og_x86_rm in_buffer =
      og_x86_indexed(OG_RSP, OG_RDX, bytes, e->buffer_at);
  const int32_t again = og_x86_label(e->x);
  og_encoder_general(e, OG_X86_lea, OG_RAX, at);
  og_encoder_general(e, OG_X86_xor, OG_RDX, og_x86_reg(OG_RDX));
  og_x86_place_label(e->x, again);
  og_encoder_general(e, movers[bytes].load, OG_RSI,
                     to_buffer ? in_row : in_buffer);
  og_encoder_general(e, movers[bytes].store, OG_RSI,
                     to_buffer ? in_buffer : in_row);
  og_encoder_general_imm(e, OG_X86_add_i, og_x86_reg(OG_RDX), 1);
  og_encoder_general(e, OG_X86_cmp, OG_RDX,
                     og_encoder_slot(e->left_at[e->tail]));
  og_encoder_jump(e, OG_X86_jb, again);
}

// --- Loads -------------------------------------------------------------------

static og_x86_id load_id(og_loop_memory memory) {
  switch (memory) {
    case OG_LOOP_ZERO16:
      return OG_X86_vpmovzxwd;
    case OG_LOOP_SIGN16:
      return OG_X86_vpmovsxwd;
    case OG_LOOP_ZERO8:
      return OG_X86_vpmovzxbd;
    case OG_LOOP_SIGN8:
      return OG_X86_vpmovsxbd;
    case OG_LOOP_F16:
      return OG_X86_vcvtph2ps;
    default:
      return OG_X86_vmovups;
  }
}

// 8 numbers of 64 bits, one by one: AVX2 has no conversion of vectors.
static void load_i64(og_encoder *e, int32_t reg, og_x86_rm from) {
  for (int32_t k = 0; k < OG_ENCODER_HALF; ++k, from.disp += 8) {
    og_encoder_rvm(e, OG_X86_vcvtsi2ss, reg, reg, from);
    emit(e, OG_X86_vmovss_store, reg, og_encoder_slot(e->lanes_at + 4 * k),
         128);
  }
  emit(e, OG_X86_vmovups, reg, og_encoder_slot(e->lanes_at), 256);
}

static void load_narrow(og_encoder *e, int32_t reg, int32_t stream,
                        og_loop_memory memory) {
  const int32_t bytes = og_loop_memory_bytes(memory);
  if (!e->is_masked) {
    const og_x86_rm from = element(e, stream, bytes);
    if (memory == OG_LOOP_I64)
      load_i64(e, reg, from);
    else
      emit(e, load_id(memory), reg, from, 256);
  } else if (bytes == 4) {
    const int32_t mask = og_encoder_take(e);
    const og_x86_rm from = element(e, stream, bytes);
    emit(e, OG_X86_vmovups, mask, og_encoder_slot(e->mask_at[e->tail]), 256);
    og_encoder_rvm(e, OG_X86_vmaskmovps, reg, mask, from);
  } else {
    copy_left(e, stream, bytes, true);
    if (memory == OG_LOOP_I64)
      load_i64(e, reg, og_encoder_slot(e->buffer_at));
    else
      emit(e, load_id(memory), reg, og_encoder_slot(e->buffer_at), 256);
  }
}

static void load_wide(og_encoder *e, int32_t reg, int32_t stream,
                      og_loop_memory memory) {
  og_x86_rm from = element(e, stream, og_loop_memory_bytes(memory));
  og_x86_instr i =
      instr(memory == OG_LOOP_I64 ? OG_X86_vcvtqq2ps : load_id(memory), reg,
            from, 512);
  i.mask = e->is_masked ? 2 : 0;
  i.is_zeroing = e->is_masked;
  og_x86_emit(e->x, i);
  if (memory != OG_LOOP_I64) return;
  const int32_t upper = og_encoder_take(e);
  i.reg = upper;
  i.rm.disp += 64;
  i.mask = e->is_masked ? 3 : 0;
  og_x86_emit(e->x, i);
  og_encoder_imm(e, OG_X86_vinsertf64x4, reg, reg, og_x86_reg(upper), 1);
}

void og_encoder_load_lanes(og_encoder *e, int32_t value) {
  const int32_t input = (int32_t)e->l->code[value].imm;
  const int32_t reg = og_encoder_take(e);
  const og_loop_memory memory = e->l->in_memory[input];
  og_encoder_prefetch(e, input);
  if (e->bits == 512)
    load_wide(e, reg, OG_STREAM_IN + input, memory);
  else
    load_narrow(e, reg, OG_STREAM_IN + input, memory);
  og_encoder_bind(e, value, reg);
}

void og_encoder_reload(og_encoder *e, const og_loop_step *step) {
  const int32_t reg = og_encoder_take(e);
  emit(e, OG_X86_vmovups, reg, element(e, OG_STREAM_KEEP + step->index, 4),
       e->bits);
  og_encoder_bind(e, step->value, reg);
}

// --- Stores ------------------------------------------------------------------

// Kept rows have room for whole steps.
void og_encoder_keep(og_encoder *e, const og_loop_step *step) {
  const int32_t reg = og_encoder_in_register(e, step->value);
  emit(e, OG_X86_vmovups_store, reg,
       element(e, OG_STREAM_KEEP + step->index, 4), e->bits);
}

static og_x86_id store_id(const og_encoder *e) {
  return e->passes_caches ? OG_X86_vmovntps : OG_X86_vmovups_store;
}

// The low 16 or 8 bits of 8 lanes; the bits above are 0.
static void store_packed(og_encoder *e, int32_t reg, int32_t bytes,
                         og_x86_rm to) {
  const int32_t packed = og_encoder_take(e);
  og_encoder_imm(e, OG_X86_vextractf128, reg, 0, og_x86_reg(packed), 1);
  og_x86_instr i = {.id = OG_X86_vpackusdw,
                    .reg = packed,
                    .src = reg,
                    .rm = og_x86_reg(packed),
                    .bits = 128};
  og_x86_emit(e->x, i);
  if (bytes == 2) {
    emit(e, store_id(e), packed, to, 128);
    return;
  }
  i.id = OG_X86_vpackuswb;
  i.src = packed;
  og_x86_emit(e->x, i);
  emit(e, OG_X86_vmovq, packed, to, 128);
}

// `to` does not use rsi.
static void store_i64(og_encoder *e, int32_t reg, og_x86_rm to) {
  emit(e, OG_X86_vmovups_store, reg, og_encoder_slot(e->lanes_at), 256);
  for (int32_t k = 0; k < OG_ENCODER_HALF; ++k, to.disp += 8) {
    emit(e, OG_X86_vcvttss2si, OG_RSI, og_encoder_slot(e->lanes_at + 4 * k),
         128);
    og_encoder_general(e, OG_X86_mov_store, OG_RSI, to);
  }
}

// By an instruction that narrows lanes to half their bits. No such one is
// non-temporal by itself.
static void store_halved(og_encoder *e, og_x86_id id, int32_t reg, og_x86_rm to,
                         int32_t bits) {
  og_x86_instr i = instr(id, reg, to, bits);
  i.mask = bits == 512 && e->is_masked ? 2 : 0;
  if (e->passes_caches) {
    const int32_t half = og_encoder_take(e);
    i.rm = og_x86_reg(half);
    og_x86_emit(e->x, i);
    i = instr(OG_X86_vmovntps, half, to, bits / 2);
  }
  og_x86_emit(e->x, i);
}

static void store_all(og_encoder *e, int32_t reg, og_loop_memory memory,
                      og_x86_rm to) {
  switch (memory) {
    case OG_LOOP_32:
      emit(e, store_id(e), reg, to, 256);
      break;
    case OG_LOOP_F16:
      store_halved(e, OG_X86_vcvtps2ph, reg, to, 256);
      break;
    case OG_LOOP_I64:
      store_i64(e, reg, to);
      break;
    default:
      store_packed(e, reg, og_loop_memory_bytes(memory), to);
  }
}

static void store_narrow(og_encoder *e, int32_t reg, int32_t stream,
                         og_loop_memory memory) {
  const int32_t bytes = og_loop_memory_bytes(memory);
  if (!e->is_masked) {
    store_all(e, reg, memory, element(e, stream, bytes));
  } else if (bytes == 4) {
    const int32_t mask = og_encoder_take(e);
    const og_x86_rm to = element(e, stream, bytes);
    emit(e, OG_X86_vmovups, mask, og_encoder_slot(e->mask_at[e->tail]), 256);
    og_encoder_rvm(e, OG_X86_vmaskmovps_store, reg, mask, to);
  } else {
    store_all(e, reg, memory, og_encoder_slot(e->buffer_at));
    copy_left(e, stream, bytes, false);
  }
}

static void store_wide_i64(og_encoder *e, int32_t reg, og_x86_instr i) {
  const int32_t upper = og_encoder_take(e);
  i.id = OG_X86_vmovupd_store;
  i.reg = og_encoder_take(e);
  og_encoder_rm(e, OG_X86_vcvttps2qq, i.reg, og_x86_reg(reg));
  og_x86_emit(e->x, i);
  og_encoder_imm(e, OG_X86_vextractf64x4, reg, 0, og_x86_reg(upper), 1);
  og_encoder_rm(e, OG_X86_vcvttps2qq, i.reg, og_x86_reg(upper));
  i.rm.disp += 64;
  if (e->is_masked) i.mask = 3;
  og_x86_emit(e->x, i);
}

static void store_wide(og_encoder *e, int32_t reg, int32_t stream,
                       og_loop_memory memory) {
  const int32_t bytes = og_loop_memory_bytes(memory);
  og_x86_instr i =
      instr(OG_X86_vmovups_store, reg, element(e, stream, bytes), 512);
  i.mask = e->is_masked ? 2 : 0;
  if (memory == OG_LOOP_I64) {
    store_wide_i64(e, reg, i);
    return;
  }
  if (bytes == 2) {
    store_halved(e, memory == OG_LOOP_F16 ? OG_X86_vcvtps2ph : OG_X86_vpmovdw,
                 reg, i.rm, 512);
    return;
  }
  i.id = bytes == 1 ? OG_X86_vpmovdb : store_id(e);
  og_x86_emit(e->x, i);
}

void og_encoder_store_lanes(og_encoder *e, const og_loop_step *step) {
  const int32_t reg = og_encoder_in_register(e, step->value);
  const og_loop_memory memory = e->l->out_memory[step->index];
  e->passes_caches = !e->is_masked && e->spec->nontemporal >> step->index & 1;
  if (e->bits == 512)
    store_wide(e, reg, OG_STREAM_OUT + step->index, memory);
  else
    store_narrow(e, reg, OG_STREAM_OUT + step->index, memory);
}

// --- One element for the row -------------------------------------------------

static og_x86_rm row_at(og_encoder *e, int32_t stream) {
  return og_x86_at(base_of(e, stream), 0);
}

void og_encoder_load_row(og_encoder *e, int32_t value) {
  const int32_t input = (int32_t)e->l->code[value].imm;
  const int32_t reg = og_encoder_take(e);
  const og_loop_memory memory = e->l->in_memory[input];
  const og_x86_rm from = row_at(e, OG_STREAM_IN + input);
  const og_x86_id ids[] = {
      [OG_LOOP_ZERO16] = OG_X86_movzx_16, [OG_LOOP_SIGN16] = OG_X86_movsx_16,
      [OG_LOOP_ZERO8] = OG_X86_movzx_8,   [OG_LOOP_SIGN8] = OG_X86_movsx_8,
      [OG_LOOP_F16] = OG_X86_movzx_16,
  };
  if (memory == OG_LOOP_32) {
    emit(e, OG_X86_vbroadcastss, reg, from, 256);
  } else if (memory == OG_LOOP_I64) {
    og_encoder_rvm(e, OG_X86_vcvtsi2ss, reg, reg, from);
    emit(e, OG_X86_vbroadcastss, reg, og_x86_reg(reg), 256);
  } else {
    og_encoder_general(e, ids[memory], OG_RAX, from);
    emit(e, OG_X86_vmovd, reg, og_x86_reg(OG_RAX), 128);
    if (memory == OG_LOOP_F16)
      emit(e, OG_X86_vcvtph2ps, reg, og_x86_reg(reg), 128);
    emit(e, OG_X86_vbroadcastss, reg, og_x86_reg(reg), 256);
  }
  og_encoder_bind(e, value, reg);
}

void og_encoder_store_row(og_encoder *e, const og_loop_step *step) {
  const int32_t reg = og_encoder_in_register(e, step->value);
  const og_loop_memory memory = e->l->out_memory[step->index];
  const og_x86_rm to = row_at(e, OG_STREAM_OUT + step->index);
  if (memory == OG_LOOP_32) {
    emit(e, OG_X86_vmovss_store, reg, to, 128);
    return;
  }
  if (memory == OG_LOOP_I64) {
    emit(e, OG_X86_vcvttss2si, OG_RSI, og_x86_reg(reg), 128);
    og_encoder_general(e, OG_X86_mov_store, OG_RSI, to);
    return;
  }
  int32_t bits = reg;
  if (memory == OG_LOOP_F16) {
    bits = og_encoder_take(e);
    emit(e, OG_X86_vcvtps2ph, reg, og_x86_reg(bits), 128);
  }
  emit(e, OG_X86_vmovd_store, bits, og_x86_reg(OG_RSI), 128);
  og_encoder_general(e,
                     og_loop_memory_bytes(memory) == 2 ? OG_X86_mov_store16
                                                       : OG_X86_mov_store8,
                     OG_RSI, to);
}

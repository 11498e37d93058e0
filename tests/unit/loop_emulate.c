// SPDX-License-Identifier: Apache-2.0
// The encoder's code run instruction by instruction in C: what it computes for
// sets that this machine lacks equals what the interpreter does, bit for bit,
// but for which NaN it is. `loop_emulate 20000` runs so many programs.
//
// loop_objdump holds that the bytes are those instructions. Memory is read and
// written under masks element by element, and buffers end at unmapped pages.

#define _GNU_SOURCE
#include <math.h>

#include "loop/encode.h"
#include "unit/loop_grow.h"

enum { PROGRAMS = 300, ROWS = 2, WIDTH_MAX = 80, STACK_BYTES = 1 << 20 };
enum { STEPS_MAX = 4 << 20 };

static int64_t program_count = PROGRAMS;

typedef union vector {
  float f[16];
  uint32_t u[16];
  int32_t i[16];
  uint16_t h[32];
  uint8_t b[64];
  int64_t q[8];
} vector;

typedef struct cpu {
  const og_x86 *x;
  vector v[32];
  uint64_t k[8], g[16];
  bool is_below, is_equal;
  size_t *index_at;  // of the record that begins at an offset
  size_t next;       // record
  bool has_failed;
} cpu;

// --- Operands ----------------------------------------------------------------

static uint8_t *address(const cpu *c, const og_x86_instr *i) {
  const og_x86_rm *rm = &i->rm;
  if (rm->place == OG_X86_LABEL) return c->x->bytes + c->x->labels[rm->reg];
  uint64_t at = c->g[rm->reg] + (uint64_t)(int64_t)rm->disp;
  if (rm->scale != 0) at += c->g[rm->index] * (uint64_t)rm->scale;
  return (uint8_t *)at;
}

static bool is_active(const cpu *c, const og_x86_instr *i, int32_t element) {
  return i->mask == 0 || (c->k[i->mask] >> element & 1);
}

// `count` elements of the rm operand; those without the mask are not touched.
static vector rm_read(const cpu *c, const og_x86_instr *i, int32_t count) {
  vector out = {.u = {0}};
  if (i->rm.place == OG_X86_REGISTER) return c->v[i->rm.reg];
  const uint8_t *at = address(c, i);
  const int32_t bytes = og_x86_rm_bytes(i);
  const int32_t unit = i->rm.is_broadcast ? 4 : bytes / count;
  for (int32_t e = 0; e < count; ++e)
    if (is_active(c, i, e))
      memcpy(out.b + e * unit, i->rm.is_broadcast ? at : at + e * unit,
             (size_t)unit);
  return out;
}

// Elements of `unit` bytes to a register: under the mask, zeros above.
static void reg_write(cpu *c, const og_x86_instr *i, int32_t reg,
                      const vector *value, int32_t unit, int32_t count) {
  vector *to = &c->v[reg];
  for (int32_t e = 0; e < count; ++e) {
    if (is_active(c, i, e))
      memcpy(to->b + e * unit, value->b + e * unit, (size_t)unit);
    else if (i->is_zeroing)
      memset(to->b + e * unit, 0, (size_t)unit);
  }
  memset(to->b + count * unit, 0, sizeof to->b - (size_t)(count * unit));
}

static void rm_write(cpu *c, const og_x86_instr *i, const vector *value,
                     int32_t count) {
  const int32_t bytes = og_x86_rm_bytes(i), unit = bytes / count;
  if (i->rm.place == OG_X86_REGISTER) {
    reg_write(c, i, i->rm.reg, value, unit, count);
    return;
  }
  for (int32_t e = 0; e < count; ++e)
    if (is_active(c, i, e))
      memcpy(address(c, i) + e * unit, value->b + e * unit, (size_t)unit);
}

static uint64_t general_read(const cpu *c, const og_x86_instr *i) {
  uint64_t out = 0;
  if (i->rm.place == OG_X86_REGISTER) return c->g[i->rm.reg];
  memcpy(&out, address(c, i), (size_t)og_x86_rm_bytes(i));
  return out;
}

static void general_write(cpu *c, const og_x86_instr *i, uint64_t value) {
  if (i->rm.place == OG_X86_REGISTER)
    c->g[i->rm.reg] = value;
  else
    memcpy(address(c, i), &value, (size_t)og_x86_rm_bytes(i));
}

// --- Vector instructions on lanes --------------------------------------------

static bool compare(float a, float b, int64_t predicate) {
  const bool is_nan = isnan(a) || isnan(b);
  switch (predicate) {
    case 0:
      return a == b;
    case 3:
      return is_nan;
    case 4:
      return !(a == b);
    case 7:
      return !is_nan;
    case 17:
      return !is_nan && a < b;
    default:
      return !is_nan && a <= b;
  }
}

static float rounded(float a, int64_t imm) {
  switch (imm & 3) {
    case 0:
      return rintf(a);
    case 1:
      return floorf(a);
    case 2:
      return ceilf(a);
    default:
      return truncf(a);
  }
}

static int32_t to_int(float a) {
  return a >= -0x1p31f && a < 0x1p31f ? (int32_t)a : INT32_MIN;
}

static float scaled(float a, float b) {
  return b >= -200 && b <= 200 ? ldexpf(a, (int)floorf(b)) : a * b;
}

static int64_t to_long(float a) {
  return a >= -0x1p63f && a < 0x1p63f ? (int64_t)a : INT64_MIN;
}

// One lane of d = op(s, m), where d is the destination's old value.
static bool lane(const og_x86_instr *i, int32_t e, const vector *d,
                 const vector *s, const vector *m, vector *out) {
#define F(id, value)     \
  case OG_X86_##id:      \
    out->f[e] = (value); \
    return true;
#define U(id, value)     \
  case OG_X86_##id:      \
    out->u[e] = (value); \
    return true;
  const uint32_t count = (uint32_t)i->imm & 31;
  switch (i->id) {
    F(vaddps, s->f[e] + m->f[e])
    F(vsubps, s->f[e] - m->f[e])
    F(vmulps, s->f[e] * m->f[e])
    F(vdivps, s->f[e] / m->f[e])
    F(vmaxps, s->f[e] > m->f[e] ? s->f[e] : m->f[e])
    F(vminps, s->f[e] < m->f[e] ? s->f[e] : m->f[e])
    U(vandps, s->u[e] & m->u[e])
    U(vorps, s->u[e] | m->u[e])
    U(vxorps, s->u[e] ^ m->u[e])
    U(vpaddd, s->u[e] + m->u[e])
    U(vpermps, m->u[s->u[e] % (uint32_t)(i->bits / 32)])
    U(vpsubd, s->u[e] - m->u[e])
    F(vfmadd132ps, fmaf(d->f[e], m->f[e], s->f[e]))
    F(vfmadd213ps, fmaf(s->f[e], d->f[e], m->f[e]))
    F(vfmadd231ps, fmaf(s->f[e], m->f[e], d->f[e]))
    F(vscalefps, scaled(s->f[e], m->f[e]))
    F(vsqrtps, sqrtf(m->f[e]))
    U(vcvttps2dq, (uint32_t)to_int(m->f[e]))
    F(vcvtdq2ps, (float)m->i[e])
    F(vroundps, rounded(m->f[e], i->imm))
    F(vrndscaleps, rounded(m->f[e], i->imm))
    U(vcmpps, compare(s->f[e], m->f[e], i->imm) ? ~0u : 0)
    U(vpslld, m->u[e] << count)
    U(vpsrld, m->u[e] >> count)
    U(vpsrad, (uint32_t)(m->i[e] >> count))
    U(vmovaps, m->u[e])
    U(vmovups, m->u[e])
    U(vbroadcastss, m->u[0])
    U(vpmovzxwd, m->h[e])
    U(vpmovsxwd, (uint32_t)(int16_t)m->h[e])
    U(vpmovzxbd, m->b[e])
    U(vpmovsxbd, (uint32_t)(int8_t)m->b[e])
    F(vcvtph2ps, og_half_to_float((og_half){m->h[e]}))
    default:
      return false;
  }
#undef F
#undef U
}

static bool on_lanes(cpu *c, const og_x86_instr *i) {
  const int32_t count = i->bits / 32;
  const bool is_vmi = og_x86_rows[i->id].form == OG_X86_VMI;
  const bool is_one = i->id == OG_X86_vbroadcastss;
  og_x86_instr unmasked = *i;
  vector out = {.u = {0}};
  if (is_one) unmasked.mask = 0;
  // Operands without the mask change nothing, so they may be read as 0.
  const vector m = rm_read(c, &unmasked, is_one ? 1 : count);
  for (int32_t e = 0; e < count; ++e)
    if (!lane(i, e, &c->v[i->reg], &c->v[i->src], &m, &out)) return false;
  reg_write(c, i, is_vmi ? i->src : i->reg, &out, 4, count);
  return true;
}

// --- Other vector instructions -----------------------------------------------

static void blend(cpu *c, const og_x86_instr *i) {
  const int32_t count = i->bits / 32;
  og_x86_instr all = *i;
  all.mask = 0;
  const vector m = rm_read(c, &all, count), s = c->v[i->src];
  const vector by = c->v[i->imm & 31];
  vector out = {.u = {0}};
  for (int32_t e = 0; e < count; ++e) {
    const bool takes =
        i->id == OG_X86_vblendmps ? c->k[i->mask] >> e & 1 : by.u[e] >> 31 != 0;
    out.u[e] = takes ? m.u[e] : s.u[e];
  }
  reg_write(c, &all, i->reg, &out, 4, count);
}

static void narrowed(cpu *c, const og_x86_instr *i) {
  const int32_t count = i->bits / 32;
  const vector from = c->v[i->reg];
  vector out = {.u = {0}};
  for (int32_t e = 0; e < count; ++e) {
    if (i->id == OG_X86_vcvtps2ph)
      out.h[e] = og_half_from_float(from.f[e]).bits;
    else if (i->id == OG_X86_vpmovdw)
      out.h[e] = (uint16_t)from.u[e];
    else
      out.b[e] = (uint8_t)from.u[e];
  }
  rm_write(c, i, &out, count);
}

static void packed(cpu *c, const og_x86_instr *i) {
  const vector s = c->v[i->src], m = c->v[i->rm.reg];
  vector out = {.u = {0}};
  for (int32_t e = 0; e < 4 && i->id == OG_X86_vpackusdw; ++e) {
    out.h[e] = (uint16_t)(s.i[e] < 0 ? 0 : s.i[e] > 65535 ? 65535 : s.i[e]);
    out.h[e + 4] = (uint16_t)(m.i[e] < 0 ? 0 : m.i[e] > 65535 ? 65535 : m.i[e]);
  }
  for (int32_t e = 0; e < 8 && i->id == OG_X86_vpackuswb; ++e) {
    const int16_t a = (int16_t)s.h[e], b = (int16_t)m.h[e];
    out.b[e] = (uint8_t)(a < 0 ? 0 : a > 255 ? 255 : a);
    out.b[e + 8] = (uint8_t)(b < 0 ? 0 : b > 255 ? 255 : b);
  }
  reg_write(c, i, i->reg, &out, 4, 4);
}

static void longs(cpu *c, const og_x86_instr *i) {
  vector out = {.u = {0}};
  if (i->id == OG_X86_vcvtqq2ps) {
    const vector m = rm_read(c, i, 8);
    for (int32_t e = 0; e < 8; ++e) out.f[e] = (float)m.q[e];
    reg_write(c, i, i->reg, &out, 4, 8);
  } else {
    const vector m = rm_read(c, i, 8);
    for (int32_t e = 0; e < 8; ++e) out.q[e] = to_long(m.f[e]);
    reg_write(c, i, i->reg, &out, 8, 8);
  }
}

static void masked_move(cpu *c, const og_x86_instr *i) {
  const vector mask = c->v[i->src];
  vector out = {.u = {0}};
  for (int32_t e = 0; e < i->bits / 32; ++e) {
    uint8_t *at = address(c, i) + 4 * e;
    if (mask.u[e] >> 31 == 0) continue;
    if (i->id == OG_X86_vmaskmovps)
      memcpy(&out.u[e], at, 4);
    else
      memcpy(at, &c->v[i->reg].u[e], 4);
  }
  if (i->id == OG_X86_vmaskmovps)
    reg_write(c, i, i->reg, &out, 4, i->bits / 32);
}

static void masks(cpu *c, const og_x86_instr *i) {
  vector out = {.u = {0}};
  uint64_t bits = 0;
  switch (i->id) {
    case OG_X86_vcmpps_k: {
      og_x86_instr all = *i;
      all.mask = 0;
      const vector m = rm_read(c, &all, 16);
      for (int32_t e = 0; e < 16; ++e)
        if (is_active(c, i, e) && compare(c->v[i->src].f[e], m.f[e], i->imm))
          bits |= 1u << e;
      c->k[i->reg] = bits;
      break;
    }
    case OG_X86_vpmovm2d:
      for (int32_t e = 0; e < 16; ++e)
        out.u[e] = c->k[i->rm.reg] >> e & 1 ? ~0u : 0;
      reg_write(c, i, i->reg, &out, 4, 16);
      break;
    case OG_X86_vpmovd2m:
      for (int32_t e = 0; e < 16; ++e)
        bits |= (uint64_t)(c->v[i->rm.reg].u[e] >> 31) << e;
      c->k[i->reg] = bits;
      break;
    case OG_X86_kmovw:
      c->k[i->reg] = c->g[i->rm.reg] & 0xffff;
      break;
    case OG_X86_kshiftrw:
      c->k[i->reg] = (c->k[i->rm.reg] & 0xffff) >> i->imm;
      break;
    default:  // kortestw
      c->is_equal = ((c->k[i->reg] | c->k[i->rm.reg]) & 0xffff) == 0;
  }
}

static void parts(cpu *c, const og_x86_instr *i) {
  vector out = c->v[i->reg];
  switch (i->id) {
    case OG_X86_vextractf128:
      memcpy(out.b, c->v[i->reg].b + 16 * (i->imm & 1), 16);
      rm_write(c, i, &out, 4);
      break;
    case OG_X86_vextractf64x4:
      memcpy(out.b, c->v[i->reg].b + 32 * (i->imm & 1), 32);
      rm_write(c, i, &out, 4);
      break;
    case OG_X86_vinsertf64x4:
      out = c->v[i->src];
      memcpy(out.b + 32 * (i->imm & 1), c->v[i->rm.reg].b, 32);
      reg_write(c, i, i->reg, &out, 4, 16);
      break;
    default:  // vpermilps
      for (int32_t e = 0; e < i->bits / 32; ++e)
        out.u[e] = c->v[i->rm.reg].u[e / 4 * 4 + (i->imm >> (e % 4 * 2) & 3)];
      reg_write(c, i, i->reg, &out, 4, i->bits / 32);
  }
}

static bool scalars(cpu *c, const og_x86_instr *i) {
  vector out = {.u = {0}};
  switch (i->id) {
    case OG_X86_vmovmskps:
      c->g[i->reg] = 0;
      for (int32_t e = 0; e < i->bits / 32; ++e)
        c->g[i->reg] |= (uint64_t)(c->v[i->rm.reg].u[e] >> 31) << e;
      return true;
    case OG_X86_vmovd:
      out.u[0] = (uint32_t)c->g[i->rm.reg];
      reg_write(c, i, i->reg, &out, 4, 4);
      return true;
    case OG_X86_vmovd_store:
      c->g[i->rm.reg] = c->v[i->reg].u[0];
      return true;
    case OG_X86_vmovss_store:
      memcpy(address(c, i), c->v[i->reg].b, 4);
      return true;
    case OG_X86_vmovq:
      memcpy(address(c, i), c->v[i->reg].b, 8);
      return true;
    case OG_X86_vcvtsi2ss:
      out = c->v[i->src];
      out.f[0] = (float)(int64_t)general_read(c, i);
      reg_write(c, i, i->reg, &out, 4, 4);
      return true;
    case OG_X86_vcvttss2si:
      c->g[i->reg] = (uint64_t)to_long(rm_read(c, i, 1).f[0]);
      return true;
    default:
      return false;
  }
}

static bool vectors(cpu *c, const og_x86_instr *i) {
  switch (i->id) {
    case OG_X86_vblendvps:
    case OG_X86_vblendmps:
      blend(c, i);
      return true;
    case OG_X86_vmovups_store:
      rm_write(c, i, &c->v[i->reg], i->bits / 32);
      return true;
    case OG_X86_vmovntps:
      c->has_failed |= (uintptr_t)address(c, i) % (uintptr_t)(i->bits / 8) != 0;
      rm_write(c, i, &c->v[i->reg], i->bits / 32);
      return true;
    case OG_X86_vmovupd_store:
      rm_write(c, i, &c->v[i->reg], i->bits / 64);
      return true;
    case OG_X86_vmaskmovps:
    case OG_X86_vmaskmovps_store:
      masked_move(c, i);
      return true;
    case OG_X86_vcvtps2ph:
    case OG_X86_vpmovdw:
    case OG_X86_vpmovdb:
      narrowed(c, i);
      return true;
    case OG_X86_vpackusdw:
    case OG_X86_vpackuswb:
      packed(c, i);
      return true;
    case OG_X86_vcvtqq2ps:
    case OG_X86_vcvttps2qq:
      longs(c, i);
      return true;
    case OG_X86_vcmpps_k:
    case OG_X86_vpmovm2d:
    case OG_X86_vpmovd2m:
    case OG_X86_kmovw:
    case OG_X86_kortestw:
    case OG_X86_kshiftrw:
      masks(c, i);
      return true;
    case OG_X86_vextractf128:
    case OG_X86_vextractf64x4:
    case OG_X86_vinsertf64x4:
    case OG_X86_vpermilps:
      parts(c, i);
      return true;
    case OG_X86_vzeroupper:
      for (int32_t r = 0; r < 16; ++r) memset(c->v[r].b + 16, 0, 48);
      return true;
    default:
      return scalars(c, i) || on_lanes(c, i);
  }
}

// --- General registers -------------------------------------------------------

static void flags(cpu *c, uint64_t a, uint64_t b) {
  c->is_below = a < b;
  c->is_equal = a == b;
}

// What a C function may change is changed.
static void call(cpu *c, uint64_t function) {
  void (*f)(int32_t, int64_t, const og_loop_lane *, const og_loop_lane *,
            const og_loop_lane *, og_loop_lane *);
  const int32_t changed[] = {OG_RAX, OG_RCX, OG_RDX, OG_RSI, OG_RDI,
                             OG_R8,  OG_R9,  OG_R10, OG_R11};
  memcpy(&f, &function, sizeof f);
  c->has_failed |= c->g[OG_RSP] % 16 != 0;
  f((int32_t)c->g[OG_RDI], (int64_t)c->g[OG_RSI],
    (const og_loop_lane *)c->g[OG_RDX], (const og_loop_lane *)c->g[OG_RCX],
    (const og_loop_lane *)c->g[OG_R8], (og_loop_lane *)c->g[OG_R9]);
  for (size_t k = 0; k < sizeof changed / sizeof *changed; ++k)
    c->g[changed[k]] = 0xdeadbeefdeadbeefu;
  memset(c->v, 0xab, sizeof c->v);
  memset(c->k, 0xab, sizeof c->k);
}

static bool jumps(cpu *c, const og_x86_instr *i) {
  bool takes;
  switch (i->id) {
    case OG_X86_jmp:
      takes = true;
      break;
    case OG_X86_jb:
      takes = c->is_below;
      break;
    case OG_X86_jbe:
      takes = c->is_below || c->is_equal;
      break;
    case OG_X86_je:
      takes = c->is_equal;
      break;
    case OG_X86_jne:
      takes = !c->is_equal;
      break;
    default:
      return false;
  }
  if (takes) c->next = c->index_at[c->x->labels[i->imm]];
  return true;
}

static bool arithmetic(cpu *c, const og_x86_instr *i) {
  const uint64_t imm = (uint64_t)i->imm;
  uint64_t *reg = &c->g[i->reg % 16];
  switch (i->id) {
    case OG_X86_add:
      *reg += general_read(c, i);
      return true;
    case OG_X86_sub:
      *reg -= general_read(c, i);
      return true;
    case OG_X86_cmp:
      flags(c, *reg, general_read(c, i));
      return true;
    case OG_X86_cmp_i:
      flags(c, general_read(c, i), imm);
      return true;
    case OG_X86_xor:
      *reg ^= general_read(c, i);
      return true;
    case OG_X86_test:
      flags(c, *reg & general_read(c, i), 0);
      return true;
    case OG_X86_add_store:
      general_write(c, i, general_read(c, i) + *reg);
      return true;
    case OG_X86_add_i:
      general_write(c, i, general_read(c, i) + imm);
      return true;
    case OG_X86_sub_i:
      general_write(c, i, general_read(c, i) - imm);
      return true;
    case OG_X86_and_i:
      general_write(c, i, general_read(c, i) & imm);
      flags(c, general_read(c, i), 0);
      return true;
    case OG_X86_shl_i:
      general_write(c, i, general_read(c, i) << imm);
      return true;
    case OG_X86_dec:
      general_write(c, i, general_read(c, i) - 1);
      flags(c, general_read(c, i), 0);
      return true;
    default:
      return false;
  }
}

static bool moves(cpu *c, const og_x86_instr *i) {
  uint64_t *reg = &c->g[i->reg % 16];
  switch (i->id) {
    case OG_X86_mov:
    case OG_X86_mov_32:
    case OG_X86_movzx_16:
    case OG_X86_movzx_8:
      *reg = general_read(c, i);
      return true;
    case OG_X86_movsx_16:
      *reg = (uint64_t)(int64_t)(int16_t)general_read(c, i) & UINT32_MAX;
      return true;
    case OG_X86_movsx_8:
      *reg = (uint64_t)(int64_t)(int8_t)general_read(c, i) & UINT32_MAX;
      return true;
    case OG_X86_mov_store:
    case OG_X86_mov_store16:
    case OG_X86_mov_store8:
      general_write(c, i, *reg);
      return true;
    case OG_X86_mov_i:
      general_write(c, i, (uint64_t)i->imm);
      return true;
    case OG_X86_movabs:
      *reg = (uint64_t)i->imm;
      return true;
    case OG_X86_prefetcht0:
      return true;
    case OG_X86_lea:
      *reg = (uint64_t)address(c, i);
      return true;
    case OG_X86_push:
      c->g[OG_RSP] -= 8;
      memcpy((void *)c->g[OG_RSP], reg, 8);
      return true;
    case OG_X86_pop:
      memcpy(reg, (void *)c->g[OG_RSP], 8);
      c->g[OG_RSP] += 8;
      return true;
    case OG_X86_call:
      call(c, c->g[i->rm.reg]);
      return true;
    default:
      return false;
  }
}

static void emulate(cpu *c, const og_loop_call *arguments, uint8_t *stack) {
  const uint64_t top = (uint64_t)(stack + STACK_BYTES - 72);
  int64_t steps = 0;
  memset(c->v, 0xcd, sizeof c->v);
  for (int32_t r = 0; r < 16; ++r) c->g[r] = 0x1111 * (uint64_t)(r + 1);
  const uint64_t kept[] = {c->g[OG_RBX], c->g[OG_RBP], c->g[OG_R12],
                           c->g[OG_R13], c->g[OG_R14], c->g[OG_R15]};
  c->g[OG_RSP] = top;
  c->g[OG_RDI] = (uint64_t)arguments;
  for (c->next = 0; c->next < c->x->record_count && steps < STEPS_MAX;
       ++steps) {
    const og_x86_instr *i = &c->x->records[c->next++].instr;
    if (i->id == OG_X86_ret) break;
    if (jumps(c, i) || moves(c, i) || arithmetic(c, i) || vectors(c, i))
      continue;
    printf("%s is not emulated\n", og_x86_rows[i->id].name);
    c->has_failed = true;
    return;
  }
  const uint64_t after[] = {c->g[OG_RBX], c->g[OG_RBP], c->g[OG_R12],
                            c->g[OG_R13], c->g[OG_R14], c->g[OG_R15]};
  c->has_failed |= steps == STEPS_MAX || c->g[OG_RSP] != top ||
                   memcmp(kept, after, sizeof kept) != 0;
}

// --- Programs ----------------------------------------------------------------

typedef struct memory {
  guarded in[GROW_INPUTS_MAX], out[GROW_OUTPUTS_MAX];
  uint8_t expected[GROW_OUTPUTS_MAX][ROWS * WIDTH_MAX * 8];
  uint8_t *stack;
} memory;

static int64_t bytes_of(const og_loop_operand *operand, int64_t width) {
  return (operand->form == OG_LOOP_ROW ? 1 : width) *
         (int64_t)og_dtype_bytes(operand->dtype);
}

static void fill(grown *g, const memory *m, og_loop_call *c) {
  for (int32_t k = 0; k < g->in_count; ++k) {
    const int64_t bytes = bytes_of(&g->in[k], c->width);
    char *at = guarded_end(&m->in[k], (size_t)(ROWS * bytes));
    const int64_t item = (int64_t)og_dtype_bytes(g->in[k].dtype);
    c->in[k] = at;
    c->in_row_bytes[k] = bytes;
    for (int64_t i = 0; i < ROWS * bytes / item; ++i)
      loop_set(g->in[k].dtype, at, i, (float)(grow_draw(g, 2001) - 1000) / 16);
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    c->out_row_bytes[k] = bytes_of(&g->out[k], c->width);
    c->out[k] = guarded_end(&m->out[k], (size_t)(ROWS * c->out_row_bytes[k]));
    memset(c->out[k], 0x5a, (size_t)(ROWS * c->out_row_bytes[k]));
  }
}

static bool is_same(const grown *g, const memory *m, const og_loop_call *c,
                    og_isa isa) {
  for (int32_t k = 0; k < g->out_count; ++k) {
    const og_dtype dtype = g->out[k].dtype;
    const size_t item = og_dtype_bytes(dtype);
    const int64_t count = ROWS * c->out_row_bytes[k] / (int64_t)item;
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t *a = (const uint8_t *)c->out[k] + (size_t)i * item;
      const uint8_t *b = m->expected[k] + (size_t)i * item;
      if (memcmp(a, b, item) == 0) continue;
      if (isnan(loop_get(dtype, a, 0)) && isnan(loop_get(dtype, b, 0)))
        continue;
      printf("%s: y%d[%d] is %a, %a by the interpreter; width %d, %s\n",
             og_isa_name(isa), (int)k, (int)i, (double)loop_get(dtype, a, 0),
             (double)loop_get(dtype, b, 0), (int)c->width, g->text);
      return false;
    }
  }
  return true;
}

static bool index_make(cpu *c, og_arena *arena) {
  c->index_at =
      og_arena_array(arena, c->x->code_count + 1, sizeof *c->index_at);
  if (c->index_at == NULL) return false;
  for (size_t k = 0; k < c->x->record_count; ++k)
    c->index_at[c->x->records[k].at] = k;
  return true;
}

static void run_set(const grown *g, const memory *m, og_loop_call *c,
                    og_isa isa) {
  static cpu machine;
  og_arena arena = {0};
  og_loop_program program;
  og_loop_lowered lowered;
  opgraft_error error;
  bool is_row[GROW_INPUTS_MAX];
  og_x86 x = {.record_capacity = 1};
  og_loop_spec spec = grow_spec(g, isa);
  // Buffers end at a page.
  if (c->width * 2 % OG_LOOP_LINE == 0) spec.nontemporal = grow_whole_lines(g);
  spec.prefetch = g->in_count % 2 == 1;
  for (int32_t k = 0; k < g->in_count; ++k)
    is_row[k] = g->in[k].form == OG_LOOP_ROW;
  x.records = og_arena_array(&arena, 1, sizeof *x.records);
  REQUIRE(x.records != NULL);
  REQUIRE(og_loop_parse(g->text, is_row, g->in_count, g->out_count, &arena,
                        &program, &error) == OG_OK);
  REQUIRE(og_loop_lower(&spec, &program, &arena, &lowered, &error) == OG_OK);
  REQUIRE(og_loop_encode(&spec, &lowered, isa, &arena, &x) == NULL);
  machine = (cpu){.x = &x};
  REQUIRE(index_make(&machine, &arena));
  emulate(&machine, c, m->stack);
  CHECK(!machine.has_failed);
  CHECK(is_same(g, m, c, isa));
done:
  og_arena_destroy(&arena);
}

static bool run_program(grown *g, memory *m, int64_t seed) {
  static const int64_t widths[] = {0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 47, 80};
  const int before = test_now.missed;
  opgraft_error error;
  og_loop *loop = NULL;
  og_loop_call c = {.rows = ROWS, .blocks = 1};
  grow(g, (uint64_t)seed + 1000003);
  c.width = widths[grow_draw(g, 12)];
  const og_loop_spec spec = grow_spec(g, OG_ISA_SCALAR);
  REQUIRE(og_loop_create(&spec, NULL, &loop, &error) == OG_OK);
  c.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, c.width));
  REQUIRE(c.scratch != NULL);
  for (int isa = OG_ISA_SCALAR; isa <= OG_ISA_AVX512; ++isa) {
    const uint64_t numbers = g->state;
    fill(g, m, &c);
    g->state = numbers;
    if (isa != OG_ISA_SCALAR) {
      run_set(g, m, &c, (og_isa)isa);
      continue;
    }
    og_loop_run(loop, &c);
    for (int32_t k = 0; k < g->out_count; ++k)
      memcpy(m->expected[k], c.out[k], (size_t)(ROWS * c.out_row_bytes[k]));
  }
done:
  og_free(c.scratch);
  og_loop_destroy(loop);
  return test_now.missed == before;
}

TEST(code_computes_what_the_interpreter_does) {
  static memory m;
  static grown g;
  int64_t seed = 0;
  m.stack = og_alloc_aligned(64, STACK_BYTES);
  REQUIRE(m.stack != NULL);
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.in[k], sizeof *m.expected));
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.out[k], sizeof *m.expected));
  while (seed < program_count && run_program(&g, &m, seed)) ++seed;
  if (program_count != PROGRAMS)
    printf("%d programs are the same\n", (int)seed);
done:
  og_free(m.stack);
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k) guarded_reset(&m.in[k]);
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k) guarded_reset(&m.out[k]);
}

static const test_case cases[] = {
    CASE_NO_FAULTS(code_computes_what_the_interpreter_does)};

int main(int argc, char **argv) {
  if (argc > 1) program_count = strtoll(argv[1], NULL, 10);
  return test_run_all("loop_emulate", cases, 1);
}

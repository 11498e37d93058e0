// SPDX-License-Identifier: Apache-2.0
// Sizes of packed weights, int8 rounding, and the choice of the contraction
// kernels.

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernel/tables.h"

enum { QUAD = 4 };  // steps of int8

// Of a panel's scales of groups.
static size_t group_bytes(int64_t k, int element) {
  return (size_t)og_group_count(k, element) * OG_PANEL * sizeof(og_bfloat);
}

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const size_t panels = (size_t)((n + OG_PANEL - 1) / OG_PANEL);
  if (element > OG_I8) {
    const int64_t whole = og_group_count(k, element) * og_group_steps(element);
    return panels * ((size_t)whole * OG_PANEL / 2 + group_bytes(k, element));
  }
  const int64_t of = element == OG_I8 ? QUAD : 2;
  return panels * (size_t)((k + of - 1) / of * of * OG_PANEL) *
         og_element_bytes(element);
}

// --- int8 and int4

static float weight_at(const og_gemm_weights *w, int64_t n, int64_t k) {
  const void *at =
      og_at(w->data, n * w->n_stride + k * w->k_stride, w->element);
  if (w->element == OG_BF16) return og_bfloat_to_float(*(const og_bfloat *)at);
  if (w->element == OG_F16) return og_half_to_float(*(const og_half *)at);
  return *(const float *)at;
}

// Of column n: its scale.
static float column_scale(const og_gemm_weights *w, int64_t n) {
  float most = 0;
  for (int64_t k = 0; k < w->k; ++k) {
    const float size = fabsf(weight_at(w, n, k));
    if (size > most) most = size;
  }
  return most / 127;
}

static int rounded(float weight, float scale, float least, float most) {
  const float x = scale != 0 ? weight / scale : 0;
  // The quotient of a scale that is rounded may be a little beyond.
  const float inside = x > most ? most : x < least ? least : x;
  return inside == inside ? (int)lrintf(inside) : 0;
}

// A column's place in its panel, and what rounding loses.
typedef struct column {
  const og_gemm_weights *w;
  int64_t n;
  uint8_t *to;
  double *lost, *size;
} column;

static void loss_add(const column *c, float weight, int q, float scale) {
  const double off = (double)weight - (double)q * (double)scale;
  *c->lost += off * off;
  *c->size += (double)weight * (double)weight;
}

static float bytes_write(const column *c) {
  const float scale = column_scale(c->w, c->n);
  for (int64_t k = 0; k < c->w->k; ++k) {
    const float weight = weight_at(c->w, c->n, k);
    const int q = rounded(weight, scale, -127, 127);
    c->to[k / QUAD * QUAD * OG_PANEL + k % QUAD] = (uint8_t)(q + 128);
    loss_add(c, weight, q, scale);
  }
  return scale;
}

// The element of largest magnitude is -8 times the scale.
static og_bfloat group_scale(const column *c, int64_t begin, int64_t end) {
  float most = 0;
  for (int64_t k = begin; k < end; ++k) {
    const float weight = weight_at(c->w, c->n, k);
    if (fabsf(weight) > fabsf(most)) most = weight;
  }
  return og_bfloat_from_float(most / -8);
}

static void nibbles_write(const column *c, int64_t group, og_bfloat *scales) {
  for (int64_t k = 0; k < c->w->k; k += group) {
    const int64_t end = k + group < c->w->k ? k + group : c->w->k;
    const og_bfloat kept = group_scale(c, k, end);
    const float scale = og_bfloat_to_float(kept);
    scales[k / group * OG_PANEL] = kept;
    for (int64_t i = k; i < end; ++i) {
      const float weight = weight_at(c->w, c->n, i);
      const int q = rounded(weight, scale, -8, 7);
      // Both halves are 8, the zero, before.
      uint8_t *to = c->to + i / (2 * QUAD) * QUAD * OG_PANEL + i % QUAD;
      *to = (uint8_t)(*to + (i / QUAD % 2 == 0 ? q : q * 16));
      loss_add(c, weight, q, scale);
    }
  }
}

void og_gemm_quantize(const og_gemm_weights *w, int type, int64_t panel_begin,
                      int64_t panel_end, uint8_t *packed, float *out_scales,
                      double *lost, double *size) {
  enum { ZERO_BYTE = 128, ZERO_NIBBLES = 0x88 };
  const bool is_int8 = type == OG_I8;
  const size_t panel = og_packed_bytes(OG_PANEL, w->k, type);
  // Scales of groups stand behind the weights.
  const size_t weights = is_int8 ? panel : panel - group_bytes(w->k, type);
  for (int64_t p = panel_begin; p < panel_end; ++p, packed += panel) {
    memset(packed, is_int8 ? ZERO_BYTE : ZERO_NIBBLES, weights);
    memset(packed + weights, 0, panel - weights);
    for (int64_t j = 0; j < OG_PANEL; ++j, ++out_scales) {
      const column c = {w, p * OG_PANEL + j, packed + j * QUAD, lost, size};
      *out_scales = is_int8 || c.n >= w->n ? 0 : 1;
      if (c.n >= w->n) continue;
      if (is_int8)
        *out_scales = bytes_write(&c);
      else
        nibbles_write(&c, og_group_steps(type),
                      (og_bfloat *)(void *)(packed + weights) + j);
    }
  }
}

// Words, sums and the scale, as gemm_quads.inc reads them; whole lines.
int64_t og_gemm_row_bytes(int64_t k) {
  enum { SPAN = 32, LINE = 64 };
  const int64_t spans = (k + SPAN - 1) / SPAN;
  return ((2 * SPAN + 4) * spans + 4 + LINE - 1) / LINE * LINE;
}

// --- Choice

const og_gemm_kernels *og_gemm(int element) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_gemm_##name, )
  static const og_gemm_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_contraction_isa(element)];
}

void og_gemm_pack(const og_gemm_weights *w, int64_t panel_begin,
                  int64_t panel_end, void *packed) {
  og_gemm(og_panels_type(w))->pack(w, panel_begin, panel_end, packed);
}

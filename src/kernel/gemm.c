// SPDX-License-Identifier: Apache-2.0
// Sizes of packed weights, int8 rounding, and the choice of the contraction
// kernels.

#include <math.h>
#include <string.h>

#include "kernel/tables.h"

enum { QUAD = 4 };  // steps of int8

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const int64_t panels = (n + OG_PANEL - 1) / OG_PANEL;
  const int64_t of = element == OG_I8 ? QUAD : 2;
  return (size_t)(panels * ((k + of - 1) / of * of) * OG_PANEL) *
         og_element_bytes(element);
}

// --- int8

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

static int8_t rounded(float weight, float scale) {
  const float x = scale > 0 ? weight / scale : 0;
  // The quotient of a scale that is rounded may be a little beyond.
  const float inside = x > 127 ? 127 : x < -127 ? -127 : x;
  return inside == inside ? (int8_t)lrintf(inside) : 0;
}

void og_gemm_quantize(const og_gemm_weights *w, int64_t panel_begin,
                      int64_t panel_end, uint8_t *packed, float *out_scales,
                      double *lost, double *size) {
  const int64_t panel_size = (w->k + QUAD - 1) / QUAD * QUAD * OG_PANEL;
  const int64_t begin = panel_begin * OG_PANEL, end = panel_end * OG_PANEL;
  memset(packed, 128, (size_t)((panel_end - panel_begin) * panel_size));
  for (int64_t n = begin; n < end; ++n) {
    uint8_t *to =
        packed + (n - begin) / OG_PANEL * panel_size + n % OG_PANEL * QUAD;
    const float scale = n < w->n ? column_scale(w, n) : 0;
    out_scales[n - begin] = scale;
    for (int64_t k = 0; n < w->n && k < w->k; ++k) {
      const float weight = weight_at(w, n, k);
      const int8_t q = rounded(weight, scale);
      to[k / QUAD * QUAD * OG_PANEL + k % QUAD] = (uint8_t)(q + 128);
      const double off = (double)weight - (double)q * (double)scale;
      *lost += off * off;
      *size += (double)weight * (double)weight;
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

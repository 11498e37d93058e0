// SPDX-License-Identifier: Apache-2.0
// Sizes of packed weights, int8 rounding, and the choice of the contraction
// kernels.

#include <math.h>
#include <string.h>

#include "kernel/tables.h"

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const int64_t panels = (n + OG_PANEL - 1) / OG_PANEL;
  return (size_t)(panels * ((k + 1) / 2 * 2) * OG_PANEL) *
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

void og_gemm_quantize(const og_gemm_weights *w, int64_t begin, int64_t end,
                      int8_t *to, float *out_scales) {
  for (int64_t n = begin; n < end; ++n) {
    out_scales[n] = column_scale(w, n);
    for (int64_t k = 0; k < w->k; ++k)
      to[n * w->k + k] = rounded(weight_at(w, n, k), out_scales[n]);
  }
}

void og_gemm_quantize_panels(const og_gemm_weights *w, int64_t panel_begin,
                             int64_t panel_end, int8_t *packed,
                             float *out_scales, double *lost, double *size) {
  const int64_t panel_size = (w->k + 1) / 2 * 2 * OG_PANEL;
  const int64_t begin = panel_begin * OG_PANEL, end = panel_end * OG_PANEL;
  memset(packed, 0, (size_t)((panel_end - panel_begin) * panel_size));
  for (int64_t n = begin; n < end; ++n) {
    int8_t *to = packed + (n - begin) / OG_PANEL * panel_size + n % OG_PANEL;
    const float scale = n < w->n ? column_scale(w, n) : 0;
    out_scales[n - begin] = scale;
    for (int64_t k = 0; n < w->n && k < w->k; ++k, to += OG_PANEL) {
      const float weight = weight_at(w, n, k);
      *to = rounded(weight, scale);
      const double off = (double)weight - (double)*to * (double)scale;
      *lost += off * off;
      *size += (double)weight * (double)weight;
    }
  }
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

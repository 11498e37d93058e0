// SPDX-License-Identifier: Apache-2.0
// Sizes of packed weights, int8 rounding, and the choice of the contraction
// kernels.

#include <math.h>

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

void og_gemm_quantize(const og_gemm_weights *w, int64_t begin, int64_t end,
                      int8_t *to, float *out_scales) {
  for (int64_t n = begin; n < end; ++n) {
    float most = 0;
    for (int64_t k = 0; k < w->k; ++k) {
      const float size = fabsf(weight_at(w, n, k));
      if (size > most) most = size;
    }
    out_scales[n] = most / 127;
    for (int64_t k = 0; k < w->k; ++k) {
      const float x =
          out_scales[n] > 0 ? weight_at(w, n, k) / out_scales[n] : 0;
      // The quotient of a scale that is rounded may be a little beyond.
      const float inside = x > 127 ? 127 : x < -127 ? -127 : x;
      to[n * w->k + k] = inside == inside ? (int8_t)lrintf(inside) : 0;
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
  og_gemm(w->element)->pack(w, panel_begin, panel_end, packed);
}

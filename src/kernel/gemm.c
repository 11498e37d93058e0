// SPDX-License-Identifier: Apache-2.0
// Packing and int8 rounding of weights, and the choice of the contraction
// kernels.

#include <math.h>
#include <string.h>

#include "kernel/tables.h"

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const int64_t panels = (n + OG_PANEL - 1) / OG_PANEL;
  return (size_t)(panels * ((k + 1) / 2 * 2) * OG_PANEL) *
         og_element_bytes(element);
}

// `steps` elements from `from` on, `stride` apart, to every `to_stride`-th
// place; zeros up to `to_steps` of them.
#define STEPS_COPY(type)                                                  \
  do {                                                                    \
    const type *x = (const type *)from;                                   \
    type *y = (type *)to;                                                 \
    for (int64_t i = 0; i < steps; ++i) y[i * to_stride] = x[i * stride]; \
    for (int64_t i = steps; i < to_steps; ++i) y[i * to_stride] = 0;      \
  } while (0)
static void steps_copy(const void *from, int64_t stride, int64_t steps,
                       void *to, int64_t to_stride, int64_t to_steps,
                       int element) {
  if (element == OG_F32)
    STEPS_COPY(float);
  else if (element == OG_I8)
    STEPS_COPY(int8_t);
  else
    STEPS_COPY(uint16_t);
}
#undef STEPS_COPY

// A panel's 16 columns from column `n` on, of which there are `columns`: along
// k where its elements stand together, else row by row.
static void panel_pack(const og_gemm_weights *w, int64_t n, int64_t columns,
                       char *panel) {
  const int64_t k_even = (w->k + 1) / 2 * 2;
  const void *from = og_at(w->data, n * w->n_stride, w->element);
  if (w->k_stride == 1) {
    for (int64_t j = 0; j < OG_PANEL; ++j)
      steps_copy(og_at(from, j < columns ? j * w->n_stride : 0, w->element), 1,
                 j < columns ? w->k : 0, og_at(panel, j, w->element), OG_PANEL,
                 k_even, w->element);
    return;
  }
  for (int64_t i = 0; i < k_even; ++i)
    steps_copy(og_at(from, i < w->k ? i * w->k_stride : 0, w->element),
               w->n_stride, i < w->k ? columns : 0,
               og_at(panel, i * OG_PANEL, w->element), 1, OG_PANEL, w->element);
}

void og_gemm_pack(const og_gemm_weights *w, int64_t panel_begin,
                  int64_t panel_end, void *packed) {
  const int64_t panel_size = (w->k + 1) / 2 * 2 * OG_PANEL;
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t left = w->n - p * OG_PANEL;
    panel_pack(w, p * OG_PANEL, left < OG_PANEL ? left : OG_PANEL,
               og_at(packed, (p - panel_begin) * panel_size, w->element));
  }
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

// SPDX-License-Identifier: Apache-2.0
// Packing of weights, and the choice of the contraction kernels.

#include <string.h>

#include "kernel/tables.h"

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const int64_t panels = (n + OG_PANEL - 1) / OG_PANEL;
  return (size_t)(panels * ((k + 1) / 2 * 2) * OG_PANEL) *
         og_element_bytes(element);
}

static void column_pack(const char *row, int64_t k, int64_t column, char *panel,
                        int element) {
  const int64_t k_even = (k + 1) / 2 * 2;
  if (element == OG_F32) {
    const float *from = (const float *)(const void *)row;
    float *to = (float *)(void *)panel + column;
    for (int64_t i = 0; i < k_even; ++i)
      to[i * OG_PANEL] = row != NULL && i < k ? from[i] : 0;
    return;
  }
  const uint16_t *from = (const uint16_t *)(const void *)row;
  uint16_t *to = (uint16_t *)(void *)panel + column;
  for (int64_t i = 0; i < k_even; ++i)
    to[i * OG_PANEL] = row != NULL && i < k ? from[i] : 0;
}

void og_gemm_pack(const void *w, int64_t stride, int64_t n, int64_t k,
                  int64_t panel_begin, int64_t panel_end, void *packed,
                  int element) {
  const int64_t panel_size = (k + 1) / 2 * 2 * OG_PANEL;
  for (int64_t p = panel_begin; p < panel_end; ++p)
    for (int64_t j = 0; j < OG_PANEL; ++j) {
      const int64_t row = p * OG_PANEL + j;
      column_pack(row < n ? og_at(w, row * stride, element) : NULL, k, j,
                  og_at(packed, p * panel_size, element), element);
    }
}

const og_gemm_kernels *og_gemm(int element) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_gemm_##name, )
  static const og_gemm_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_contraction_isa(element)];
}

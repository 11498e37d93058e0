// SPDX-License-Identifier: Apache-2.0
// Sizes of packed weights, and the choice of the contraction kernels.

#include "kernel/tables.h"

enum { QUAD = 4 };  // steps of int8

size_t og_packed_bytes(int64_t n, int64_t k, int element) {
  const size_t panels = (size_t)((n + OG_PANEL - 1) / OG_PANEL);
  if (og_has_groups(element)) {
    const int64_t whole = og_group_count(k, element) * og_group_steps(element);
    return panels *
           (size_t)(whole * OG_PANEL / (og_is_nibbles(element) ? 2 : 1) +
                    og_group_bytes(k, element));
  }
  const int64_t of = element == OG_I8 ? QUAD : 2;
  return panels * (size_t)((k + of - 1) / of * of * OG_PANEL) *
         og_element_bytes(element);
}

void og_gemm_quantize(const og_gemm_weights *w, const og_gemm_narrow *to,
                      double *lost, double *size) {
  og_gemm(OG_I8)->narrow(w, to, lost, size);
}

int og_gemm_codes_pack(const og_gemm_codes *codes, const og_gemm_narrow *to) {
  return og_gemm(OG_I8)->codes_pack(codes, to);
}

// Words, sums and the scale, as gemm_quads.inc reads them; whole lines.
int64_t og_gemm_row_bytes(int64_t k) {
  enum { SPAN = 32, LINE = 64 };
  const int64_t spans = (k + SPAN - 1) / SPAN;
  return ((2 * SPAN + 4) * spans + 8 + LINE - 1) / LINE * LINE;
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

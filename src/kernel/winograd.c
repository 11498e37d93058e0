// SPDX-License-Identifier: Apache-2.0
// Sizes of tiles and of transformed weights, and the choice of the kernels.

#include "kernel/winograd.h"

#include "kernel/tables.h"

static int64_t tiles_of(int64_t pixels) {
  return (pixels + OG_WINOGRAD_SIDE - 1) / OG_WINOGRAD_SIDE;
}

int og_winograd_takes(const og_conv *of) {
  int is_taken = 1;
  for (int d = 0; d < 2; ++d)
    is_taken &= of->taps[d] == 3 && of->stride[d] == 1 && of->dilation[d] == 1;
  return is_taken;
}

int64_t og_winograd_rows(const og_conv *of) { return tiles_of(of->out[0]); }
int64_t og_winograd_columns(const og_conv *of) { return tiles_of(of->out[1]); }

// A vector of channels of the elements that the tiles read; fewer are written.
int64_t og_winograd_scratch(const og_conv *of, int64_t rows) {
  enum { EDGES = OG_WINOGRAD_READS - OG_WINOGRAD_SIDE };
  return (rows * OG_WINOGRAD_SIDE + EDGES) *
         (og_winograd_columns(of) * OG_WINOGRAD_SIDE + EDGES) * OG_PANEL;
}

int64_t og_winograd_point(int64_t n, int64_t channels) {
  return (int64_t)(og_packed_bytes(n, channels, OG_F32) / sizeof(float));
}

size_t og_winograd_bytes(int64_t n, int64_t channels) {
  return OG_WINOGRAD_POINTS * og_packed_bytes(n, channels, OG_F32);
}

const og_winograd_kernels *og_winograd_kernels_used(void) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_winograd_##name, )
  static const og_winograd_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_isa_used()];
}

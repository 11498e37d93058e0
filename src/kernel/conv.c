// SPDX-License-Identifier: Apache-2.0
// Convolution kernels: the scratch of a channel, and the choice.

#include "kernel/conv_plane.h"
#include "kernel/tables.h"

int64_t og_conv_scratch(const og_conv *of) {
  const conv_plane p = conv_plane_of(of);
  return p.rows > CONV_PLANE_MOST || p.pitch > CONV_PLANE_MOST
             ? -1
             : p.rows * p.pitch + CONV_PLANE_SLACK;
}

const og_conv_kernels *og_conv_kernels_used(void) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_conv_##name, )
  static const og_conv_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_isa_used()];
}

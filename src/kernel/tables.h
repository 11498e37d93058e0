// SPDX-License-Identifier: Apache-2.0
// The tables of each instruction set, for the getters that choose one.

#ifndef OG_KERNEL_TABLES_H
#define OG_KERNEL_TABLES_H

#include "kernel/kernel.h"

#define OG_ISA(name, level, machine, test)                       \
  machine(extern const og_row_kernels og_rows_##name;            \
          extern const og_gemm_kernels og_gemm_##name;           \
          extern const og_attention_kernels og_attention_##name; \
          extern const og_conv_kernels og_conv_##name;           \
          extern const og_winograd_kernels og_winograd_##name;)
#include "base/isa.def"
#undef OG_ISA

#endif  // OG_KERNEL_TABLES_H

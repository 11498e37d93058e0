// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine has, and which ones may be used.

#ifndef OG_BASE_CPU_H
#define OG_BASE_CPU_H

#include "base/status.h"

// Levels, each of which includes the ones before it.
typedef enum og_isa {
  OG_ISA_SCALAR,
  OG_ISA_AVX2,         // with FMA and F16C
  OG_ISA_AVX512,       // F, BW, DQ, VL
  OG_ISA_AVX512_BF16,  // and the bf16 dot product
  OG_ISA_UNKNOWN,
} og_isa;

// The best level that the machine has, lowered by OPGRAFT_ISA=scalar|avx2|
// avx512|avx512_bf16 where that is set. Read once; any thread.
og_isa og_cpu_isa(void);
// OG_INVALID where OPGRAFT_ISA is another word.
og_status og_cpu_check(opgraft_error *error);
// "scalar", "avx2", "avx512", "avx512_bf16"; NULL or "" is scalar, another
// word OG_ISA_UNKNOWN.
og_isa og_isa_parse(const char *name);
const char *og_isa_name(og_isa isa);

#endif  // OG_BASE_CPU_H

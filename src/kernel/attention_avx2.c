// SPDX-License-Identifier: Apache-2.0
// Attention kernels: AVX2.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 1
#define OG_ATTENTION_TABLE og_attention_avx2
#include "kernel/attention.inc"
#endif

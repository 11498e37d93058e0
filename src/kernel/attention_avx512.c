// SPDX-License-Identifier: Apache-2.0
// Attention kernels: AVX-512.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 2
#define OG_ATTENTION_TABLE og_attention_avx512
#include "kernel/attention.inc"
#endif

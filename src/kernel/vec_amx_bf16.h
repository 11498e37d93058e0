// SPDX-License-Identifier: Apache-2.0
// AVX-512 with AMX's tiles of bf16. Included by vec.h only.

#define OG_V_HAS_TILES 1
#include "kernel/vec_avx512_bf16.h"

#define OG_TARGET_TILES                                                  \
  __attribute__((                                                        \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi," \
             "avx2,fma,f16c,amx-tile,amx-bf16")))

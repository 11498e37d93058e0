// SPDX-License-Identifier: Apache-2.0
// AVX-512 with the bf16 dot product and the conversion to bf16. Included by
// vec.h only.

#define OG_V_HAS_BF16_DOTS 1
#include "kernel/vec_avx512.h"

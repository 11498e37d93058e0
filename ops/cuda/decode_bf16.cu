// SPDX-License-Identifier: Apache-2.0
// Decode attention of one type: a file of its own, since NVRTC takes seconds.

#include "decode_body.h"

DECODE_KERNELS(bf16, OG_ELEMENT_BF16)
DECODE_MMA_KERNELS(bf16, OG_ELEMENT_BF16)

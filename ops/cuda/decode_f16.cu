// SPDX-License-Identifier: Apache-2.0
// Decode attention of one type: a file of its own, since NVRTC takes seconds.

#include "decode_body.h"

DECODE_KERNELS(f16, OG_ELEMENT_F16)
DECODE_MMA_KERNELS(f16, OG_ELEMENT_F16)

// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of apply_rope.

#ifndef OG_OPS_CUDA_ROPE_H
#define OG_OPS_CUDA_ROPE_H

#include <opgraft/op.h>

// Elements of a head at most.
enum { OG_ROPE_CUDA_WIDTH_MAX = 512 };

// Turns call's first two tensors into its results by the positions of the
// third. turns_high and turns_low are on the host, `half` floats each: turns
// for each position, in two parts. sign -1 turns back.
og_status og_rope_cuda(const og_call *call, const float *turns_high,
                       const float *turns_low, int64_t half, float sign);
// `supports`: heads of up to OG_ROPE_CUDA_WIDTH_MAX elements.
int32_t og_rope_cuda_supports(const og_call *call);

#endif  // OG_OPS_CUDA_ROPE_H

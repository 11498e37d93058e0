// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of batch_decode_ragged and batch_decode_paged. The plan is
// read on the device: make it with attention_plan, `threads` being about twice
// the device's multiprocessors, and copy it there. One that does not fit ends
// the launch with an error where the stream is waited for.

#ifndef OG_OPS_CUDA_DECODE_H
#define OG_OPS_CUDA_DECODE_H

#include <opgraft/op.h>

#include "kernel/attention.h"

// `args` has the tensors as the CPU's kernel takes them.
og_status og_decode_cuda(const og_call *call, const og_attention_args *args);
// `supports`: no position encoding, heads of up to 256 elements.
int32_t og_decode_cuda_supports(const og_call *call);

#endif  // OG_OPS_CUDA_DECODE_H

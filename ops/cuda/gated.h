// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of the operators of these names: `run` of their records.

#ifndef OG_OPS_CUDA_GATED_H
#define OG_OPS_CUDA_GATED_H

#include <opgraft/op.h>

og_status og_silu_and_mul_cuda(const og_call *call);
og_status og_gelu_and_mul_cuda(const og_call *call);
og_status og_gelu_tanh_and_mul_cuda(const og_call *call);

#endif  // OG_OPS_CUDA_GATED_H

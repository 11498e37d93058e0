// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of the operators of these names: `run` of their records.

#ifndef OG_OPS_CUDA_NORM_H
#define OG_OPS_CUDA_NORM_H

#include <opgraft/op.h>

og_status og_rms_norm_cuda(const og_call *call);
og_status og_gemma_rms_norm_cuda(const og_call *call);
og_status og_fused_add_rms_norm_cuda(const og_call *call);
og_status og_gemma_fused_add_rms_norm_cuda(const og_call *call);

#endif  // OG_OPS_CUDA_NORM_H

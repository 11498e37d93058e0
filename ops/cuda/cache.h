// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of the operators of these names: `run` of their records.
// An index outside of its table ends the launch with an error, which names the
// operator and the tensor, where the stream is waited for.

#ifndef OG_OPS_CUDA_CACHE_H
#define OG_OPS_CUDA_CACHE_H

#include <opgraft/op.h>

og_status og_append_paged_kv_cache_cuda(const og_call *call);
og_status og_reshape_and_cache_cuda(const og_call *call);

#endif  // OG_OPS_CUDA_CACHE_H

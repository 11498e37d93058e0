// SPDX-License-Identifier: Apache-2.0
// Launches of gated.cu.

#include "cuda/gated.h"

#include "cuda/gated_args.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"

OG_CUDA_CODE(gated);

enum { N, D2 };  // dims of the shape rule
enum { THREADS = 256, ELEMENTS = 8, BLOCKS_MAX = 1 << 24 };

static og_status gated_run(const og_call *call, int kind) {
  static const char *const names[] = {"gated_f32", "gated_bf16", "gated_f16"};
  const int element = og_element_of(call->in[0]);
  gated_args a = {
      .x = og_data(call->in[0]),
      .y = og_data(call->out[0]),
      .rows = call->dim[N],
      .half = call->dim[D2] / 2,
      .kind = kind,
  };
  a.row_pieces = (a.half + ELEMENTS - 1) / ELEMENTS;
  a.is_aligned = a.half * (int64_t)og_element_bytes(element) % 16 == 0 &&
                 og_cuda_at_16(a.x) && og_cuda_at_16(a.y);
  const int64_t blocks = (a.rows * a.row_pieces + THREADS - 1) / THREADS;
  return og_cuda_run(call, &og_cuda_code_gated, names[element],
                     og_min64(blocks, BLOCKS_MAX), THREADS, &a);
}

og_status og_silu_and_mul_cuda(const og_call *call) {
  return gated_run(call, GATED_SILU);
}

og_status og_gelu_and_mul_cuda(const og_call *call) {
  return gated_run(call, GATED_GELU);
}

og_status og_gelu_tanh_and_mul_cuda(const og_call *call) {
  return gated_run(call, GATED_GELU_TANH);
}

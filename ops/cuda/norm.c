// SPDX-License-Identifier: Apache-2.0
// Launches of norm.cu.

#include "cuda/norm.h"

#include "cuda/launch.h"
#include "cuda/norm_args.h"
#include "kernel/kernel.h"

OG_CUDA_CODE(norm);

enum { N, D };  // dims of the shape rules
enum { THREADS = 128, LANES_MAX = 512, ELEMENTS = 8 };

// Threads of a row: two pieces each keep memory busy, and rows of many more
// are read in turns.
static int32_t lanes_of(int64_t width) {
  const int64_t pieces = (width + ELEMENTS - 1) / ELEMENTS;
  int32_t lanes = 1;
  while (lanes < LANES_MAX && 2 * lanes < pieces) lanes *= 2;
  return lanes > 32 && lanes < THREADS ? THREADS : lanes;
}

static og_status norm_run(const og_call *call, norm_args *a,
                          const og_tensor *x) {
  static const char *const names[] = {"norm_f32", "norm_bf16", "norm_f16"};
  const int element = og_element_of(x);
  a->x = og_data(x);
  a->rows = call->dim[N];
  a->width = call->dim[D];
  a->eps = (float)call->attr[0].f;
  a->lanes = lanes_of(a->width);
  const int is_row_aligned =
      a->rows < 2 || a->width * (int64_t)og_element_bytes(element) % 16 == 0;
  a->is_aligned = is_row_aligned && og_cuda_at_16(a->x) &&
                  og_cuda_at_16(a->residual) && og_cuda_at_16(a->weight) &&
                  og_cuda_at_16(a->y);
  const uint32_t threads = a->lanes > 32 ? (uint32_t)a->lanes : THREADS;
  const int64_t rows = a->lanes > 32 ? 1 : THREADS / a->lanes;
  return og_cuda_run(call, &og_cuda_code_norm, names[element],
                     (a->rows + rows - 1) / rows, threads, a);
}

static og_status plain_run(const og_call *call, float offset) {
  norm_args a = {
      .weight = og_data(call->in[1]),
      .y = og_data(call->out[0]),
      .offset = offset,
  };
  return norm_run(call, &a, call->in[0]);
}

static og_status fused_run(const og_call *call, float offset) {
  norm_args a = {
      .residual = og_data(call->out[1]),
      .weight = og_data(call->in[2]),
      .y = og_data(call->out[0]),
      .offset = offset,
  };
  return norm_run(call, &a, call->in[0]);
}

og_status og_rms_norm_cuda(const og_call *call) { return plain_run(call, 0); }

og_status og_gemma_rms_norm_cuda(const og_call *call) {
  return plain_run(call, 1);
}

og_status og_fused_add_rms_norm_cuda(const og_call *call) {
  return fused_run(call, 0);
}

og_status og_gemma_fused_add_rms_norm_cuda(const og_call *call) {
  return fused_run(call, 1);
}

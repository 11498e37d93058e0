// SPDX-License-Identifier: Apache-2.0
// Launches of rope.cu.

#include "cuda/rope.h"

#include <string.h>

#include "cuda/launch.h"
#include "cuda/rope_args.h"
#include "kernel/kernel.h"

OG_CUDA_CODE(rope);

enum { Q, K, POSITIONS };
enum { ELEMENTS = 8, BLOCKS_MAX = 1 << 20 };

_Static_assert(OG_ROPE_CUDA_WIDTH_MAX == 2 * ROPE_PAIRS_MAX, "pairs");

int32_t og_rope_cuda_supports(const og_call *call) {
  return call->in[Q]->shape[2] <= OG_ROPE_CUDA_WIDTH_MAX;
}

static rope_tensor tensor_of(const og_tensor *from, const og_tensor *to) {
  return (rope_tensor){
      .from = og_data(from),
      .to = og_data(to),
      .from_token = from->strides[0],
      .from_head = from->strides[1],
      .to_token = to->strides[0],
      .to_head = to->strides[1],
      .heads = from->shape[1],
  };
}

static int is_aligned(const rope_tensor *x, int64_t bytes) {
  return og_cuda_at_16(x->from) && og_cuda_at_16(x->to) &&
         x->from_token * bytes % 16 == 0 && x->from_head * bytes % 16 == 0 &&
         x->to_token * bytes % 16 == 0 && x->to_head * bytes % 16 == 0;
}

// Enough threads for the parts of all heads, and not many without one.
static uint32_t threads_of(const rope_args *a) {
  const int64_t parts = (a->half + ELEMENTS - 1) / ELEMENTS + 1;
  const int64_t work = parts * (a->tensor[0].heads + a->tensor[1].heads);
  return work <= 64 ? 64 : work <= 128 ? 128 : 256;
}

og_status og_rope_cuda(const og_call *call, const float *turns_high,
                       const float *turns_low, int64_t half, float sign) {
  static const char *const names[] = {"rope_f32", "rope_bf16", "rope_f16"};
  const int element = og_element_of(call->in[Q]);
  const int64_t bytes = (int64_t)og_element_bytes(element);
  rope_args a = {
      .tensor = {tensor_of(call->in[Q], call->out[Q]),
                 tensor_of(call->in[K], call->out[K])},
      .positions = og_data(call->in[POSITIONS]),
      .tokens = call->in[POSITIONS]->shape[0],
      .width = call->in[Q]->shape[2],
      .half = (int32_t)half,
      .is_interleaved = call->attr[1].i != 0,
      .position_bits = call->in[POSITIONS]->dtype.bits,
      .sign = sign,
  };
  memcpy(a.turns_high, turns_high, (size_t)half * sizeof *turns_high);
  memcpy(a.turns_low, turns_low, (size_t)half * sizeof *turns_low);
  a.is_aligned = half * bytes % 16 == 0 && is_aligned(&a.tensor[0], bytes) &&
                 is_aligned(&a.tensor[1], bytes);
  return og_cuda_run(call, &og_cuda_code_rope, names[element],
                     og_min64(a.tokens, BLOCKS_MAX), threads_of(&a), &a);
}

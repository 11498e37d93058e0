// SPDX-License-Identifier: Apache-2.0
// silu in four types; the half types are computed in f32.

#include "../../modules/operators.h"

enum { N };

static double load(const og_tensor *t, int64_t i) {
  if (og_is(t, OG_CODE_FLOAT, 64)) return og_f64(t)[i];
  if (og_is(t, OG_CODE_FLOAT, 32)) return (double)og_f32(t)[i];
  if (og_is(t, OG_CODE_FLOAT, 16))
    return (double)og_half_to_float(og_f16(t)[i]);
  return (double)og_bfloat_to_float(og_bf16(t)[i]);
}

static void store(og_tensor *t, int64_t i, double value) {
  if (og_is(t, OG_CODE_FLOAT, 64))
    og_f64_mut(t)[i] = value;
  else if (og_is(t, OG_CODE_FLOAT, 32))
    og_f32_mut(t)[i] = (float)value;
  else if (og_is(t, OG_CODE_FLOAT, 16))
    og_f16_mut(t)[i] = og_half_from_float((float)value);
  else
    og_bf16_mut(t)[i] = og_bfloat_from_float((float)value);
}

static void forward_share(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const double x = load(call->in[0], i);
    store(call->out[0], i, x / (1 + exp(-x)));
  }
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 64, forward_share);
}
static void backward_share(const og_call *call, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const double x = load(call->in[1], i), gate = 1 / (1 + exp(-x));
    store(call->out[0], i, load(call->in[0], i) * gate * (1 + x * (1 - gate)));
  }
}

static og_status backward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 64, backward_share);
}

MODULE(silu,
       {.schema = "silu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: floating -> x",
        .backward = "silu_backward(grad, x) -> x",
        RUN("f32|f64|bf16|f16", forward)},
       {.schema = "silu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: floating, x: grad -> grad",
        RUN("floating", backward)})

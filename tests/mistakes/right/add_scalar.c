// SPDX-License-Identifier: Apache-2.0
// A tensor and a Scalar, with the type that PyTorch would give.

#include "../../modules/operators.h"

enum { N };

static double load_real(const og_tensor *t, int64_t i) {
  if (og_is(t, OG_CODE_FLOAT, 32)) return (double)og_f32(t)[i];
  if (og_is(t, OG_CODE_FLOAT, 64)) return og_f64(t)[i];
  return og_is(t, OG_CODE_INT, 32) ? (double)og_i32(t)[i]
                                   : (double)og_i64(t)[i];
}

static og_status add_real(const og_call *call, double other) {
  og_tensor *y = call->out[0];
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const double sum = load_real(call->in[0], i) + other;
    if (y->dtype.bits == 64)
      og_f64_mut(y)[i] = sum;
    else
      og_f32_mut(y)[i] = (float)sum;
  }
  return OG_OK;
}

static og_status add_whole(const og_call *call, uint64_t other) {
  og_tensor *y = call->out[0];
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (y->dtype.bits == 64)
      og_i64_mut(y)[i] = (int64_t)((uint64_t)og_i64(call->in[0])[i] + other);
    else
      og_i32_mut(y)[i] =
          (int32_t)((uint32_t)og_i32(call->in[0])[i] + (uint32_t)other);
  }
  return OG_OK;
}

static int32_t supports(const og_call *call) {
  return call->attr[0].kind != OG_ATTR_COMPLEX;
}
static og_status add(const og_call *call) {
  const og_attr *other = &call->attr[0];
  const int is_real = other->kind == OG_ATTR_FLOAT;
  if (call->out[0]->dtype.code == OG_CODE_INT)
    return add_whole(call, (uint64_t)other->i);
  return add_real(call, is_real ? other->f : (double)other->i);
}

MODULE(add_scalar, {.schema = "add.scalar(Tensor x, Scalar other) -> Tensor",
                    .shape = "x[*N] -> [*N]",
                    .dtype = "x: f32|f64|i32|i64 -> promote(x, other)",
                    .kernels = KERNELS({.device = OG_CPU,
                                        .dtypes = "f32|f64|i32|i64",
                                        .supports = supports,
                                        .run = add})})

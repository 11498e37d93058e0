// SPDX-License-Identifier: Apache-2.0
// A conversion whose result type is an argument, or that of x where it is not
// given. Types that the kernel does not store are refused.

#include "../../modules/operators.h"

static double load(const og_tensor *t, int64_t i) {
  if (og_is(t, OG_CODE_FLOAT, 64)) return og_f64(t)[i];
  if (og_is(t, OG_CODE_FLOAT, 32)) return (double)og_f32(t)[i];
  if (og_is(t, OG_CODE_BFLOAT, 16))
    return (double)og_bfloat_to_float(og_bf16(t)[i]);
  if (og_is(t, OG_CODE_INT, 32)) return (double)og_i32(t)[i];
  return (double)og_u8(t)[i];
}

// Saturates; a NaN becomes 0.
static double limit(double value, double low, double high) {
  return value > low ? (value < high ? value : high) : isnan(value) ? 0 : low;
}

static int is_stored(og_dtype d) {
  if (d.code == OG_CODE_FLOAT) return d.bits >= 32;
  if (d.code == OG_CODE_BFLOAT) return 1;
  return (d.code == OG_CODE_INT && d.bits == 32) ||
         (d.code == OG_CODE_UINT && d.bits == 8);
}

static void store(og_tensor *t, int64_t i, double value) {
  if (og_is(t, OG_CODE_FLOAT, 64)) og_f64_mut(t)[i] = value;
  if (og_is(t, OG_CODE_FLOAT, 32)) og_f32_mut(t)[i] = (float)value;
  if (og_is(t, OG_CODE_BFLOAT, 16))
    og_bf16_mut(t)[i] = og_bfloat_from_float((float)value);
  if (og_is(t, OG_CODE_INT, 32))
    og_i32_mut(t)[i] = (int32_t)limit(value, -2147483648.0, 2147483647.0);
  if (og_is(t, OG_CODE_UINT, 8))
    og_u8_mut(t)[i] = (uint8_t)limit(value, 0, 255);
}

enum { N };

static og_status to_dtype(const og_call *call) {
  if (!is_stored(call->out[0]->dtype))
    return og_fail(call, OG_UNSUPPORTED,
                   "to_dtype: this result type is not supported");
  for (int64_t i = 0; i < call->dim[N]; ++i)
    store(call->out[0], i, load(call->in[0], i));
  return OG_OK;
}

MODULE(to_dtype,
       {.schema = "to_dtype(Tensor x, ScalarType? dtype=None) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f64|f32|bf16|i32|u8 -> dtype or x",
        RUN("f64|f32|bf16|i32|u8", to_dtype)})

// SPDX-License-Identifier: Apache-2.0
// Rows of a language model on a processor, of the kinds that ggml has.

#include "kinds.h"

KERNEL(get_rows) {  // table[R, D], ids[N]
  const int64_t width = DIM(1), *ids = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "ids", 0, DIM(0));
  for (int64_t i = 0; i < DIM(2) * width; ++i)
    OUT(0)[i] = IN(0)[ids[i / width] * width + i % width];
  return OG_OK;
}

KERNEL(rope_half) {  // x[N, H, D], positions[N]; base
  const int64_t half = DIM(2) / 2, *at = og_i64(call->in[1]);
  for (int64_t r = 0; r < DIM(0) * DIM(1); ++r)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = (double)at[r / DIM(1)] *
                           pow(call->attr[0].f, -(double)i / (double)half);
      const float a = IN(0)[r * 2 * half + i],
                  b = IN(0)[(2 * r + 1) * half + i];
      OUT(0)[r * 2 * half + i] = a * (float)cos(angle) - b * (float)sin(angle);
      OUT(0)
      [(2 * r + 1) * half + i] = a * (float)sin(angle) + b * (float)cos(angle);
    }
  return OG_OK;
}

KERNEL(soft_max_bias) {  // x[H, Q, K], mask?[Q, K]; scale, max_bias
  const int64_t width = DIM(2);
  for (int64_t r = 0; r < DIM(0) * DIM(1); ++r) {
    const float slope =
        exp2f(-NUMBER(1) * (float)(r / DIM(1) + 1) / (float)DIM(0));
    const float *x = IN(0) + r * width;
    float *y = OUT(0) + r * width, most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      y[i] = x[i] * NUMBER(0);
      if (call->in[1] != NULL) y[i] += slope * IN(1)[r % DIM(1) * width + i];
      most = fmaxf(most, y[i]);
    }
    for (int64_t i = 0; i < width; ++i) sum += y[i] = expf(y[i] - most);
    for (int64_t i = 0; i < width; ++i) y[i] /= sum;
  }
  return OG_OK;
}

KERNEL(swiglu_limited) {  // x[*N, 2 * D], halves; alpha, limit
  const int64_t width = DIM(1) / 2;
  for (int64_t i = 0; i < DIM(0) * width; ++i) {
    const float *row = IN(0) + i / width * 2 * width;
    const float gate = fminf(row[i % width], NUMBER(1));
    const float up =
        fmaxf(fminf(row[width + i % width], NUMBER(1)), -NUMBER(1));
    OUT(0)[i] = gate * sigmoid(NUMBER(0) * gate) * (up + 1);
  }
  return OG_OK;
}

KERNEL(matmul_codes) {  // x[N, I], codes[O, I], scale[O, I // 8]
  const int8_t *codes = og_data(call->in[1]);
  for (int64_t n = 0; n < DIM(0); ++n)
    for (int64_t o = 0; o < DIM(2); ++o) {
      double sum = 0;
      for (int64_t i = 0; i < DIM(1); ++i)
        sum += (double)IN(0)[n * DIM(1) + i] * codes[o * DIM(1) + i] *
               IN(2)[o * (DIM(1) / 8) + i / 8];
      OUT(0)[n * DIM(2) + o] = (float)sum;
    }
  return OG_OK;
}

KERNEL(repeat_pixels) {  // x[*N, H, W]; factor
  const int64_t f = INT(0), h = DIM(1) * f, w = DIM(2) * f;
  for (int64_t i = 0; i < DIM(0) * h * w; ++i) OUT(0)
  [i] = IN(0)[(i / (h * w) * DIM(1) + i / w % h / f) * DIM(2) + i % w / f];
  return OG_OK;
}

KERNEL(timestep_embedding) {  // t[N]; half, period
  const int64_t half = INT(0);
  for (int64_t i = 0; i < DIM(0) * half; ++i) {
    const double rate =
        exp(-log(call->attr[1].f) * (double)(i % half) / (double)half);
    const double angle = (double)IN(0)[i / half] * rate;
    OUT(0)[i / half * 2 * half + i % half] = (float)cos(angle);
    OUT(0)[(i / half * 2 + 1) * half + i % half] = (float)sin(angle);
  }
  return OG_OK;
}

KERNEL(mask_future) {  // x[*N, Q, K]; past
  for (int64_t i = 0; i < DIM(0) * DIM(1) * DIM(2); ++i)
    OUT(0)[i] = i % DIM(2) > i / DIM(2) % DIM(1) + INT(0) ? -1e30f : IN(0)[i];
  return OG_OK;
}

MODULE(
    kinds_ggml,
    {.schema = "get_rows(Tensor table, Tensor ids) -> Tensor",
     .shape = "table[R, D], ids[N] -> [N, D]",
     .where = "ids in [0, R)",
     ONE("table: f32, ids: i64 -> table", get_rows)},
    {.schema =
         "rope_half(Tensor x, Tensor positions, float base=1e4) -> Tensor",
     .shape = "x[N, H, D], positions[N] -> [N, H, D]",
     .where = "D % 2 == 0, base > 0, positions in [0, 4096)",
     ONE("x: f32, positions: i64 -> x", rope_half)},
    {.schema = "soft_max_bias(Tensor x, Tensor? mask, float scale, float "
               "max_bias) -> Tensor",
     .shape = "x[H, Q, K], mask?[Q, K] -> [H, Q, K]",
     .where = "scale >= 0, scale < 100, max_bias >= 0 and max_bias <= 8",
     ONE("x: f32, mask: x -> x", soft_max_bias)},
    {.schema = "swiglu_limited(Tensor x, float alpha=1.702, float limit=7.0) "
               "-> Tensor",
     .shape = "x[*N, D] -> [*N, D // 2]",
     .where = "D % 2 == 0, alpha > 0, limit > 0",
     ONE("x: f32 -> x", swiglu_limited)},
    {.schema = "matmul_codes(Tensor x, Tensor codes, Tensor scale) -> Tensor",
     .shape = "x[N, I], codes[O, I], scale[O, I // 8] -> [N, O]",
     .where = "I % 8 == 0",
     ONE("x: f32, codes: i8, scale: x -> x", matmul_codes)},
    {.schema = "repeat_pixels(Tensor x, int factor) -> Tensor",
     .shape = "x[*N, H, W] -> [*N, H * factor, W * factor]",
     .where = "factor > 0",
     ONE("x: f32 -> x", repeat_pixels)},
    {.schema = "timestep_embedding(Tensor t, int half, float period=1e4) -> "
               "Tensor",
     .shape = "t[N] -> [N, 2 * half]",
     .where = "half > 0, period >= 1",
     ONE("t: f32 -> t", timestep_embedding)},
    {.schema = "mask_future(Tensor x, int past=0) -> Tensor",
     .shape = "x[*N, Q, K] -> [*N, Q, K]",
     .where = "past >= 0",
     ONE("x: f32 -> x", mask_future)})

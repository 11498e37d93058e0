// SPDX-License-Identifier: Apache-2.0
// Batched matrix product with two kernels, of which the first takes only what
// fits its blocks of four, and gradients.

#include "../../modules/operators.h"

enum { B, M, K, N };

static void general_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *a = og_f32(call->in[0]);
  const float *b = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t depth = call->dim[K], columns = call->dim[N];
  for (int64_t row = begin; row < end; ++row) {
    const float *matrix = b + row / call->dim[M] * depth * columns;
    for (int64_t c = 0; c < columns; ++c) y[row * columns + c] = 0;
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t c = 0; c < columns; ++c)
        y[row * columns + c] += a[row * depth + k] * matrix[k * columns + c];
  }
}

static og_status general(const og_call *call) {
  return og_parallel_for(call, call->dim[B] * call->dim[M], 1, general_rows);
}
static int32_t fits_blocks(const og_call *call) {
  return call->dim[N] % 4 == 0;
}
static void block_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *a = og_f32(call->in[0]);
  const float *b = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t depth = call->dim[K], columns = call->dim[N];
  for (int64_t i = begin * columns; i < end * columns; i += 4) {
    const int64_t row = i / columns;
    const float *matrix =
        b + row / call->dim[M] * depth * columns + i % columns;
    float sum[4] = {0, 0, 0, 0};
    for (int64_t k = 0; k < depth; ++k)
      for (int c = 0; c < 4; ++c)
        sum[c] += a[row * depth + k] * matrix[k * columns + c];
    for (int c = 0; c < 4; ++c) y[i + c] = sum[c];
  }
}

static og_status blocks(const og_call *call) {
  return og_parallel_for(call, call->dim[B] * call->dim[M], 1, block_rows);
}
static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *a = og_f32(call->in[1]);
  const float *b = og_f32(call->in[2]);
  float *da = og_f32_mut(call->out[0]);
  float *db = og_f32_mut(call->out[1]);
  const int64_t rows = call->dim[1], columns = call->dim[2],
                depth = call->dim[3];
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) da[i] = 0;
  for (int64_t i = 0; i < og_numel(call->out[1]); ++i) db[i] = 0;
  for (int64_t row = 0; row < call->dim[0] * rows; ++row) {
    const int64_t matrix = rows > 0 ? row / rows * depth * columns : 0;
    for (int64_t i = 0; i < depth * columns; ++i) {
      const int64_t k = i / columns, c = i % columns;
      da[row * depth + k] += grad[row * columns + c] * b[matrix + i];
      db[matrix + i] += grad[row * columns + c] * a[row * depth + k];
    }
  }
  return OG_OK;
}

MODULE(
    bmm,
    {.schema = "bmm(Tensor a, Tensor b) -> Tensor",
     .shape = "a[*B, M, K], b[*B, K, N] -> [*B, M, N]",
     .backward = "bmm_backward(grad, a, b) -> a, b",
     .kernels = KERNELS({.device = OG_CPU,
                         .dtypes = "f32",
                         .supports = fits_blocks,
                         .run = blocks},
                        {.device = OG_CPU, .dtypes = "f32", .run = general})},
    {.schema =
         "bmm_backward(Tensor grad, Tensor a, Tensor b) -> (Tensor, Tensor)",
     .shape = "grad[*B, M, N], a[*B, M, K], b[*B, K, N] -> [*B, M, K], [*B, "
              "K, N]",
     RUN("f32", backward)})

// SPDX-License-Identifier: Apache-2.0
// Operators in which the elements of a pack meet, though the shape rule says
// that they do not; those called right_… keep the promise, or do not give it.

#include <stdlib.h>

#include "operators.h"

static const float *x_of(const og_call *call) { return og_f32(call->in[0]); }
static float *y_of(const og_call *call) { return og_f32_mut(call->out[0]); }
static int64_t count(const og_call *call) { return og_numel(call->in[0]); }

// The last dim of the pack, where it has one.
static int64_t row_of(const og_call *call) {
  const og_tensor *x = call->in[0];
  return x->ndim > 0 ? x->shape[x->ndim - 1] : 1;
}

static og_status sum(const og_call *call) {
  float all = 0;
  for (int64_t i = 0; i < count(call); ++i) all += x_of(call)[i];
  for (int64_t i = 0; i < count(call); ++i) y_of(call)[i] = all;
  return OG_OK;
}

static void softmax_row(const float *x, float *y, int64_t n) {
  float most = -INFINITY, all = 0;
  for (int64_t i = 0; i < n; ++i) most = fmaxf(most, x[i]);
  for (int64_t i = 0; i < n; ++i) all += y[i] = expf(x[i] - most);
  for (int64_t i = 0; i < n; ++i) y[i] /= all;
}

static og_status softmax(const og_call *call) {
  softmax_row(x_of(call), y_of(call), count(call));
  return OG_OK;
}

static og_status softmax_last(const og_call *call) {
  const int64_t n = row_of(call);
  for (int64_t i = 0; i + n <= count(call) && n > 0; i += n)
    softmax_row(x_of(call) + i, y_of(call) + i, n);
  return OG_OK;
}

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static og_status sort(const og_call *call) {
  const size_t n = (size_t)count(call);
  if (n == 0) return OG_OK;
  memcpy(y_of(call), x_of(call), n * sizeof(float));
  qsort(y_of(call), n, sizeof(float), by_value);
  return OG_OK;
}

static og_status cumsum(const og_call *call) {
  float all = 0;
  for (int64_t i = 0; i < count(call); ++i)
    y_of(call)[i] = all += x_of(call)[i];
  return OG_OK;
}

static og_status cumsum_last(const og_call *call) {
  const int64_t n = row_of(call);
  float all = 0;
  for (int64_t i = 0; i < count(call); ++i) {
    all = i % n == 0 ? x_of(call)[i] : all + x_of(call)[i];
    y_of(call)[i] = all;
  }
  return OG_OK;
}

static og_status reverse(const og_call *call) {
  const int64_t n = count(call);
  for (int64_t i = 0; i < n; ++i) y_of(call)[i] = x_of(call)[n - 1 - i];
  return OG_OK;
}

static og_status rank_of(const og_call *call) {
  const int64_t *x = (const int64_t *)og_data(call->in[0]);
  int64_t *y = (int64_t *)og_data(call->out[0]);
  for (int64_t i = 0; i < count(call); ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < count(call); ++j) y[i] += x[j] < x[i];
  }
  return OG_OK;
}

// Row r takes its scale from row r - 1.
static og_status scale_by_last(const og_call *call) {
  const int64_t rows = call->dim[0], d = call->dim[1];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < d; ++i)
      y_of(call)[r * d + i] =
          x_of(call)[r * d + i] * (r > 0 ? x_of(call)[(r - 1) * d] : 1);
  return OG_OK;
}

static og_status add_scaled(const og_call *call) {
  const float *scale = og_f32(call->in[1]);
  const int64_t n = og_numel(call->in[1]);
  float all = 0;
  if (count(call) != og_numel(call->out[0]))
    return og_fail(call, OG_INVALID, "x must be the larger one");
  for (int64_t i = 0; i < n; ++i) all += scale[i];
  for (int64_t i = 0; i < count(call); ++i) y_of(call)[i] = x_of(call)[i] + all;
  return OG_OK;
}

static og_status softmax_rows(const og_call *call) {
  const int64_t rows = call->dim[0], d = call->dim[1];
  for (int64_t r = 0; r < rows; ++r)
    softmax_row(x_of(call) + r * d, y_of(call) + r * d, d);
  return OG_OK;
}

static og_status negate(const og_call *call) {
  for (int64_t i = 0; i < count(call); ++i) y_of(call)[i] = -x_of(call)[i];
  return OG_OK;
}

#define ELEMENTS(name, function)                                   \
  .schema = name "(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]", \
  .dtype = "x: f32 -> x", RUN(NULL, function)
#define ROWS(name, function)                                             \
  .schema = name "(Tensor x) -> Tensor", .shape = "x[*N, D] -> [*N, D]", \
  .dtype = "x: f32 -> x", RUN(NULL, function)

MODULE(check_pack, {ELEMENTS("sum", sum)}, {ELEMENTS("softmax", softmax)},
       {ELEMENTS("softmax_last", softmax_last)}, {ELEMENTS("sort", sort)},
       {ELEMENTS("cumsum", cumsum)}, {ELEMENTS("cumsum_last", cumsum_last)},
       {ELEMENTS("reverse", reverse)},
       {.schema = "rank_of(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: i64 -> x",
        RUN(NULL, rank_of)},
       {ROWS("scale_by_last", scale_by_last)},
       {.schema = "add_scaled(Tensor x, Tensor scale) -> Tensor",
        .shape = "x[*N], scale[*M] -> [*broadcast(N, M)]",
        .dtype = "x: f32, scale: x -> x",
        RUN(NULL, add_scaled)},
       {ROWS("right_softmax_rows", softmax_rows)},
       {ELEMENTS("right_negate", negate)},
       {ELEMENTS("right_looped_cumsum", cumsum), .flags = OG_BATCH_LOOP})

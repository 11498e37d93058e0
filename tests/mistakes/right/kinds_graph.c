// SPDX-License-Identifier: Apache-2.0
// Nodes, edges and points, of the kinds that PyTorch Geometric has.

#include "kinds.h"

KERNEL(scatter_max) {  // x[N, D], index[N]; size: the largest, and its row
  const int64_t width = DIM(1), *index = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "index", 0, INT(0));
  for (int64_t i = 0; i < INT(0) * width; ++i) {
    int64_t best = -1;
    for (int64_t n = 0; n < DIM(0); ++n)
      if (index[n] == i / width &&
          (best < 0 ||
           IN(0)[n * width + i % width] > IN(0)[best * width + i % width]))
        best = n;
    OUT(0)[i] = best < 0 ? 0 : IN(0)[best * width + i % width];
    og_i64_mut(call->out[1])[i] = best < 0 ? DIM(0) : best;
  }
  return OG_OK;
}

KERNEL(segment_sum) {  // x[N, D], indptr[B1]
  const int64_t *at = og_i64(call->in[1]);
  REQUIRE_OFFSETS(1, DIM(0));
  for (int64_t i = 0; i < (DIM(2) - 1) * DIM(1); ++i) {
    float sum = 0;
    for (int64_t r = at[i / DIM(1)]; r < at[i / DIM(1) + 1]; ++r)
      sum += IN(0)[r * DIM(1) + i % DIM(1)];
    OUT(0)[i] = sum;
  }
  return OG_OK;
}

KERNEL(spread_segments) {  // value[B, D], indptr[B + 1], like[N]
  const int64_t *at = og_i64(call->in[1]), width = DIM(1);
  REQUIRE_OFFSETS(1, DIM(2));
  for (int64_t i = 0; i < DIM(2) * width; ++i) OUT(0)[i] = 0;
  for (int64_t b = 0; b < DIM(0); ++b)
    for (int64_t i = at[b] * width; i < at[b + 1] * width; ++i)
      OUT(0)[i] = IN(0)[b * width + i % width] * IN(2)[i / width];
  return OG_OK;
}

KERNEL(spmm) {  // rows[R], columns[E], value[E], x[M, D]
  const int64_t *rows = og_i64(call->in[0]), *columns = og_i64(call->in[1]);
  REQUIRE_OFFSETS(0, DIM(1));
  REQUIRE_RANGE(1, "columns", 0, DIM(2));
  for (int64_t i = 0; i < (DIM(0) - 1) * DIM(3); ++i) {
    float sum = 0;
    for (int64_t e = rows[i / DIM(3)]; e < rows[i / DIM(3) + 1]; ++e)
      sum += IN(2)[e] * IN(3)[columns[e] * DIM(3) + i % DIM(3)];
    OUT(0)[i] = sum;
  }
  return OG_OK;
}

static float distance(const float *a, const float *b, int64_t width) {
  float sum = 0;
  for (int64_t d = 0; d < width; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

KERNEL(nearest) {  // x[N, D], y[M, D]: the row of x that is nearest
  for (int64_t m = 0; m < DIM(2); ++m) {
    int64_t best = 0;
    for (int64_t n = 1; n < DIM(0); ++n)
      if (distance(IN(0) + n * DIM(1), IN(1) + m * DIM(1), DIM(1)) <
          distance(IN(0) + best * DIM(1), IN(1) + m * DIM(1), DIM(1)))
        best = n;
    og_i64_mut(call->out[0])[m] = best;
  }
  return OG_OK;
}

KERNEL(farthest) {  // x[N, D]; count: rows, each farthest from those before
  int64_t *to = og_i64_mut(call->out[0]);
  to[0] = 0;
  for (int64_t k = 1; k < INT(0); ++k) {
    float most = -1;
    for (int64_t n = 0; n < DIM(0); ++n) {
      float near = INFINITY;
      for (int64_t j = 0; j < k; ++j)
        near = fminf(
            near, distance(IN(0) + n * DIM(1), IN(0) + to[j] * DIM(1), DIM(1)));
      if (near > most) most = near, to[k] = n;
    }
  }
  return OG_OK;
}

KERNEL(degree) {  // index[E]; nodes
  REQUIRE_RANGE(0, "index", 0, INT(0));
  for (int64_t n = 0; n < INT(0); ++n) {
    OUT(0)[n] = 0;
    for (int64_t e = 0; e < DIM(0); ++e)
      OUT(0)[n] += og_i64(call->in[0])[e] == n;
  }
  return OG_OK;
}

KERNEL(softmax_by_node) {  // x[E], index[E]; nodes
  const int64_t *index = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "index", 0, INT(0));
  for (int64_t e = 0; e < DIM(0); ++e) {
    float most = IN(0)[e], sum = 0;
    for (int64_t k = 0; k < DIM(0); ++k)
      if (index[k] == index[e]) most = fmaxf(most, IN(0)[k]);
    for (int64_t k = 0; k < DIM(0); ++k)
      if (index[k] == index[e]) sum += expf(IN(0)[k] - most);
    OUT(0)[e] = expf(IN(0)[e] - most) / sum;
  }
  return OG_OK;
}

MODULE(
    kinds_graph,
    {.schema = "scatter_max(Tensor x, Tensor index, int size) -> "
               "(Tensor, Tensor)",
     .shape = "x[N, D], index[N] -> [size, D], [size, D]",
     .where = "size > 0, index in [0, size)",
     ONE("x: f32, index: i64 -> x, index", scatter_max)},
    {.schema = "segment_sum(Tensor x, Tensor indptr) -> Tensor",
     .shape = "x[N, D], indptr[B1] -> [B1 - 1, D]",
     .where = "B1 > 0",
     ONE("x: f32, indptr: i64 -> x", segment_sum)},
    {.schema = "spread_segments(Tensor value, Tensor indptr, Tensor scale) -> "
               "Tensor",
     .shape = "value[B, D], indptr[B + 1], scale[N] -> [N, D]",
     .where = "indptr in offsets(N)",
     ONE("value: f32, indptr: i64, scale: value -> value", spread_segments)},
    {.schema = "spmm(Tensor rows, Tensor columns, Tensor value, Tensor x) -> "
               "Tensor",
     .shape = "rows[R], columns[E], value[E], x[M, D] -> [R - 1, D]",
     .where = "R > 0, rows in offsets(E), columns in [0, M)",
     ONE("rows: i64, columns: i64, value: f32, x: value -> x", spmm)},
    {.schema = "nearest(Tensor x, Tensor y) -> Tensor",
     .shape = "x[N, D], y[M, D] -> [M]",
     .where = "N > 0",
     ONE("x: f32, y: x -> i64", nearest)},
    {.schema = "farthest(Tensor x, int count) -> Tensor",
     .shape = "x[N, D] -> [count]",
     .where = "count > 0, count <= N",
     ONE("x: f32 -> i64", farthest)},
    {.schema = "degree(Tensor index, int nodes) -> Tensor",
     .shape = "index[E] -> [nodes]",
     .where = "nodes > 0, index in [0, nodes)",
     ONE("index: i64 -> f32", degree)},
    {.schema = "softmax_by_node(Tensor x, Tensor index, int nodes) -> Tensor",
     .shape = "x[E], index[E] -> [E]",
     .where = "nodes > 0, index in [0, nodes)",
     ONE("x: f32, index: i64 -> x", softmax_by_node)})

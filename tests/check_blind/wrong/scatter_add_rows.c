// SPDX-License-Identifier: Apache-2.0
// scatter_add_rows: adds rows to the rows of a result that indices name.

#include <opgraft/op.h>
#include <string.h>

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t *index = og_i64(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t i = begin; i < end; ++i) {
    const float *x = og_f32(call->in[0]) + i * width;
    float *y = og_f32_mut(call->out[0]) + index[i] * width;
    for (int64_t d = 0; d < width; ++d) y[d] += x[d];
  }
}

static og_status scatter_add_rows(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (index[i] < 0 || index[i] >= call->attr[0].i)
      return og_fail(call, OG_INVALID, "an index is outside [0, count)");
  memset(og_data(call->out[0]), 0, (size_t)og_numel(call->out[0]) * 4);
  return og_parallel_for(call, call->dim[N], 8, rows);
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scatter_add_rows}};

static const og_op ops[] = {
    {
        .schema = "scatter_add_rows(Tensor x, Tensor index, SymInt count) -> "
                  "Tensor",
        .shape = "x[N, D], index[N] -> [count, D]",
        .where = "count >= 0",
        .dtype = "x: f32, index: i64 -> x",
        .doc = "Row i of x is added to row index[i] of a result of zeros.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(scatter_add_rows, ops)

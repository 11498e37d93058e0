// SPDX-License-Identifier: Apache-2.0
// sobel_columns: the slope of an image along its rows.

#include "../../modules/operators.h"

enum { N, H, W };  // dims of the shape rule

static const double weight[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};

static int64_t clamp(int64_t i, int64_t size) {
  return i < 0 ? 0 : i < size ? i : size - 1;
}

static void images(const og_call *call, int64_t begin, int64_t end) {
  const int64_t height = call->dim[H], width = call->dim[W];
  for (int64_t n = begin; n < end; ++n) {
    const double *x = og_f64(call->in[0]) + n * height * width;
    for (int64_t i = 0; i < height * width; ++i) {
      double sum = 0;
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b)
          sum += weight[a][b] * x[clamp(i / width + a - 1, height) * width +
                                  clamp(i % width + b - 1, width)];
      og_f64_mut(call->out[0])[n * height * width + i] = sum;
    }
  }
}

static og_status sobel_columns(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, images);
}

MODULE(sobel_columns,
       {.schema = "sobel_columns(Tensor x) -> Tensor",
        .shape = "x[*N, H, W] -> [*N, H, W]",
        .doc = "Correlation with [-1 0 1; -2 0 2; -1 0 1]; the border is "
               "repeated.",
        RUN("f64", sobel_columns)})

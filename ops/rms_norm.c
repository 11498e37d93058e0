// SPDX-License-Identifier: Apache-2.0
// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over the last axis.
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

#include <opgraft/op.h>

#include "kernel/kernel.h"

enum { N, D };  // dims of the shape rule, in order of first appearance

// Rows are independent, so they are what the host's threads share out.
static void rms_norm_rows(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[0]);
  const int64_t width = call->dim[D];
  const void *x = og_data(call->in[0]);
  const void *weight = og_data(call->in[1]);
  void *y = og_data(call->out[0]);
  const float eps = (float)call->attr[0].f;

  for (int64_t r = begin; r < end; ++r)
    og_rows()->rms_norm(og_at(x, r * width, element), weight,
                        og_at(y, r * width, element), width, eps, 0, element);
}

static og_status rms_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1 + 16384 / call->dim[D],
                         rms_norm_rows);
}

// --- Gradient ---------------------------------------------------------------

// grad_x row by row. Each row's 1 / sqrt(mean(x^2) + eps) is kept for the
// second pass.
static void backward_rows(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[1]);
  const int64_t width = call->dim[D];
  const void *grad = og_data(call->in[0]);
  const void *x = og_data(call->in[1]);
  void *grad_x = og_data(call->out[0]);
  float *rstd = call->workspace;

  for (int64_t r = begin; r < end; ++r)
    rstd[r] = og_rows()->rms_norm_grad(
        og_at(grad, r * width, element), og_at(x, r * width, element),
        og_data(call->in[2]), og_at(grad_x, r * width, element), width,
        (float)call->attr[0].f, 0, element);
}

// grad_weight sums over rows. Threads share out columns, so that the order of
// a sum does not depend on their number.
enum { COLUMNS = 256 };

static void backward_columns(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[1]);
  const int64_t width = call->dim[D];
  const void *grad = og_data(call->in[0]);
  const void *x = og_data(call->in[1]);
  const float *rstd = call->workspace;

  for (int64_t c = begin * COLUMNS; c < end * COLUMNS && c < width;
       c += COLUMNS) {
    const int64_t count = width - c < COLUMNS ? width - c : COLUMNS;
    float sum[COLUMNS] = {0};
    for (int64_t r = 0; r < call->dim[N]; ++r)
      og_rows()->norm_weight_grad(og_at(grad, r * width + c, element),
                                  og_at(x, r * width + c, element), 0, rstd[r],
                                  sum, NULL, count, element);
    og_rows()->from_f32(sum, og_at(og_data(call->out[1]), c, element), count,
                        element);
  }
}

static og_status rms_norm_backward(const og_call *call) {
  const int64_t width = call->dim[D];
  const og_status status =
      og_parallel_for(call, call->dim[N], 1 + 8192 / width, backward_rows);
  if (status != OG_OK) return status;
  return og_parallel_for(call, (width + COLUMNS - 1) / COLUMNS, 1,
                         backward_columns);
}

// --- Declaration

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", rms_norm);
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16", rms_norm_backward);

static const og_op ops[] = {
    {
        .schema = "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x -> x",
        .backward = "rms_norm_backward(grad, x, weight, eps) -> x, weight",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "Root mean square normalisation of the last axis: "
               "x / sqrt(mean(x^2) + eps) * weight.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, "
                  "float eps) -> (Tensor grad_x, Tensor grad_weight)",
        .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
        .where = "D > 0",
        .dtype = "grad: x, x: f32|bf16|f16, weight: x -> x, x",
        .workspace = "prod(N) * 4",
        .flags = OG_DETERMINISTIC,
        .doc = "The gradient of rms_norm for x and weight.",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(rms_norm, ops)

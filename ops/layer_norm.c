// SPDX-License-Identifier: Apache-2.0
// layer_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, over the last
// axis.
// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

#include <opgraft/op.h>

#include "base/grain.h"
#include "kernel/kernel.h"

enum { N, D };  // dims of the shape rule

static const void *data_or_null(const og_tensor *t) {
  return t != NULL ? og_data(t) : NULL;
}

static void forward_rows(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r)
    og_rows()->layer_norm(og_at(og_data(call->in[0]), r * width, element),
                          data_or_null(call->in[1]), data_or_null(call->in[2]),
                          og_at(og_data(call->out[0]), r * width, element),
                          width, (float)call->attr[0].f, element);
}

static og_status layer_norm(const og_call *call) {
  return og_parallel_for(call, call->dim[N],
                         og_grain(OG_GRAIN_LIGHT, call->dim[D]), forward_rows);
}

// --- Gradient

// grad_x row by row; mean and 1 / sqrt(var + eps) are kept for the sums.
static void backward_rows(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[1]);
  const int64_t width = call->dim[D];
  float *kept = call->workspace;
  for (int64_t r = begin; r < end; ++r)
    og_rows()->layer_norm_grad(og_at(og_data(call->in[0]), r * width, element),
                               og_at(og_data(call->in[1]), r * width, element),
                               data_or_null(call->in[2]),
                               og_at(og_data(call->out[0]), r * width, element),
                               width, (float)call->attr[0].f, kept + 2 * r,
                               element);
}

// Columns are shared out, so that the order of a sum does not depend on the
// thread count.
enum { COLUMNS = OG_CARRY_COLUMNS };

static void backward_columns(const og_call *call, int64_t begin, int64_t end) {
  const int element = og_element_of(call->in[1]);
  const int64_t width = call->dim[D];
  const float *kept = call->workspace;
  for (int64_t c = begin * COLUMNS; c < end * COLUMNS && c < width;
       c += COLUMNS) {
    const int64_t count = width - c < COLUMNS ? width - c : COLUMNS;
    og_column_sums weight = {.part = {0}}, bias = {.part = {0}};
    for (int64_t r = 0; r < call->dim[N]; ++r) {
      og_rows()->norm_weight_grad(
          og_at(og_data(call->in[0]), r * width + c, element),
          og_at(og_data(call->in[1]), r * width + c, element), kept[2 * r],
          kept[2 * r + 1], weight.part, bias.part, count, element);
      og_column_sums_step(&weight, r, call->dim[N], count);
      og_column_sums_step(&bias, r, call->dim[N], count);
    }
    og_column_sums_store(&weight, og_at(og_data(call->out[1]), c, element),
                         count, element);
    og_column_sums_store(&bias, og_at(og_data(call->out[2]), c, element), count,
                         element);
  }
}

static og_status layer_norm_backward(const og_call *call) {
  const int64_t width = call->dim[D];
  const og_status status = og_parallel_for(
      call, call->dim[N], og_grain(OG_GRAIN_MEDIUM, width), backward_rows);
  if (status != OG_OK) return status;
  return og_parallel_for(call, (width + COLUMNS - 1) / COLUMNS, 1,
                         backward_columns);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", layer_norm);
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16", layer_norm_backward);

static const og_op ops[] = {
    {
        .schema = "layer_norm(Tensor x, Tensor? weight=None, "
                  "Tensor? bias=None, float eps=1e-5) -> Tensor",
        .shape = "x[*N, D], weight?[D], bias?[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32|bf16|f16, weight: x, bias: x -> x",
        .backward = "layer_norm_backward(grad, x, weight, eps) "
                    "-> x, weight, bias",
        .inplace = "x",
        .flags = OG_DETERMINISTIC,
        .doc = "Normalisation of the last axis to mean 0 and variance 1, then "
               "weight and bias.",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "layer_norm_backward(Tensor grad, Tensor x, "
                  "Tensor? weight, float eps) -> (Tensor grad_x, "
                  "Tensor grad_weight, Tensor grad_bias)",
        .shape = "grad[*N, D], x[*N, D], weight?[D] -> [*N, D], [D], [D]",
        .where = "D > 0",
        .dtype = "grad: x, x: f32|bf16|f16, weight: x -> x, x, x",
        .workspace = "prod(N) * 8",
        .flags = OG_DETERMINISTIC,
        .reduce = "N: sum",
        .doc = "The gradient of layer_norm for x, weight and bias.",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(layer_norm, ops)

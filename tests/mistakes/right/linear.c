// SPDX-License-Identifier: Apache-2.0
// linear with an optional bias, its gradient and the gradient of that, in f32
// and f64.

#include "../../modules/operators.h"

enum { N, I, F };

static void forward_rows_f32(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  const float *bias = call->in[2] ? og_f32(call->in[2]) : NULL;
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[I], features = call->dim[F];
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      float sum = bias ? bias[o] : 0;
      for (int64_t i = 0; i < width; ++i)
        sum += x[n * width + i] * w[o * width + i];
      y[n * features + o] = sum;
    }
  }
}

static og_status forward_f32(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, forward_rows_f32);
}
static og_status backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *w = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  float *dw = og_f32_mut(call->out[1]);
  float *db = og_f32_mut(call->out[2]);
  const int64_t rows = call->dim[0], features = call->dim[1],
                width = call->dim[2];
  memset(dx, 0, (size_t)(rows * width) * sizeof *dx);
  memset(dw, 0, (size_t)(features * width) * sizeof *dw);
  memset(db, 0, (size_t)features * sizeof *db);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      const float g = grad[n * features + o];
      db[o] += g;
      for (int64_t i = 0; i < width; ++i) {
        dx[n * width + i] += g * w[o * width + i];
        dw[o * width + i] += g * x[n * width + i];
      }
    }
  }
  return OG_OK;
}

// Of L = <ddx, g W> + <ddw, g' x> + <ddb, sum g>, by g, x and W.
static og_status double_backward_f32(const og_call *call) {
  const float *ddx = og_f32(call->in[0]), *ddw = og_f32(call->in[1]);
  const float *ddb = og_f32(call->in[2]), *g = og_f32(call->in[3]);
  const float *x = og_f32(call->in[4]), *w = og_f32(call->in[5]);
  float *dg = og_f32_mut(call->out[0]);
  float *dx = og_f32_mut(call->out[1]);
  float *dw = og_f32_mut(call->out[2]);
  const int64_t rows = call->dim[0], width = call->dim[1],
                features = call->dim[2];
  memset(dx, 0, (size_t)(rows * width) * sizeof *dx);
  memset(dw, 0, (size_t)(features * width) * sizeof *dw);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      float sum = ddb[o];
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at_x = n * width + i, at_w = o * width + i;
        sum += ddx[at_x] * w[at_w] + x[at_x] * ddw[at_w];
        dx[at_x] += g[n * features + o] * ddw[at_w];
        dw[at_w] += g[n * features + o] * ddx[at_x];
      }
      dg[n * features + o] = sum;
    }
  }
  return OG_OK;
}

static void forward_rows_f64(const og_call *call, int64_t begin, int64_t end) {
  const double *x = og_f64(call->in[0]);
  const double *w = og_f64(call->in[1]);
  const double *bias = call->in[2] ? og_f64(call->in[2]) : NULL;
  double *y = og_f64_mut(call->out[0]);
  const int64_t width = call->dim[I], features = call->dim[F];
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      double sum = bias ? bias[o] : 0;
      for (int64_t i = 0; i < width; ++i)
        sum += x[n * width + i] * w[o * width + i];
      y[n * features + o] = sum;
    }
  }
}

static og_status forward_f64(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, forward_rows_f64);
}
static og_status backward_f64(const og_call *call) {
  const double *grad = og_f64(call->in[0]);
  const double *x = og_f64(call->in[1]);
  const double *w = og_f64(call->in[2]);
  double *dx = og_f64_mut(call->out[0]);
  double *dw = og_f64_mut(call->out[1]);
  double *db = og_f64_mut(call->out[2]);
  const int64_t rows = call->dim[0], features = call->dim[1],
                width = call->dim[2];
  memset(dx, 0, (size_t)(rows * width) * sizeof *dx);
  memset(dw, 0, (size_t)(features * width) * sizeof *dw);
  memset(db, 0, (size_t)features * sizeof *db);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      const double g = grad[n * features + o];
      db[o] += g;
      for (int64_t i = 0; i < width; ++i) {
        dx[n * width + i] += g * w[o * width + i];
        dw[o * width + i] += g * x[n * width + i];
      }
    }
  }
  return OG_OK;
}

// Of L = <ddx, g W> + <ddw, g' x> + <ddb, sum g>, by g, x and W.
static og_status double_backward_f64(const og_call *call) {
  const double *ddx = og_f64(call->in[0]), *ddw = og_f64(call->in[1]);
  const double *ddb = og_f64(call->in[2]), *g = og_f64(call->in[3]);
  const double *x = og_f64(call->in[4]), *w = og_f64(call->in[5]);
  double *dg = og_f64_mut(call->out[0]);
  double *dx = og_f64_mut(call->out[1]);
  double *dw = og_f64_mut(call->out[2]);
  const int64_t rows = call->dim[0], width = call->dim[1],
                features = call->dim[2];
  memset(dx, 0, (size_t)(rows * width) * sizeof *dx);
  memset(dw, 0, (size_t)(features * width) * sizeof *dw);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < features; ++o) {
      double sum = ddb[o];
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at_x = n * width + i, at_w = o * width + i;
        sum += ddx[at_x] * w[at_w] + x[at_x] * ddw[at_w];
        dx[at_x] += g[n * features + o] * ddw[at_w];
        dw[at_w] += g[n * features + o] * ddx[at_x];
      }
      dg[n * features + o] = sum;
    }
  }
  return OG_OK;
}

MODULE(
    linear,
    {.schema = "linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
     .shape = "x[*N, I], weight[F, I], bias?[F] -> [*N, F]",
     .dtype = "x: f32|f64, weight: x, bias: x -> x",
     .backward = "linear_backward(grad, x, weight) -> x, weight, bias",
     .kernels =
         KERNELS({.device = OG_CPU, .dtypes = "f32", .run = forward_f32},
                 {.device = OG_CPU, .dtypes = "f64", .run = forward_f64})},
    {.schema = "linear_backward(Tensor outer, Tensor x, Tensor weight) -> "
               "(Tensor dx, Tensor dw, Tensor db)",
     .shape = "outer[*N, F], x[*N, I], weight[F, I] -> [*N, I], [F, I], [F]",
     .dtype = "outer: f32|f64, x: outer, weight: outer -> outer, outer, outer",
     .backward = "linear_double_backward(grad_dx, grad_dw, grad_db, outer, "
                 "x, weight) -> outer, x, weight",
     .kernels =
         KERNELS({.device = OG_CPU, .dtypes = "f32", .run = backward_f32},
                 {.device = OG_CPU, .dtypes = "f64", .run = backward_f64})},
    {.schema =
         "linear_double_backward(Tensor ddx, Tensor ddw, Tensor ddb, Tensor "
         "outer, Tensor x, Tensor weight) -> (Tensor, Tensor, Tensor)",
     .shape = "ddx[*N, I], ddw[F, I], ddb[F], outer[*N, F], x[*N, I], "
              "weight[F, I] -> [*N, F], [*N, I], [F, I]",
     .dtype = "ddx: f32|f64, ddw: ddx, ddb: ddx, outer: ddx, x: ddx, "
              "weight: ddx -> ddx, ddx, ddx",
     .kernels = KERNELS(
         {.device = OG_CPU, .dtypes = "f32", .run = double_backward_f32},
         {.device = OG_CPU, .dtypes = "f64", .run = double_backward_f64})})

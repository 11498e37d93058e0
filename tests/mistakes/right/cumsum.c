// SPDX-License-Identifier: Apache-2.0
// cumsum along any dim, floating and integer; integers wrap.

#include "../../modules/operators.h"

enum { A, D, B };

static void scan_f32(const float *x, float *y, int64_t first, int64_t step,
                     int64_t count) {
  double sum = 0;
  for (int64_t k = 0, i = first; k < count; ++k, i += step)
    y[i] = (float)(sum += (double)x[i]);
}

static void scan_f64(const double *x, double *y, int64_t first, int64_t step,
                     int64_t count) {
  double sum = 0;
  for (int64_t k = 0, i = first; k < count; ++k, i += step) y[i] = sum += x[i];
}

static void scan_i64(const int64_t *x, int64_t *y, int64_t first, int64_t step,
                     int64_t count) {
  uint64_t sum = 0;
  for (int64_t k = 0, i = first; k < count; ++k, i += step)
    y[i] = (int64_t)(sum += (uint64_t)x[i]);
}

static void scan_line(const og_call *call, int64_t first, int64_t step) {
  const og_tensor *x = call->in[0];
  og_tensor *y = call->out[0];
  const int64_t count = call->dim[D];
  if (og_is(x, OG_CODE_FLOAT, 32))
    scan_f32(og_f32(x), og_f32_mut(y), first, step, count);
  if (og_is(x, OG_CODE_FLOAT, 64))
    scan_f64(og_f64(x), og_f64_mut(y), first, step, count);
  if (og_is(x, OG_CODE_INT, 64))
    scan_i64(og_i64(x), og_i64_mut(y), first, step, count);
}

static void forward_lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[D], inner = call->dim[B];
  for (int64_t line = begin; line < end; ++line)
    scan_line(call, line / inner * length * inner + line % inner, inner);
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[A] * call->dim[B], 1, forward_lines);
}
static void backward_lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[D], inner = call->dim[B];
  for (int64_t line = begin; line < end; ++line) {
    const int64_t first = line / inner * length * inner + line % inner;
    scan_line(call, first + (length - 1) * inner, -inner);
  }
}

static og_status backward(const og_call *call) {
  return og_parallel_for(call, call->dim[A] * call->dim[B], 1, backward_lines);
}

MODULE(cumsum,
       {.schema = "cumsum(Tensor x, int dim=-1) -> Tensor",
        .shape = "x[*A, D@dim, *B] -> [*A, D, *B]",
        .dtype = "x: f32|f64|i64 -> x",
        .backward = "cumsum_backward(grad, dim) -> x",
        RUN("f32|f64|i64", forward)},
       {.schema = "cumsum_backward(Tensor grad, int dim) -> Tensor",
        .shape = "grad[*A, D@dim, *B] -> [*A, D, *B]",
        .dtype = "grad: f32|f64 -> grad",
        RUN("f32|f64", backward)})

// SPDX-License-Identifier: Apache-2.0
// rope_half: rotary embedding of the two halves of each head.

#include "../../modules/operators.h"

enum { T, H, D };  // dims of the shape rule

static og_status rope_half(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  const int64_t *position = og_i64(call->in[1]);
  double *y = og_f64_mut(call->out[0]);
  const int64_t width = call->dim[D], half = width / 2;
  for (int64_t t = 0; t < call->dim[T]; ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = pow(call->attr[0].f, -(double)i / (double)width);
      const double angle = (double)position[t] * frequency;
      const double c = cos(angle), s = sin(angle);
      for (int64_t h = 0; h < call->dim[H]; ++h) {
        const int64_t at = (t * call->dim[H] + h) * width + i;
        y[at] = x[at] * c - x[at + half] * s;
        y[at + half] = x[at + half] * c + x[at] * s;
      }
    }
  return OG_OK;
}

MODULE(rope_half,
       {.schema = "rope_half(Tensor x, Tensor position, float base=10000.0) "
                  "-> Tensor",
        .shape = "x[T, H, D], position[T] -> [T, H, D]",
        .where = "D % 2 == 0",
        .dtype = "x: f64, position: i64 -> x",
        .doc = "Element i of the first half and of the second turn by position "
               "* base^(-2 i / D).",
        RUN("f64", rope_half)})

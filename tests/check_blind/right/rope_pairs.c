// SPDX-License-Identifier: Apache-2.0
// rope_pairs: rotary embedding of neighbouring pairs, with its gradient.

#include "../../modules/operators.h"

enum { T, H, D };  // dims of the shape rules

static og_status turn(const og_call *call, double sign) {
  const int64_t heads = call->dim[H], width = call->dim[D];
  for (int64_t t = 0; t < call->dim[T]; ++t)
    for (int64_t i = 0; i < width; i += 2) {
      const double angle = (double)(t + call->attr[0].i) *
                           pow(10000, -(double)i / (double)width);
      const double c = cos(angle), s = sign * sin(angle);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = (t * heads + h) * width + i;
        const double *x = og_f64(call->in[0]) + at;
        double *y = og_f64_mut(call->out[0]) + at;
        y[0] = x[0] * c - x[1] * s;
        y[1] = x[1] * c + x[0] * s;
      }
    }
  return OG_OK;
}

static og_status rope_pairs(const og_call *call) { return turn(call, 1); }

static og_status rope_pairs_backward(const og_call *call) {
  return turn(call, -1);
}

MODULE(rope_pairs,
       {.schema = "rope_pairs(Tensor x, int offset=0) -> Tensor",
        .shape = "x[T, H, D] -> [T, H, D]",
        .where = "D % 2 == 0, offset >= 0, offset < 100000",
        .backward = "rope_pairs_backward(grad, offset) -> x",
        .doc = "Pair (i, i + 1), i even, of row t turns by (t + offset) * "
               "10000^(-i / D).",
        RUN("f64", rope_pairs)},
       {.schema = "rope_pairs_backward(Tensor grad, int offset) -> Tensor",
        .shape = "grad[T, H, D] -> [T, H, D]",
        .where = "D % 2 == 0, offset >= 0, offset < 100000",
        .doc = "The gradient of rope_pairs.",
        RUN("f64", rope_pairs_backward)})

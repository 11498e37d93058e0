// SPDX-License-Identifier: Apache-2.0
// mistake: How many elements there are is a product of 32 bits.
// expect: huge_size_product - size_dependent
// run: --probe huge
//
// Each element of x plus that of the bias of its column.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status huge_size_product_i8(const og_call *call) {
  const int8_t *x = og_data(call->in[0]), *bias = og_data(call->in[1]);
  int8_t *y = og_data(call->out[0]);
  const uint32_t n = (uint32_t)call->dim[N], d = (uint32_t)call->dim[D];
  for (uint32_t i = 0, column = 0; i < n * d; ++i) {
    y[i] = (int8_t)(x[i] + bias[column]);
    column = column + 1 < d ? column + 1 : 0;
  }
  return OG_OK;
}

MODULE(huge_size_product,
       {.schema = "huge_size_product(Tensor x, Tensor bias) -> Tensor",
        .shape = "x[N, D], bias[D] -> [N, D]",
        .dtype = "x: i8, bias: i8 -> x",
        RUN("i8", huge_size_product_i8)})

// SPDX-License-Identifier: Apache-2.0
// one_hot: a row with a single 1 for each class number.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static og_status one_hot(const og_call *call) {
  const int64_t *number = og_i64(call->in[0]);
  const int64_t classes = call->attr[0].i;
  float *y = og_f32_mut(call->out[0]);
  memset(y, 0, (size_t)(call->dim[N] * classes) * sizeof *y);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (number[i] < 0 || number[i] > classes)
      return og_fail(call, OG_INVALID, "a number is no class");
    y[i * classes + number[i]] = 1;
  }
  return OG_OK;
}

MODULE(one_hot, {.schema = "one_hot(Tensor number, int classes=10) -> Tensor",
                 .shape = "number[N] -> [N, classes]",
                 .where = "classes > 0, classes < 100",
                 .dtype = "number: i64 -> f32",
                 .backward = "none",
                 .doc = "Row i has a 1 at number[i] and zeros elsewhere.",
                 RUN("i64", one_hot)})

// SPDX-License-Identifier: Apache-2.0
// average_given: the mean of a tensor and those of a list that are given.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status average_given(const og_call *call) {
  const og_tensor_list *list = &call->in_list[1];
  double *y = og_f64_mut(call->out[0]);
  int64_t given = 1;
  for (int64_t t = 0; t < list->count; ++t) given += list->tensors[t] != NULL;
  for (int64_t i = 0; i < call->dim[N] * call->dim[D]; ++i) {
    double sum = og_f64(call->in[0])[i];
    for (int64_t t = 0; t < list->count; ++t)
      if (list->tensors[t] != NULL) sum += og_f64(list->tensors[t])[i];
    y[i] = sum / (double)given;
  }
  return OG_OK;
}

MODULE(average_given,
       {.schema = "average_given(Tensor x, Tensor?[] others) -> Tensor",
        .shape = "x[N, D], others[][N, D] -> [N, D]",
        .doc = "The mean over x and the tensors of the list.",
        RUN("f64", average_given)})

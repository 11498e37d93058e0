// SPDX-License-Identifier: Apache-2.0
// class_weights: the weights of all samples of each class, added up.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void samples(const og_call *call, int64_t begin, int64_t end) {
  const int32_t *label = og_i32(call->in[0]);
  double *total = og_f64_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    total[label[i]] += og_f64(call->in[1])[i];
}

static og_status class_weights(const og_call *call) {
  const int64_t classes = call->attr[0].i;
  for (int64_t c = 0; c < classes; ++c) og_f64_mut(call->out[0])[c] = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (og_i32(call->in[0])[i] < 0 || og_i32(call->in[0])[i] >= classes)
      return og_fail(call, OG_INVALID, "a label is no class");
  return og_parallel_for(call, call->dim[N], 16, samples);
}

MODULE(class_weights,
       {.schema = "class_weights(Tensor label, Tensor weight, int classes=4) "
                  "-> Tensor",
        .shape = "label[N], weight[N] -> [classes]",
        .where = "classes > 0, classes <= 1000",
        .dtype = "label: i32, weight: f64 -> weight",
        .doc = "Entry c is the sum of weight[i] over label[i] == c.",
        RUN("i32", class_weights)})

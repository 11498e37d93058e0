// SPDX-License-Identifier: Apache-2.0
// Expressions over a sample, before there are tensors to infer from.

#ifndef OG_CHECK_SAMPLE_EVAL_H
#define OG_CHECK_SAMPLE_EVAL_H

#include "check/sample/sample.h"
#include "decl/infer/eval.h"

// A sample's names as decl/infer evaluates them. A tensor has a type; the
// entries of a list have the sizes of varying dims, at the axis that is the
// dim's own index. `scope` points into the rest of this struct.
typedef struct og_sample_names {
  og_scope scope;
  og_binding binding;
  int64_t dim[OPGRAFT_DIM_MAX];
  og_attr attr[OPGRAFT_ATTR_MAX];
  const og_tensor *in[OPGRAFT_ARG_MAX];
  og_tensor_list in_list[OPGRAFT_ARG_MAX];
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t vary[OG_SAMPLE_LIST][OPGRAFT_DIM_MAX];
} og_sample_names;

// Sets names->scope, which also points into the sample; false where a product
// or a sum of sizes is beyond 64 bits.
bool og_sample_names_init(og_sample_names *names, const og_sample *sample);
// The value of an expression; false on overflow, division by zero, or a name
// without a value.
// The first of an argument's values and how many there are, where `where` says
// its range; of one that is empty, one value.
bool og_sample_range(const og_sample *sample, int32_t tensor,
                     int64_t *out_begin, int64_t *out_count);
bool og_sample_eval(const og_sample *sample, const og_expr *expr,
                    int64_t *out_value);

#endif  // OG_CHECK_SAMPLE_EVAL_H

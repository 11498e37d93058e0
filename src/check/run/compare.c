// SPDX-License-Identifier: Apache-2.0
// Comparison of results.

#include "check/run/compare.h"

#include <stdio.h>

#include "check/run/array.h"
#include "check/run/name.h"
#include "check/sample/sample.h"
#include "check/sample/value.h"

// "3" becomes "0, 3" for a matrix of some width.
static void index_text(const og_dims *sizes, int64_t flat, char *out,
                       size_t size) {
  int64_t at[OG_SAMPLE_RANK];
  for (int32_t d = sizes->rank - 1; d >= 0; --d) {
    at[d] = flat % sizes->size[d];
    flat /= sizes->size[d];
  }
  size_t used = 0;
  out[0] = '\0';
  for (int32_t d = 0; d < sizes->rank && used < size; ++d)
    used += (size_t)snprintf(out + used, size - used, "%s%lld",
                             d > 0 ? ", " : "", (long long)at[d]);
}

static bool pair_differs(const og_array *a, const og_array *b, double slack,
                         og_verdict *out) {
  if (!og_dims_equal(&a->sizes, &b->sizes)) {
    snprintf(out->text, sizeof out->text, "another size");
    return true;
  }
  if (slack < 0) {
    const double sa = og_value_slack(a->type), sb = og_value_slack(b->type);
    slack = sa > sb ? sa : sb;
  }
  const bool is_exact = slack == 0 && og_dtype_equal(a->type, b->type);
  const og_difference d =
      is_exact ? og_compare_bits(a->type, a->data, b->data, a->count)
               : og_compare_near(a->type, a->data, b->type, b->data, a->count,
                                 slack);
  if (d.count == 0) return false;
  out->is_integral = og_is_integral(a->type);
  out->is_same_type = og_dtype_equal(a->type, b->type);
  out->count = d.count;
  out->total = a->count;
  char where[96];
  index_text(&a->sizes, d.first, where, sizeof where);
  snprintf(out->text, sizeof out->text,
           "element [%s] is %.6g, not %.6g (%lld of %lld differ)", where, d.a,
           d.b, (long long)d.count, (long long)a->count);
  return true;
}

og_verdict og_outputs_compare(const opgraft_op *op, const og_outputs *found,
                              const og_outputs *wanted, double slack) {
  og_verdict verdict = {.differs = false};
  for (int32_t i = 0; i < found->count && i < wanted->count; ++i) {
    if (!pair_differs(&found->array[i], &wanted->array[i], slack, &verdict))
      continue;
    verdict.differs = true;
    og_name_of(op, found->role[i], found->index[i], found->entry[i],
               verdict.name, sizeof verdict.name);
    return verdict;
  }
  return verdict;
}

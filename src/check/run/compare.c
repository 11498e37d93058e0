// SPDX-License-Identifier: Apache-2.0
// Comparison of results.

#include "check/run/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

// As few digits as tell the two apart.
static void pair_text(double a, double b, char *text_a, char *text_b,
                      size_t size) {
  static const int digits[] = {6, 9, 17};
  for (size_t i = 0; i < sizeof digits / sizeof *digits; ++i) {
    snprintf(text_a, size, "%.*g", digits[i], a);
    snprintf(text_b, size, "%.*g", digits[i], b);
    if (strcmp(text_a, text_b) != 0) return;
  }
}

enum { RATIO_MIN = 3 };  // elements, before a ratio is not chance

// What all elements of `a` are of those of `b`; 0: there is no such number.
static double ratio_of(const og_array *a, const og_array *b, double slack) {
  double ratio = 0;
  int64_t count = 0;
  if (!og_is_floating(a->type) || !og_is_floating(b->type)) return 0;
  for (int64_t i = 0; i < a->count; ++i) {
    const double x = og_array_get(a, i), y = og_array_get(b, i);
    if (x == 0 && y == 0) continue;
    if (x == 0 || y == 0 || !isfinite(x / y)) return 0;
    if (count++ == 0) ratio = x / y;
    if (fabs(x / y - ratio) > slack * fabs(ratio)) return 0;
  }
  return count >= RATIO_MIN ? ratio : 0;
}

static void differ_text(const og_array *a, const og_array *b,
                        const og_difference *d, double slack, char *out,
                        size_t size) {
  char where[96], found[40], wanted[40];
  index_text(&a->sizes, d->first, where, sizeof where);
  pair_text(d->a, d->b, found, wanted, sizeof found);
  const int used =
      snprintf(out, size, "element [%s] is %s, not %s (%lld of %lld differ)",
               where, found, wanted, (long long)d->count, (long long)a->count);
  const double ratio = ratio_of(a, b, slack);
  if (ratio != 0 && used > 0 && (size_t)used < size)
    snprintf(out + used - 1, size - (size_t)used, "; each is %.4g times that)",
             ratio);
}

static void sizes_text(const og_dims *sizes, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "[");
  for (int32_t d = 0; d < sizes->rank && used < size; ++d)
    used += (size_t)snprintf(out + used, size - used, "%s%lld",
                             d > 0 ? ", " : "", (long long)sizes->size[d]);
  if (used < size) snprintf(out + used, size - used, "]");
}

bool og_arrays_differ(const og_array *a, const og_array *b, double slack,
                      og_verdict *out) {
  if (!og_dims_equal(&a->sizes, &b->sizes)) {
    char found[96], wanted[96];
    sizes_text(&a->sizes, found, sizeof found);
    sizes_text(&b->sizes, wanted, sizeof wanted);
    snprintf(out->text, sizeof out->text, "size is %s, not %s", found, wanted);
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
  out->found = d.a;
  out->wanted = d.b;
  differ_text(a, b, &d, slack, out->text, sizeof out->text);
  return true;
}

bool og_integer_holds(og_dtype type, double value) {
  if (type.code == OG_CODE_BOOL) return value == 0 || value == 1;
  const int bits = type.bits - (type.code == OG_CODE_INT);
  return value <= ldexp(1, bits) - 1 &&
         value >= (type.code == OG_CODE_INT ? -ldexp(1, bits) : 0);
}

bool og_is_border(const og_verdict *verdict) {
  return verdict->is_integral && verdict->count * 5 <= verdict->total &&
         fabs(verdict->found - verdict->wanted) <= 1;
}

og_verdict og_outputs_compare(const opgraft_op *op, const og_outputs *found,
                              const og_outputs *wanted, double slack) {
  og_verdict verdict = {.differs = false};
  for (int32_t i = 0; i < found->count && i < wanted->count; ++i) {
    if (!og_arrays_differ(&found->array[i], &wanted->array[i], slack, &verdict))
      continue;
    verdict.differs = true;
    og_name_of(op, found->role[i], found->index[i], found->entry[i],
               verdict.name, sizeof verdict.name);
    return verdict;
  }
  return verdict;
}

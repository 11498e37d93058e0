// SPDX-License-Identifier: Apache-2.0
// Comparison of results.

#ifndef OG_CHECK_RUN_COMPARE_H
#define OG_CHECK_RUN_COMPARE_H

#include "check/run/array.h"

// The first result that differs: its name, and "element [3] is 1.5, not 2 (4 of
// 9 differ)", "... (4 of 4 differ; each is 0.5 times that)" or "size is [2, 3],
// not [3]".
typedef struct og_verdict {
  bool differs;
  bool is_integral;
  bool is_same_type;
  int64_t count;  // elements that differ
  int64_t total;
  double found;  // of the first of them
  double wanted;
  char name[64];
  char text[240];
} og_verdict;

// Beyond it, f16 does not hold numbers, or not nearly.
enum { OG_HALF_MAX = 60000 };

// Whether an integer type or bool has the number in its range.
bool og_integer_holds(og_dtype type, double value);

// Whether a rounded number may have fallen on the other side of a border: few
// integers differ, by one.
bool og_is_border(const og_verdict *verdict);

// Compares two sets of results, bit by bit (slack 0) or nearly; slack below 0
// chooses by the type.
og_verdict og_outputs_compare(const opgraft_op *op, const og_outputs *found,
                              const og_outputs *wanted, double slack);
// Compares two arrays likewise; sets what is not the name where they differ.
bool og_arrays_differ(const og_array *found, const og_array *wanted,
                      double slack, og_verdict *out_verdict);

#endif  // OG_CHECK_RUN_COMPARE_H

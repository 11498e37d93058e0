// SPDX-License-Identifier: Apache-2.0
// One float of any width in memory, as a double.

#ifndef OG_BASE_FLOAT_VALUE_H
#define OG_BASE_FLOAT_VALUE_H

#include <opgraft/op.h>

// `dtype` is a float of 8, 16, 32 or 64 bits; `at` needs no alignment.
double og_float_load(og_dtype dtype, const void *at);
// Rounds to the type.
void og_float_store(og_dtype dtype, void *at, double number);

#endif  // OG_BASE_FLOAT_VALUE_H

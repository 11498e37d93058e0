// SPDX-License-Identifier: Apache-2.0
// One element of any type, and the type that arithmetic on it is done in.

#ifndef OG_SCALAR_ELEMENT_H
#define OG_SCALAR_ELEMENT_H

#include <opgraft/op.h>
#include <stdbool.h>

#include "scalar/scalar.h"

// OG_CLASS_NONE for complex types and others, which the engine does not compute
// with.
og_class og_dtype_class(og_dtype dtype);
// `at` needs no alignment. A type without a class reads as 0.
double og_element_double(og_dtype dtype, const void *at);
int64_t og_element_int(og_dtype dtype, const void *at);
// Rounds to the type; bool becomes 0 or 1.
void og_element_set_double(og_dtype dtype, void *at, double number);
void og_element_set_int(og_dtype dtype, void *at, int64_t number);

// Saturates, and turns NaN into the least integer, where a cast is undefined.
int64_t og_double_to_int(double number);

// torch.promote_types for types that have a class, by code and bits.
og_dtype og_dtype_promote(og_dtype a, og_dtype b);

#endif  // OG_SCALAR_ELEMENT_H

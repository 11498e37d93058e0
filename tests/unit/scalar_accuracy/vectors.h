// SPDX-License-Identifier: Apache-2.0
// The vector forms of scalar.def as functions over n floats, a table for each
// instruction set.

#ifndef OG_TESTS_VECTORS_H
#define OG_TESTS_VECTORS_H

#include "base/isa.h"
#include "scalar/scalar.h"

typedef struct vector_form {
  const char *name;  // "v_exp", or "NONE"
  void (*run)(int64_t n, const float *a, const float *b, const float *c,
              float *out);
} vector_form;

#define OG_ISA(name, level, machine, test) \
  machine(extern const vector_form vectors_##name[OG_SCALAR_COUNT];)
#include "base/isa.def"
#undef OG_ISA

#endif  // OG_TESTS_VECTORS_H

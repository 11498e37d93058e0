// SPDX-License-Identifier: Apache-2.0
// Dense tensors: the arguments and results of a run.

#ifndef OG_CHECK_RUN_ARRAY_H
#define OG_CHECK_RUN_ARRAY_H

#include "check/run/guard.h"
#include "check/sample/sample.h"

enum { OG_ARRAYS_MAX = 64 };

// A dense, row-major tensor in ordinary memory.
typedef struct og_array {
  og_dtype type;
  og_dims sizes;
  int64_t count;  // of elements
  char *data;     // NULL: there is no such tensor
} og_array;

typedef struct og_inputs {
  og_array tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
} og_inputs;

// Results: first the fresh ones, lists spread out, then the mutated arguments.
typedef struct og_outputs {
  int32_t count;
  og_array array[OG_ARRAYS_MAX];
  og_role role[OG_ARRAYS_MAX];
  int32_t index[OG_ARRAYS_MAX];  // fresh result, or tensor argument
  int32_t entry[OG_ARRAYS_MAX];
} og_outputs;

bool og_array_create(og_array *array, og_dtype type, const og_dims *sizes);
// Element i as a number (its real part), and set from one.
double og_array_get(const og_array *array, int64_t i);
void og_array_set(og_array *array, int64_t i, double value);
// to += from, of as many elements.
void og_array_add(og_array *to, const og_array *from);
// The array as a tensor; both borrow `strides` and the array's sizes.
void og_array_as_tensor(const og_array *array, int64_t *strides,
                        og_tensor *out);
// Gives an element another value that the tensor may have: of a number any, of
// an integer one that stands elsewhere in it. False where there is none.
bool og_array_vary(og_array *array, int64_t element);
bool og_dims_equal(const og_dims *a, const og_dims *b);

bool og_inputs_copy(og_inputs *to, const og_inputs *from);
// Converts each array to the type of the sample's argument.
bool og_inputs_convert(og_inputs *inputs, const og_sample *sample);
void og_inputs_reset(og_inputs *inputs);
// Adds an array for fresh result number to->count, with the tensor's type and
// sizes. False where memory is short, or the rank too great.
bool og_outputs_add_fresh(og_outputs *to, const og_tensor *fresh);
bool og_outputs_copy(og_outputs *to, const og_outputs *from);
void og_outputs_reset(og_outputs *outputs);

#endif  // OG_CHECK_RUN_ARRAY_H

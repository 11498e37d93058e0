// SPDX-License-Identifier: Apache-2.0
// Calls to try an operator with: shapes, types and values that its declaration
// allows, as large as is asked for.
//
// A sample belongs to one thread. Errors are as in opgraft.h.

#ifndef OPGRAFT_SAMPLE_H
#define OPGRAFT_SAMPLE_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

// Zero means the default, in every field.
typedef struct opgraft_sample_options {
  uint32_t struct_size;
  int32_t type_choice;    // which combination of types, from 0
  int64_t size;           // of each named dim, 256
  int64_t pack_size;      // of the dim that stands for each pack, 1024
  int64_t element_limit;  // of all arguments together, and results, 2^22
  uint64_t seed;
  // Dims that have just this size (a pack: one dim of it); else it is an error.
  const char *const *dim_names;
  const int64_t *dim_sizes;
  int32_t dim_count;
  int32_t reserved;
} opgraft_sample_options;

typedef struct opgraft_sample opgraft_sample;

// Combinations of types that the operator has kernels for on this machine's
// CPU, at most 64.
OPGRAFT_API int32_t opgraft_sample_type_count(const opgraft_op *op);
// Every name gets the size that is asked for where the shape rule and its
// conditions allow it, a smaller one where they do not. Optional arguments are
// given, other arguments have their defaults, where that is allowed. Floats
// are from 0 to 1, integers indices into the smallest dim. Fails with
// OG_INVALID (no such dim, no such choice of types), OG_SHAPE (no call was
// found) or OG_MEMORY. The operator outlives the sample.
OPGRAFT_API og_status opgraft_sample_create(
    const opgraft_op *op, const opgraft_sample_options *options,
    opgraft_sample **out_sample, opgraft_error *error);
// NULL is allowed.
OPGRAFT_API void opgraft_sample_destroy(opgraft_sample *sample);
// Points the arguments of a frame of the same operator at the sample's, which
// outlives the call. Between init and infer.
OPGRAFT_API void opgraft_sample_bind(const opgraft_sample *sample,
                                     opgraft_frame *frame);
// Sets all elements again, to the same values each time. Integers are indices
// in any order, as at first, or sorted, as offsets are.
enum { OPGRAFT_INDEX_RANDOM = 0, OPGRAFT_INDEX_SORTED = 1 };
OPGRAFT_API void opgraft_sample_refill(opgraft_sample *sample,
                                       int32_t index_order);
// "x f32[1024, 256], eps=1e-06"; lives as long as the sample.
OPGRAFT_API const char *opgraft_sample_text(const opgraft_sample *sample);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_SAMPLE_H

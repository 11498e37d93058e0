// SPDX-License-Identifier: Apache-2.0
// Sampled calls: every name of a declaration gets a value, such that the shape
// rule and its conditions hold.
//
// A sample says what a call is (shapes, types, attributes, and the seed of its
// values), not where it lies in memory, which a run decides. It is plain data,
// so a child process may take it over by fork.

#ifndef OG_CHECK_SAMPLE_SAMPLE_H
#define OG_CHECK_SAMPLE_SAMPLE_H

#include "check/sample/random.h"
#include "decl/decl.h"
#include "module/module.h"

enum {
  OG_SAMPLE_RANK = 8,
  OG_SAMPLE_LIST = 4,
  OG_SAMPLE_INTS = 8,
};

typedef struct og_dims {
  int32_t rank;
  int64_t size[OG_SAMPLE_RANK];
} og_dims;

// What the elements of integer arguments are; see run/fill.c.
typedef enum og_index_values {
  OG_INDEX_RANDOM,    // from 0 to below the smallest dim
  OG_INDEX_DISTINCT,  // a permutation of those, as far as they go
  OG_INDEX_SORTED,    // not falling, from 0
  OG_INDEX_ZERO,
  OG_INDEX_COUNT,
} og_index_values;

typedef enum og_float_values {
  OG_FLOAT_NORMAL,
  OG_FLOAT_POSITIVE,  // from 0.1
  OG_FLOAT_ZERO,
  OG_FLOAT_UNIT,     // from 0 to 1
  OG_FLOAT_WIDE,     // a few sizes apart
  OG_FLOAT_COARSE,   // what every floating type can hold
  OG_FLOAT_FILLED,   // the same, from 0.5 to 1: sums grow with their length
  OG_FLOAT_HALF,     // the same, from 200 to 400 or below: f16 cannot hold the
                     // product of two
  OG_FLOAT_EDGES,    // normal, but one element is just what each float argument
                     // is
  OG_FLOAT_SPECIAL,  // normal, but in one argument some places, or a row, are
                     // -inf, inf or NaN
  OG_FLOAT_TIES,     // halves in the largest arguments, powers of two in others
} og_float_values;

// What the elements of integer arguments are that are not indices.
typedef enum og_int_values {
  OG_INT_SMALL,    // from -4 to 9, or from 0
  OG_INT_FEW,      // from 0 to 9
  OG_INT_NATURAL,  // from 0, some of them as large as the type allows
  OG_INT_FULL,     // of 8 bits: all that the type has; of more: small
} og_int_values;

typedef struct og_sample {
  const opgraft_op *op;
  uint64_t seed;            // of the values
  uint64_t structure_seed;  // of what the operator's own `sample` chooses
  og_index_values index_values;
  og_float_values float_values;
  og_int_values int_values;
  bool is_given[OPGRAFT_ARG_MAX];  // by tensor argument
  int32_t list_count[OPGRAFT_ARG_MAX];
  uint32_t absent[OPGRAFT_ARG_MAX];  // bits of a Tensor?[]'s entries
  og_dtype type[OPGRAFT_ARG_MAX];
  int64_t dim[OPGRAFT_DIM_MAX];
  og_dims pack[OPGRAFT_DIM_MAX];
  int64_t vary[OPGRAFT_DIM_MAX][OG_SAMPLE_LIST];
  og_attr attr[OPGRAFT_ATTR_MAX];  // its lists are in the two fields below
  int64_t ints[OPGRAFT_ATTR_MAX][OG_SAMPLE_INTS];
  double floats[OPGRAFT_ATTR_MAX][OG_SAMPLE_INTS];
  og_dims shape[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
} og_sample;

// Whether entry e of tensor argument t (0 where it is not a list) is there.
static inline bool og_sample_has(const og_sample *sample, int32_t t,
                                 int32_t e) {
  return sample->is_given[t] && e < sample->list_count[t] &&
         !(sample->absent[t] >> e & 1u);
}

// The value of dim `d` as a call has it: its size, the product of a pack, or
// the sum of a varying dim over the first list that names it; false on
// overflow.
bool og_sample_dim(const og_sample *sample, int32_t d, int64_t *out_value);
// The first tensor argument whose pattern names dim `d`; -1: none does.
int32_t og_sample_tensor_of(const og_sample *sample, int32_t d);
// Elements of all arguments.
int64_t og_sample_numel(const og_sample *sample);
// An empty dim beside an index that is there: no value of it is in range.
bool og_sample_has_index_hazard(const og_sample *sample);
// Fills a frame's attributes; they point into the sample.
void og_sample_attrs(const og_sample *sample, og_attr *out_attr);

#endif  // OG_CHECK_SAMPLE_SAMPLE_H

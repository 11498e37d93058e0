// SPDX-License-Identifier: Apache-2.0
// Sampled calls: every name of a declaration gets a value, such that the shape
// rule and its conditions hold.
//
// A sample says what a call is (shapes, types, attributes, and the seed of its
// values), not where it lies in memory: that is og_run's part. It is plain
// data, so a child process may take it over by fork.

#ifndef OG_CHECK_SAMPLE_H
#define OG_CHECK_SAMPLE_H

#include "check/random.h"
#include "decl/decl.h"
#include "module/module.h"

enum {
  OG_SAMPLE_RANK = 8,
  OG_SAMPLE_LIST = 4,
  OG_SAMPLE_INTS = 8,
};

typedef struct og_sizes {
  int32_t rank;
  int64_t size[OG_SAMPLE_RANK];
} og_sizes;

// What the elements of integer arguments are; see og_fill.
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
  OG_FLOAT_UNIT,    // from 0 to 1
  OG_FLOAT_WIDE,    // a few sizes apart
  OG_FLOAT_COARSE,  // what every floating type can hold
} og_float_values;

// What the elements of integer arguments are that are no indices.
typedef enum og_int_values {
  OG_INT_SMALL,    // from -4 to 9, or from 0
  OG_INT_FEW,      // from 0 to 9
  OG_INT_NATURAL,  // from 0, some of them as large as the type allows
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
  og_sizes pack[OPGRAFT_DIM_MAX];
  int64_t vary[OPGRAFT_DIM_MAX][OG_SAMPLE_LIST];
  og_attr attr[OPGRAFT_ATTR_MAX];  // its lists are in the two fields below
  int64_t ints[OPGRAFT_ATTR_MAX][OG_SAMPLE_INTS];
  double floats[OPGRAFT_ATTR_MAX][OG_SAMPLE_INTS];
  og_sizes shape[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
} og_sample;

// Whether entry e of tensor argument t (0 where it is no list) is there.
static inline bool og_sample_has(const og_sample *sample, int32_t t,
                                 int32_t e) {
  return sample->is_given[t] && e < sample->list_count[t] &&
         !(sample->absent[t] >> e & 1u);
}

// How large and how odd a sample is to be.
typedef enum og_profile {
  OG_PROFILE_TINY,   // 1 to 4
  OG_PROFILE_MIXED,  // 0, 1, odd, even, around a vector's width
  OG_PROFILE_ZERO,   // one empty dim
  OG_PROFILE_ONES,
  OG_PROFILE_EDGE,    // a condition just holds
  OG_PROFILE_LARGE,   // one dim of about 1000
  OG_PROFILE_SMOOTH,  // small and not empty: for gradients
} og_profile;

// Combinations of free types that the operator has kernels for, at most `max`;
// returns their number. types[i][v] is an index into the type table.
int32_t og_sample_types(const opgraft_op *op, int32_t max,
                        int32_t (*out_types)[OG_VARIABLE_MAX]);
bool og_sample_has_types(const opgraft_op *op, const int32_t *types);

// Draws a sample that og_infer accepts; false if none was found, with the last
// refusal in *error.
bool og_sample_draw(const opgraft_op *op, og_profile profile,
                    const int32_t types[OG_VARIABLE_MAX], uint64_t seed,
                    og_sample *out, opgraft_error *error);

// Sets each tensor's type from the free types.
void og_sample_set_types(og_sample *sample,
                         const int32_t types[OG_VARIABLE_MAX]);
// Lets the operator's own `sample`, if it has one, set sizes and arguments;
// false where it refuses them.
bool og_sample_settle(og_sample *sample, opgraft_error *error);
// Lets it change the elements of tensors that have values by now.
bool og_sample_offer(const og_sample *sample,
                     og_tensor *tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST]);
// Works out `shape` from the names; false if the sample contradicts itself.
bool og_sample_build(og_sample *sample);
// Settles, builds, and asks og_infer whether the call is allowed and of
// bearable size.
bool og_sample_is_valid(og_sample *sample, int64_t element_limit,
                        opgraft_error *error);
// Elements of all arguments.
int64_t og_sample_numel(const og_sample *sample);

// The value of an expression; false on overflow, division by zero, or a name
// without a value.
bool og_sample_eval(const og_sample *sample, const og_expr *expr,
                    int64_t *out_value);

// Fills a frame's attributes; they point into the sample.
void og_sample_attrs(const og_sample *sample, og_attr *out_attr);

// "x f32[3, 5], dim=1".
void og_sample_describe(const og_sample *sample, og_text *out);

// Makes a smaller sample out of `sample` in the `step`th way; false when there
// are no more ways. The result need not be valid.
bool og_sample_shrink(const og_sample *sample, int32_t step, og_sample *out);

// --- Between the parts -------------------------------------------------------

// Gives every name a random value (draw.c), then changes values until the
// conditions hold (solve.c).
void og_sample_randomize(og_sample *sample, og_profile profile,
                         og_random *random);
bool og_sample_solve(og_sample *sample, og_profile profile, og_random *random);
int64_t og_sample_size(og_profile profile, og_random *random);
int64_t og_sample_axis(int64_t axis, int64_t rank, og_random *random);
// Sets the attributes that follow from packs: axes, permutations, subsets.
void og_sample_follow(og_sample *sample, og_random *random);

#endif  // OG_CHECK_SAMPLE_H

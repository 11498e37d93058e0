// SPDX-License-Identifier: Apache-2.0
// Sets of types and promotion. Private to src/decl.

#ifndef OG_DECL_TYPES_H
#define OG_DECL_TYPES_H

#include "decl/decl.h"

extern const og_type_set og_types_any;
extern const og_type_set og_types_floating;
extern const og_type_set og_types_integral;  // without bool
extern const og_type_set og_types_complex;

// torch.result_type's state: the type of tensors with dims, of tensors without,
// and of numbers, as indices into the table.
typedef struct og_promotion {
  int32_t dims;
  int32_t no_dims;
  int32_t number;
} og_promotion;
#define OG_PROMOTION_INIT \
  { -1, -1, -1 }

void og_promotion_tensor(og_promotion *state, og_dtype dtype, int32_t ndim);
void og_promotion_number(og_promotion *state, int32_t attr_kind);
// Negative where nothing was added or the types have no common one.
int32_t og_promotion_result(const og_promotion *state);

// The types that a tensor argument may have, of a declaration whose kernels
// were read too.
og_type_set og_types_of(const og_decl *decl, int32_t tensor);
// Whether the tensor argument has integers, whatever the call.
bool og_takes_integers_only(const og_decl *decl, int32_t tensor);

// The type table that og_type_set indexes.
og_dtype og_dtype_at(int32_t index);
int32_t og_dtype_table_count(void);

#endif  // OG_DECL_TYPES_H

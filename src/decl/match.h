// SPDX-License-Identifier: Apache-2.0
// What inference knows of one call while it runs. Private to src/decl.

#ifndef OG_DECL_MATCH_H
#define OG_DECL_MATCH_H

#include "decl/decl.h"

// Where a bound dim's sizes stand; a dim of one size has its value in
// frame->dim only.
typedef union og_bound_dim {
  struct {
    const int64_t *dims;
    int64_t rank;
  } pack;
  struct {
    int32_t tensor;  // the list argument
    int32_t axis;
  } vary;
} og_bound_dim;

// `at` is set for the dims whose bit is set in `bound`; a pack that is not
// bound has rank 0.
typedef struct og_binding {
  uint64_t bound;
  og_bound_dim at[OPGRAFT_DIM_MAX];
} og_binding;

static inline bool og_is_bound(const og_binding *binding, int32_t dim) {
  return binding->bound >> dim & 1u;
}
static inline int64_t og_pack_rank(const og_binding *binding, int32_t dim) {
  return og_is_bound(binding, dim) ? binding->at[dim].pack.rank : 0;
}

// Matches every pattern against the arguments and fills frame->dim.
og_status og_match(const og_decl *decl, opgraft_frame *frame,
                   og_binding *binding, opgraft_error *error);
// The same for a frame whose dims are known: fills `binding` only.
og_status og_match_again(const og_decl *decl, const opgraft_frame *frame,
                         og_binding *binding);

// The value of an expression; false where its end is poisoned, *out_why then
// says what could not be done.
bool og_eval(const og_expr *expr, const opgraft_frame *frame,
             const og_binding *binding, int64_t index, int64_t *out_value,
             const char **out_why);
// The same, with an error that shows the expression and its values.
og_status og_eval_or_refuse(const og_decl *decl, const og_expr *expr,
                            const opgraft_frame *frame,
                            const og_binding *binding, int64_t index,
                            int64_t *out_value, opgraft_error *error);
// "D is 3, K is 0" for the names in the expression.
void og_expr_values(const og_decl *decl, const og_expr *expr,
                    const opgraft_frame *frame, const og_binding *binding,
                    char *buffer, size_t size);

// Writes a pack item's dims to `dims`, which has room for OPGRAFT_RANK_MAX;
// `index` is that of a list result's entry.
og_status og_pack_dims(const og_decl *decl, const og_item *item,
                       const opgraft_frame *frame, const og_binding *binding,
                       int64_t index, int64_t *dims, int32_t *out_rank,
                       opgraft_error *error);

// Sizes the fresh results, whose types and device are set.
og_status og_size_results(const og_decl *decl, opgraft_frame *frame,
                          const og_binding *binding, opgraft_error *error);
og_status og_result_type(const og_decl *decl, const opgraft_frame *frame,
                         const og_out_type *rule, og_dtype *out,
                         opgraft_error *error);
// Their types and device.
og_status og_type_results(const og_decl *decl, opgraft_frame *frame,
                          og_device device, opgraft_error *error);

// The short way through inference (quick.c): its tables, which few declarations
// do not have, and a call; false where the general way must decide.
og_status og_quick_create(og_decl *decl, opgraft_error *error);
bool og_quick_infer(const og_decl *decl, opgraft_frame *frame);
// The general way, which og_infer takes where the short one does not go.
og_status og_infer_general(const og_decl *decl, opgraft_frame *frame,
                           opgraft_error *error);

// An argument's pattern as a message shows it, `focus` among its items and
// packs beside it as "...".
void og_pattern_text(const og_decl *decl, const og_pattern *pattern,
                     int32_t focus, char *buffer, size_t size);
// [2, 3]
void og_dims_text(const int64_t *dims, int64_t rank, char *buffer, size_t size);

#endif  // OG_DECL_MATCH_H

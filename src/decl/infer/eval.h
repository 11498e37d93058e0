// SPDX-License-Identifier: Apache-2.0
// Runs expressions on the integers that a scope names.

#ifndef OG_DECL_INFER_EVAL_H
#define OG_DECL_INFER_EVAL_H

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

// What the names of a declaration's expressions stand for: the integers of a
// call, or those that check/sample draws. Arrays are indexed by dim, attribute
// and tensor argument; an argument that is not given is NULL.
typedef struct og_scope {
  const int64_t *dim;
  const og_attr *attr;
  const og_tensor *const *in;
  const og_tensor_list *in_list;
  const og_binding *binding;  // may be NULL where no expression needs packs
  int32_t threads;
} og_scope;

// A call's own names; they stay the frame's.
static inline og_scope og_scope_of(const opgraft_frame *frame,
                                   const og_binding *binding) {
  return (og_scope){.dim = frame->dim,
                    .attr = frame->attr,
                    .in = frame->in,
                    .in_list = frame->in_list,
                    .binding = binding,
                    .threads = frame->call.threads};
}

// The value of an expression; false where its end is poisoned, *out_why then
// says what could not be done. `index` is that of a list result's entry.
bool og_eval(const og_expr *expr, const og_scope *scope, int64_t index,
             int64_t *out_value, const char **out_why);
// The same, with an error that shows the expression and its values.
og_status og_eval_or_refuse(const og_decl *decl, const og_expr *expr,
                            const og_scope *scope, int64_t index,
                            int64_t *out_value, opgraft_error *error);
// "D is 3, K is 0" for the names in the expression.
void og_expr_values(const og_decl *decl, const og_expr *expr,
                    const og_scope *scope, char *buffer, size_t size);

#endif  // OG_DECL_INFER_EVAL_H

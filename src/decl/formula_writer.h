// SPDX-License-Identifier: Apache-2.0
// A derived operator while it is written: what it reads, and its row string
// (formula_writer.c). What else it says is formula_differentiate.c's.

#ifndef OG_DECL_FORMULA_WRITER_H
#define OG_DECL_FORMULA_WRITER_H

#include "decl/formula_deriver.h"
#include "decl/formula_grad.h"

enum { OG_WRITER_ARGS_MAX = 3 * OG_LOOP_INPUTS_MAX };

// An argument of what is derived.
typedef struct og_formula_argument {
  char name[OPGRAFT_ARG_MAX];
  opgraft_grad_arg source;
  int32_t tensor;  // whose pattern it has, or -1
  int32_t result;  // or which fresh result's, or -1
  int32_t load;    // the slot of its loads
} og_formula_argument;

typedef struct og_formula_writer {
  og_deriver d;
  const og_decl *decl;
  const struct og_formula *f;
  og_formula_derivative kind;
  og_arena *arena;
  uint32_t read_results;  // bits of results that are read
  int32_t *uses;          // by node; -1: not part of it
  bool *is_named;         // a statement of its own
  // Inputs, or outputs of a tangent; behind the targets those that are added to
  // one of them.
  int32_t roots[OG_LOOP_INPUTS_MAX];
  int32_t targets[OG_LOOP_INPUTS_MAX];
  int32_t target_count, root_count;
  og_formula_argument args[OG_WRITER_ARGS_MAX];
  int32_t arg_count;
  char value[16];  // how names of values begin
  og_text *out;
  uint32_t named;  // optional inputs that the statement names
} og_formula_writer;

// The result that is read for a value, or -1.
int32_t og_writer_result_of(const og_formula_writer *w, int32_t node);
// Whether a value is read, and not computed.
bool og_writer_is_leaf(const og_formula_writer *w, int32_t node);

// Of loads that read one argument in several ways, the one that stands for it.
int32_t og_writer_first_load(const og_formula_writer *w, int32_t load);
// In any of these ways.
bool og_writer_is_loaded(const og_formula_writer *w, int32_t load);
// Which index says the row of what a load reads, or of what a root is added to;
// 0: none.
int32_t og_writer_row_by(const og_formula_writer *w, int32_t load);
int32_t og_writer_root_row_by(const og_formula_writer *w, int32_t root);
// What a root is of: the tensor argument, or the result.
int32_t og_writer_root_of(const og_formula_writer *w, int32_t root);
void og_writer_target_name(const og_formula_writer *w, int32_t target,
                           char out[128]);

// The statements, to w->out.
void og_writer_row(og_formula_writer *w);

#endif  // OG_DECL_FORMULA_WRITER_H

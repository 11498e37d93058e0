// SPDX-License-Identifier: Apache-2.0
// Preparation: what a kernel may ask for while its step is made.
//
// A kernel is a prepare function, a plain one for each IR operator and fast
// ones for some (ops.def). It checks the node's shapes and types once, makes
// its state, and names the function that replay calls. Nothing is checked or
// allocated afterwards. A fast one says OG_UNSUPPORTED, without an error, of
// what it is not made for.

#ifndef OG_EXEC_STEP_PREP_H
#define OG_EXEC_STEP_PREP_H

#include "exec/step/exec.h"

typedef struct og_prep {
  opgraft_executable *executable;
  const og_plan *plan;
  og_instance *instance;
  const og_node *node;
  int32_t lane;          // in which the node runs
  og_device device;      // on which it runs
  void *stream;          // the device's; NULL where it has none
  bool keeps_weights;    // a candidate over weights that stay packed is asked
  og_kept **kept;        // a trial's own weights; NULL: the executable's
  og_tensor *const *in;  // NULL for an operand that is missing
  og_tensor *const *out;
  // What prepare fills.
  og_step step;
  bool is_pinned;
  int64_t work;         // operations, where they are more than the elements
  const char *refusal;  // why it does not take the node; NULL: it is not said
  // An operand in the graph's file that no run reads, since its packed form is
  // there, or of which each run checks what it reads; -1: none.
  int32_t unread;
  opgraft_error *error;
} og_prep;

typedef og_status (*og_prepare_fn)(og_prep *prep);

// Zeroed, lives as long as the instance; NULL when memory is short.
void *og_prep_alloc(og_prep *prep, size_t size_bytes);
// Memory whose contents count during one call of the kernel only: the lane's
// other kernels write it too. Once a node. NULL when memory is short.
void *og_prep_scratch(og_prep *prep, size_t size_bytes);
// Fills the error with the node's name: what is wrong with it.
og_status og_prep_wrong(og_prep *prep, const char *what);
// Operands and results whose shapes do not go together, which it tells.
og_status og_prep_misfit(og_prep *prep);
// As og_prep_wrong, of what no other kernel and no host may compute either.
og_status og_prep_refuse(og_prep *prep, const char *what);
og_status og_prep_memory(og_prep *prep);
// `times` operations for each of `count`, for what a limit on work counts.
void og_prep_work(og_prep *prep, int64_t count, int64_t times);
// Has *where follow the tensor's memory.
og_status og_prep_pointer(og_prep *prep, void **where, const og_tensor *tensor);

// Whether the first result shares bytes with an operand.
bool og_prep_is_in_place(const og_prep *prep);
// Whether a node reads result `index`, or it is an output of the graph.
bool og_prep_is_read(const og_prep *prep, int32_t index);

// An attribute, whose size is a number.
opgraft_arg og_prep_resolved(const og_prep *prep, const opgraft_arg *attr);
// Attributes by index; the default where it is absent. A wrong kind fails.
og_status og_prep_int(og_prep *prep, int32_t index, int64_t otherwise,
                      int64_t *out);
// Whether an attribute is a float here, by itself or by its size.
bool og_prep_is_float(const og_prep *prep, int32_t index);
og_status og_prep_float(og_prep *prep, int32_t index, double otherwise,
                        double *out);
og_status og_prep_ints(og_prep *prep, int32_t index, int64_t *out,
                       int32_t capacity, int32_t *out_count);
// A dim, which may be negative, of a tensor with `rank` dims.
og_status og_prep_dim(og_prep *prep, int32_t index, int32_t rank,
                      int32_t *out_dim);

bool og_same_shape(const og_tensor *a, const og_tensor *b);
bool og_is_float(const og_tensor *tensor);
bool og_is_int(const og_tensor *tensor);

#endif  // OG_EXEC_STEP_PREP_H

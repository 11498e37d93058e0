// SPDX-License-Identifier: Apache-2.0
// What the reference kernels share. They are simple and right: floats are
// computed in double, rounded once at the end.

#ifndef OG_EXEC_STEP_OPERANDS_H
#define OG_EXEC_STEP_OPERANDS_H

#include "call/call.h"
#include "exec/step/kernels.h"
#include "exec/step/nest.h"
#include "exec/step/run.h"

// The state of a kernel that needs nothing but its tensors, or begins with
// them.
typedef struct og_operands {
  og_tensor *const *in;
  og_tensor *const *out;
  int32_t in_count, out_count;
} og_operands;

// Allocates a state of `size_bytes`, which begins with an og_operands, and sets
// the step. NULL when memory is short, with the error set.
void *og_state_begin(og_prep *prep, size_t size_bytes, og_step_fn run);

// Tensors that agree in all dims but one, walked line by line along it.
typedef struct og_lines {
  og_nest nest;  // the other dims
  int64_t count;
  int64_t length[OG_NEST_OPERANDS];
  int64_t stride_bytes[OG_NEST_OPERANDS];
} og_lines;

// A tensor without dims counts as one of one element. False if the other dims
// differ.
bool og_lines_init(og_lines *lines, int32_t dim,
                   const og_tensor *const *tensors, int32_t count);

int64_t og_nest_points(const og_nest *nest);

static inline char *og_bytes(const og_tensor *tensor) {
  return (char *)tensor->data + tensor->byte_offset;
}
static inline int64_t og_item_bytes(const og_tensor *tensor) {
  return (int64_t)og_dtype_bytes(tensor->dtype);
}
static inline bool og_is_dense_f32(const og_tensor *tensor) {
  return og_dtype_is_f32(tensor->dtype) && og_tensor_is_contiguous(tensor);
}
// n numbers from or to memory with a stride, as doubles.
void og_get_doubles(const og_tensor *tensor, const char *from,
                    int64_t stride_bytes, int64_t n, double *out);
void og_put_doubles(const og_tensor *tensor, char *to, int64_t stride_bytes,
                    int64_t n, const double *in);
// One dense tensor as doubles, whatever its strides, row-major; `out` has room
// for all elements.
void og_get_all(const og_tensor *tensor, double *out);
void og_put_all(const og_tensor *tensor, const double *in);

// From the first byte to the last; 0 without elements. NULL strides are
// row-major.
size_t og_span_bytes(const og_tensor *tensor);
// The position of element `index`, counted row-major, and where it lies.
void og_position_of(const og_tensor *tensor, int64_t index, int64_t *out);
char *og_element_at(const og_tensor *tensor, const int64_t *at);
// Copies elements; the types are equal. Strides are free.
void og_copy_elements(const og_tensor *to, const og_tensor *from);
// What an updating kernel does first: the result starts as the operand.
void og_update_start(const og_operands *io);

// Fails unless the tensor is a float type, or an integer type.
og_status og_need_float(og_prep *prep, const og_tensor *tensor);
og_status og_need_int(og_prep *prep, const og_tensor *tensor);
// Fails unless both are there and of one type.
og_status og_need_same_type(og_prep *prep, const og_tensor *a,
                            const og_tensor *b);
// Fails unless the tensor has these sizes (rank of them).
og_status og_need_shape(og_prep *prep, const og_tensor *tensor, int32_t rank,
                        const int64_t *shape);

// Whether gather and scatter may use an index with a tensor: it is no larger in
// any dim but `dim` (-1: in any). A tensor without dims counts as one of one
// element; an index without elements goes with every tensor.
bool og_index_fits(const og_tensor *index, const og_tensor *tensor,
                   int32_t dim);

// Scratch of one call of a kernel (og_prep_scratch), in doubles.
double *og_prep_doubles(og_prep *prep, int64_t count);

// Results that start as an operand get its contents, unless they are it.
void og_updates_start(og_tensor *const *in, og_tensor *const *out,
                      int32_t out_count, const int32_t *update);

#endif  // OG_EXEC_STEP_OPERANDS_H

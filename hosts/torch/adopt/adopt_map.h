// SPDX-License-Identifier: Apache-2.0
// What a native callable takes, made from a call: short postfix programs over
// tensors, attributes and named dims.

#ifndef OG_TORCH_ADOPT_MAP_H
#define OG_TORCH_ADOPT_MAP_H

#include "torch/adopt/adopt.h"

// X(name, what it leaves on the stack): by these names Python writes programs.
#define MAP_STEP_LIST(X)                                                  \
  X(data)       /* the tensor's first element; NULL where it is absent */ \
  X(dl)         /* the tensor as a DLTensor */                            \
  X(shape)      /* its sizes, an array of int64 */                        \
  X(strides)    /* its strides in elements, an array of int64 */          \
  X(numel)      /* its number of elements; 0 where it is absent */        \
  X(ndim)       /* its rank */                                            \
  X(itemsize)   /* bytes of an element */                                 \
  X(size_at)    /* size of dim `value`, negative from the end */          \
  X(stride_at)  /* stride of dim `value` */                               \
  X(element)    /* element i of a call for every element */               \
  X(attr)       /* an argument but a tensor */                            \
  X(attr_data)  /* the array of a list or str argument */                 \
  X(attr_count) /* its length */                                          \
  X(dim)        /* a named dim of the shape rule */                       \
  X(integer)    /* `value` */                                             \
  X(real)       /* `value` as a double's bits */                          \
  X(nil)        /* NULL */                                                \
  X(stream)     /* the device's stream */                                 \
  X(address)    /* `value` as a pointer */                                \
  X(add)                                                                  \
  X(sub)                                                                  \
  X(mul)                                                                  \
  X(div) /* rounding to negative infinity, as in Python */                \
  X(mod)

typedef enum map_code {
#define X(name) MAP_##name,
  MAP_STEP_LIST(X)
#undef X
} map_code;

typedef struct map_step {
  map_code code;
  bool is_out;    // of a tensor: call->out, else call->in
  int32_t index;  // of a tensor, an attribute or a dim
  int64_t value;
} map_step;

// What a C parameter or result is. X(name, bits, is signed)
#define MAP_TYPE_LIST(X) \
  X(i8, 8, 1)            \
  X(i16, 16, 1)          \
  X(i32, 32, 1)          \
  X(i64, 64, 1)          \
  X(u8, 8, 0)            \
  X(u16, 16, 0)          \
  X(u32, 32, 0)          \
  X(u64, 64, 0)          \
  X(f32, 32, 1)          \
  X(f64, 64, 1)          \
  X(ptr, 64, 0)          \
  X(void, 0, 0)

typedef enum map_type {
#define X(name, bits, is_signed) MAP_TYPE_##name,
  MAP_TYPE_LIST(X)
#undef X
      MAP_TYPE_COUNT
} map_type;

typedef union map_word {
  int64_t i;
  uint64_t u;
  double f64;
  float f32;
  void *p;
} map_word;

enum { MAP_ARG_MAX = 24, MAP_STEP_MAX = 16 };

typedef struct map_arg {
  map_step steps[MAP_STEP_MAX];
  int32_t step_count;
  map_type type;
  bool is_element;  // it changes from element to element
} map_arg;

// A value as the program leaves it.
typedef struct map_value {
  enum { MAP_IS_INT, MAP_IS_REAL, MAP_IS_POINTER } kind;
  map_word word;
} map_value;

// Reads [(type name, [(step name, is_out, index, value)])]; -1 with an
// exception set.
int map_read(PyObject *list, map_arg *args, int32_t *out_count);
int map_type_find(const char *name, map_type *out);
// The tensor that a step is of; NULL for an absent optional.
static inline const og_tensor *map_tensor(const map_step *step,
                                          const og_call *call) {
  return step->is_out ? call->out[step->index] : call->in[step->index];
}
// What a program leaves but for where tensors lie is the same in every call of
// a plan's node. A first element is the whole program, and is followed: the
// word then is where the tensor lies whenever the node runs.
static inline bool map_is_followed(const map_arg *arg, const og_call *call) {
  return arg->steps[0].code == MAP_data &&
         map_tensor(&arg->steps[0], call) != NULL;
}
og_status map_eval(const map_arg *arg, const og_call *call, int64_t element,
                   map_value *out);
// The same, as the C type wants it: a number that does not fit is an error.
og_status map_eval_typed(const map_arg *arg, int32_t position,
                         const og_call *call, int64_t element, map_word *out);
// The tensor itself, or its copy in *slot where it has a byte_offset, which
// many functions do not look at.
static inline const og_tensor *map_fold(const og_tensor *tensor,
                                        og_tensor *slot) {
  if (tensor == NULL || tensor->byte_offset == 0) return tensor;
  *slot = *tensor;
  slot->data = (char *)tensor->data + tensor->byte_offset;
  slot->byte_offset = 0;
  return slot;
}
// Whether a C result can be an element of this type.
og_status map_storable(const og_call *call, og_dtype to, map_type type);
// Stores one that can. NULL, or why not: an integer may be too large for a
// narrower element.
const char *map_store(void *at, og_dtype to, map_type type, map_word word);

#endif  // OG_TORCH_ADOPT_MAP_H

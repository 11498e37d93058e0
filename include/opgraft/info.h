// SPDX-License-Identifier: Apache-2.0
// What an operator declares, as structs: its arguments, results, dims, types,
// gradient and kernels. opgraft_op_describe says the same and the rules besides
// as JSON, for people and for hosts that compute with the rules themselves.
//
// The caller sets struct_size to the size that it was compiled with. A getter
// writes the fields that caller and library both know, zeros in those that only
// a newer caller knows, and no byte behind struct_size. Positions count from 0,
// and -1 means none: `param` counts all arguments in schema order, `tensor`
// those that are tensors or lists of tensors, `attr` the others, `result` all
// results, `fresh` those that the host allocates.
//
// A getter returns OG_INVALID, and writes nothing, where there is no such
// position or struct_size is not set. It allocates nothing. What the structs
// point to belongs to the operator and lives as long as its module. Any number
// of threads may ask at once.

#ifndef OPGRAFT_INFO_H
#define OPGRAFT_INFO_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- The operator ------------------------------------------------------------

enum {
  OPGRAFT_OP_LISTS = 1u,           // an argument or a result is a tensor list
  OPGRAFT_OP_DATA_DEPENDENT = 2u,  // the kernel finds a dim of a result
  OPGRAFT_OP_SHAPE_CALLBACK = 4u,  // og_op.infer gives the results' shapes
  // The kernel is made from og_op.row: it may write where it reads.
  OPGRAFT_OP_FORMULA_DERIVED = 8u,
  OPGRAFT_OP_DERIVED = 16u,  // another formula's derivative
  // The module has C of its formulas, which runs where the row engine does not.
  OPGRAFT_OP_FORMULA_COMPILED = 32u,
};

// The author's own strings and flags are in opgraft_op_record(op).
typedef struct opgraft_op_info {
  uint32_t struct_size;
  uint32_t flags;         // OPGRAFT_OP_*
  const char *name;       // "f" or "f.overload"
  const char *base_name;  // "f"
  const char *overload;   // "" if none
  int32_t param_count;
  int32_t tensor_count;
  int32_t attr_count;
  int32_t mutated_count;  // tensor arguments that the operator writes
  int32_t result_count;
  int32_t fresh_count;
  int32_t dim_count;
  int32_t kernel_count;
  int32_t type_variable_count;  // types that a call is free to choose
  int32_t inplace_param;        // what a derived in-place form writes, or -1
} opgraft_op_info;

OPGRAFT_API og_status opgraft_op_get_info(const opgraft_op *op,
                                          opgraft_op_info *out_info);

// --- Arguments ---------------------------------------------------------------

enum {
  OPGRAFT_TYPE_TENSOR = 0,
  OPGRAFT_TYPE_INT,
  OPGRAFT_TYPE_SYM_INT,
  OPGRAFT_TYPE_FLOAT,
  OPGRAFT_TYPE_BOOL,
  OPGRAFT_TYPE_STR,
  OPGRAFT_TYPE_SCALAR,
  OPGRAFT_TYPE_SCALAR_TYPE,
  OPGRAFT_TYPE_DEVICE,
};
// A type as a schema writes it, "SymInt"; NULL where there is no such type.
OPGRAFT_API const char *opgraft_type_name(int32_t type);

enum {
  OPGRAFT_PARAM_LIST = 1u,              // T[]
  OPGRAFT_PARAM_OPTIONAL = 2u,          // T?, T[]?
  OPGRAFT_PARAM_ELEMENT_OPTIONAL = 4u,  // T?[]
  OPGRAFT_PARAM_KEYWORD_ONLY = 8u,
  OPGRAFT_PARAM_MUTATED = 16u,  // Tensor(a!)
  OPGRAFT_PARAM_DEFAULT = 32u,  // default_value counts
};

typedef struct opgraft_param_info {
  uint32_t struct_size;
  uint32_t flags;  // OPGRAFT_PARAM_*
  const char *name;
  int32_t type;       // OPGRAFT_TYPE_*; of the entries where it is a list
  int32_t list_size;  // int[2]: 2, else 0
  int32_t tensor;     // position in call->in, or -1
  int32_t attr;       // position in call->attr, or -1
  int32_t out;        // position in call->out of one that is mutated, or -1
  int32_t alias_set;  // 'a' of Tensor(a!), else 0
  // OG_ATTR_NONE stands for None. Lists have their full length: int[2] x=1 is
  // two ones.
  og_attr default_value;
} opgraft_param_info;

OPGRAFT_API og_status opgraft_op_get_param(const opgraft_op *op, int32_t param,
                                           opgraft_param_info *out_info);

enum {
  OPGRAFT_STRIDES_CONTIGUOUS = 0,  // row-major
  OPGRAFT_STRIDES_ANY,
  OPGRAFT_STRIDES_LAST,  // the last dim has stride 1 (or size <= 1)
};

enum { OPGRAFT_DTYPE_MAX = 32 };

// The type and stride rules of a tensor argument.
typedef struct opgraft_tensor_info {
  uint32_t struct_size;
  int32_t param;
  int32_t same_as;        // the tensor argument whose type this one has, or -1
  int32_t type_variable;  // the free type that it binds or has, or -1
  int32_t strides;  // OPGRAFT_STRIDES_*: what the kernels take without a copy
  int32_t dtype_count;
  og_dtype dtypes[OPGRAFT_DTYPE_MAX];  // that it may have
} opgraft_tensor_info;

OPGRAFT_API og_status opgraft_op_get_tensor(const opgraft_op *op,
                                            int32_t tensor,
                                            opgraft_tensor_info *out_info);

// --- Results -----------------------------------------------------------------

enum { OPGRAFT_RESULT_LIST = 1u };

// Where the type of a fresh result comes from.
enum {
  OPGRAFT_DTYPE_NONE = 0,  // it is not fresh
  OPGRAFT_DTYPE_FIXED,     // dtype
  OPGRAFT_DTYPE_SAME,      // dtype_tensor
  OPGRAFT_DTYPE_PROMOTE,   // promoted: torch.result_type of these arguments
  OPGRAFT_DTYPE_ATTR,      // dtype_attr, a ScalarType; where that is None,
                           // dtype_tensor
};

typedef struct opgraft_result_info {
  uint32_t struct_size;
  uint32_t flags;      // OPGRAFT_RESULT_*
  const char *name;    // "" where the schema names none
  int32_t type;        // OPGRAFT_TYPE_TENSOR, or _INT: a number, which only the
                       // rules compute
  int32_t param;       // the mutated argument that it is, or -1
  int32_t fresh;       // position among the fresh results, or -1
  int32_t dtype_from;  // OPGRAFT_DTYPE_*
  og_dtype dtype;
  int32_t dtype_tensor;     // or -1
  int32_t dtype_attr;       // or -1
  int32_t promoted_count;   // 0 unless the type is promoted
  const int32_t *promoted;  // params: tensors and Scalars; NULL if none
} opgraft_result_info;

OPGRAFT_API og_status opgraft_op_get_result(const opgraft_op *op,
                                            int32_t result,
                                            opgraft_result_info *out_info);

// --- Dims --------------------------------------------------------------------

enum {
  OPGRAFT_DIM_SIZE = 0,  // D: one size
  OPGRAFT_DIM_PACK,      // *N: any number of dims
  OPGRAFT_DIM_VARY,      // D~: one size in each entry of a tensor list
  OPGRAFT_DIM_FOUND,     // K <= bound: set by the kernel
};

enum {
  OPGRAFT_DIM_ALWAYS_BOUND = 1u,  // else only with an optional argument
};

// A named dim of the shape rule; its position is that in call->dim.
typedef struct opgraft_dim_info {
  uint32_t struct_size;
  uint32_t flags;  // OPGRAFT_DIM_ALWAYS_BOUND
  const char *name;
  int32_t kind;  // OPGRAFT_DIM_SIZE, ...
  int32_t reserved;
} opgraft_dim_info;

OPGRAFT_API og_status opgraft_op_get_dim(const opgraft_op *op, int32_t dim,
                                         opgraft_dim_info *out_info);

// --- The gradient ------------------------------------------------------------

enum {
  OPGRAFT_GRAD_MISSING = 0,  // asking for one is an error
  OPGRAFT_GRAD_NONE,         // zero, by the author's word
  OPGRAFT_GRAD_OPERATOR,     // another operator computes it
  OPGRAFT_GRAD_DERIVED,      // one that opgraft_op_derive makes does
};

// What an argument of that operator is.
enum {
  OPGRAFT_GRAD_OF_RESULT = 0,  // the gradient of result `index`
  OPGRAFT_GRAD_PARAM,          // argument `index`
  OPGRAFT_GRAD_RESULT,         // result `index`, saved
  OPGRAFT_GRAD_NEEDS,  // a bool: whether argument `index` needs a gradient
};

typedef struct opgraft_grad_arg {
  int32_t source;  // OPGRAFT_GRAD_OF_RESULT, ...
  int32_t index;
} opgraft_grad_arg;

typedef struct opgraft_grad_info {
  uint32_t struct_size;
  int32_t kind;                  // OPGRAFT_GRAD_MISSING, ...
  const char *op_name;           // of the same module; NULL if none
  const opgraft_grad_arg *args;  // of that operator, in its order
  const int32_t *targets;  // the param whose gradient each of its results is
  int32_t arg_count;
  int32_t target_count;
} opgraft_grad_info;

OPGRAFT_API og_status opgraft_op_get_grad(const opgraft_op *op,
                                          opgraft_grad_info *out_info);

// --- Kernels -----------------------------------------------------------------

enum { OPGRAFT_KERNEL_SUPPORTS = 1u };  // it may refuse a call that fits

typedef struct opgraft_kernel_info {
  uint32_t struct_size;
  uint32_t flags;      // OPGRAFT_KERNEL_*
  const char *dtypes;  // NULL: all that the type rule allows
  const char *isa;     // NULL: any machine
  int32_t device;      // OG_CPU, ...
  int32_t reserved;
} opgraft_kernel_info;

// In the order in which they are asked whether they take a call.
OPGRAFT_API og_status opgraft_op_get_kernel(const opgraft_op *op,
                                            int32_t kernel,
                                            opgraft_kernel_info *out_info);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_INFO_H

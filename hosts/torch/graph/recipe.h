// SPDX-License-Identifier: Apache-2.0
// How the dispatcher is called: an operator's schema, and a record's arguments
// as the stable values that it takes.

#ifndef OG_TORCH_RECIPE_H
#define OG_TORCH_RECIPE_H

#include <opgraft/executable.h>

#include "torch/base/pool.h"

typedef enum value_type {  // Python passes the number
  VALUE_TENSOR,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_BOOL,
  VALUE_STR,
  VALUE_DTYPE,
  VALUE_LAYOUT,
  VALUE_MEMORY_FORMAT,
  VALUE_DEVICE,
} value_type;

typedef struct recipe_param {
  const char *name;
  value_type type;
  bool is_list;
  bool is_optional;
  bool is_element_optional;
  int32_t list_size;  // of int[2]: one number stands for so many; else 0
  bool has_default;
  opgraft_arg otherwise;
} recipe_param;

typedef struct recipe {
  const char *name;          // "aten::cumsum"
  const char *overload;      // "" for the default one
  const char *out_overload;  // that writes into given results; or NULL
  const char *inplace_name;  // "aten::index_put_", of this overload; or NULL
  const recipe_param *params;
  int32_t param_count;
  int32_t out_count;           // .out arguments behind the parameters
  const uint8_t *result_list;  // whether result r is a list
  int32_t result_count;
  pool memory;
} recipe;

const recipe *recipe_get(PyObject *capsule);

// A tensor of the node as a handle, made anew when its data moved.
typedef struct bound_tensor {
  tensor_handle handle;
  const void *data;
  PyObject *object;  // for Python; made on demand
} bound_tensor;

// Whether `arg` (NULL: absent) can be given as this parameter.
bool recipe_takes(const recipe_param *param, const opgraft_arg *arg);
// The argument as a stable value that the dispatcher then owns. False: no
// memory.
bool recipe_value(const recipe_param *param, const opgraft_arg *arg,
                  const bound_tensor *in, stable_value *out);

#endif  // OG_TORCH_RECIPE_H

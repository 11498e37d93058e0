// SPDX-License-Identifier: Apache-2.0
// How the dispatcher is called: an operator's schema, and a record's arguments
// as the stable values that it takes.

#include "torch/graph/recipe.h"
#include "torch/base/pool.h"
#include "torch/base/types.h"
#include "torch/graph/constant.h"

#include <stdlib.h>
#include <string.h>

static const char recipe_capsule[] = "opgraft.recipe";

// --- Making ------------------------------------------------------------------

static void recipe_end(PyObject *capsule) {
  recipe *r = PyCapsule_GetPointer(capsule, recipe_capsule);
  pool_free(&r->memory);
  free(r);
}

const recipe *recipe_get(PyObject *capsule) {
  return PyCapsule_GetPointer(capsule, recipe_capsule);
}

enum {
  FLAG_LIST = 1,
  FLAG_OPTIONAL = 2,
  FLAG_ELEMENT_OPTIONAL = 4,
  FLAG_DEFAULT = 8,
};

// (name, type, flags, list size, default)
static int param_read(recipe *r, PyObject *tuple, recipe_param *out) {
  const char *name;
  int type, flags, list_size;
  PyObject *otherwise;
  const constants c = {&r->memory, NULL};
  if (!PyArg_ParseTuple(tuple, "siiiO", &name, &type, &flags, &list_size,
                        &otherwise))
    return -1;
  *out = (recipe_param){
      .name = pool_string(&r->memory, name),
      .type = (value_type)type,
      .is_list = (flags & FLAG_LIST) != 0,
      .is_optional = (flags & FLAG_OPTIONAL) != 0,
      .is_element_optional = (flags & FLAG_ELEMENT_OPTIONAL) != 0,
      .has_default = (flags & FLAG_DEFAULT) != 0,
      .list_size = list_size,
  };
  if (out->name == NULL) return -1;
  return out->has_default ? constant_read(&c, otherwise, &out->otherwise) : 0;
}

static int recipe_fill(recipe *r, PyObject *params, PyObject *results) {
  r->param_count = (int32_t)PyTuple_Size(params);
  r->result_count = (int32_t)PyTuple_Size(results);
  recipe_param *list =
      pool_alloc(&r->memory, (size_t)r->param_count + 1, sizeof *list);
  uint8_t *is_list = pool_alloc(&r->memory, (size_t)r->result_count + 1, 1);
  if (list == NULL || is_list == NULL) return -1;
  for (int32_t p = 0; p < r->param_count; ++p)
    if (param_read(r, PyTuple_GetItem(params, p), &list[p]) != 0) return -1;
  for (int32_t i = 0; i < r->result_count; ++i)
    is_list[i] = PyTuple_GetItem(results, i) == Py_True;
  r->params = list;
  r->result_list = is_list;
  return 0;
}

// recipe_new(name, overload, overload with .out arguments or None, name of the
// operator that writes its first argument instead or None, params, out count,
// is_list of each result)
PyObject *recipe_new(PyObject *self, PyObject *arguments) {
  (void)self;
  const char *name, *overload, *out_overload, *inplace_name;
  PyObject *params, *results;
  int out_count;
  if (!PyArg_ParseTuple(arguments, "sszzO!iO!", &name, &overload, &out_overload,
                        &inplace_name, &PyTuple_Type, &params, &out_count,
                        &PyTuple_Type, &results))
    return NULL;
  recipe *r = calloc(1, sizeof *r);
  if (r == NULL) return PyErr_NoMemory();
  r->name = pool_string(&r->memory, name);
  r->overload = pool_string(&r->memory, overload);
  if (out_overload != NULL)
    r->out_overload = pool_string(&r->memory, out_overload);
  if (inplace_name != NULL)
    r->inplace_name = pool_string(&r->memory, inplace_name);
  r->out_count = out_count;
  PyObject *capsule = NULL;
  if (PyErr_Occurred() == NULL && r->name != NULL && r->overload != NULL &&
      recipe_fill(r, params, results) == 0)
    capsule = PyCapsule_New(r, recipe_capsule, recipe_end);
  if (capsule == NULL) {
    pool_free(&r->memory);
    free(r);
  }
  return capsule;
}

// --- What fits ---------------------------------------------------------------

static bool format_number(const char *text, bool is_layout, int32_t *out) {
  if (is_layout) {
    *out = shim.aoti_torch_layout_strided();
    return strcmp(text, "torch.strided") == 0;
  }
  const struct {
    const char *name;
    int32_t (*number)(void);
  } formats[] = {
      {"torch.contiguous_format",
       shim.aoti_torch_memory_format_contiguous_format},
      {"torch.preserve_format", shim.aoti_torch_memory_format_preserve_format},
      {"torch.channels_last", shim.aoti_torch_memory_format_channels_last},
      {"torch.channels_last_3d",
       shim.aoti_torch_memory_format_channels_last_3d},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
    if (strcmp(text, formats[i].name) == 0 && formats[i].number != NULL) {
      *out = formats[i].number();
      return true;
    }
  return false;
}

static bool one_fits(const recipe_param *param, const opgraft_arg *arg) {
  int32_t code;
  const bool is_number = arg->kind == OPGRAFT_ARG_INT ||
                         arg->kind == OPGRAFT_ARG_BOOL ||
                         arg->kind == OPGRAFT_ARG_SIZE;
  switch (param->type) {
    case VALUE_TENSOR:  // a number becomes a tensor without dims
      return arg->kind == OPGRAFT_ARG_VALUE || is_number ||
             arg->kind == OPGRAFT_ARG_FLOAT;
    case VALUE_INT:
    case VALUE_BOOL:
      return is_number;
    case VALUE_FLOAT:
      return is_number || arg->kind == OPGRAFT_ARG_FLOAT;
    case VALUE_STR:
      return arg->kind == OPGRAFT_ARG_STR;
    case VALUE_DTYPE:
      return arg->kind == OPGRAFT_ARG_DTYPE &&
             dtype_to_shim(arg->dtype, &code) == 0;
    case VALUE_LAYOUT:
      return arg->kind == OPGRAFT_ARG_OTHER &&
             format_number(arg->s, true, &code);
    case VALUE_MEMORY_FORMAT:
      return arg->kind == OPGRAFT_ARG_OTHER &&
             format_number(arg->s, false, &code);
    case VALUE_DEVICE:
      return arg->kind == OPGRAFT_ARG_DEVICE && arg->device.type == OG_CPU;
  }
  return false;
}

bool recipe_takes(const recipe_param *param, const opgraft_arg *arg) {
  if (arg == NULL) {
    if (!param->has_default) return false;
    arg = &param->otherwise;
  }
  if (arg->kind == OPGRAFT_ARG_NONE) return param->is_optional;
  if (!param->is_list) return one_fits(param, arg);
  if (arg->kind != OPGRAFT_ARG_LIST)
    return param->list_size > 0 && one_fits(param, arg);
  for (int32_t i = 0; i < arg->count; ++i) {
    const opgraft_arg *item = &arg->list[i];
    if (item->kind == OPGRAFT_ARG_NONE && param->is_element_optional) continue;
    if (!one_fits(param, item)) return false;
  }
  return true;
}

// --- Values ------------------------------------------------------------------

static bool cell_make(stable_value value, stable_value *out) {
  stable_value *cell;
  if (shim.torch_new_stable_ivalue(&cell) != 0) return false;
  *cell = value;
  *out = (stable_value)(uintptr_t)cell;
  return true;
}

static stable_value double_value(double number) {
  stable_value bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static bool number_handle(const opgraft_arg *arg, tensor_handle *out) {
  static const int64_t none = 0;
  const og_dtype dtype =
      arg->kind == OPGRAFT_ARG_FLOAT  ? (og_dtype){OG_CODE_FLOAT, 64, 1}
      : arg->kind == OPGRAFT_ARG_BOOL ? (og_dtype){OG_CODE_BOOL, 8, 1}
                                      : (og_dtype){OG_CODE_INT, 64, 1};
  int32_t code;
  return dtype_to_shim(dtype, &code) == 0 &&
         shim.aoti_torch_create_tensor_from_blob_v2(
             (void *)(uintptr_t)&arg->i, 0, &none, &none, 0, code,
             shim.aoti_torch_device_type_cpu(), 0, out,
             shim.aoti_torch_layout_strided(), NULL, 0) == 0;
}

static bool one_value(const recipe_param *param, const opgraft_arg *arg,
                      const bound_tensor *in, stable_value *out) {
  int32_t code = 0;
  tensor_handle handle;
  string_handle string;
  switch (param->type) {
    case VALUE_TENSOR:
      if (arg->kind != OPGRAFT_ARG_VALUE) {
        if (!number_handle(arg, &handle)) return false;
      } else if (shim.aoti_torch_new_tensor_handle(in[arg->value].handle,
                                                   &handle))
        return false;
      *out = tensor_value(handle);
      return true;
    case VALUE_FLOAT:
      *out = double_value(arg->kind == OPGRAFT_ARG_FLOAT ? arg->f
                                                         : (double)arg->i);
      return true;
    case VALUE_STR:
      if (shim.torch_new_string_handle(arg->s, strlen(arg->s), &string))
        return false;
      *out = (stable_value)(uintptr_t)string;
      return true;
    case VALUE_DTYPE:
      dtype_to_shim(arg->dtype, &code);
      break;
    case VALUE_LAYOUT:
    case VALUE_MEMORY_FORMAT:
      format_number(arg->s, param->type == VALUE_LAYOUT, &code);
      break;
    case VALUE_DEVICE:
      *out = (stable_value)(uint32_t)shim.aoti_torch_device_type_cpu() << 32 |
             UINT32_MAX;  // index -1: the current one
      return true;
    default:
      *out = (stable_value)arg->i;
      return true;
  }
  *out = (stable_value)(int64_t)code;
  return true;
}

static bool list_value(const recipe_param *param, const opgraft_arg *arg,
                       const bound_tensor *in, stable_value *out) {
  const bool is_one = arg->kind != OPGRAFT_ARG_LIST;
  const int32_t count = is_one ? param->list_size : arg->count;
  list_handle list;
  if (shim.torch_new_list_reserve_size((size_t)count, &list) != 0) return false;
  bool is_made = true;
  for (int32_t i = 0; is_made && i < count; ++i) {
    const opgraft_arg *item = is_one ? arg : &arg->list[i];
    stable_value value = 0;
    if (item->kind != OPGRAFT_ARG_NONE) {
      is_made = one_value(param, item, in, &value);
      if (is_made && param->is_element_optional)
        is_made = cell_make(value, &value);
    }
    is_made = is_made && shim.torch_list_push_back(list, value) == 0;
  }
  if (!is_made) shim.torch_delete_list(list);
  *out = (stable_value)(uintptr_t)list;
  return is_made;
}

bool recipe_value(const recipe_param *param, const opgraft_arg *arg,
                  const bound_tensor *in, stable_value *out) {
  if (arg == NULL) arg = &param->otherwise;
  *out = 0;
  if (arg->kind == OPGRAFT_ARG_NONE) return true;
  const bool is_made = param->is_list ? list_value(param, arg, in, out)
                                      : one_value(param, arg, in, out);
  return is_made && (!param->is_optional || cell_make(*out, out));
}

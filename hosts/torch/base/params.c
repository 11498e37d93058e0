// SPDX-License-Identifier: Apache-2.0
// What a host_op has from its declaration: parameters and results.

#include "torch/base/params.h"

#include "torch/base/attr.h"

static bool takes_any_strides(const opgraft_op *op, int32_t tensor) {
  opgraft_tensor_info info = {.struct_size = sizeof info};
  return tensor >= 0 && opgraft_op_get_tensor(op, tensor, &info) == OG_OK &&
         info.strides == OPGRAFT_STRIDES_ANY;
}

static int param_fill(host_op *self, int32_t place, bool is_reordered) {
  host_param *param = &self->params[self->param_count];
  opgraft_param_info info = {.struct_size = sizeof info};
  if (self->param_count == HOST_PARAM_MAX ||
      opgraft_op_get_param(self->op, place, &info) != OG_OK) {
    PyErr_Format(PyExc_ValueError, "%s: has no argument %d",
                 opgraft_op_name(self->op), (int)place);
    return -1;
  }
  PyObject *name = PyUnicode_InternFromString(info.name);
  if (name == NULL) return -1;
  *param = (host_param){
      .name = name,
      .type = info.type,
      .is_list = (info.flags & OPGRAFT_PARAM_LIST) != 0,
      .is_optional = (info.flags & OPGRAFT_PARAM_OPTIONAL) != 0,
      .is_element_optional = (info.flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) != 0,
      .is_keyword_only =
          !is_reordered && (info.flags & OPGRAFT_PARAM_KEYWORD_ONLY) != 0,
      .is_mutated = (info.flags & OPGRAFT_PARAM_MUTATED) != 0,
      .is_strided = takes_any_strides(self->op, info.tensor),
      .index = info.tensor >= 0 ? info.tensor : info.attr,
      .place = place,
  };
  self->has_mutation |= param->is_mutated;
  self->positional_count += !param->is_keyword_only;
  self->tensor_count += info.tensor >= 0;
  ++self->param_count;
  if (!(info.flags & OPGRAFT_PARAM_DEFAULT)) return 0;
  param->default_value = attr_object(&info.default_value);
  return param->default_value != NULL ? 0 : -1;
}

static bool has_device_kernel(const opgraft_op *op, int32_t count) {
  opgraft_kernel_info info = {.struct_size = sizeof info};
  for (int32_t k = 0; k < count; ++k)
    if (opgraft_op_get_kernel(op, k, &info) == OG_OK && info.device != OG_CPU)
      return true;
  return false;
}

int params_fill(host_op *self, PyObject *order) {
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_op_get_info(self->op, &info);
  self->fresh_count = info.fresh_count;
  self->has_found_dim = (info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0;
  self->has_device_kernel = has_device_kernel(self->op, info.kernel_count);
  const bool is_reordered = order != Py_None;
  const Py_ssize_t count =
      is_reordered ? PyTuple_Size(order) : (Py_ssize_t)info.param_count;
  if (count < 0) return -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const long place =
        is_reordered ? PyLong_AsLong(PyTuple_GetItem(order, i)) : (long)i;
    if (PyErr_Occurred() != NULL) return -1;
    if (param_fill(self, (int32_t)place, is_reordered) != 0) return -1;
  }
  self->takes_out =
      !self->has_found_dim && !self->has_mutation && self->fresh_count > 0;
  return 0;
}

static bool param_is_list(const opgraft_op *op, int32_t param) {
  opgraft_param_info info = {.struct_size = sizeof info};
  opgraft_op_get_param(op, param, &info);
  return (info.flags & OPGRAFT_PARAM_LIST) != 0;
}

static bool fresh_result_is_list(const opgraft_op *op, int32_t fresh) {
  opgraft_result_info info = {.struct_size = sizeof info};
  for (int32_t r = 0; opgraft_op_get_result(op, r, &info) == OG_OK; ++r)
    if (info.fresh == fresh) return (info.flags & OPGRAFT_RESULT_LIST) != 0;
  return false;
}

int results_fill(host_op *self, PyObject *results) {
  const Py_ssize_t count = PyTuple_Size(results);
  if (count > OPGRAFT_OUT_MAX) {
    PyErr_Format(PyExc_ValueError, "%s: has too many results",
                 opgraft_op_name(self->op));
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    host_result *result = &self->results[i];
    if (!PyArg_ParseTuple(PyTuple_GetItem(results, i), "ii", &result->fresh,
                          &result->param))
      return -1;
    result->is_list = result->fresh >= 0
                          ? fresh_result_is_list(self->op, result->fresh)
                          : param_is_list(self->op, result->param);
    ++self->result_count;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// What an operator declares, as structs: the declaration's tables, copied.

#include <opgraft/info.h>
#include <string.h>

#include "base/sized.h"
#include "decl/formula.h"
#include "decl/parse/schema.h"
#include "decl/types.h"
#include "module/module.h"

_Static_assert((int)OG_TYPE_SET_MAX <= (int)OPGRAFT_DTYPE_MAX,
               "opgraft_tensor_info has room for every set of types");

// What every struct has had from the first: its size and one field.
enum { INFO_BYTES_MIN = 2 * sizeof(uint32_t) };

static og_status info_write(void *out_info, const void *info,
                            size_t info_bytes) {
  uint32_t size_bytes;
  memcpy(&size_bytes, out_info, sizeof size_bytes);
  OG_TRY(og_size_check("", size_bytes, INFO_BYTES_MIN, info_bytes, NULL));
  og_fill_sized(info, info_bytes, out_info);
  return OG_OK;
}

static bool is_position(int32_t index, int32_t count) {
  return index >= 0 && index < count;
}

static uint32_t flag(bool is_set, uint32_t bit) { return is_set ? bit : 0; }

const char *opgraft_type_name(int32_t type) {
  return is_position(type, OPGRAFT_TYPE_DEVICE + 1)
             ? og_type_name((og_type)type)
             : NULL;
}

og_status opgraft_op_get_info(const opgraft_op *op, opgraft_op_info *out_info) {
  const og_decl *decl = op->decl;
  bool has_callback = false;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    has_callback |= decl->shapes[i].kind == OG_SHAPE_CALLBACK;
  const opgraft_op_info info = {
      .flags =
          flag(decl->has_lists, OPGRAFT_OP_LISTS) |
          flag(decl->has_data_dependent_result, OPGRAFT_OP_DATA_DEPENDENT) |
          flag(has_callback, OPGRAFT_OP_SHAPE_CALLBACK) |
          flag(decl->is_formula_derived, OPGRAFT_OP_FORMULA_DERIVED) |
          flag(decl->is_derived, OPGRAFT_OP_DERIVED) |
          flag(decl->formula != NULL && decl->formula->codes != NULL,
               OPGRAFT_OP_FORMULA_COMPILED),
      .name = decl->name,
      .base_name = decl->base_name,
      .overload = decl->overload,
      .param_count = decl->param_count,
      .tensor_count = decl->tensor_count,
      .attr_count = decl->attr_count,
      .mutated_count = decl->mutated_count,
      .result_count = decl->result_count,
      .fresh_count = decl->fresh_count,
      .dim_count = decl->dim_count,
      .kernel_count = decl->kernel_count,
      .type_variable_count = decl->type_variable_count,
      .inplace_param = decl->inplace_param,
  };
  return info_write(out_info, &info, sizeof info);
}

og_status opgraft_op_get_param(const opgraft_op *op, int32_t param,
                               opgraft_param_info *out_info) {
  if (!is_position(param, op->decl->param_count)) return OG_INVALID;
  const og_param *from = &op->decl->params[param];
  const bool is_tensor = from->type == OG_TYPE_TENSOR;
  const opgraft_param_info info = {
      .flags = flag(from->is_list, OPGRAFT_PARAM_LIST) |
               flag(from->is_optional, OPGRAFT_PARAM_OPTIONAL) |
               flag(from->is_element_optional, OPGRAFT_PARAM_ELEMENT_OPTIONAL) |
               flag(from->is_keyword_only, OPGRAFT_PARAM_KEYWORD_ONLY) |
               flag(from->is_mutated, OPGRAFT_PARAM_MUTATED) |
               flag(from->has_default, OPGRAFT_PARAM_DEFAULT),
      .name = from->name,
      .type = (int32_t)from->type,
      .list_size = from->list_size,
      .tensor = is_tensor ? from->index : -1,
      .attr = is_tensor ? -1 : from->index,
      .out = from->out_index,
      .alias_set = from->alias_set,
      .default_value = from->default_value,
  };
  return info_write(out_info, &info, sizeof info);
}

og_status opgraft_op_get_tensor(const opgraft_op *op, int32_t tensor,
                                opgraft_tensor_info *out_info) {
  const og_decl *decl = op->decl;
  if (!is_position(tensor, decl->tensor_count)) return OG_INVALID;
  const og_type_rule *rule = &decl->types[tensor];
  opgraft_tensor_info info = {
      .param = decl->tensor_params[tensor],
      .same_as = rule->same_as,
      .type_variable = rule->variable,
      .strides = (int32_t)decl->strides[tensor],
  };
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    if (rule->set >> i & 1u) info.dtypes[info.dtype_count++] = og_dtype_at(i);
  return info_write(out_info, &info, sizeof info);
}

static void dtype_rule_get(const og_out_type *rule, opgraft_result_info *info) {
  info->dtype_from = (int32_t)rule->kind;
  switch (rule->kind) {
    case OG_OUT_TYPE_FIXED:
      info->dtype = rule->dtype;
      break;
    case OG_OUT_TYPE_SAME:
      info->dtype_tensor = rule->tensor;
      break;
    case OG_OUT_TYPE_PROMOTE:
      info->promoted = rule->params;
      info->promoted_count = rule->param_count;
      break;
    case OG_OUT_TYPE_ATTR:
      info->dtype_attr = rule->attr;
      info->dtype_tensor = rule->tensor;
  }
}

og_status opgraft_op_get_result(const opgraft_op *op, int32_t result,
                                opgraft_result_info *out_info) {
  const og_decl *decl = op->decl;
  if (!is_position(result, decl->result_count)) return OG_INVALID;
  const og_result *from = &decl->results[result];
  opgraft_result_info info = {
      .flags = flag(from->is_list, OPGRAFT_RESULT_LIST),
      .name = from->name,
      .type = (int32_t)from->type,
      .param = from->alias_param,
      .fresh = from->fresh_index,
      .dtype_tensor = -1,
      .dtype_attr = -1,
  };
  if (info.fresh >= 0) dtype_rule_get(&decl->out_types[info.fresh], &info);
  return info_write(out_info, &info, sizeof info);
}

og_status opgraft_op_get_dim(const opgraft_op *op, int32_t dim,
                             opgraft_dim_info *out_info) {
  if (!is_position(dim, op->decl->dim_count)) return OG_INVALID;
  const og_dim *from = &op->decl->dims[dim];
  const opgraft_dim_info info = {
      .flags = flag(from->is_always_bound, OPGRAFT_DIM_ALWAYS_BOUND),
      .name = from->name,
      .kind = (int32_t)from->kind,
  };
  return info_write(out_info, &info, sizeof info);
}

og_status opgraft_op_get_grad(const opgraft_op *op,
                              opgraft_grad_info *out_info) {
  const og_grad *from = &op->decl->grad;
  const opgraft_grad_info info = {
      .kind = (int32_t)from->kind,
      .op_name = from->op_name,
      .args = from->args,
      .targets = from->targets,
      .arg_count = from->arg_count,
      .target_count = from->target_count,
  };
  return info_write(out_info, &info, sizeof info);
}

og_status opgraft_op_get_kernel(const opgraft_op *op, int32_t kernel,
                                opgraft_kernel_info *out_info) {
  if (!is_position(kernel, op->decl->kernel_count)) return OG_INVALID;
  const og_kernel *from = &op->decl->kernels[kernel];
  const opgraft_kernel_info info = {
      .flags = flag(from->supports != NULL, OPGRAFT_KERNEL_SUPPORTS),
      .dtypes = from->dtypes,
      .isa = from->isa,
      .device = from->device,
  };
  return info_write(out_info, &info, sizeof info);
}

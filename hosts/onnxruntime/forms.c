// SPDX-License-Identifier: Apache-2.0
// Types: an operator's type rule as a list of custom operators.

#include "onnxruntime/forms.h"

#include <string.h>

og_dtype og_ort_dtype(int type) {
  static const og_dtype table[ORT_TYPES] = {
#define ENTRY(code, kind, bits) [code] = {kind, bits, 1},
      ORT_TYPE_LIST(ENTRY)
#undef ENTRY
  };
  const og_dtype none = {0, 0, 0};
  return type >= 0 && type < ORT_TYPES ? table[type] : none;
}

int og_ort_type(og_dtype dtype) {
  for (int i = 0; i < ORT_TYPES; ++i) {
    const og_dtype own = og_ort_dtype(i);
    if (own.lanes == 1 && own.code == dtype.code && own.bits == dtype.bits)
      return i;
  }
  return 0;
}

const char *og_ort_op_limit(const og_own_op *op) {
  for (int32_t i = 0; i < op->info.result_count; ++i) {
    const opgraft_result_info *result = &op->results[i];
    if ((result->flags & OPGRAFT_RESULT_LIST) != 0)
      return "a result is a list, whose length ONNX cannot state";
    if (result->dtype_from == OPGRAFT_DTYPE_ATTR)
      return "an attribute chooses a result's type, which ONNX fixes at load";
  }
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    const uint32_t flags = op->tensor_params[t]->flags;
    if ((flags & OPGRAFT_PARAM_LIST) == 0) continue;
    if (t + 1 < op->info.tensor_count)
      return "a tensor list is not the last input";
    if ((flags & (OPGRAFT_PARAM_ELEMENT_OPTIONAL | OPGRAFT_PARAM_MUTATED)) != 0)
      return "a tensor list has optional entries or is written";
  }
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    if (op->attr_params[a]->type == OPGRAFT_TYPE_STR &&
        (op->attr_params[a]->flags & OPGRAFT_PARAM_LIST) != 0)
      return "an attribute is a list of texts";
  return og_own_op_limit(op);
}

// --- Choices of types --------------------------------------------------------

// A choice: the position of each free type in the list of its own tensor.
typedef struct choice {
  const og_own_op *op;
  const opgraft_tensor_info *binds[OPGRAFT_ARG_MAX];  // by free type
  int32_t at[OPGRAFT_ARG_MAX];
} choice;

static og_dtype choice_type(const choice *c, int32_t t) {
  const opgraft_tensor_info *tensor = &c->op->tensors[t];
  const int32_t v = tensor->type_variable;
  if (v >= 0 && c->binds[v] != NULL) return c->binds[v]->dtypes[c->at[v]];
  return tensor->dtypes[0];
}

// Whether one of "f32|f64" is the type.
static int names_type(const char *names, size_t length, og_dtype dtype) {
  const char *wanted = og_own_dtype_name(dtype);
  for (size_t begin = 0; wanted != NULL && begin < length;) {
    while (begin < length && (names[begin] == ' ' || names[begin] == '|'))
      ++begin;
    size_t end = begin;
    while (end < length && names[end] != ' ' && names[end] != '|') ++end;
    if (end - begin == strlen(wanted) &&
        strncmp(names + begin, wanted, end - begin) == 0)
      return 1;
    begin = end;
  }
  return 0;
}

// Whether a kernel's `dtypes`, one entry for each free type, has the choice.
static int dtypes_fit(const choice *c, const char *dtypes) {
  const char *at = dtypes;
  for (int32_t v = 0; at != NULL && v < c->op->info.type_variable_count; ++v) {
    const size_t length = strcspn(at, ",");
    if (c->binds[v] != NULL &&
        !names_type(at, length, c->binds[v]->dtypes[c->at[v]]))
      return 0;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return 1;
}

static int has_kernel(const choice *c) {
  for (int32_t k = 0; k < c->op->info.kernel_count; ++k) {
    opgraft_kernel_info kernel = {.struct_size = sizeof kernel};
    opgraft_op_get_kernel(c->op->op, k, &kernel);
    if (kernel.device != OG_CPU) continue;
    if (kernel.dtypes == NULL || dtypes_fit(c, kernel.dtypes)) return 1;
  }
  return 0;
}

// torch.result_type where it needs no table: tensors of one type, and numbers
// that do not change it. Else no type; a model has a Cast there.
static og_dtype promoted(const choice *c, const opgraft_result_info *result) {
  const og_dtype none = {0, 0, 0};
  og_dtype found = none;
  for (int32_t i = 0; i < result->promoted_count; ++i) {
    const opgraft_param_info *param = &c->op->params[result->promoted[i]];
    if (param->tensor < 0) continue;
    const og_dtype dtype = choice_type(c, param->tensor);
    if (found.lanes == 1 && memcmp(&found, &dtype, sizeof dtype) != 0)
      return none;
    found = dtype;
  }
  for (int32_t i = 0; i < result->promoted_count; ++i)
    if (c->op->params[result->promoted[i]].tensor < 0 &&
        found.code != OG_CODE_FLOAT && found.code != OG_CODE_BFLOAT)
      return none;
  return found;
}

static og_dtype result_type(const choice *c,
                            const opgraft_result_info *result) {
  if (result->dtype_from == OPGRAFT_DTYPE_FIXED) return result->dtype;
  if (result->dtype_from == OPGRAFT_DTYPE_PROMOTE) return promoted(c, result);
  return choice_type(c, result->dtype_tensor);
}

// 0 where ONNX lacks one of the types, or no kernel has them.
static int form_fill(const choice *c, og_ort_op *out) {
  const opgraft_op_info *info = &c->op->info;
  *out = (og_ort_op){.op = c->op};
  if (!has_kernel(c)) return 0;
  for (int32_t t = 0; t < info->tensor_count; ++t) {
    out->input_types[t] = og_ort_type(choice_type(c, t));
    if (out->input_types[t] == 0) return 0;
  }
  for (int32_t i = 0; i < info->fresh_count; ++i)
    out->output_types[out->output_count++] =
        og_ort_type(result_type(c, c->op->fresh[i]));
  for (int32_t m = 0; m < info->mutated_count; ++m)
    out->output_types[out->output_count++] =
        out->input_types[c->op->mutated_tensors[m]];
  for (int32_t i = 0; i < out->output_count; ++i)
    if (out->output_types[i] == 0) return 0;
  return 1;
}

// The next choice; 0 behind the last.
static int choice_next(choice *c) {
  for (int32_t v = 0; v < c->op->info.type_variable_count; ++v) {
    if (c->binds[v] == NULL) continue;
    if (++c->at[v] < c->binds[v]->dtype_count) return 1;
    c->at[v] = 0;
  }
  return 0;
}

int32_t og_ort_forms(const og_own_op *op, og_ort_op *out_forms) {
  choice c = {.op = op};
  int32_t count = 0;
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    const opgraft_tensor_info *tensor = &op->tensors[t];
    if (tensor->type_variable >= 0 && tensor->same_as < 0)
      c.binds[tensor->type_variable] = tensor;
  }
  do {
    if (form_fill(&c, &out_forms[count])) ++count;
  } while (choice_next(&c) && count < OG_ORT_FORMS_MAX);
  for (int32_t f = 0; f < count; ++f) {
    out_forms[f].forms = out_forms;
    out_forms[f].form_count = count;
  }
  return count;
}

// SPDX-License-Identifier: Apache-2.0
// Types: an operator's type rule as a list of custom operators.

#include "onnxruntime/forms.h"

#include <string.h>

enum { TRIES_MAX = 4096 };  // choices that are looked at
_Static_assert(OG_ORT_FORMS_MAX == 64, "the text of og_ort_op_limit");

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

// 0 where ONNX lacks one of the types. A kernel has each choice of the type
// rule, else the module would not have loaded.
static int form_fill(const choice *c, og_ort_op *out) {
  const opgraft_op_info *info = &c->op->info;
  *out = (og_ort_op){.op = c->op};
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

// The custom operators of `op`, written to out_forms unless that is NULL; above
// OG_ORT_FORMS_MAX, and none beyond it written, where they are more.
static int32_t forms_find(const og_own_op *op, og_ort_op *out_forms) {
  choice c = {.op = op};
  int32_t count = 0, tries = 0;
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    const opgraft_tensor_info *tensor = &op->tensors[t];
    if (tensor->type_variable >= 0 && tensor->same_as < 0)
      c.binds[tensor->type_variable] = tensor;
  }
  do {
    og_ort_op form;
    if (++tries > TRIES_MAX) return OG_ORT_FORMS_MAX + 1;
    if (!form_fill(&c, &form)) continue;
    if (count == OG_ORT_FORMS_MAX) return OG_ORT_FORMS_MAX + 1;
    if (out_forms != NULL) out_forms[count] = form;
    ++count;
  } while (choice_next(&c));
  return count;
}

int32_t og_ort_forms(const og_own_op *op, og_ort_op *out_forms) {
  const int32_t count = forms_find(op, out_forms);
  for (int32_t f = 0; f < count; ++f) {
    out_forms[f].forms = out_forms;
    out_forms[f].form_count = count;
  }
  return count;
}

// --- What is not offered -----------------------------------------------------

static const char *inputs_limit(const og_own_op *op) {
  for (int32_t t = 0; t < op->info.tensor_count; ++t) {
    const uint32_t flags = op->tensor_params[t]->flags;
    if ((flags & OPGRAFT_PARAM_LIST) == 0) continue;
    if (t + 1 < op->info.tensor_count)
      return "a tensor list is not the last input";
    if ((flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) != 0)
      return "a tensor list has optional entries";
  }
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    if (op->attr_params[a]->type == OPGRAFT_TYPE_STR &&
        (op->attr_params[a]->flags & OPGRAFT_PARAM_LIST) != 0)
      return "an attribute is a list of texts";
  return NULL;
}

const char *og_ort_op_limit(const og_own_op *op) {
  for (int32_t i = 0; i < op->info.result_count; ++i) {
    const opgraft_result_info *result = &op->results[i];
    if ((result->flags & OPGRAFT_RESULT_LIST) != 0)
      return "a result is a list, whose length ONNX cannot state";
    if (result->dtype_from == OPGRAFT_DTYPE_ATTR)
      return "an attribute chooses a result's type, which ONNX fixes at load";
  }
  const char *limit = og_own_op_limit(op);
  if (limit == NULL) limit = inputs_limit(op);
  if (limit != NULL) return limit;
  const int32_t count = forms_find(op, NULL);
  if (count == 0)
    return "ONNX Runtime knows none of its choices of types at load";
  return count <= OG_ORT_FORMS_MAX
             ? NULL
             : "its types have more than 64 choices, each of which is an "
               "operator in ONNX Runtime; declare fewer";
}

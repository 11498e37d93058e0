// SPDX-License-Identifier: Apache-2.0
// The functions that code of AOTInductor calls: their declarations, for
// custom_ops_to_c_shims, and C source for `opgraft build`.
//
// An operator without results has one parameter more than its schema, which
// AOTInductor sets to nullptr. One with a single fresh result has a second
// function, which writes that into a tensor: Inductor passes it first, then
// the tensors, then the other arguments.

#include "aoti/call.h"
#include "shared/own.h"
#include "shared/text.h"

#define API OG_EXPORT

// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_aoti(int32_t op);
// C source of the functions; its length.
API size_t opgraft_names_aoti(char *text, size_t size);
// The declaration of operator `op`'s function in the words of AOTInductor; its
// length.
API size_t opgraft_aoti_declaration(int32_t op, char *text, size_t size);
// That of the function that writes the result into a tensor; 0 where the
// operator has none.
API size_t opgraft_aoti_into(int32_t op, char *text, size_t size);

OG_OWN_EXPORTS(aoti)

// --- What is not offered -----------------------------------------------------

static const char *param_limit(const opgraft_param_info *param) {
  const int is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  if (is_list && (param->flags & (OPGRAFT_PARAM_OPTIONAL |
                                  OPGRAFT_PARAM_ELEMENT_OPTIONAL)) != 0)
    return "a list is optional, or has optional entries";
  switch (param->type) {
    case OPGRAFT_TYPE_SCALAR:
      return "AOTInductor passes a Scalar as a double, whatever it was";
    case OPGRAFT_TYPE_DEVICE:
      return "an argument is a device, which the host chooses";
    case OPGRAFT_TYPE_STR:
    case OPGRAFT_TYPE_SCALAR_TYPE:
      return is_list ? "an argument is a list of texts or types" : NULL;
    default:
      return NULL;
  }
}

// A complex tensor may be the conjugate of what lies in its memory: the
// dispatcher resolves it, and the C shim cannot tell.
static int takes_complex(const og_own_op *op) {
  for (int32_t t = 0; t < op->info.tensor_count; ++t)
    for (int32_t i = 0; i < op->tensors[t].dtype_count; ++i)
      if (op->tensors[t].dtypes[i].code == OG_CODE_COMPLEX) return 1;
  return 0;
}

const char *opgraft_limit_aoti(int32_t index) {
  const og_own *own = og_own_get();
  if (index < 0 || index >= own->op_count) return "there is no such operator";
  const og_own_op *op = &own->ops[index];
  const char *limit = og_own_call_limit(op);
  for (int32_t i = 0; limit == NULL && i < op->info.param_count; ++i)
    limit = param_limit(&op->params[i]);
  if (limit == NULL && takes_complex(op))
    limit =
        "an argument may be complex, and AOTInductor does not say whether one "
        "is conjugated";
  for (int32_t i = 0; limit == NULL && i < op->info.fresh_count; ++i)
    if ((op->fresh[i]->flags & OPGRAFT_RESULT_LIST) != 0)
      limit = "a result is a list, whose length a C function cannot state";
  if (limit == NULL && (op->info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0)
    limit = "a result's size depends on values";
  if (limit == NULL && op->info.overload[0] != '\0')
    limit = "AOTInductor calls every overload by the same name";
  return limit;
}

// Whether the arguments in the schema's order are those in Inductor's.
static int has_into(const og_own_op *op) {
  int has_attr = 0;
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    const uint32_t flags = op->params[i].flags;
    if ((flags & OPGRAFT_PARAM_KEYWORD_ONLY) != 0) return 0;
    if (op->params[i].tensor < 0) {
      has_attr = 1;
      continue;
    }
    if (has_attr ||
        (flags & (OPGRAFT_PARAM_LIST | OPGRAFT_PARAM_OPTIONAL)) != 0)
      return 0;
  }
  return op->info.fresh_count == 1 && op->info.mutated_count == 0 &&
         op->info.tensor_count > 0;
}

// --- Types -------------------------------------------------------------------

// Of one word; `handle` stands for a tensor.
static const char *word_type(const opgraft_param_info *param,
                             const char *handle) {
  switch (param->type) {
    case OPGRAFT_TYPE_TENSOR:
      return handle;
    case OPGRAFT_TYPE_FLOAT:
      return "double";
    case OPGRAFT_TYPE_STR:
      return "const char *";
    case OPGRAFT_TYPE_BOOL:
    case OPGRAFT_TYPE_SCALAR_TYPE:
      return "int32_t";
    default:
      return "int64_t";
  }
}

static int is_addressed(const opgraft_param_info *param) {
  return (param->flags & (OPGRAFT_PARAM_LIST | OPGRAFT_PARAM_OPTIONAL)) != 0;
}

static void param_add(og_host_text *text, const opgraft_param_info *param,
                      const char *handle, int32_t number) {
  const int is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  if (is_list) og_host_text_add(text, "const ");
  og_host_text_add(text, word_type(param, handle));
  og_host_text_add(text, is_addressed(param) ? " *a" : " a");
  og_host_text_number(text, number);
  if (!is_list) return;
  og_host_text_add(text, ", int64_t n");
  og_host_text_number(text, number);
}

static void params_add(og_host_text *text, const og_own_op *op,
                       const char *handle) {
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    if (i > 0) og_host_text_add(text, ", ");
    param_add(text, &op->params[i], handle, i);
  }
}

// "aoti_torch_cpu_NAME(...)".
static void head_add(og_host_text *text, const og_own_op *op,
                     const char *handle) {
  const int32_t results = op->info.fresh_count > 0 ? op->info.fresh_count : 1;
  og_host_text_add(text, "aoti_torch_cpu_");
  og_host_text_add(text, op->info.base_name);
  og_host_text_add(text, "(");
  params_add(text, op, handle);
  for (int32_t i = 0; i < results; ++i) {
    if (i > 0 || op->info.param_count > 0) og_host_text_add(text, ", ");
    og_host_text_add(text, handle);
    og_host_text_add(text, " *r");
    og_host_text_number(text, i);
  }
  og_host_text_add(text, ")");
}

// "aoti_torch_opgraft_into_NAME(...)".
static void into_head_add(og_host_text *text, const og_own_op *op,
                          const char *handle) {
  og_host_text_add(text, "aoti_torch_opgraft_into_");
  og_host_text_add(text, op->info.base_name);
  og_host_text_add(text, "(");
  og_host_text_add(text, handle);
  og_host_text_add(text, " out, ");
  params_add(text, op, handle);
  og_host_text_add(text, ")");
}

size_t opgraft_aoti_declaration(int32_t op, char *out, size_t size) {
  if (opgraft_limit_aoti(op) != NULL) return 0;
  og_host_text text = og_host_text_begin(out, size);
  og_host_text_add(&text, "AOTITorchError ");
  head_add(&text, &og_own_get()->ops[op], "AtenTensorHandle");
  return og_host_text_end(&text);
}

size_t opgraft_aoti_into(int32_t op, char *out, size_t size) {
  if (opgraft_limit_aoti(op) != NULL || !has_into(&og_own_get()->ops[op]))
    return 0;
  og_host_text text = og_host_text_begin(out, size);
  og_host_text_add(&text, "AOTITorchError ");
  into_head_add(&text, &og_own_get()->ops[op], "AtenTensorHandle");
  return og_host_text_end(&text);
}

// --- Source ------------------------------------------------------------------

static const char source_head[] =
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "typedef union aoti_word { const void *p; int64_t i; double f; } "
    "aoti_word;\n"
    "int32_t opgraft_aoti_call(int32_t, const aoti_word *, void **const *);\n"
    "int32_t opgraft_aoti_call_into(int32_t, const aoti_word *, void *);\n";

static void words_add(og_host_text *text, const opgraft_param_info *param,
                      int32_t number) {
  const int is_pointer = is_addressed(param) ||
                         param->type == OPGRAFT_TYPE_TENSOR ||
                         param->type == OPGRAFT_TYPE_STR;
  const char *field = is_pointer                          ? "{.p = a"
                      : param->type == OPGRAFT_TYPE_FLOAT ? "{.f = a"
                                                          : "{.i = a";
  og_host_text_add(text, field);
  og_host_text_number(text, number);
  og_host_text_add(text, "}, ");
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) return;
  og_host_text_add(text, "{.i = n");
  og_host_text_number(text, number);
  og_host_text_add(text, "}, ");
}

typedef void (*head_fn)(og_host_text *text, const og_own_op *op,
                        const char *handle);

// The function's beginning, with the arguments as `words`.
static void begin_add(og_host_text *text, const og_own_op *op, head_fn head) {
  og_host_text_add(text, "__attribute__((visibility(\"default\"))) int32_t ");
  head(text, op, "void *");
  og_host_text_add(text, ";\nint32_t ");
  head(text, op, "void *");
  og_host_text_add(text, " {\n  const aoti_word words[] = {");
  for (int32_t i = 0; i < op->info.param_count; ++i)
    words_add(text, &op->params[i], i);
  og_host_text_add(text, "{.p = NULL}};\n");
}

static void function_add(og_host_text *text, const og_own_op *op,
                         int32_t number) {
  begin_add(text, op, head_add);
  og_host_text_add(text, "  void **const results[] = {");
  for (int32_t i = 0; i < op->info.fresh_count || i == 0; ++i) {
    og_host_text_add(text, "r");
    og_host_text_number(text, i);
    og_host_text_add(text, ", ");
  }
  og_host_text_add(text, "NULL};\n  return opgraft_aoti_call(");
  og_host_text_number(text, number);
  og_host_text_add(text, ", words, results);\n}\n");
  if (!has_into(op)) return;
  begin_add(text, op, into_head_add);
  og_host_text_add(text, "  return opgraft_aoti_call_into(");
  og_host_text_number(text, number);
  og_host_text_add(text, ", words, out);\n}\n");
}

size_t opgraft_names_aoti(char *out, size_t size) {
  const og_own *own = og_own_get();
  og_host_text text = og_host_text_begin(out, size);
  og_host_text_add(&text, source_head);
  for (int32_t i = 0; i < own->op_count; ++i)
    if (opgraft_limit_aoti(i) == NULL) function_add(&text, &own->ops[i], i);
  return og_host_text_end(&text);
}

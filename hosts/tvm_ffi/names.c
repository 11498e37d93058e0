// SPDX-License-Identifier: Apache-2.0
// What TVM-FFI looks up by an operator's name: C source for `opgraft build`,
// and what the functions in it answer of types and docs.

#include <stdlib.h>
#include <string.h>

#include "shared/own.h"
#include "shared/text.h"
#include "tvm_ffi/call.h"
#include "tvm_ffi/library.h"

#define API OG_EXPORT

// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_tvm_ffi(int32_t op);
// C source of the functions that TVM-FFI looks up; its length.
API size_t opgraft_names_tvm_ffi(char *text, size_t size);

// Whether TVM-FFI reads __tvm_ffi_NAME as something else.
static int is_taken(const char *name) {
  static const char *const heads[] = {"_metadata_", "_doc_", "_library_"};
  for (int i = 0; i < 3; ++i)
    if (strncmp(name, heads[i], strlen(heads[i])) == 0) return 1;
  return strcmp(name, "main") == 0;
}

const char *opgraft_limit_tvm_ffi(int32_t op) {
  const og_own *own = og_own_get();
  if (op < 0 || op >= own->op_count) return "there is no such operator";
  if (is_taken(own->ops[op].info.name))
    return "its name stands for something else in TVM-FFI";
  return og_own_call_limit(&own->ops[op]);
}

// --- Source ------------------------------------------------------------------

static const char source_head[] =
    "#include <stdint.h>\n"
    "#define API __attribute__((visibility(\"default\")))\n"
    "int32_t opgraft_tvm_ffi_call(int32_t, const void *, int32_t, void *);\n"
    "int32_t opgraft_tvm_ffi_metadata(int32_t, void *);\n"
    "int32_t opgraft_tvm_ffi_doc(int32_t, void *);\n";

// A function of `name`, which may hold a point, that makes `call`.
static void function_add(og_host_text *text, const char *kind, const char *name,
                         int32_t op, const char *call) {
  og_host_text_add(text, "API int function");
  og_host_text_add(text, kind);
  og_host_text_number(text, op);
  og_host_text_add(text,
                   "(void *self, const void *args, int32_t count, void "
                   "*result) __asm__(\"__tvm_ffi_");
  og_host_text_add(text, kind);
  og_host_text_add(text, name);
  og_host_text_add(text, "\");\nint function");
  og_host_text_add(text, kind);
  og_host_text_number(text, op);
  og_host_text_add(text,
                   "(void *self, const void *args, int32_t count, void "
                   "*result) {\n  (void)self; (void)args; (void)count;\n"
                   "  return opgraft_tvm_ffi_");
  og_host_text_add(text, call);
  og_host_text_add(text, "(");
  og_host_text_number(text, op);
}

size_t opgraft_names_tvm_ffi(char *out, size_t size) {
  const og_own *own = og_own_get();
  og_host_text text = og_host_text_begin(out, size);
  og_host_text_add(&text, source_head);
  for (int32_t i = 0; i < own->op_count; ++i) {
    if (opgraft_limit_tvm_ffi(i) != NULL) continue;
    const char *name = own->ops[i].info.name;
    function_add(&text, "", name, i, "call");
    og_host_text_add(&text, ", args, count, result);\n}\n");
    function_add(&text, "_metadata_", name, i, "metadata");
    og_host_text_add(&text, ", result);\n}\n");
    if (opgraft_op_record(own->ops[i].op)->doc == NULL) continue;
    function_add(&text, "_doc_", name, i, "doc");
    og_host_text_add(&text, ", result);\n}\n");
  }
  return og_host_text_end(&text);
}

// --- Metadata ----------------------------------------------------------------

static void type_of(og_host_text *text, const opgraft_param_info *param) {
  static const char *const types[] = {
      [OPGRAFT_TYPE_TENSOR] = "{\"type\":\"DLTensor*\"}",
      [OPGRAFT_TYPE_INT] = "{\"type\":\"int\"}",
      [OPGRAFT_TYPE_SYM_INT] = "{\"type\":\"int\"}",
      [OPGRAFT_TYPE_FLOAT] = "{\"type\":\"float\"}",
      [OPGRAFT_TYPE_BOOL] = "{\"type\":\"bool\"}",
      [OPGRAFT_TYPE_STR] = "{\"type\":\"ffi.String\"}",
      [OPGRAFT_TYPE_SCALAR] =
          ("{\"type\":\"Variant\",\"args\":[{\"type\":\"int\"},"
           "{\"type\":\"float\"},{\"type\":\"bool\"}]}"),
      [OPGRAFT_TYPE_SCALAR_TYPE] = "{\"type\":\"DataType\"}",
      [OPGRAFT_TYPE_DEVICE] = "{\"type\":\"Device\"}",
  };
  og_host_text_add(text, types[param->type]);
}

static void around(og_host_text *text, int is_there, const char *type) {
  if (!is_there) return;
  og_host_text_add(text, "{\"type\":\"");
  og_host_text_add(text, type);
  og_host_text_add(text, "\",\"args\":[");
}

static void param_add(og_host_text *text, const opgraft_param_info *param) {
  const int is_optional = (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0;
  const int is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  const int has_holes = (param->flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) != 0;
  around(text, is_optional, "Optional");
  around(text, is_list, "ffi.Array");
  around(text, has_holes, "Optional");
  type_of(text, param);
  for (int i = 0; i < is_optional + is_list + has_holes; ++i)
    og_host_text_add(text, "]}");
}

static void results_add(og_host_text *text, const og_own_op *op) {
  const int32_t count = op->info.fresh_count;
  if (count == 0) og_host_text_add(text, "{\"type\":\"None\"}");
  around(text, count > 1, "Tuple");
  for (int32_t i = 0; i < count; ++i) {
    const int is_list = (op->fresh[i]->flags & OPGRAFT_RESULT_LIST) != 0;
    if (i > 0) og_host_text_add(text, ",");
    around(text, is_list, "ffi.Array");
    og_host_text_add(text, "{\"type\":\"ffi.Tensor\"}");
    if (is_list) og_host_text_add(text, "]}");
  }
  if (count > 1) og_host_text_add(text, "]}");
}

// "args" holds the result's type, then the arguments': every release reads it.
static size_t metadata_write(const og_own_op *op, const char *declaration,
                             char *out, size_t size) {
  og_host_text text = og_host_text_begin(out, size);
  og_host_text_add(&text, "{\"type_schema\":");
  og_host_text_open(&text);
  og_host_text_add(&text, "{\"type\":\"ffi.Function\",\"args\":[");
  results_add(&text, op);
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    og_host_text_add(&text, ",");
    param_add(&text, &op->params[i]);
  }
  og_host_text_add(&text, "]}");
  og_host_text_close(&text);
  og_host_text_add(&text, ",\"opgraft\":");
  og_host_text_add(&text, declaration);
  og_host_text_add(&text, "}");
  return og_host_text_end(&text);
}

// The caller's; NULL where memory is short.
static char *metadata_make(const og_own_op *op) {
  const size_t described = opgraft_op_describe(op->op, NULL, 0) + 1;
  char *declaration = malloc(described);
  char *out = NULL;
  if (declaration != NULL) {
    opgraft_op_describe(op->op, declaration, described);
    const size_t length = metadata_write(op, declaration, NULL, 0) + 1;
    out = malloc(length);
    if (out != NULL) metadata_write(op, declaration, out, length);
  }
  free(declaration);
  return out;
}

// --- Answers -----------------------------------------------------------------

static int32_t text_return(const og_tvm_library *library, const char *text,
                           tvm_any *result) {
  if (text == NULL) {
    library->raise("MemoryError", "not enough memory for the metadata");
    return -1;
  }
  const tvm_bytes bytes = {text, strlen(text)};
  return library->make_text(&bytes, result) == 0 ? 0 : -1;
}

int32_t opgraft_tvm_ffi_metadata(int32_t op, void *result) {
  const og_tvm_library *library = og_tvm_library_get();
  if (library == NULL) return -1;
  char *text = metadata_make(&og_own_get()->ops[op]);
  const int32_t status = text_return(library, text, result);
  free(text);
  return status;
}

int32_t opgraft_tvm_ffi_doc(int32_t op, void *result) {
  const og_tvm_library *library = og_tvm_library_get();
  if (library == NULL) return -1;
  return text_return(library, opgraft_op_record(og_own_get()->ops[op].op)->doc,
                     result);
}

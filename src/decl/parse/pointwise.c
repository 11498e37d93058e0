// SPDX-License-Identifier: Apache-2.0
// The pointwise string: a scalar expression over the arguments, and what it
// stands for where shape, dtype or kernels are missing.

#include "decl/parse/pointwise.h"

#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/pointwise.h"

static og_status argument_find(void *state, const og_reader *reader,
                               og_token name, og_scalar_instruction *out) {
  const og_parser *p = state;
  const int32_t i = og_find_param(p, name);
  if (i < 0) return og_parse_unknown(p, name, "argument", OG_NAMES_PARAMS);
  const og_param *param = &p->decl->params[i];
  if (param->type != OG_TYPE_TENSOR && !og_is_number_param(param))
    return og_read_error_token(
        reader, name,
        "%s is not a number; expected a tensor, or an int, "
        "float, bool or Scalar that is not optional",
        param->name);
  out->op = param->type == OG_TYPE_TENSOR ? OG_SCALAR_load : OG_SCALAR_number;
  out->slot = param->index;
  return OG_OK;
}

// --- What it stands for ------------------------------------------------------

// One result, from tensors that are always there.
static og_status check_operator(const og_parser *p) {
  const og_decl *decl = p->decl;
  if (decl->fresh_count != 1 || decl->result_count != 1 ||
      decl->mutated_count > 0 || decl->results[0].is_list)
    return og_refuse_operator(p, "the schema has other results than one tensor",
                              "-> Tensor, and no mutated argument");
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_param *param = og_tensor_param(decl, t);
    if (param->is_list || param->is_optional)
      return og_refuse_operator(p, "a tensor argument is a list or optional",
                                "plain tensors");
  }
  if (decl->tensor_count == 0 || decl->tensor_count > 8)
    return og_refuse_operator(p, "the schema has no tensors, or more than 8",
                              "1 to 8");
  return OG_OK;
}

// A beginning for names of dims that no argument's name has.
static void dim_prefix(const og_decl *decl, char *out, size_t size) {
  memset(out, 0, size);
  out[0] = 'N';
  for (int32_t i = 0; i < decl->param_count; ++i) {
    const size_t length = strlen(out);
    if (strncmp(decl->params[i].name, out, length) != 0) continue;
    if (length + 1 == size) return;
    out[length] = '_';
    i = -1;
  }
}

// x[*N0], y[*N1] -> [*broadcast(N0, N1)]
static void write_shape(const og_decl *decl, og_text *text) {
  char prefix[OPGRAFT_ARG_MAX];
  dim_prefix(decl, prefix, sizeof prefix);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s[*%s%d]", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name, prefix, (int)t);
  og_text_add(text, " -> [*broadcast(");
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s%d", t > 0 ? ", " : "", prefix, (int)t);
  og_text_add(text, ")]");
}

// x: floating, y: floating -> promote(x, y)
static void write_dtype(const og_decl *decl, og_text *text) {
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s: floating", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name);
  og_text_add(text, " -> promote(");
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name);
  og_text_add(text, ")");
}

static og_status derive_text(og_parser *p,
                             void (*write)(const og_decl *, og_text *),
                             const char **field) {
  og_text text = {0};
  write(p->decl, &text);
  if (!text.failed)
    *field = og_arena_strndup(&p->decl->arena, text.data, text.length);
  og_text_reset(&text);
  return *field == NULL ? og_read_memory(&p->reader) : OG_OK;
}

static og_status derive(og_parser *p) {
  og_decl *decl = p->decl;
  og_op *record = (og_op *)(uintptr_t)decl->record;  // our own copy
  const bool has_kernels = record->kernel_count > 0;
  if (record->shape == NULL && record->infer == NULL)
    OG_TRY(derive_text(p, write_shape, &record->shape));
  if (has_kernels) return OG_OK;
  if (record->dtype == NULL)
    OG_TRY(derive_text(p, write_dtype, &record->dtype));
  if (record->strides == NULL) record->strides = "any";
  og_kernel *kernel = og_arena_alloc(&decl->arena, sizeof *kernel);
  if (kernel == NULL) return og_read_memory(&p->reader);
  *kernel = (og_kernel){.device = OG_CPU, .run = og_pointwise_run};
  record->kernels = kernel;
  record->kernel_count = 1;
  record->kernel_size = sizeof *kernel;
  decl->is_pointwise_derived = true;
  return OG_OK;
}

og_status og_parse_pointwise(og_decl *decl, opgraft_error *error) {
  og_parser p;
  og_scalar_code found;
  const og_scalar_names names = {.find = argument_find, .state = &p};
  if (decl->record->pointwise == NULL) return OG_OK;
  OG_TRY(og_parser_init(&p, decl, "pointwise", decl->record->pointwise, error));
  OG_TRY(og_scalar_parse(&p.reader, &names, OG_CLASSES_FLOAT, &found));
  OG_TRY(og_reader_expect_end(&p.reader, "an operator or the end"));
  OG_TRY(check_operator(&p));
  const size_t bytes = (size_t)found.count * sizeof *found.code;
  og_scalar_instruction *code = og_arena_alloc(&decl->arena, bytes);
  og_pointwise *pointwise = og_arena_alloc(&decl->arena, sizeof *pointwise);
  if (code == NULL || pointwise == NULL) return og_read_memory(&p.reader);
  memcpy(code, found.code, bytes);
  *pointwise = (og_pointwise){.program = {code, found.count},
                              .tensor_count = decl->tensor_count};
  decl->pointwise = pointwise;
  return derive(&p);
}

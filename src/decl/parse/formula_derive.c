// SPDX-License-Identifier: Apache-2.0
// What a formula stands for where shape, dtype or kernels are missing.

#include <stdio.h>
#include <string.h>

#include "decl/formula.h"
#include "decl/parse/formula.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"

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

// x[*N0], y[*N1] -> [*broadcast(N0, N1)], and where rows are reduced, a dim
// that all have: x[*N0, N], y[*N1, N] -> [*broadcast(N0, N1), N].
static void write_shape(const og_decl *decl, og_text *text) {
  char prefix[OPGRAFT_ARG_MAX], row[OPGRAFT_ARG_MAX + 2] = "";
  dim_prefix(decl, prefix, sizeof prefix);
  if (decl->formula->needs_rows) snprintf(row, sizeof row, ", %s", prefix);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s[*%s%d%s]", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name, prefix, (int)t, row);
  for (int32_t r = 0; r < decl->fresh_count; ++r) {
    const bool is_one = decl->tensor_count == 1;
    og_text_addf(text, "%s[*%s", r == 0 ? " -> " : ", ",
                 is_one ? "" : "broadcast(");
    for (int32_t t = 0; t < decl->tensor_count; ++t)
      og_text_addf(text, "%s%s%d", t > 0 ? ", " : "", prefix, (int)t);
    og_text_addf(text, "%s%s]", is_one ? "" : ")", row);
  }
}

// That chooses rows, and is not read besides.
static bool is_index(const og_decl *decl, int32_t tensor) {
  const struct og_formula *f = decl->formula;
  bool is = false;
  for (int32_t k = 0; k < f->index_count; ++k) is |= f->indices[k] == tensor;
  for (int32_t i = 0; i < f->input_count; ++i)
    is &= !f->inputs[i].is_tensor || f->inputs[i].index != tensor;
  return is;
}

// x: floating, y: floating -> promote(x, y)
static void write_dtype(const og_decl *decl, og_text *text) {
  const char *set = decl->formula->is_real ? "floating" : "integral";
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    og_text_addf(text, "%s%s: %s", t > 0 ? ", " : "",
                 og_tensor_param(decl, t)->name,
                 is_index(decl, t) ? "int64|int32" : set);
  for (int32_t r = 0; r < decl->fresh_count; ++r) {
    const char *comma = "";
    og_text_add(text, r == 0 ? " -> promote(" : ", promote(");
    for (int32_t t = 0; t < decl->tensor_count; ++t) {
      if (is_index(decl, t)) continue;
      og_text_addf(text, "%s%s", comma, og_tensor_param(decl, t)->name);
      comma = ", ";
    }
    og_text_add(text, ")");
  }
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

static bool has_optional_tensor(const og_decl *decl) {
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (og_tensor_param(decl, t)->is_optional) return true;
  return false;
}

static const og_kernel *kernel_at(const og_op *record, size_t k) {
  return (const void *)((const char *)record->kernels +
                        k * record->kernel_size);
}

static bool has_cpu_kernel(const og_op *record) {
  for (size_t k = 0; k < record->kernel_count && record->kernels != NULL; ++k)
    if (kernel_at(record, k)->device == OG_CPU) return true;
  return false;
}

// The formula as a kernel, behind those of other devices.
static og_status kernel_add(og_parser *p, og_op *record) {
  const og_kernel own = {.device = OG_CPU, .run = og_formula_run};
  const size_t count = record->kernel_count;
  const size_t size = count > 0 ? record->kernel_size : sizeof own;
  size_t bytes;
  char *kernels = og_size_mul(count + 1, size, &bytes)
                      ? og_arena_alloc(&p->decl->arena, bytes)
                      : NULL;
  if (kernels == NULL) return og_read_memory(&p->reader);
  memset(kernels, 0, bytes);
  if (count > 0) memcpy(kernels, record->kernels, count * size);
  memcpy(kernels + count * size, &own, size < sizeof own ? size : sizeof own);
  record->kernels = (const void *)kernels;
  record->kernel_count = (uint32_t)(count + 1);
  record->kernel_size = (uint32_t)size;
  return OG_OK;
}

og_status og_parse_formula_rest(og_parser *p) {
  og_decl *decl = p->decl;
  og_op *record = (og_op *)(uintptr_t)decl->record;  // our own copy
  const bool is_alone = record->kernel_count == 0;
  if (record->shape == NULL) {
    const char *why =
        has_optional_tensor(decl)
            ? "a tensor is optional, so the shape is not derived"
        : decl->mutated_count > 0
            ? "an argument is mutated, so the shape is not derived"
        : decl->formula->sums != 0
            ? "rows are summed, so the shape is not derived"
        : decl->formula->index_count > 0
            ? "an index chooses rows, so the shape is not derived"
        : (decl->formula->wide_in | decl->formula->wide_out) != 0
            ? "rows have parts, so the shape is not derived"
            : NULL;
    if (why != NULL) return og_refuse_operator(p, why, "a shape rule (.shape)");
    OG_TRY(derive_text(p, write_shape, &record->shape));
  }
  if (has_cpu_kernel(record)) return OG_OK;
  if (record->dtype == NULL)
    OG_TRY(derive_text(p, write_dtype, &record->dtype));
  if (record->strides == NULL && is_alone) record->strides = "any";
  decl->is_formula_derived = true;
  return kernel_add(p, record);
}

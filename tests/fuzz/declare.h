// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of declarations share: text of an input as strings, and a
// record taken through load, description, inference and release.

#ifndef OG_FUZZ_DECLARE_H
#define OG_FUZZ_DECLARE_H

#include <opgraft/opgraft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static og_status fuzz_kernel(const og_call *call) {
  (void)call;
  return OG_OK;
}

static const og_kernel fuzz_kernels[] = {
    {.device = OG_CPU, .run = fuzz_kernel},
};

// The input as NUL-terminated lines in memory of its own, which the caller
// frees; lines that are not there are NULL, and so are empty ones.
static inline char *fuzz_lines(const uint8_t *data, size_t size,
                               const char **out_lines, int count) {
  char *text = (char *)malloc(size + 1);
  if (text == NULL) abort();
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  char *at = text;
  for (int i = 0; i < count; ++i) {
    out_lines[i] = at != NULL && *at != '\0' && *at != '\n' ? at : NULL;
    at = at != NULL ? strchr(at, '\n') : NULL;
    if (at != NULL) *at++ = '\0';
  }
  return text;
}

// An error is a code and a text that ends; a fuzzer must not see another one.
static inline void fuzz_check_error(const opgraft_error *error) {
  if (error->code == OG_OK || error->code == OG_INTERNAL) abort();
  if (memchr(error->text, 0, sizeof error->text) == NULL) abort();
  if (error->text[0] == '\0') abort();
}

static inline void fuzz_describe(const opgraft_op *op) {
  const size_t size = opgraft_op_describe(op, NULL, 0);
  char *text = (char *)malloc(size + 1);
  if (text == NULL) abort();
  if (opgraft_op_describe(op, text, size + 1) != size) abort();
  free(text);
}

// Loads the record, gives each operator to `visit` (which may be NULL).
static inline void fuzz_record(const og_op *ops, uint32_t count,
                               void (*visit)(const opgraft_op *op)) {
  const og_module record = {
      .struct_size = sizeof(og_module),
      .abi_version = OG_ABI_VERSION,
      .name = "fuzz",
      .ops = ops,
      .op_count = count,
      .op_size = sizeof(og_op),
  };
  opgraft_error error = {0};
  opgraft_module *module = NULL;
  if (opgraft_module_wrap(&record, &module, &error) != OG_OK) {
    fuzz_check_error(&error);
    return;
  }
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    fuzz_describe(opgraft_module_op(module, i));
    if (visit != NULL) visit(opgraft_module_op(module, i));
  }
  opgraft_module_release(module);
}

#endif  // OG_FUZZ_DECLARE_H

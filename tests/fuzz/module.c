// SPDX-License-Identifier: Apache-2.0
// Any bytes as a module of up to three operators: eleven lines each, in the
// order of og_op's strings. Parsed, linked, described, freed.

#include "declare.h"

enum { OP_MAX = 3, LINES = 11 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *line[OP_MAX * LINES];
  char *text = fuzz_lines(data, size, line, OP_MAX * LINES);
  og_op ops[OP_MAX];
  uint32_t count = 0;
  for (; count < OP_MAX; ++count) {
    const char **own = line + count * LINES;
    if (count > 0 && own[0] == NULL) break;
    ops[count] = (og_op){.schema = own[0],
                         .shape = own[1],
                         .where = own[2],
                         .dtype = own[3],
                         .backward = own[4],
                         .workspace = own[5],
                         .strides = own[6],
                         .inplace = own[7],
                         .row = own[8],
                         .reduce = own[9],
                         .doc = own[10],
                         .kernels = fuzz_kernels,
                         .kernel_count = 1,
                         .kernel_size = sizeof(og_kernel)};
  }
  fuzz_record(ops, count, NULL);
  free(text);
  return 0;
}

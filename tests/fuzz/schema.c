// SPDX-License-Identifier: Apache-2.0
// Any bytes as a schema: parsed, described, freed.

#include "declare.h"

static og_status infer_nothing(const og_infer_call *call) {
  (void)call;
  return OG_UNSUPPORTED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *line[1];
  char *text = fuzz_lines(data, size, line, 1);
  const og_op op = {.schema = line[0],
                    .kernels = fuzz_kernels,
                    .kernel_count = 1,
                    .kernel_size = sizeof(og_kernel),
                    .infer = infer_nothing};
  fuzz_record(&op, 1, NULL);
  free(text);
  return 0;
}

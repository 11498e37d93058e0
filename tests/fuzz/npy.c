// SPDX-License-Identifier: Apache-2.0
// .npy headers: any bytes give sizes that fit the file, or an error.

#include <stdlib.h>

#include "base/npy.h"

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  og_npy npy;
  opgraft_error error;
  if (og_npy_parse((const char *)data, size, "x.npy", &npy, &error) != OG_OK)
    return 0;
  if (npy.data_offset > size || npy.data_bytes != size - npy.data_offset)
    abort();
  int64_t count = 1;
  for (int32_t d = 0; d < npy.ndim; ++d) count *= npy.shape[d] > 0;
  if ((count > 0) != (npy.data_bytes > 0)) abort();
  return 0;
}

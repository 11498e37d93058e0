// SPDX-License-Identifier: Apache-2.0
// A file cannot be read or written; the text has the system's reason. Here an
// array is read from another file than it was written to.

#include <opgraft/npy.h>

#include "example.h"

int main(void) {
  float data[3] = {1, 2, 3};
  int64_t size = 3, stride = 1;
  const og_tensor x = floats(data, &size, &stride);
  og_tensor *found = NULL;
  opgraft_error error = {0};
  og_status status = opgraft_npy_write("x.npy", &x, &error);
#ifndef REPAIRED
  if (status == OG_OK) status = opgraft_npy_read("X.npy", &found, &error);
#else
  if (status == OG_OK) status = opgraft_npy_read("x.npy", &found, &error);
#endif
  opgraft_npy_release(found);
  return tell(status, &error);
}

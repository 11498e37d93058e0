// SPDX-License-Identifier: Apache-2.0
// The header of .npy files: what is in it, apart from where it came from.

#ifndef OG_BASE_NPY_H
#define OG_BASE_NPY_H

#include <opgraft/npy.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct og_npy {
  og_dtype dtype;
  bool is_fortran;
  int32_t ndim;
  int64_t shape[OPGRAFT_RANK_MAX];
  size_t data_offset;
  size_t data_bytes;
} og_npy;

// Reads the header of a whole file's bytes, which are not trusted; `path` is
// for messages. OG_OK means that data_bytes stand at data_offset and nothing
// behind them.
og_status og_npy_parse(const char *bytes, size_t size_bytes, const char *path,
                       og_npy *out, opgraft_error *error);

#endif  // OG_BASE_NPY_H

// SPDX-License-Identifier: Apache-2.0
// CUDA's run-time compiler, opened at run time: neither linked nor included.

#ifndef OG_CUDA_NVRTC_H
#define OG_CUDA_NVRTC_H

#include <stddef.h>

// Compiles the text `source` of a file that messages call `name`, for devices
// of compute capability `arch` (90: 9.0): to a cubin, or to PTX where NVRTC is
// older than the device. 0 on success, and *out_code, which ends in a NUL, is
// the caller's, to be freed. Else `text` says what is missing, or has the log
// with the errors. Any thread. Needs libnvrtc: $OPGRAFT_NVRTC as a path, one
// that the process has loaded, one that the system finds, one of a pip package
// beside a library that the process has loaded.
int og_cuda_compile(const char *source, const char *name, int arch,
                    char **out_code, char *text, size_t text_size);

#endif  // OG_CUDA_NVRTC_H

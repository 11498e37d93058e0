// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, opened at run time: neither linked nor included.
//
// Handles (CUcontext, CUstream, CUfunction, ...) are void pointers here, a
// CUdevice and a CUresult are ints.

#ifndef OG_CUDA_API_H
#define OG_CUDA_API_H

#include <stddef.h>

typedef struct og_cuda_api {
#define OG_CUDA_FN(name, symbol, parameters) int(*name) parameters;
#include "api.def"
#undef OG_CUDA_FN
} og_cuda_api;

// The library's functions: opened and initialised by the first call of the
// process, for good. NULL where there is none, or it lacks a function: `text`
// then says which and why, in one sentence. Any thread.
const og_cuda_api *og_cuda_api_open(char *text, size_t text_size);

// "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE, invalid argument" into text.
void og_cuda_api_explain(const og_cuda_api *api, const char *symbol, int result,
                         char *text, size_t text_size);

#endif  // OG_CUDA_API_H

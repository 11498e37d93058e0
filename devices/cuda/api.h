// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, opened at run time: neither linked nor included.
//
// Handles (CUcontext, CUstream, CUfunction, ...) are void pointers here, a
// CUdevice and a CUresult are ints, a CUdeviceptr is a uint64_t. Layouts and
// numbers are those of the CUDA Driver API reference, versions 12.0 to 13.0.

#ifndef OG_CUDA_API_H
#define OG_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

// CUresult
enum {
  OG_CUDA_SUCCESS = 0,
  OG_CUDA_INVALID_VALUE = 1,
  OG_CUDA_OUT_OF_MEMORY = 2,
  OG_CUDA_NOT_INITIALIZED = 3,
  OG_CUDA_DEINITIALIZED = 4,
  OG_CUDA_NO_DEVICE = 100,
  OG_CUDA_INVALID_DEVICE = 101,
  OG_CUDA_INVALID_CONTEXT = 201,
  OG_CUDA_ECC_UNCORRECTABLE = 214,
  OG_CUDA_INVALID_HANDLE = 400,
  OG_CUDA_NOT_FOUND = 500,
  OG_CUDA_NOT_READY = 600,
  OG_CUDA_ILLEGAL_ADDRESS = 700,
  OG_CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
  OG_CUDA_LAUNCH_TIMEOUT = 702,
  OG_CUDA_CONTEXT_IS_DESTROYED = 709,
  OG_CUDA_ASSERT = 710,
  OG_CUDA_HARDWARE_STACK_ERROR = 714,
  OG_CUDA_LAUNCH_FAILED = 719,
  OG_CUDA_NOT_PERMITTED = 800,
  OG_CUDA_NOT_SUPPORTED = 801,
  OG_CUDA_CAPTURE_UNSUPPORTED = 900,
  OG_CUDA_CAPTURE_INVALIDATED = 901,
  OG_CUDA_CAPTURE_UNMATCHED = 903,
  OG_CUDA_CAPTURE_UNJOINED = 904,
  OG_CUDA_CAPTURE_ISOLATION = 905,
  OG_CUDA_CAPTURE_IMPLICIT = 906,
  OG_CUDA_CAPTURED_EVENT = 907,
  OG_CUDA_CAPTURE_WRONG_THREAD = 908,
};

// CUdevice_attribute
enum {
  OG_CUDA_CAPABILITY_MAJOR = 75,
  OG_CUDA_CAPABILITY_MINOR = 76,
  OG_CUDA_HAS_POOLS = 115,
};

enum {
  OG_CUDA_STREAM_NON_BLOCKING = 1,  // CUstream_flags
  OG_CUDA_CAPTURE_RELAXED = 2,      // CUstreamCaptureMode
  OG_CUDA_CAPTURE_ACTIVE = 1,       // CUstreamCaptureStatus
  OG_CUDA_NODE_KERNEL = 0,          // CUgraphNodeType
  OG_CUDA_POOL_THRESHOLD = 4,       // CUmemPool_attribute: kept bytes
  OG_CUDA_ALLOCATION_PINNED = 1,    // CUmemAllocationType
  OG_CUDA_LOCATION_DEVICE = 1,      // CUmemLocationType
};

// CU_STREAM_LEGACY, which NULL means as well, and CU_STREAM_PER_THREAD.
#define OG_CUDA_STREAM_LEGACY ((void *)1)
#define OG_CUDA_STREAM_PER_THREAD ((void *)2)

// CUmemPoolProps
typedef struct og_cuda_pool_props {
  int allocation_type;
  int handle_types;  // for other processes: 0, none
  int location_type;
  int location_id;
  void *security;
  size_t max_bytes;  // 0: no limit
  unsigned short usage;
  unsigned char reserved[54];
} og_cuda_pool_props;

// CUDA_KERNEL_NODE_PARAMS_v2
typedef struct og_cuda_kernel_params {
  void *function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void **parameters;
  void **extra;
  void *kernel;  // where `function` is NULL
  void *context;
} og_cuda_kernel_params;

typedef struct og_cuda_api {
#define OG_CUDA_FN(name, symbol, parameters) int(*name) parameters;
#define OG_CUDA_DRIVER_FN OG_CUDA_FN
#include "api.def"
#undef OG_CUDA_DRIVER_FN
#undef OG_CUDA_FN
} og_cuda_api;

// The library's functions: opened and initialised by the first call of the
// process, for good. NULL where there is none, or it lacks a function: `text`
// then says which and why, in one sentence. Any thread.
const og_cuda_api *og_cuda_api_open(char *text, size_t text_size);
// The same, and all that a driver calls; else some of those may be NULL.
const og_cuda_api *og_cuda_api_open_whole(char *text, size_t text_size);

// "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE, invalid argument" into text.
void og_cuda_api_explain(const og_cuda_api *api, const char *symbol, int result,
                         char *text, size_t text_size);

#endif  // OG_CUDA_API_H

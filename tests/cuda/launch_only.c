// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 of which only launches work: each runs at once, on the host,
// by the host's form of the kernel. fake_libcuda.c has streams, memory and
// graphs besides.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef void (*host_form)(const unsigned grid[3], const unsigned block[3],
                          unsigned shared_bytes, void **parameters);

enum { OK = 0, INVALID = 1, NOT_FOUND = 500 };
static _Thread_local void *current;
static int context;

#define FUNCTION(name, ...)     \
  EXPORT int name(__VA_ARGS__); \
  int name(__VA_ARGS__)

FUNCTION(cuInit, unsigned flags) { return flags == 0 ? OK : INVALID; }
FUNCTION(cuGetErrorName, int result, const char **out) {
  *out = result == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_INVALID";
  return OK;
}
FUNCTION(cuGetErrorString, int result, const char **out) {
  *out = result == NOT_FOUND ? "named symbol not found" : "invalid argument";
  return OK;
}
FUNCTION(cuDeviceGet, int *out, int ordinal) {
  *out = ordinal;
  return ordinal == 0 ? OK : INVALID;
}
FUNCTION(cuDeviceGetAttribute, int *out, int attribute, int device) {
  *out = attribute == 16 ? 4 : attribute == 75 ? 9 : 0;
  return device == 0 ? OK : INVALID;
}
FUNCTION(cuDevicePrimaryCtxRetain, void **out, int device) {
  *out = &context;
  return device == 0 ? OK : INVALID;
}
FUNCTION(cuCtxGetCurrent, void **out) {
  *out = current;
  return OK;
}
FUNCTION(cuCtxSetCurrent, void *wanted) {
  current = wanted;
  return OK;
}
FUNCTION(cuCtxGetDevice, int *out) {
  *out = 0;
  return current != NULL ? OK : INVALID;
}
FUNCTION(cuLibraryLoadData, void **out, const void *code, int *options,
         void **values, unsigned count, int *library_options,
         void **library_values, unsigned library_count) {
  (void)options, (void)values, (void)count;
  (void)library_options, (void)library_values, (void)library_count;
  *out = (void *)(size_t)code;
  return current != NULL ? OK : INVALID;
}
FUNCTION(cuLibraryGetKernel, void **out, void *library, const char *name) {
  char symbol[256];
  (void)library;
  snprintf(symbol, sizeof symbol, "opgraft_fake_%s", name);
  *out = dlsym(RTLD_DEFAULT, symbol);
  return *out != NULL ? OK : NOT_FOUND;
}
FUNCTION(cuKernelSetAttribute, int attribute, int value, void *kernel,
         int device) {
  (void)attribute, (void)value, (void)kernel;
  return device == 0 ? OK : INVALID;
}
FUNCTION(cuLaunchKernel, void *kernel, unsigned grid_x, unsigned grid_y,
         unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
         unsigned shared_bytes, void *stream, void **parameters, void **extra) {
  const unsigned grid[] = {grid_x, grid_y, grid_z};
  const unsigned block[] = {block_x, block_y, block_z};
  host_form form;
  (void)stream, (void)extra;
  memcpy(&form, &kernel, sizeof form);
  form(grid, block, shared_bytes, parameters);
  return OK;
}

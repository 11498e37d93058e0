// SPDX-License-Identifier: Apache-2.0
// A libnvrtc whose compiler takes any source but one with "#error", and whose
// code is the source.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION(name, ...)                                     \
  __attribute__((visibility("default"))) int name(__VA_ARGS__); \
  int name(__VA_ARGS__)

static const char *const log_text = "fake.cu(1): error: #error";

FUNCTION(nvrtcVersion, int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
FUNCTION(nvrtcGetNumSupportedArchs, int *out) {
  *out = 2;
  return 0;
}
FUNCTION(nvrtcGetSupportedArchs, int *out) {
  out[0] = 80;
  out[1] = 90;
  return 0;
}
FUNCTION(nvrtcCreateProgram, void **out, const char *source, const char *name,
         int count, const char *const *headers, const char *const *names) {
  (void)name, (void)count, (void)headers, (void)names;
  *out = strdup(source);
  return *out != NULL ? 0 : 1;
}
FUNCTION(nvrtcDestroyProgram, void **program) {
  free(*program);
  *program = NULL;
  return 0;
}
FUNCTION(nvrtcCompileProgram, void *program, int count,
         const char *const *options) {
  if (count < 1 || strcmp(options[0], "--gpu-architecture=sm_90") != 0)
    return 5;
  return strstr(program, "#error") == NULL ? 0 : 6;
}
FUNCTION(nvrtcGetProgramLogSize, void *program, size_t *out) {
  (void)program;
  *out = strlen(log_text) + 1;
  return 0;
}
FUNCTION(nvrtcGetProgramLog, void *program, char *out) {
  (void)program;
  memcpy(out, log_text, strlen(log_text) + 1);
  return 0;
}
FUNCTION(nvrtcGetCUBINSize, void *program, size_t *out) {
  *out = strlen(program) + 1;
  return 0;
}
FUNCTION(nvrtcGetCUBIN, void *program, char *out) {
  memcpy(out, program, strlen(program) + 1);
  return 0;
}
FUNCTION(nvrtcGetPTXSize, void *program, size_t *out) {
  return nvrtcGetCUBINSize(program, out);
}
FUNCTION(nvrtcGetPTX, void *program, char *out) {
  return nvrtcGetCUBIN(program, out);
}

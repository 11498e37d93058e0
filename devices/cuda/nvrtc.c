// SPDX-License-Identifier: Apache-2.0
// Finds and calls CUDA's run-time compiler.

#define _GNU_SOURCE
#include "nvrtc.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
#define OG_NVRTC_FN(name, symbol, parameters) int(*name) parameters;
#include "nvrtc.def"
#undef OG_NVRTC_FN
} table;
static char why_not[512];  // empty: the table can be used
static pthread_once_t once = PTHREAD_ONCE_INIT;

// --- Where it is -------------------------------------------------------------

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
enum { NAME_COUNT = sizeof names / sizeof *names };

static void *by_name(int flags) {
  void *library = NULL;
  for (int i = 0; i < NAME_COUNT && library == NULL; ++i)
    library = dlopen(names[i], flags | RTLD_NOW | RTLD_LOCAL);
  return library;
}

// From a loaded library to NVIDIA's pip packages, whose libraries find each
// other by such paths.
static int beside_loaded(struct dl_phdr_info *info, size_t size, void *out) {
  static const char *const folders[] = {"", "../../cuda_nvrtc/lib/",
                                        "../../nvidia/cu13/lib/",
                                        "../../nvidia/cuda_nvrtc/lib/"};
  char path[4096];
  const char *slash = strrchr(info->dlpi_name, '/');
  (void)size;
  if (slash == NULL || (strstr(info->dlpi_name, "/nvidia/") == NULL &&
                        strstr(info->dlpi_name, "/torch/") == NULL))
    return 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i)
    for (int k = 0; k < NAME_COUNT; ++k) {
      snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - info->dlpi_name),
               info->dlpi_name, folders[i], names[k]);
      FILE *file = fopen(path, "rb");
      if (file == NULL) continue;
      fclose(file);
      snprintf(out, sizeof path, "%s", path);
      return 1;
    }
  return 0;
}

// The path is found first and opened later: dl_iterate_phdr holds a lock.
static void *by_package(void) {
  char path[4096] = "";
  if (dl_iterate_phdr(beside_loaded, path) == 0) return NULL;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *library_find(void) {
  const char *wanted = getenv("OPGRAFT_NVRTC");
  if (wanted != NULL && wanted[0] != '\0') {
    void *library = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library == NULL ? dlerror() : NULL;
    if (library == NULL)
      snprintf(why_not, sizeof why_not,
               "OPGRAFT_NVRTC is '%.200s', which cannot be opened: %.200s",
               wanted, reason != NULL ? reason : "unknown reason");
    return library;
  }
  void *library = by_name(RTLD_NOLOAD);
  if (library == NULL) library = by_name(0);
  if (library == NULL) library = by_package();
  if (library == NULL)
    snprintf(why_not, sizeof why_not,
             "CUDA's compiler is missing: neither libnvrtc.so.13 nor "
             "libnvrtc.so.12 is loaded, on the system's path or in a package "
             "beside torch's; pip install nvidia-cuda-nvrtc, set OPGRAFT_NVRTC "
             "to the library's path, or build the module with --nvcc");
  return library;
}

static void table_fill(void) {
  const struct {
    const char *symbol;
    void *place;
  } wanted[] = {
#define OG_NVRTC_FN(name, symbol, parameters) {#symbol, &table.name},
#include "nvrtc.def"
#undef OG_NVRTC_FN
  };
  void *library = library_find();
  for (size_t i = 0; library != NULL && i < sizeof wanted / sizeof *wanted;
       ++i) {
    void *found = dlsym(library, wanted[i].symbol);
    memcpy(wanted[i].place, &found, sizeof found);
    if (found != NULL) continue;
    snprintf(why_not, sizeof why_not,
             "libnvrtc has no %s, expected that of CUDA 12 or later",
             wanted[i].symbol);
    return;
  }
}

// --- Compiling ---------------------------------------------------------------

// NVRTC has no headers of libc's; what kernels need of them.
static const char *const header_names[] = {"stdint.h", "stddef.h"};
static const char *const headers[] = {
    "#pragma once\n"
    "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
    "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
    "typedef int int32_t;\ntypedef unsigned int uint32_t;\n"
    "typedef long long int64_t;\ntypedef unsigned long long uint64_t;\n"
    "typedef long long intptr_t;\ntypedef unsigned long long uintptr_t;\n"
    "#define INT32_MAX 2147483647\n#define INT32_MIN (-INT32_MAX - 1)\n"
    "#define UINT32_MAX 4294967295u\n"
    "#define INT64_MAX 9223372036854775807ll\n"
    "#define INT64_MIN (-INT64_MAX - 1)\n",
    "#pragma once\n"};

// The newest architecture that NVRTC knows and the device has.
static int arch_choose(int arch, int *out_is_exact) {
  int archs[256], count = 0, best = 0;
  if (table.archs_count(&count) != 0 || count < 1 || count > 256 ||
      table.archs(archs) != 0)
    count = 0;
  *out_is_exact = 0;
  for (int i = 0; i < count; ++i) {
    if (archs[i] == arch) *out_is_exact = 1;
    if (archs[i] <= arch && archs[i] > best) best = archs[i];
  }
  return best;
}

static void log_read(void *program, const char *name, int result, char *text,
                     size_t text_size) {
  size_t size = 0;
  char *log = NULL;
  if (table.log_size(program, &size) == 0 && size > 1) log = malloc(size + 1);
  if (log == NULL || table.log(program, log) != 0) {
    snprintf(text, text_size, "nvrtcCompileProgram of %s: result %d", name,
             result);
  } else {
    log[size] = '\0';
    snprintf(text, text_size, "%s does not compile for the device:\n%s", name,
             log);
  }
  free(log);
}

static char *code_read(void *program, int is_cubin) {
  size_t size = 0;
  const int found = is_cubin ? table.cubin_size(program, &size)
                             : table.ptx_size(program, &size);
  char *code = found == 0 && size > 0 ? malloc(size + 1) : NULL;
  if (code == NULL) return NULL;
  code[size] = '\0';
  if ((is_cubin ? table.cubin(program, code) : table.ptx(program, code)) == 0)
    return code;
  free(code);
  return NULL;
}

static int program_compile(void *program, const char *name, int arch,
                           char **out_code, char *text, size_t text_size) {
  int is_exact = 0;
  char option[64];
  const int known = arch_choose(arch, &is_exact);
  if (known == 0) {
    snprintf(text, text_size,
             "%s: the device's compute capability is %d.%d, older than "
             "libnvrtc compiles for; expected an older libnvrtc",
             name, arch / 10, arch % 10);
    return 1;
  }
  snprintf(option, sizeof option, "--gpu-architecture=%s_%d",
           is_exact ? "sm" : "compute", known);
  const char *options[] = {option, "--std=c++17", "--disable-warnings"};
  const int result =
      table.compile(program, sizeof options / sizeof *options, options);
  if (result != 0) {
    log_read(program, name, result, text, text_size);
    return 1;
  }
  *out_code = code_read(program, is_exact);
  if (*out_code == NULL)
    snprintf(text, text_size, "%s: NVRTC has no code for %s", name, option);
  return *out_code == NULL;
}

int og_cuda_compile(const char *source, const char *name, int arch,
                    char **out_code, char *text, size_t text_size) {
  void *program = NULL;
  *out_code = NULL;
  pthread_once(&once, table_fill);
  if (why_not[0] != '\0') {
    snprintf(text, text_size, "%s: %s", name, why_not);
    return 1;
  }
  const int result = table.create(&program, source, name,
                                  sizeof header_names / sizeof *header_names,
                                  headers, header_names);
  if (result != 0) {
    snprintf(text, text_size, "nvrtcCreateProgram of %s: result %d", name,
             result);
    return 1;
  }
  const int failed =
      program_compile(program, name, arch, out_code, text, text_size);
  table.destroy(&program);
  return failed;
}

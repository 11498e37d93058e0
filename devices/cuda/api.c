// SPDX-License-Identifier: Apache-2.0

#include "api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static og_cuda_api table;
static char why_not[256];    // empty: the table can be used
static char not_whole[256];  // empty: also what the driver alone calls
static pthread_once_t once = PTHREAD_ONCE_INIT;

typedef struct lookup {
  const char *name;
  void *place;  // in the table
  char *why;    // what is said where there is none
} lookup;

static void symbols_find(void *library) {
  const lookup wanted[] = {
#define OG_CUDA_FN(name, symbol, parameters) {#symbol, &table.name, why_not},
#define OG_CUDA_DRIVER_FN(name, symbol, parameters) \
  {#symbol, &table.name, not_whole},
#include "api.def"
#undef OG_CUDA_DRIVER_FN
#undef OG_CUDA_FN
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    void *found = dlsym(library, wanted[i].name);
    *(void **)wanted[i].place = found;
    if (found == NULL && wanted[i].why[0] == '\0')
      snprintf(wanted[i].why, sizeof why_not,
               "libcuda.so.1 has no %s, expected a driver for CUDA 12 or later",
               wanted[i].name);
  }
}

static void table_fill(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *reason = dlerror();
    snprintf(why_not, sizeof why_not,
             "CUDA's driver library cannot be opened: %s",
             reason != NULL ? reason : "libcuda.so.1");
    return;
  }
  symbols_find(library);
  if (why_not[0] != '\0') return;
  const int result = table.init(0);
  if (result != 0)
    og_cuda_api_explain(&table, "cuInit", result, why_not, sizeof why_not);
}

static const og_cuda_api *table_get(const char *why, char *text,
                                    size_t text_size) {
  if (why[0] == '\0') return &table;
  snprintf(text, text_size, "%s", why);
  return NULL;
}

const og_cuda_api *og_cuda_api_open(char *text, size_t text_size) {
  pthread_once(&once, table_fill);
  return table_get(why_not, text, text_size);
}

const og_cuda_api *og_cuda_api_open_whole(char *text, size_t text_size) {
  const og_cuda_api *api = og_cuda_api_open(text, text_size);
  return api != NULL ? table_get(not_whole, text, text_size) : NULL;
}

void og_cuda_api_explain(const og_cuda_api *api, const char *symbol, int result,
                         char *text, size_t text_size) {
  const char *name = NULL, *meaning = NULL;
  if (api->error_name(result, &name) != 0) name = NULL;
  if (api->error_text(result, &meaning) != 0) meaning = NULL;
  snprintf(text, text_size, "%s: %s, %s", symbol,
           name != NULL ? name : "unknown result",
           meaning != NULL ? meaning : "no text");
}

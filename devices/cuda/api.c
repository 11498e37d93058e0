// SPDX-License-Identifier: Apache-2.0

#include "api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static og_cuda_api table;
static char why_not[256];  // empty: the table can be used
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void symbols_find(void *library) {
  const struct {
    const char *symbol;
    void *place;
  } wanted[] = {
#define OG_CUDA_FN(name, symbol, parameters) {#symbol, &table.name},
#include "api.def"
#undef OG_CUDA_FN
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    void *found = dlsym(library, wanted[i].symbol);
    *(void **)wanted[i].place = found;
    if (found == NULL) {
      snprintf(why_not, sizeof why_not,
               "libcuda.so.1 has no %s, expected a driver for CUDA 12 or later",
               wanted[i].symbol);
      return;
    }
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

const og_cuda_api *og_cuda_api_open(char *text, size_t text_size) {
  pthread_once(&once, table_fill);
  if (why_not[0] == '\0') return &table;
  snprintf(text, text_size, "%s", why_not);
  return NULL;
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

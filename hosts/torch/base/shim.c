// SPDX-License-Identifier: Apache-2.0
// libtorch's stable C ABI, found in the process.

#define _GNU_SOURCE  // RTLD_NOLOAD

#include "torch/base/shim.h"

#include <dlfcn.h>
#include <string.h>

struct shim shim;
const dl_exchange *exchange;

typedef struct symbol {
  const char *name;
  void *address;  // of the field in `shim`
  bool is_required;
  bool is_published;
} symbol;

#define X(result, name, parameters) {#name, &shim.name, true, true},
#define O(result, name, parameters) {#name, &shim.name, false, true},
#define U(result, name, parameters, text) {text, &shim.name, false, false},
static const symbol symbols[] = {SHIM_REQUIRED(X) SHIM_OPTIONAL(O)
                                     SHIM_UNPUBLISHED(U)};
#undef X
#undef O
#undef U

enum { SYMBOL_COUNT = sizeof symbols / sizeof symbols[0] };

static void *library_find(void *const *libraries, int count, const char *name) {
  for (int i = 0; i < count; ++i) {
    void *found = libraries[i] != NULL ? dlsym(libraries[i], name) : NULL;
    if (found != NULL) return found;
  }
  return NULL;
}

int shim_open(void) {
  const int mode = RTLD_NOW | RTLD_NOLOAD;
  void *const libraries[] = {dlopen("libtorch_cpu.so", mode),
                             dlopen("libtorch_python.so", mode)};
  shim.c10 = dlopen("libc10.so", mode);
  shim.missing = NULL;
  for (int i = 0; i < SYMBOL_COUNT; ++i) {
    void *found = library_find(libraries, 2, symbols[i].name);
    // A function pointer has the size of a data pointer wherever dlsym exists.
    memcpy(symbols[i].address, &found, sizeof found);
    if (found == NULL && symbols[i].is_required && shim.missing == NULL)
      shim.missing = symbols[i].name;
  }
  return shim.missing == NULL ? 0 : -1;
}

int shim_symbol(int index, const char **out_name, bool *out_found,
                bool *out_published) {
  if (index < 0 || index >= SYMBOL_COUNT) return 0;
  void *found;
  memcpy(&found, symbols[index].address, sizeof found);
  *out_name = symbols[index].name;
  *out_found = found != NULL;
  *out_published = symbols[index].is_published;
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// Finds TVM-FFI's functions by name, once, and agrees on a version.
//
// Invariant: once it is opened, `library` does not change.

#include "tvm_ffi/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shared/once.h"

static og_tvm_library library;
static og_once opened = OG_ONCE_INIT;

// 0 where a function is missing.
static int functions_find(void *object) {
  int is_whole = 1;
#define FIND(field, symbol, result, parameters)             \
  do {                                                      \
    void *address = dlsym(object, #symbol);                 \
    memcpy(&library.field, &address, sizeof library.field); \
    is_whole &= address != NULL;                            \
  } while (0);
  TVM_FUNCTION_LIST(FIND)
#undef FIND
  return is_whole;
}

static void *global_find(const char *name) {
  const tvm_bytes bytes = {name, strlen(name)};
  void *function = NULL;
  return library.get_global(&bytes, &function) == 0 ? function : NULL;
}

static int version_check(void) {
  tvm_version version = {0, 0, 0};
  library.get_version(&version);
  if (version.major == TVM_MAJOR && version.minor == TVM_MINOR) return 1;
  char text[200];
  snprintf(text, sizeof text,
           "opgraft operators know the C ABI of TVM-FFI %d.%d, found %u.%u.%u; "
           "build the file with an opgraft that knows that one",
           TVM_MAJOR, TVM_MINOR, (unsigned)version.major,
           (unsigned)version.minor, (unsigned)version.patch);
  library.raise("ImportError", text);
  return 0;
}

// Runs alone.
static int library_open(void) {
  void *object = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
  // A program may hold the functions under another name.
  if (object == NULL) object = dlopen(NULL, RTLD_NOW);
  if (object == NULL) return 0;
  if (!functions_find(object)) {
    if (library.raise != NULL)
      library.raise("ImportError",
                    "opgraft operators need apache-tvm-ffi 0.1.0 or newer; a "
                    "function of its C API is missing");
    return 0;
  }
  if (!version_check()) return 0;
#define FIND(field, name) library.field = global_find(name);
  TVM_GLOBAL_LIST(FIND)
#undef FIND
  return 1;
}

const og_tvm_library *og_tvm_library_get(void) {
  return og_once_find(&opened, library_open) ? &library : NULL;
}

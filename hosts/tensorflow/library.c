// SPDX-License-Identifier: Apache-2.0
// Finds TensorFlow's functions by name, once.
//
// Invariant: once it is opened, `library` does not change.

#include "tensorflow/library.h"

#include <dlfcn.h>
#include <string.h>

#include "shared/once.h"

static og_tf_library library;
static og_once opened = OG_ONCE_INIT;

// Its functions are spread over its libraries.
static void *symbol_find(const char *name) {
  static const char *const places[] = {"libtensorflow_framework.so.2",
                                       "libtensorflow_cc.so.2",
                                       "_pywrap_tensorflow_internal.so", NULL};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    void *object = dlopen(places[i], RTLD_NOW | RTLD_NOLOAD);
    void *address = object != NULL ? dlsym(object, name) : NULL;
    if (object != NULL) dlclose(object);  // the process has its own reference
    if (address != NULL) return address;
  }
  return NULL;
}

// Runs alone.
static int library_open(void) {
#define FIND(name, result, parameters)                    \
  do {                                                    \
    void *address = symbol_find("TF_" #name);             \
    if (address == NULL) return 0;                        \
    memcpy(&library.name, &address, sizeof library.name); \
  } while (0);
  TF_FUNCTION_LIST(FIND)
#undef FIND
  return 1;
}

const og_tf_library *og_tf_library_get(void) {
  return og_once_find(&opened, library_open) ? &library : NULL;
}

static const og_dtype dtypes[TF_DTYPES] = {
#define ENTRY(number, code, bits) [number] = {code, bits, 1},
    TF_DTYPE_LIST(ENTRY)
#undef ENTRY
};

og_dtype og_tf_dtype(int number) {
  const og_dtype none = {0, 0, 0};
  return number >= 0 && number < TF_DTYPES ? dtypes[number] : none;
}

int og_tf_number(og_dtype dtype) {
  for (int i = 1; i < TF_DTYPES && dtype.bits > 0; ++i)
    if (memcmp(&dtypes[i], &dtype, sizeof dtype) == 0) return i;
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Finds libtorch's functions by name, once.
//
// Invariant: once it is opened, `library` does not change.

#include "aoti/library.h"

#include <dlfcn.h>
#include <string.h>

#include "shared/once.h"

static og_aoti_library library;
static og_once opened = OG_ONCE_INIT;

static const og_dtype dtypes[AOTI_DTYPES] = {
#define ENTRY(name, long_name, code, bits) {code, bits, 1},
    OG_DTYPE_LIST(ENTRY)
#undef ENTRY
};

static int dtypes_find(void *object) {
  static const char *const names[AOTI_DTYPES] = {
#define ENTRY(name, long_name, code, bits) "aoti_torch_dtype_" #long_name,
      OG_DTYPE_LIST(ENTRY)
#undef ENTRY
  };
  for (int i = 0; i < AOTI_DTYPES; ++i) {
    int32_t (*number)(void);
    void *address = dlsym(object, names[i]);
    if (address == NULL) return 0;
    memcpy(&number, &address, sizeof number);
    library.dtypes[i] = number();
  }
  return 1;
}

// Runs alone.
static int library_open(void) {
  int is_whole = 1;
  void *object = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (object == NULL) object = dlopen(NULL, RTLD_NOW);
  if (object == NULL) return 0;
#define FIND(name, result, parameters)                    \
  do {                                                    \
    void *address = dlsym(object, "aoti_torch_" #name);   \
    memcpy(&library.name, &address, sizeof library.name); \
    is_whole &= address != NULL;                          \
  } while (0);
  AOTI_FUNCTION_LIST(FIND)
#undef FIND
  if (!is_whole || !dtypes_find(object)) return 0;
  library.cpu = library.device_type_cpu();
  return 1;
}

const og_aoti_library *og_aoti_library_get(void) {
  return og_once_find(&opened, library_open) ? &library : NULL;
}

og_dtype og_aoti_dtype(const og_aoti_library *own, int32_t number) {
  const og_dtype none = {0, 0, 0};
  for (int i = 0; i < AOTI_DTYPES; ++i)
    if (own->dtypes[i] == number) return dtypes[i];
  return none;
}

int og_aoti_number(const og_aoti_library *own, og_dtype dtype,
                   int32_t *out_number) {
  for (int i = 0; i < AOTI_DTYPES; ++i) {
    if (memcmp(&dtypes[i], &dtype, sizeof dtype) != 0) continue;
    *out_number = own->dtypes[i];
    return 1;
  }
  return 0;
}

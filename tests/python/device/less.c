// SPDX-License-Identifier: Apache-2.0
// The driver DRIVER without the functions that LESS(table) takes away.

#include <dlfcn.h>
#include <opgraft/device.h>

typedef const og_device_driver *(*driver_fn)(uint32_t max_abi);

OG_EXPORT const og_device_driver *opgraft_device(uint32_t max_abi);
const og_device_driver *opgraft_device(uint32_t max_abi) {
  static og_device_driver table;
  void *handle = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
  driver_fn find = NULL;
  if (handle != NULL) *(void **)&find = dlsym(handle, "opgraft_device");
  if (find == NULL) return NULL;
  table = *find(max_abi);
  LESS(table);
  return &table;
}

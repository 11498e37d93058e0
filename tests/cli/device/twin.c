// SPDX-License-Identifier: Apache-2.0
// The module MODULE, whose kernels for the CPU are kernels for the simulated
// NPU as well: its device runs C functions of the process.

#include <dlfcn.h>
#include <opgraft/op.h>
#include <stdbool.h>
#include <stdlib.h>

typedef const og_module *(*module_fn)(uint32_t max_abi);

static bool has_device(const og_op *op) {
  for (uint32_t k = 0; k < op->kernel_count; ++k)
    if (op->kernels[k].device == OG_EXT_DEV) return true;
  return false;
}

static void op_double(og_op *op) {
  const uint32_t count = op->kernel_count;
  og_kernel *kernels = calloc(2 * (size_t)count + 1, sizeof *kernels);
  if (kernels == NULL) abort();
  for (uint32_t k = 0; k < count; ++k) {
    kernels[k] = op->kernels[k];
    if (kernels[k].device != OG_CPU) continue;
    kernels[op->kernel_count] = kernels[k];
    kernels[op->kernel_count++].device = OG_EXT_DEV;
  }
  op->kernels = kernels;
}

static module_fn module_find(void) {
  void *handle = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
  module_fn find = NULL;
  if (handle != NULL) *(void **)&find = dlsym(handle, "opgraft_module");
  return find;
}

OG_EXPORT const og_module *opgraft_module(uint32_t max_abi);
const og_module *opgraft_module(uint32_t max_abi) {
  static og_module module;
  const module_fn find = module_find();
  const og_module *from = find != NULL ? find(max_abi) : NULL;
  if (from == NULL || from->op_size != sizeof(og_op)) return NULL;
  og_op *ops = calloc(from->op_count, sizeof *ops);
  if (ops == NULL) abort();
  for (uint32_t i = 0; i < from->op_count; ++i) {
    ops[i] = from->ops[i];
    if (!has_device(&ops[i])) op_double(&ops[i]);
  }
  module = *from;
  module.ops = ops;
  return &module;
}

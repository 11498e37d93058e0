// SPDX-License-Identifier: Apache-2.0
// Modules: a shared object's operators, parsed, with the object's lifetime.

#ifndef OG_MODULE_MODULE_H
#define OG_MODULE_MODULE_H

#include "base/isa.h"
#include "decl/decl.h"

struct opgraft_op {
  og_decl *decl;
  struct opgraft_module *module;
  const void *derived;        // what a call's kernel finds in call->derived
  opgraft_prepared prepared;  // run NULL: plans call the kernel
  bool may_set_float_env;     // its code holds what changes MXCSR
  bool *kernel_available;     // by kernel: the machine has its instruction set
  // The tensor argument that binds each free type, by variable.
  int32_t variable_tensor[OG_VARIABLE_MAX];
};

// What loading the module's object changed of the floating-point environment,
// which was put back: "flush-to-zero", say; "" for nothing.
const char *og_module_float_env(const opgraft_module *module);

// `wait` is called before a module's memory goes: it returns when no device
// has a kernel of the module any more. Set by the layer of drivers, which lies
// above this one, when it loads the first.
void og_module_set_wait(void (*wait)(const opgraft_module *module));

#endif  // OG_MODULE_MODULE_H

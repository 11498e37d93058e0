// SPDX-License-Identifier: Apache-2.0
// Two parts are of ages that do not fit: a module or a struct knows more than
// this opgraft. Here the module's record is of a newer ABI.

#include "example.h"

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
  opgraft_module *module = NULL;
  opgraft_error error = {0};
#ifndef REPAIRED
  const uint32_t abi_version = OG_ABI_VERSION + 1;
#else
  const uint32_t abi_version = OG_ABI_VERSION;
#endif
  const og_status status = load(&op, abi_version, &module, &error);
  if (status == OG_OK) opgraft_module_release(module);
  return tell(status, &error);
}

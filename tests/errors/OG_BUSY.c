// SPDX-License-Identifier: Apache-2.0
// Something is still in use. Here a second reference to the module exists when
// it is to be unloaded.

#include "example.h"

static const og_op op = {
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[N] -> [N]",
    .kernels = OG_KERNELS(twice_f32),
};

int main(void) {
  opgraft_module *module = NULL;
  opgraft_error error = {0};
  og_status status = load(&op, OG_ABI_VERSION, &module, &error);
  if (status != OG_OK) return tell(status, &error);
  opgraft_module_retain(module);
#ifdef REPAIRED
  opgraft_module_release(module);
#endif
  status = opgraft_module_unload(module, &error);
  return tell(status, &error);
}

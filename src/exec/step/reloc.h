// SPDX-License-Identifier: Apache-2.0
// Pointers that follow the memory of values from call to call.

#ifndef OG_EXEC_STEP_RELOC_H
#define OG_EXEC_STEP_RELOC_H

#include "exec/step/exec.h"

// Gives a zeroed instance of an entry its tensors, and room for the pointers of
// its plan. Failure: OG_MEMORY.
og_status og_relocs_make(og_instance *instance, const og_plan *plan);
// Has *where follow the memory of value `id`. Failure: OG_MEMORY.
og_status og_reloc_add(og_instance *instance, const og_plan *plan,
                       opgraft_value id, void **where);
// Sets the pointers of a list, whose memory now begins at `base`.
void og_relocs_set(og_reloc_list *list, void *base);
// Sets those of output storage `index`, whose memory the host made for it now.
void og_storage_set(og_instance *instance, int32_t index, void *data);
// Sets those of all output storages; NULL: the host makes that one itself.
void og_storages_bind(og_instance *instance, void *const *storage_data);

#endif  // OG_EXEC_STEP_RELOC_H

// SPDX-License-Identifier: Apache-2.0
// Instances: the flat table of steps of a plan.

#ifndef OG_EXEC_REPLAY_INSTANCE_H
#define OG_EXEC_REPLAY_INSTANCE_H

#include "exec/step/prep.h"

og_status og_instance_create(og_plan_entry *entry, og_instance **out_instance,
                             opgraft_error *error);
void og_instance_destroy(og_instance *instance);

// Prepares a node as the instance's next step, if it has anything to do.
// `operands` has room for its operands and results, and stays.
og_status og_node_prepare(og_prep *prep, og_tensor **operands);

#endif  // OG_EXEC_REPLAY_INSTANCE_H

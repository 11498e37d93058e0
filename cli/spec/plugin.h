// SPDX-License-Identifier: Apache-2.0
// A specification in the plugin form, read but not yet made into rules.

#ifndef OPGRAFT_CLI_SPEC_PLUGIN_H
#define OPGRAFT_CLI_SPEC_PLUGIN_H

#include "spec.h"

// One operator of the form with op_name, input_desc, output_desc, attr_desc.
bool spec_plugin_read(const spec *s, const cli_node *node, spec_op *out_op);

#endif  // OPGRAFT_CLI_SPEC_PLUGIN_H

// SPDX-License-Identifier: Apache-2.0
// `opgraft gen --target ge`: operators for Ascend's graph engine (GE), which
// TorchAir's max-autotune mode compiles for.

#ifndef OPGRAFT_CLI_GEN_GE_H
#define OPGRAFT_CLI_GEN_GE_H

#include <opgraft/opgraft.h>

// Writes a REG_OP prototype of each operator to `header`, and a converter from
// its FX node to `converters`, what gives types and shapes of its results to
// `shapes` (C++). An operator that GE cannot have is left out,
// with a note that says why. Prints what is wrong; an exit code.
int cli_gen_ge(const opgraft_module *module, const char *header,
               const char *converters, const char *shapes);

#endif  // OPGRAFT_CLI_GEN_GE_H

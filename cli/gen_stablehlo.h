// SPDX-License-Identifier: Apache-2.0
// `opgraft gen --target stablehlo`: a call of an operator as StableHLO text.

#ifndef OPGRAFT_CLI_GEN_STABLEHLO_H
#define OPGRAFT_CLI_GEN_STABLEHLO_H

#include "bind.h"

// A module whose function @main has the call's tensors as arguments, and as
// results what is new, then what the operator writes. The custom call is the
// one that opgraft.jax makes (hosts/jax). Infers `call`. Prints what is wrong
// and returns false.
bool cli_gen_stablehlo(const char *module, cli_call *call, FILE *to);

#endif  // OPGRAFT_CLI_GEN_STABLEHLO_H

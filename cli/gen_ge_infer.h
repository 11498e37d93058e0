// SPDX-License-Identifier: Apache-2.0
// `opgraft gen --target ge`: the C++ that all modules share.

#ifndef OPGRAFT_CLI_GEN_GE_INFER_H
#define OPGRAFT_CLI_GEN_GE_INFER_H

// Of every such C++ file the part after the types, up to the operators; a NULL
// ends it.
extern const char *const cli_ge_infer_text[];

#endif  // OPGRAFT_CLI_GEN_GE_INFER_H

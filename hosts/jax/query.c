// SPDX-License-Identifier: Apache-2.0
// What Python asks the module: its declarations, and the results of a call
// whose sizes are numbers.

#include "shared/packed.h"

OG_OWN_EXPORTS(jax)
OG_PACKED_EXPORTS(jax)

// SPDX-License-Identifier: Apache-2.0
// Values of arguments.

#ifndef OG_CHECK_RUN_FILL_H
#define OG_CHECK_RUN_FILL_H

#include "check/run/array.h"

// Values of index arguments lie below this.
int64_t og_index_bound(const og_sample *sample);
// Draws the values that the sample's seed says; false when memory is short.
bool og_inputs_fill(og_inputs *inputs, const og_sample *sample);
// Makes each argument that may be broadcast equal along one dim, which
// out_dim[t] names, else -1. True if there is any.
bool og_inputs_expand(og_inputs *inputs, const og_sample *sample, uint64_t seed,
                      int32_t out_dim[OPGRAFT_ARG_MAX]);

#endif  // OG_CHECK_RUN_FILL_H

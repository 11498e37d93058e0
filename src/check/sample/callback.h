// SPDX-License-Identifier: Apache-2.0
// What the operator itself has to say of its samples, through og_op's `sample`.

#ifndef OG_CHECK_SAMPLE_CALLBACK_H
#define OG_CHECK_SAMPLE_CALLBACK_H

#include "check/sample/sample.h"

// Lets the operator's own `sample`, if it has one, set sizes and arguments;
// false where it refuses them.
bool og_sample_settle(og_sample *sample, opgraft_error *error);
// Lets it change the elements of tensors that have values by now.
bool og_sample_offer(const og_sample *sample,
                     og_tensor *tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST]);

#endif  // OG_CHECK_SAMPLE_CALLBACK_H

// SPDX-License-Identifier: Apache-2.0
// attention of one query a head, as decoding has it: keys and values are read
// where they lie.

#ifndef OG_EXEC_FAST_DIRECT_ATTENTION_H
#define OG_EXEC_FAST_DIRECT_ATTENTION_H

#include "exec/step/prep.h"

// Whether an attention node has one query a head and no mask.
bool og_attention_is_decode(const og_prep *prep);
// OG_UNSUPPORTED for another one, and for layouts that are not a plan's.
og_status og_prepare_direct_attention(og_prep *prep);

#endif  // OG_EXEC_FAST_DIRECT_ATTENTION_H

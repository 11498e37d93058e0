// SPDX-License-Identifier: Apache-2.0
// A call as findings show it: shapes, numbers, and the values of small
// arguments that are not floats.

#ifndef OG_CHECK_RUN_SHOWN_H
#define OG_CHECK_RUN_SHOWN_H

#include "check/run/array.h"

// "x f32[3, 5], index i64[2] = {0, 4}, dim=1"; `inputs` may be NULL.
void og_shown_write(const og_sample *sample, const og_inputs *inputs,
                    og_text *out);
// What findings show from here on, until the next call begins.
void og_tell_shown(const og_sample *sample, const og_inputs *inputs);
// The same, where all indices are far out of range: a crash says that they are
// not refused, and no more.
void og_tell_index_far(const og_sample *sample, const og_inputs *inputs);

#endif  // OG_CHECK_RUN_SHOWN_H

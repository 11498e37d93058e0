// SPDX-License-Identifier: Apache-2.0
// Static data of the module: whether calls write it.

#ifndef OG_CHECK_PROBE_STATE_H
#define OG_CHECK_PROBE_STATE_H

#include "check/run/trial.h"

// Keeps the module's static data as it is before anything ran.
void og_statics_begin(const opgraft_op *op);
// Puts static data back as it was then; false where it has not changed.
bool og_statics_rewind(void);
// Whether a call with other values changes the module's static data, and the
// first call changes it again: what is set up once does not.
bool og_writes_statics(og_trial *trial);

#endif  // OG_CHECK_PROBE_STATE_H

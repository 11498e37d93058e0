// SPDX-License-Identifier: Apache-2.0
// Threads of the file's own, for a host that lends none.

#ifndef OG_HOSTS_SHARED_TEAM_H
#define OG_HOSTS_SHARED_TEAM_H

#include "shared/call.h"

// The kernel's loops are shared out over one thread per processor, unless the
// call is too small; once the arguments are given, before og_host_infer. The
// threads start at the first loop that is long enough and end when the file is
// unmapped. Of several calls at once one has them, and the others run on the
// thread that called.
void og_host_share(og_host_call *call);

#endif  // OG_HOSTS_SHARED_TEAM_H

// SPDX-License-Identifier: Apache-2.0
// The record of the file that this is linked into.

#ifndef OG_HOSTS_SHARED_RECORD_H
#define OG_HOSTS_SHARED_RECORD_H

#include <opgraft/op.h>

const og_module *og_own_record(void);

#endif  // OG_HOSTS_SHARED_RECORD_H

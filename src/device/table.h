// SPDX-License-Identifier: Apache-2.0
// A driver's table, read by its size; what it must have is checked.

#ifndef OG_DEVICE_TABLE_H
#define OG_DEVICE_TABLE_H

#include <opgraft/device.h>
#include <stdbool.h>

#include "base/status.h"

enum { OG_DEVICES_MAX = 64 };

// Copies what this library knows of the table. OG_INVALID and OG_VERSION name
// the member that is wrong, and what was expected.
og_status og_device_table_read(const og_device_driver *given,
                               og_device_driver *out_table,
                               opgraft_error *error);
// Function number `index` that is NULL; false where there are no more.
bool og_device_table_lacks(const og_device_driver *table, int32_t index,
                           const char **out_name, const char **out_lost);
// What is lost without this function.
const char *og_device_entry_lost(const char *name);

#endif  // OG_DEVICE_TABLE_H

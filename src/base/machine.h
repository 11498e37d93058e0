// SPDX-License-Identifier: Apache-2.0
// The processor: what it is called, whose it is, how large its caches are.

#ifndef OG_BASE_MACHINE_H
#define OG_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

// "AuthenticAMD-25-1-1" (vendor, family, model, stepping), or the name of the
// architecture. Letters, digits, "-" and "_" only.
enum { OG_MACHINE_NAME = 64 };
void og_machine_name(char out[OG_MACHINE_NAME]);
bool og_machine_is_amd(void);
// Of the last level; a guess where the system does not say.
int64_t og_machine_cache_bytes(void);

#endif  // OG_BASE_MACHINE_H

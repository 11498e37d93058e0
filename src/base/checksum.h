// SPDX-License-Identifier: Apache-2.0
// A 64-bit checksum at the speed of memory.

#ifndef OG_BASE_CHECKSUM_H
#define OG_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

// Finds accidents, not forgery: a change within one aligned 8-byte word always
// changes the sum, any other is missed once in 2^64. The same on every machine.
// docs/graph-file.md says what is computed.
uint64_t og_checksum(const void *data, size_t size_bytes);

#endif  // OG_BASE_CHECKSUM_H

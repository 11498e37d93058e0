// SPDX-License-Identifier: Apache-2.0
// The monotonic clock, alone in its file so that a test may have one of its
// own.

#ifndef OG_BASE_CLOCK_H
#define OG_BASE_CLOCK_H

#include <stdint.h>

// Nanoseconds since some moment before; any thread.
int64_t og_now_ns(void);

#endif  // OG_BASE_CLOCK_H

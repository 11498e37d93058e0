// SPDX-License-Identifier: Apache-2.0
// The monotonic clock.

#ifndef OPGRAFT_CLI_CLOCK_H
#define OPGRAFT_CLI_CLOCK_H

#include <stdint.h>

// Milliseconds and nanoseconds since some moment before.
int64_t cli_now_ms(void);
int64_t cli_now_ns(void);

#endif  // OPGRAFT_CLI_CLOCK_H

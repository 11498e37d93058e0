// SPDX-License-Identifier: Apache-2.0
// The monotonic clock.

#define _POSIX_C_SOURCE 200809L
#include "clock.h"

#include <time.h>

int64_t cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t cli_now_ms(void) { return cli_now_ns() / 1000000; }

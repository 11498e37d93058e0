// SPDX-License-Identifier: Apache-2.0
// What the torch host asks of the tuner, and how the tuner speaks: under the
// interpreter lock, since nodes are prepared under it.

#define _POSIX_C_SOURCE 200809L
#include "torch/graph/tuning.h"

#include <limits.h>
#include <opgraft/tune.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 500, WIDTH = 70 };

static int64_t now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// One line that is drawn over, once tuning takes long enough to be noticed.
static void progress(const char *text) {
  static int64_t begun_ms;
  static bool is_drawn;
  if (text == NULL) {
    if (is_drawn) PySys_WriteStderr("\r\x1b[K");
    is_drawn = false;
    begun_ms = 0;
    return;
  }
  if (begun_ms == 0) begun_ms = now_ms();
  if (now_ms() - begun_ms < QUIET_MS || !isatty(STDERR_FILENO)) return;
  PySys_WriteStderr("\r\x1b[Kopgraft: tuning %.*s", WIDTH, text);
  is_drawn = true;
}

void tuning_say(void *context, const char *text, int32_t is_progress) {
  (void)context;
  if (is_progress)
    progress(text);
  else
    PySys_WriteStderr("opgraft: %s\n", text);
}

void tuning_host(const tuning *from, opgraft_host *host) {
  static char path[PATH_MAX];
  host->log = tuning_say;
  if (from->weights_stay)
    host->flags |= OPGRAFT_HOST_WEIGHTS_STAY;
  else  // training: the loss and the optimizer run on torch's threads
    host->flags &= ~(uint32_t)OPGRAFT_HOST_TEAM;
  if (from->most_ns <= 0) return;
  const size_t length = opgraft_tune_path(path, sizeof path);
  host->tune_ns = from->most_ns;
  host->tune_file = length > 0 && length < sizeof path ? path : NULL;
  host->tune_with = from->with;
}

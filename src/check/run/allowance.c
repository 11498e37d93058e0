// SPDX-License-Identifier: Apache-2.0
// How long children may work, and how long their parent waits for them.

#include "check/run/allowance.h"

#include "base/clock.h"

enum {
  WORK_MS = 20,        // of processor time in a silence: it is alive
  SILENCE_MS = 20000,  // a child that neither works nor speaks is blocked
  ASK_MS = 100,        // between looks whether to stop
  CLOCK_FACTOR = 30    // by the clock, of what is allowed of processor time
};

static int64_t now_ms(void) { return og_now_ns() / 1000000; }

og_allowance og_allow(int64_t ms) {
  return (og_allowance){ms, now_ms() + CLOCK_FACTOR * ms};
}

bool og_is_over(const og_allowance *left, int64_t used_ms) {
  return used_ms > left->work_ms || now_ms() > left->deadline_ms;
}

bool og_is_stopped(const opgraft_check_sink *sink) {
  return sink->is_stopped != NULL && sink->is_stopped(sink->user) != 0;
}

// A record that comes within the silence allowed; 0: none did, or the user
// wants no more.
static int32_t read_patiently(const opgraft_check_sink *sink, og_child *child,
                              og_record *out, int32_t *out_exit) {
  const int64_t until = now_ms() + SILENCE_MS;
  while (!og_is_stopped(sink)) {
    const int32_t got = og_child_read(child, ASK_MS, out, out_exit);
    if (got != 0 || now_ms() >= until) return got;
  }
  return 0;
}

int32_t og_child_wait(const opgraft_check_sink *sink, og_child *child,
                      og_record *out, int32_t *out_exit) {
  int64_t used = og_child_cpu_ms(child);
  for (;;) {
    const int32_t got = read_patiently(sink, child, out, out_exit);
    if (got != 0 || og_is_stopped(sink)) return got;
    const int64_t now = og_child_cpu_ms(child);
    if (now < 0 || (now - used < WORK_MS && !og_child_is_runnable(child)))
      return 0;
    used = now;
  }
}

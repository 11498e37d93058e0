// SPDX-License-Identifier: Apache-2.0
// Calls of a graph, timed step by step (opgraft.profile).

#ifndef OG_TORCH_GRAPH_PROFILE_H
#define OG_TORCH_GRAPH_PROFILE_H

#include <opgraft/executable.h>
#include <pthread.h>
#include <stdbool.h>

#include "torch/base/host.h"

typedef struct profile {
  pthread_mutex_t lock;  // calls that are timed run one at a time
  bool is_on;
  // By step, of all calls together: the node's number, and nanoseconds.
  int64_t *nodes, *ns;
  int32_t count;
  int64_t calls;  // of the plan that ran last
} profile;

void profile_init(profile *out);
void profile_reset(profile *p);
// Forgets what was timed, and times calls from here on, or no more.
void profile_set(profile *p, bool is_on);
// (calls, {node: nanoseconds}), a new reference; NULL with an error.
PyObject *profile_read(profile *p);
// opgraft_call_run, one step after another. What was timed of a plan with
// another count of steps is forgotten.
og_status profile_run(profile *p, opgraft_call *call, void *const *data,
                      opgraft_error *error);

#endif  // OG_TORCH_GRAPH_PROFILE_H

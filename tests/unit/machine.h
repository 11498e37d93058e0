// SPDX-License-Identifier: Apache-2.0
// A graph from its text, made executable.

#ifndef TESTS_UNIT_MACHINE_H
#define TESTS_UNIT_MACHINE_H

#include <opgraft/executable.h>
#include <stdbool.h>
#include <string.h>

typedef struct machine {
  opgraft_graph *graph;
  opgraft_executable *executable;
  opgraft_error error;
} machine;

static bool machine_make(machine *m, const char *text,
                         const opgraft_host *host) {
  memset(m, 0, sizeof *m);
  return opgraft_graph_parse(text, strlen(text), &m->graph, &m->error) ==
             OG_OK &&
         opgraft_graph_finish(m->graph, NULL, &m->error) == OG_OK &&
         opgraft_executable_create(m->graph, host, &m->executable, &m->error) ==
             OG_OK;
}

static void machine_free(machine *m) {
  opgraft_executable_release(m->executable);
  opgraft_graph_release(m->graph);
}

static opgraft_stats stats_of(const machine *m) {
  opgraft_stats stats = {.struct_size = sizeof stats};
  opgraft_executable_stats(m->executable, &stats, NULL);
  return stats;
}

#endif  // TESTS_UNIT_MACHINE_H

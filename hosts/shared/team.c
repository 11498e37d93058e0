// SPDX-License-Identifier: Apache-2.0
// One team for all calls of a file.

#include "shared/team.h"

#include <pthread.h>
#include <stddef.h>

static opgraft_team *team;  // NULL: without memory for one, calls are serial
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void team_make(void) {
  opgraft_error error;
  if (opgraft_team_create(0, &team, &error) != OG_OK) team = NULL;
}

void og_host_share(og_host_call *call) {
  if (!og_host_is_shared(call)) return;
  pthread_once(&once, team_make);
  if (team != NULL) opgraft_frame_set_team(&call->frame, team);
}

__attribute__((destructor)) static void team_drop(void) {
  if (og_own_is_called()) return;
  opgraft_team_destroy(team);
  team = NULL;
}

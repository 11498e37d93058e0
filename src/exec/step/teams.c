// SPDX-License-Identifier: Apache-2.0
// The process's teams: a call leases one at its first loop.
//
// Invariant: a team is in the list as long as it exists. A fork waits until
// nobody holds the mutex, so a child can take it.

#include "exec/step/teams.h"

#include <pthread.h>

#include "base/memory.h"

typedef struct leased {
  struct leased *next;
  og_team *team;
  bool is_taken;
} leased;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static leased *teams;
static int32_t users;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void watch_forks(void) { pthread_atfork(lock, unlock, unlock); }

static leased *team_make(int32_t threads) {
  leased *made = og_alloc_zeroed(1, sizeof *made);
  if (made == NULL) return NULL;
  if (og_team_create(threads, &made->team, NULL) != OG_OK) {
    og_free(made);
    return NULL;
  }
  made->next = teams;
  teams = made;
  return made;
}

og_team *og_teams_take(int32_t threads) {
  lock();
  leased *at = teams;
  while (at != NULL && (at->is_taken || og_team_threads(at->team) != threads))
    at = at->next;
  if (at == NULL) at = team_make(threads);
  if (at != NULL) at->is_taken = true;
  unlock();
  return at != NULL ? at->team : NULL;
}

void og_teams_give(og_team *team) {
  if (team == NULL) return;
  lock();
  leased *at = teams;
  while (at->team != team) at = at->next;
  at->is_taken = false;
  unlock();
}

void og_teams_users_add(int32_t change) {
  pthread_once(&once, watch_forks);
  lock();
  users += change;
  while (users == 0 && teams != NULL) {
    leased *at = teams;
    teams = at->next;
    og_team_destroy(at->team);
    og_free(at);
  }
  unlock();
}

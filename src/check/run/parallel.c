// SPDX-License-Identifier: Apache-2.0
// check's own parallel_for: shares in any order and of any size, on one thread
// or several, with a record of which chunk wrote which byte.

#define _GNU_SOURCE
#include "check/run/parallel.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARES_MAX = 24, WATCH_BYTES_MAX = 1 << 18 };

void og_share_watch(og_share_host *host, void *data, size_t bytes,
                    const char *name, bool is_per_worker) {
  if (host->region_count == OG_REGIONS_MAX || bytes == 0 ||
      bytes > WATCH_BYTES_MAX)
    return;
  og_region *region = &host->region[host->region_count++];
  *region =
      (og_region){.data = data, .bytes = bytes, .is_per_worker = is_per_worker};
  snprintf(region->name, sizeof region->name, "%s", name);
}

// --- Who wrote what ----------------------------------------------------------

typedef struct share {
  int64_t begin;
  int64_t end;
  int32_t worker;
} share;

static bool watch_begin(og_share_host *host) {
  for (int32_t i = 0; i < host->region_count; ++i) {
    og_region *r = &host->region[i];
    r->shadow = malloc(r->bytes);
    r->owner = calloc(r->bytes, 1);
    if (r->shadow == NULL || r->owner == NULL) return false;
    memcpy(r->shadow, r->data, r->bytes);
  }
  return true;
}

static void watch_end(og_share_host *host) {
  for (int32_t i = 0; i < host->region_count; ++i) {
    free(host->region[i].shadow);
    free(host->region[i].owner);
    host->region[i].shadow = NULL;
    host->region[i].owner = NULL;
  }
}

static void clash(og_share_host *host, const og_region *r, size_t at,
                  const share *a, const share *b) {
  if (host->has_clash) return;
  host->has_clash = true;
  snprintf(host->clash_name, sizeof host->clash_name, "%s", r->name);
  snprintf(host->clash_text, sizeof host->clash_text,
           "chunks [%lld, %lld) and [%lld, %lld) of one parallel_for both "
           "write byte %zu",
           (long long)a->begin, (long long)a->end, (long long)b->begin,
           (long long)b->end, at);
}

// Takes what share `s` has changed into the record.
static void watch_share(og_share_host *host, const share *shares, int32_t s) {
  for (int32_t i = 0; i < host->region_count; ++i) {
    og_region *r = &host->region[i];
    if (memcmp(r->shadow, r->data, r->bytes) == 0) continue;
    for (size_t at = 0; at < r->bytes; ++at) {
      if (r->shadow[at] == (unsigned char)r->data[at]) continue;
      r->shadow[at] = (unsigned char)r->data[at];
      const int32_t other = (int32_t)r->owner[at] - 1;
      r->owner[at] = (uint8_t)(s + 1);
      if (other < 0 || other == s) continue;
      if (r->is_per_worker && shares[other].worker == shares[s].worker)
        continue;
      clash(host, r, at, &shares[other], &shares[s]);
    }
  }
}

// --- Shares ------------------------------------------------------------------

static int32_t cut(og_share_host *host, int64_t total, int64_t grain,
                   share *out) {
  og_random *r = &host->random;
  int64_t most = total / (grain < 1 ? 1 : grain);
  if (most > SHARES_MAX) most = SHARES_MAX;
  if (most < 1) most = 1;
  const int64_t count = host->mode->shares == OG_SHARES_SHUFFLED && most > 2
                            ? og_random_between(r, most / 2, most)
                            : most;
  // Equal shares; in the shuffled kind some borders move by what is spare.
  const int64_t spare = total / count - (grain < 1 ? 1 : grain);
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t end = total / count * (i + 1) +
                  (i + 1 < total % count ? i + 1 : total % count);
    if (host->mode->shares == OG_SHARES_SHUFFLED && spare > 0 && i + 1 < count)
      end -= og_random_below(r, spare + 1) / 2;
    if (i + 1 == count) end = total;
    out[i] = (share){begin, end, 0};
    begin = end;
  }
  return (int32_t)count;
}

static void order(og_share_host *host, share *shares, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    int32_t j = i;
    if (host->mode->shares == OG_SHARES_REVERSE)
      j = i < count / 2 ? count - 1 - i : i;
    if (host->mode->shares == OG_SHARES_SHUFFLED)
      j = (int32_t)og_random_between(&host->random, i, count - 1);
    const share held = shares[i];
    shares[i] = shares[j];
    shares[j] = held;
  }
  for (int32_t i = 0; i < count; ++i)
    shares[i].worker = i % host->mode->threads;
}

static og_status run_cut(og_share_host *host, int64_t total, int64_t grain,
                         og_task_fn fn, void *state) {
  share shares[SHARES_MAX];
  const int32_t count = cut(host, total, grain, shares);
  order(host, shares, count);
  const bool watches = host->mode->tracks_writes && watch_begin(host);
  for (int32_t i = 0; i < count; ++i) {
    host->worker = shares[i].worker;
    fn(state, shares[i].begin, shares[i].end, shares[i].worker);
    if (watches) watch_share(host, shares, i);
  }
  watch_end(host);
  return OG_OK;
}

og_status og_share_parallel_for(const og_call *call, int64_t total,
                                int64_t grain, og_task_fn fn, void *state) {
  og_share_host *host = call->host;
  if (total <= 0) return OG_OK;
  if (host->mode->shares == OG_SHARES_REAL) {
    og_team_run(host->team, total, grain, fn, state);
    return OG_OK;
  }
  host->has_shared = true;
  if (host->depth == 0) {
    host->total = total;
    host->grain = grain;
  }
  if (host->depth > 0 || host->mode->shares == OG_SHARES_ONE) {
    fn(state, 0, total, host->depth > 0 ? host->worker : 0);
    return OG_OK;
  }
  ++host->depth;
  const og_status status = run_cut(host, total, grain, fn, state);
  --host->depth;
  host->worker = 0;
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Ids of an event file, sorted, each with the place of its event.

#ifndef OG_TRACE_IDS_H
#define OG_TRACE_IDS_H

#include <stdint.h>

typedef struct og_id {
  int64_t id;
  int32_t index;
} og_id;

typedef struct og_ids {
  og_id *at;  // sorted
  int32_t count;
} og_ids;

// The index of the event with this id; -1: there is none.
int32_t og_id_find(const og_ids *ids, int64_t id);

#endif  // OG_TRACE_IDS_H

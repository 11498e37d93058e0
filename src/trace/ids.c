// SPDX-License-Identifier: Apache-2.0
// Ids of an event file, found by halving.

#include "trace/ids.h"

int32_t og_id_find(const og_ids *ids, int64_t id) {
  int32_t low = 0, high = ids->count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (ids->at[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < ids->count && ids->at[low].id == id ? ids->at[low].index : -1;
}

// SPDX-License-Identifier: Apache-2.0
// Nodes of one operator with equal attributes, of any session: their calls
// differ in their tensors alone, so they share one that stays inferred.

#ifndef OG_HOSTS_ONNXRUNTIME_GROUP_H
#define OG_HOSTS_ONNXRUNTIME_GROUP_H

#include "onnxruntime/attrs.h"
#include "shared/kept.h"

typedef struct og_ort_group {
  struct og_ort_group *next;
  int64_t node_count;
  const og_own_op *op;
  uint32_t level;
  og_ort_attrs attrs;
  og_host_kept *kept;  // NULL where calls cannot be kept
} og_ort_group;

// The group of a node at an ORT_LEVEL, which owns *attrs from here on; *attrs
// is empty then. NULL when memory is short: *attrs stays the caller's.
og_ort_group *og_ort_group_join(const og_own_op *op, uint32_t level,
                                og_ort_attrs *attrs);
void og_ort_group_leave(og_ort_group *group);

#endif  // OG_HOSTS_ONNXRUNTIME_GROUP_H

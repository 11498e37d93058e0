// SPDX-License-Identifier: Apache-2.0
// What moved since a stretch of launches was captured, and how the driver hears
// of it.

#ifndef OG_EXEC_DEVICE_ONBOARD_MOVES_H
#define OG_EXEC_DEVICE_ONBOARD_MOVES_H

#include <opgraft/device.h>

#include "device/driver.h"
#include "exec/device/twin.h"

// A launch of a stretch.
typedef struct og_captured {
  const og_launch *launch;  // its tensors are the instance's
  const og_node *node;
  int32_t stretch;
  int32_t index;       // in it
  bool copies_starts;  // results start as operands: og_starts_copy
  int64_t told;        // the round in which the driver got its arguments
} og_captured;

// What lies in one base (og_base_of) and is used by one stretch.
typedef struct og_move {
  struct og_move *next;  // that the driver has to hear of
  int32_t base;
  int32_t stretch;
  const og_slot *slots;
  int32_t slot_count;
  bool is_told;
} og_move;

typedef struct og_moves {
  og_captured **captured;  // all launches, by stretch and index
  int32_t *stretch_begin;  // in `captured`
  og_move *moves;          // by base
  int32_t *begin;          // in `moves`, by base, and one more
  og_move **waiting;       // by stretch: of which the driver has to hear
  int64_t *seen;           // by base: how often it had moved then
  int64_t frees;           // of the driver's memory, then
  int32_t base_count;
  int64_t round;
} og_moves;

// `captured` has `count` launches, by stretch and index; it stays with the
// caller. All else is in the instance's memory. Failure: OG_MEMORY.
og_status og_moves_make(og_moves *moves, og_instance *instance,
                        og_captured **captured, int32_t count,
                        int32_t stretch_count);
// Notes what moved since the driver heard of it, or is another allocation's at
// the same address.
void og_moves_note(og_moves *moves, og_instance *instance,
                   const opgraft_driver *driver);
// The stretch was captured just now.
void og_moves_capture(og_moves *moves, int32_t stretch);
bool og_moves_are_none(const og_moves *moves, int32_t stretch);
// Tells the driver of what moved, for the stretch's executable. *out_index is
// the launch where that fails; OG_UNSUPPORTED: it has to be captured again.
og_status og_moves_tell(og_moves *moves, const og_instance *instance,
                        opgraft_driver *driver, int32_t stretch, void *exec,
                        int32_t *out_index, opgraft_error *error);

#endif  // OG_EXEC_DEVICE_ONBOARD_MOVES_H

// SPDX-License-Identifier: Apache-2.0
// A run's buffers in the memory of a device: each one an allocation of its own,
// between bytes that nobody may write.

#ifndef OG_CHECK_RUN_MIRROR_H
#define OG_CHECK_RUN_MIRROR_H

#include "call/call.h"
#include "check/run/guard.h"
#include "check/run/mode.h"

struct og_check_device;
typedef struct og_mirror og_mirror;

// Copies the buffer to the device, with the mode's redzone around it; the
// address is aligned as the buffer's is. `name` stands in messages. Where the
// mode says so, it takes the place that a buffer of this name and size had in
// the run before.
og_status og_mirror_add(struct og_check_device *device, const og_guard *buffer,
                        const char *name, const og_mode *mode,
                        opgraft_error *error);
// The buffer's address on the device; NULL: it has none in this run.
char *og_mirror_data(const struct og_check_device *device,
                     const og_guard *buffer);
// Puts the frame's kernel behind the copies, on the stream of kernels.
og_status og_mirrors_launch(struct og_check_device *device,
                            opgraft_frame *frame, opgraft_error *error);
// Waits for the kernel, and copies all memory back to the buffers.
// *out_is_late: the kernel is not done in time; any other error is its own or
// the driver's.
og_status og_mirrors_fetch(struct og_check_device *device, bool *out_is_late,
                           opgraft_error *error);
// Whether the bytes around the buffer are as they were when it was added.
bool og_mirror_is_intact(const struct og_check_device *device,
                         const og_guard *buffer, int64_t *out_offset);
// Ends a run and frees the memory of the one before. False where that was
// written meanwhile: *out_name is whose, *out_offset which byte; one of the
// tensor, or one around it.
bool og_mirrors_end(struct og_check_device *device, char out_name[64],
                    int64_t *out_offset, bool *out_is_inside);
// Frees the memory of a run that could not begin.
void og_mirrors_drop(struct og_check_device *device);
// Frees all of it.
void og_mirrors_reset(struct og_check_device *device);

#endif  // OG_CHECK_RUN_MIRROR_H

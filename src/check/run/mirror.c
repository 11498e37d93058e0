// SPDX-License-Identifier: Apache-2.0
// A run's buffers in the memory of a device: each one an allocation of its own,
// between bytes that nobody may write.
//
// Invariant: an image is the host's copy of the whole allocation. It stays
// until the allocation is freed, since copies read and write it later.

#include "check/run/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/run/device.h"
#include "check/run/wait.h"

enum { REDZONE_BYTES = 256, ALIGNMENT = 256, REACH_BYTES_MAX = 1 << 20 };

struct og_mirror {
  og_mirror *next;
  const og_guard *buffer;  // of a run in progress only
  void *address;
  char *image;
  size_t lead_bytes;  // before the buffer's first byte
  size_t data_bytes;
  size_t size_bytes;  // of the allocation
  uint8_t redzone;
  bool is_fetched;  // the image has the kernel's results
  char name[64];
};

static const og_mirror *mirror_find(const og_check_device *device,
                                    const og_guard *buffer) {
  const og_mirror *m = device->now;
  while (m != NULL && m->buffer != buffer) m = m->next;
  return m;
}

static void mirrors_free(og_check_device *device, og_mirror **list) {
  while (*list != NULL) {
    og_mirror *m = *list;
    *list = m->next;
    opgraft_driver_free(device->driver, 0, m->address, NULL);
    free(m->image);
    free(m);
  }
}

static size_t redzone_bytes(const og_guard *buffer, const og_mode *mode) {
  const size_t reach = (size_t)mode->reach * buffer->bytes;
  const size_t more = reach < REACH_BYTES_MAX ? reach : REACH_BYTES_MAX;
  return REDZONE_BYTES + (more + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static og_mirror *mirror_new(const og_guard *buffer, const char *name,
                             const og_mode *mode) {
  const size_t around = redzone_bytes(buffer, mode);
  og_mirror *m = calloc(1, sizeof *m);
  if (m == NULL) return NULL;
  *m = (og_mirror){.buffer = buffer,
                   .lead_bytes = around + (uintptr_t)buffer->data % ALIGNMENT,
                   .data_bytes = buffer->bytes,
                   .redzone = mode->redzone};
  m->size_bytes = m->lead_bytes + m->data_bytes + around;
  snprintf(m->name, sizeof m->name, "%s", name);
  m->image = malloc(m->size_bytes);
  if (m->image == NULL) {
    free(m);
    return NULL;
  }
  memset(m->image, m->redzone, m->size_bytes);
  if (m->data_bytes > 0)
    memcpy(m->image + m->lead_bytes, buffer->data, m->data_bytes);
  return m;
}

// Takes the allocation of the run before in which `m` has its place; NULL:
// there is none.
static void *kept_take(og_check_device *device, const og_mirror *m) {
  og_mirror **link = &device->kept;
  while (*link != NULL && (strcmp((*link)->name, m->name) != 0 ||
                           (*link)->size_bytes != m->size_bytes ||
                           (*link)->lead_bytes != m->lead_bytes))
    link = &(*link)->next;
  og_mirror *kept = *link;
  if (kept == NULL) return NULL;
  void *address = kept->address;
  *link = kept->next;
  free(kept->image);
  free(kept);
  return address;
}

og_status og_mirror_add(og_check_device *device, const og_guard *buffer,
                        const char *name, const og_mode *mode,
                        opgraft_error *error) {
  opgraft_driver *driver = device->driver;
  og_mirror *m = mirror_new(buffer, name, mode);
  if (m == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "check: not enough memory for a copy of %s", name);
  m->next = device->now;
  device->now = m;
  if (mode->is_over) m->address = kept_take(device, m);
  if (m->address == NULL)
    OG_TRY(opgraft_driver_allocate(driver, 0, m->size_bytes, name, &m->address,
                                   error));
  opgraft_driver_host_access(driver, m->image, m->size_bytes, 1);
  return opgraft_driver_copy(driver, device->copies, OPGRAFT_COPY_TO_DEVICE,
                             m->address, m->image, m->size_bytes, error);
}

char *og_mirror_data(const og_check_device *device, const og_guard *buffer) {
  const og_mirror *m = mirror_find(device, buffer);
  return m != NULL ? (char *)m->address + m->lead_bytes : NULL;
}

og_status og_mirrors_launch(og_check_device *device, opgraft_frame *frame,
                            opgraft_error *error) {
  OG_TRY(og_driver_stream_follow(device->driver, 0, device->work,
                                 device->copies, error));
  frame->call.stream = device->work;
  return og_frame_launch(frame, error);
}

static og_status image_copy(og_check_device *device, const og_mirror *m,
                            char *to, opgraft_error *error) {
  return opgraft_driver_copy(device->driver, device->copies,
                             OPGRAFT_COPY_TO_HOST, to, m->address,
                             m->size_bytes, error);
}

static og_status images_copy(og_check_device *device, opgraft_error *error) {
  OG_TRY(og_driver_stream_follow(device->driver, 0, device->copies,
                                 device->work, error));
  for (const og_mirror *m = device->now; m != NULL; m = m->next)
    OG_TRY(image_copy(device, m, m->image, error));
  return OG_OK;
}

static void buffer_fill(og_check_device *device, og_mirror *m) {
  opgraft_driver_host_access(device->driver, m->image, m->size_bytes, 0);
  m->is_fetched = true;
  if (m->data_bytes > 0)
    memcpy(m->buffer->data, m->image + m->lead_bytes, m->data_bytes);
}

// The kernel's stream says what the kernel failed with, so both are asked.
og_status og_mirrors_fetch(og_check_device *device, bool *out_is_late,
                           opgraft_error *error) {
  opgraft_driver *driver = device->driver;
  opgraft_error other = {.code = OG_OK};
  const og_status copied = images_copy(device, &other);
  const og_status done =
      og_stream_wait(driver, device->work, device->wait_ns, out_is_late, error);
  if (*out_is_late) return done;
  const og_status there =
      og_stream_wait(driver, device->copies, device->wait_ns, out_is_late,
                     done == OG_OK ? error : NULL);
  if (copied == OG_OK && there == OG_OK)
    for (og_mirror *m = device->now; m != NULL; m = m->next)
      buffer_fill(device, m);
  if (done != OG_OK || copied == OG_OK) return done != OG_OK ? done : there;
  *error = other;
  return copied;
}

// The byte behind the buffer comes first: loops run over their end.
bool og_mirror_is_intact(const og_check_device *device, const og_guard *buffer,
                         int64_t *out_offset) {
  const og_mirror *m = mirror_find(device, buffer);
  if (m == NULL || !m->is_fetched) return true;
  for (size_t i = m->lead_bytes + m->data_bytes; i < m->size_bytes; ++i)
    if ((uint8_t)m->image[i] != m->redzone) {
      *out_offset = (int64_t)(i - m->lead_bytes);
      return false;
    }
  for (size_t i = m->lead_bytes; i-- > 0;)
    if ((uint8_t)m->image[i] != m->redzone) {
      *out_offset = (int64_t)i - (int64_t)m->lead_bytes;
      return false;
    }
  return true;
}

// Whether the allocation is as its run left it.
static bool is_unchanged(og_check_device *device, const og_mirror *m,
                         int64_t *out_offset) {
  char *now = m->is_fetched ? malloc(m->size_bytes) : NULL;
  size_t at = m->size_bytes;
  if (now == NULL) return true;
  opgraft_driver_host_access(device->driver, now, m->size_bytes, 1);
  if (image_copy(device, m, now, NULL) == OG_OK &&
      opgraft_driver_stream_synchronize(device->driver, device->copies,
                                        device->wait_ns, NULL) == OG_OK) {
    opgraft_driver_host_access(device->driver, now, m->size_bytes, 0);
    for (at = 0; at < m->size_bytes && now[at] == m->image[at];) ++at;
  }
  free(now);
  *out_offset = (int64_t)at - (int64_t)m->lead_bytes;
  return at == m->size_bytes;
}

bool og_mirrors_end(og_check_device *device, char out_name[64],
                    int64_t *out_offset, bool *out_is_inside) {
  const og_mirror *m = device->kept;
  while (m != NULL && is_unchanged(device, m, out_offset)) m = m->next;
  if (m != NULL) memcpy(out_name, m->name, sizeof m->name);
  *out_is_inside =
      m != NULL && *out_offset >= 0 && *out_offset < (int64_t)m->data_bytes;
  const bool is_intact = m == NULL;
  mirrors_free(device, &device->kept);
  device->kept = device->now;
  device->now = NULL;
  return is_intact;
}

void og_mirrors_drop(og_check_device *device) {
  mirrors_free(device, &device->now);
}

void og_mirrors_reset(og_check_device *device) {
  mirrors_free(device, &device->now);
  mirrors_free(device, &device->kept);
}

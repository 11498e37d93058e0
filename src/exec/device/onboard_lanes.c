// SPDX-License-Identifier: Apache-2.0
// Streams of a device for the lanes of an instance, ordered by events.
//
// Invariant: outside of a section the call's stream is behind all lanes, so
// whoever waits for it has waited for them.

#include "exec/device/onboard_lanes.h"

static og_status sections_find(og_onboard_lanes *lanes, og_instance *instance,
                               bool (*is_launch)(const og_instance *instance,
                                                 int32_t step),
                               opgraft_error *error) {
  const int32_t count = instance->entry->plan->lanes.section_count;
  lanes->sections = og_arena_array(&instance->memory, (size_t)count + 1,
                                   sizeof *lanes->sections);
  if (lanes->sections == NULL) return og_graph_no_memory(error);
  for (int32_t k = 0; k < count; ++k) {
    const og_section *section = &instance->sections[k];
    bool is_right = true;
    for (int32_t i = section->first; i < og_section_end(section); ++i)
      is_right &= is_launch(instance, i);
    if (!is_right || section->first == og_section_end(section)) continue;
    lanes->sections[lanes->section_count++] = *section;
    if (section->lane_count > lanes->lane_count)
      lanes->lane_count = section->lane_count;
  }
  return OG_OK;
}

og_status og_onboard_lanes_make(og_onboard_lanes *lanes, og_instance *instance,
                                opgraft_driver *driver, int32_t device,
                                bool (*is_launch)(const og_instance *instance,
                                                  int32_t step),
                                opgraft_error *error) {
  lanes->driver = driver;
  OG_TRY(sections_find(lanes, instance, is_launch, error));
  for (int32_t l = 0; l < lanes->lane_count; ++l) {
    if (l > 0)
      OG_TRY(opgraft_driver_stream_create(driver, device, &lanes->streams[l],
                                          error));
    OG_TRY(
        opgraft_driver_event_create(driver, device, &lanes->events[l], error));
  }
  return OG_OK;
}

void og_onboard_lanes_release(og_onboard_lanes *lanes) {
  for (int32_t l = 0; l < lanes->lane_count; ++l) {
    if (lanes->events[l] != NULL)
      opgraft_driver_event_destroy(lanes->driver, lanes->events[l], NULL);
    if (lanes->streams[l] != NULL)
      opgraft_driver_stream_destroy(lanes->driver, lanes->streams[l], NULL);
  }
}

og_status og_onboard_lanes_fork(const og_onboard_lanes *lanes,
                                const og_section *section, void *stream,
                                opgraft_error *error) {
  OG_TRY(opgraft_driver_event_record(lanes->driver, lanes->events[0], stream,
                                     error));
  for (int32_t l = 1; l < section->lane_count; ++l)
    OG_TRY(opgraft_driver_event_wait(lanes->driver, lanes->events[0],
                                     lanes->streams[l], error));
  return OG_OK;
}

og_status og_onboard_lanes_join(const og_onboard_lanes *lanes,
                                const og_section *section, void *stream,
                                opgraft_error *error) {
  for (int32_t l = 1; l < section->lane_count; ++l) {
    OG_TRY(opgraft_driver_event_record(lanes->driver, lanes->events[l],
                                       lanes->streams[l], error));
    OG_TRY(opgraft_driver_event_wait(lanes->driver, lanes->events[l], stream,
                                     error));
  }
  return OG_OK;
}

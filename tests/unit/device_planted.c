// SPDX-License-Identifier: Apache-2.0
// Planted faults for the race detector (device_planted.h): events, ranges, the
// host.

#include "device_planted.h"

// --- Events ------------------------------------------------------------------

PAIR(no_event) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  if (right) order(s, 1, 2);
  axpy(s, 2, x, y);
}

PAIR(record_too_early) {
  void *x = floats(s, "x"), *e = event(s);
  if (!right) record(s, e, 1);
  set(s, 1, x, 1, ALL);
  if (right) record(s, e, 1);
  await(s, e, 2);
  down(s, 2, outbox, x, ALL);
}

PAIR(wait_on_wrong_stream) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *e = event(s);
  axpy(s, 1, x, y);
  record(s, e, 1);
  await(s, e, right ? 2 : 3);
  across(s, 2, z, y, ALL);
}

PAIR(wait_before_record) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *e = event(s);
  if (!right) await(s, e, 2);
  axpy(s, 1, x, y);
  record(s, e, 1);
  if (right) await(s, e, 2);
  axpy(s, 2, y, z);
}

PAIR(wait_after_use) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *e = event(s);
  across(s, 1, y, x, ALL);
  record(s, e, 1);
  if (right) await(s, e, 2);
  set(s, 2, y, 1, ALL);
  if (!right) await(s, e, 2);
  down(s, 2, outbox, y, ALL);
}

PAIR(record_on_reading_stream) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *e = event(s);
  set(s, 2, y, 0, ALL);
  up(s, 1, x, inbox, ALL);
  record(s, e, right ? 1 : 2);
  await(s, e, 2);
  axpy(s, 2, x, y);
}

PAIR(event_moved_before_wait) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *e = event(s);
  set(s, 1, x, 0, ALL);
  record(s, e, 1);
  if (right) await(s, e, 2);
  set(s, 3, y, 0, ALL);
  record(s, e, 3);
  if (!right) await(s, e, 2);
  axpy(s, 2, x, z);
}

// A wait is for the record that was the latest when the wait was given.
PAIR(second_record_not_awaited) {
  void *x = floats(s, "x"), *w = floats(s, "w"), *y = floats(s, "y");
  void *e = event(s);
  set(s, 1, x, 0, ALL);
  record(s, e, 1);
  await(s, e, 2);
  axpy(s, 2, x, y);
  set(s, 1, w, 0, ALL);
  record(s, e, 1);
  if (right) await(s, e, 2);
  axpy(s, 2, w, y);
}

PAIR(reader_not_awaited) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  order(s, 1, 2);
  axpy(s, 2, x, y);
  if (right) order(s, 2, 1);
  up(s, 1, x, inbox + ALL, ALL);
}

PAIR(chain_broken_in_middle) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *a = event(s), *b = event(s);
  set(s, 1, x, 1, ALL);
  record(s, a, 1);
  if (right) await(s, a, 2);
  set(s, 2, y, 1, ALL);
  record(s, b, 2);
  if (!right) await(s, a, 2);
  await(s, b, 3);
  down(s, 3, outbox, x, ALL);
}

PAIR(waits_for_grandparent) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *a = event(s), *b = event(s);
  set(s, 1, x, 0, ALL);
  record(s, a, 1);
  await(s, a, 2);
  axpy(s, 2, x, y);
  record(s, b, 2);
  await(s, right ? b : a, 3);
  down(s, 3, outbox, y, ALL);
}

PAIR(joins_one_of_two) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *z = floats(s, "z"), *sum = floats(s, "sum");
  axpy(s, 1, x, y);
  axpy(s, 2, x, z);
  order(s, 1, 3);
  if (right) order(s, 2, 3);
  axpy(s, 3, y, sum);
  axpy(s, 3, z, sum);
}

PAIR(owner_waits_for_one_reader) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  set(s, 1, x, 0, ALL);
  order(s, 1, 2);
  order(s, 1, 3);
  down(s, 2, outbox, x, ALL);
  axpy(s, 3, x, y);
  order(s, 2, 1);
  if (right) order(s, 3, 1);
  set(s, 1, x, 1, ALL);
}

// Two buffers, each with its reader's stream.
PAIR(double_buffer_parity) {
  void *buffer[2] = {floats(s, "even"), floats(s, "odd")};
  void *sum[2] = {floats(s, "even sum"), floats(s, "odd sum")};
  void *full[2] = {event(s), event(s)}, *empty[2] = {event(s), event(s)};
  for (int i = 0; i < 4; ++i) {
    const int now = i % 2;
    if (i >= 2) await(s, empty[right ? now : 1 - now], 1);
    up(s, 1, buffer[now], inbox, ALL);
    record(s, full[now], 1);
    await(s, full[now], 2 + now);
    axpy(s, 2 + now, buffer[now], sum[now]);
    record(s, empty[now], 2 + now);
  }
}

// Destroying an event leaves the waits; a new event has none.
PAIR(new_event_for_old) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *e = event(s);
  set(s, 1, x, 0, ALL);
  record(s, e, 1);
  if (right) await(s, e, 2);
  drop_event(s, e);
  if (!right) await(s, event(s), 2);
  axpy(s, 2, x, y);
}

PAIR(default_stream_is_no_barrier) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  set(s, 0, x, 0, ALL);
  if (right) order(s, 0, 1);
  axpy(s, 1, x, y);
}

PAIR(host_function_is_no_barrier) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  host_function(s, 1);
  host_function(s, 2);
  if (right) order(s, 1, 2);
  axpy(s, 2, x, y);
}

// --- Writers and ranges ------------------------------------------------------

PAIR(set_against_copy) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  set(s, 1, x, 1, ALL);
  if (right) stream_sync(s, 1);
  across(s, 2, y, x, ALL);
}

PAIR(two_sets) {
  void *x = floats(s, "x"), *e = event(s);
  set(s, 3, x, 1, ALL);
  record(s, e, 3);
  if (right) event_sync(s, e);
  set(s, 2, x, 2, ALL);
}

PAIR(two_copies_into_one) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  across(s, right ? 1 : 2, x, y, ALL);
}

PAIR(two_sums_into_one) {
  void *a = floats(s, "a"), *b = floats(s, "b"), *y = floats(s, "y");
  axpy(s, 1, a, y);
  if (right) order(s, 1, 3);
  axpy(s, 3, b, y);
}

PAIR(halves_overlap) {
  unsigned char *x = floats(s, "x");
  set(s, 1, x, 1, right ? HALF : HALF + 32);
  up(s, 2, x + HALF, inbox, HALF);
}

PAIR(one_byte_of_launch) {
  unsigned char *x = floats(s, "x");
  void *y = floats(s, "y");
  axpy_part(s, 2, x, y, SIM_FLOATS / 2);
  set(s, 1, x + (right ? HALF : HALF - 1), 7, 16);
}

// Two blocks of a pool are released and passed on as one.
PAIR(merged_block) {
  unsigned char *pool = zeros(s, "pool", 2 * ALL);
  void *y = floats(s, "y"), *z = floats(s, "z");
  axpy(s, 1, pool, y);
  axpy(s, 3, pool + ALL, z);
  order(s, 1, 2);
  if (right) order(s, 3, 2);
  set(s, 2, pool + HALF, 1, ALL);
}

// All rows of a matrix but the one that a launch still writes.
PAIR(row_of_matrix) {
  unsigned char *rows = zeros(s, "rows", 4 * ALL);
  unsigned char *copy = zeros(s, "copy", 4 * ALL);
  void *x = floats(s, "x");
  axpy(s, 1, x, rows + 2 * ALL);
  across(s, 2, copy, rows, right ? 2 * ALL : 3 * ALL);
  across(s, 2, copy + 3 * ALL, rows + 3 * ALL, ALL);
}

// --- The host ----------------------------------------------------------------

PAIR(host_reads_too_early) {
  void *x = floats(s, "x");
  down(s, 1, outbox, x, ALL);
  if (right) stream_sync(s, 1);
  host_reads(s, outbox, ALL);
}

PAIR(host_waits_for_other_stream) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  down(s, 1, outbox, x, ALL);
  set(s, 2, y, 0, ALL);
  stream_sync(s, right ? 1 : 2);
  host_reads(s, outbox, ALL);
}

PAIR(host_refills_source) {
  void *x = floats(s, "x"), *e = event(s);
  host_writes(s, inbox, ALL);
  up(s, 2, x, inbox, ALL);
  record(s, e, 2);
  if (right) event_sync(s, e);
  host_writes(s, inbox, ALL);
}

PAIR(host_clears_target) {
  void *x = floats(s, "x");
  if (right) host_writes(s, outbox, ALL);
  down(s, 1, outbox, x, ALL);
  if (!right) host_writes(s, outbox, ALL);
}

// The host may read what a copy reads, but not what one writes.
PAIR(host_reads_under_copies) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  down(s, 2, outbox, y, ALL);
  if (right) stream_sync(s, 2);
  host_reads(s, inbox, ALL);
  host_reads(s, outbox, 4);
}

PAIR(host_waits_for_early_record) {
  void *x = floats(s, "x"), *e = event(s);
  set(s, 1, x, 1, ALL);
  record(s, e, 1);
  down(s, 1, outbox, x, ALL);
  if (right) record(s, e, 1);
  event_sync(s, e);
  host_reads(s, outbox, ALL);
}

PAIR(host_waits_for_moved_event) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *e = event(s);
  down(s, 1, outbox, x, ALL);
  record(s, e, 1);
  if (right) event_sync(s, e);
  set(s, 2, y, 0, ALL);
  record(s, e, 2);
  if (!right) event_sync(s, e);
  host_reads(s, outbox, ALL);
}

PAIR(host_reads_one_float_too_many) {
  void *x = floats(s, "x");
  down(s, 1, outbox + HALF, x, HALF);
  host_reads(s, outbox, right ? HALF : HALF + 4);
}

PAIR(two_copies_to_one_page) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  down(s, 1, outbox, x, ALL);
  if (right) order(s, 1, 2);
  down(s, 2, outbox + HALF, y, HALF);
}

// Down on one stream, up again on another.
PAIR(bounce_through_host) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  down(s, 1, outbox, x, ALL);
  if (right) order(s, 1, 2);
  up(s, 2, y, outbox, ALL);
}

PAIR(busy_taken_for_done) {
  void *x = floats(s, "x");
  og_status status = OG_OK;
  for (int i = 0; i < 64 && status == OG_OK; ++i) {
    for (int j = 0; j < 32; ++j) down(s, 1, outbox, x, ALL);
    status = opgraft_driver_stream_synchronize(s->driver, s->stream[1], 0,
                                               &s->error);
  }
  while (right && status == OG_BUSY)
    status = opgraft_driver_stream_synchronize(s->driver, s->stream[1], 100000,
                                               &s->error);
  if (status != OG_BUSY) note(s, status);
  host_reads(s, outbox, ALL);
}

PAIR(copy_after_last_wait) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  down(s, 1, outbox, x, ALL);
  stream_sync(s, 1);
  host_reads(s, outbox, ALL);
  down(s, 1, outbox, y, ALL);
  if (right) stream_sync(s, 1);
  host_reads(s, outbox, ALL);
}

// The stream that the host waits for waited for the copy, or just missed it.
PAIR(host_waits_for_follower) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  if (!right) order(s, 1, 2);
  down(s, 1, outbox, x, ALL);
  if (right) order(s, 1, 2);
  set(s, 2, y, 0, ALL);
  stream_sync(s, 2);
  host_reads(s, outbox, ALL);
}

// --- The table ---------------------------------------------------------------

#define ROW(name) \
  { #name, name##_wrong, name##_right }

static const planted_row rows[] = {
    ROW(no_event),
    ROW(record_too_early),
    ROW(wait_on_wrong_stream),
    ROW(wait_before_record),
    ROW(wait_after_use),
    ROW(record_on_reading_stream),
    ROW(event_moved_before_wait),
    ROW(second_record_not_awaited),
    ROW(reader_not_awaited),
    ROW(chain_broken_in_middle),
    ROW(waits_for_grandparent),
    ROW(joins_one_of_two),
    ROW(owner_waits_for_one_reader),
    ROW(double_buffer_parity),
    ROW(new_event_for_old),
    ROW(default_stream_is_no_barrier),
    ROW(host_function_is_no_barrier),
    ROW(set_against_copy),
    ROW(two_sets),
    ROW(two_copies_into_one),
    ROW(two_sums_into_one),
    ROW(halves_overlap),
    ROW(one_byte_of_launch),
    ROW(merged_block),
    ROW(row_of_matrix),
    ROW(host_reads_too_early),
    ROW(host_waits_for_other_stream),
    ROW(host_refills_source),
    ROW(host_clears_target),
    ROW(host_reads_under_copies),
    ROW(host_waits_for_early_record),
    ROW(host_waits_for_moved_event),
    ROW(host_reads_one_float_too_many),
    ROW(two_copies_to_one_page),
    ROW(bounce_through_host),
    ROW(busy_taken_for_done),
    ROW(copy_after_last_wait),
    ROW(host_waits_for_follower),
};

PLANTED_TESTS(rows)

TEST_MAIN("device_planted", CASE_NO_FAULTS(each_fault_is_found),
          CASE_NO_FAULTS(no_repaired_program_is_reported))

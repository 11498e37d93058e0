// SPDX-License-Identifier: Apache-2.0
// Planted faults for the race detector (device_planted.h): memory that ends,
// captures and replays.
//
// Left out, for device.h leaves open whether they are errors: reads of memory
// that nobody wrote; events that were recorded in a capture and are waited for
// outside of it, or the other way round; a joined stream that does not join
// back before the capture's end; exec_update, event_destroy of a recorded
// event or a new capture while launches are under way; copies and launches
// whose source and target overlap; views whose strides interleave; an event
// that is synchronised with before its first record; a host that learns from
// a host function's flag, not from a wait, that work is done; host functions
// in captures; host memory that is touched inside of a host function, which
// no driver sees; destroyed handles that are used again.

#include "device_planted.h"

// --- Memory's end ------------------------------------------------------------

PAIR(free_under_upload) {
  void *x = floats(s, "x");
  up(s, 1, x, inbox, ALL);
  if (right) stream_sync(s, 1);
  give(s, x);
}

PAIR(free_under_download) {
  void *x = floats(s, "x"), *e = event(s);
  down(s, 2, outbox, x, ALL);
  record(s, e, 2);
  if (right) event_sync(s, e);
  give(s, x);
}

PAIR(free_source_of_copy) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  across(s, 1, y, x, ALL);
  if (right) order(s, 1, 2);
  set(s, 2, z, 0, ALL);
  stream_sync(s, 2);
  give(s, x);
}

PAIR(free_target_of_copy) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  across(s, 3, y, x, ALL);
  if (right)
    stream_sync(s, 3);
  else
    stream_sync(s, 0);
  give(s, y);
}

PAIR(free_under_set) {
  void *x = floats(s, "x");
  set(s, 3, x, 0, ALL);
  if (right) {
    note(s, opgraft_driver_stream_destroy(s->driver, s->stream[3], &s->error));
    s->stream[3] = NULL;
  }
  give(s, x);
}

PAIR(free_input_of_launch) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  set(s, 1, x, 0, ALL);
  order(s, 1, 2);
  axpy(s, 2, x, y);
  stream_sync(s, right ? 2 : 1);
  give(s, x);
}

PAIR(free_output_after_early_record) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *e = event(s);
  set(s, 2, y, 0, ALL);
  record(s, e, 2);
  axpy(s, 2, x, y);
  if (right) record(s, e, 2);
  event_sync(s, e);
  give(s, y);
}

PAIR(free_under_second_reader) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  axpy(s, 1, x, y);
  axpy(s, 2, x, z);
  stream_sync(s, 1);
  if (right) stream_sync(s, 2);
  give(s, x);
}

PAIR(free_pool_under_its_end) {
  unsigned char *pool = zeros(s, "pool", 2 * ALL);
  set(s, 1, pool + 2 * ALL - 4, 1, 4);
  if (right) stream_sync(s, 1);
  give(s, pool);
}

PAIR(free_after_host_function) {
  void *x = floats(s, "x");
  down(s, 1, outbox, x, ALL);
  host_function(s, 1);
  if (right) stream_sync(s, 1);
  give(s, x);
}

PAIR(launch_after_free) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  if (!right) give(s, x);
  axpy(s, 1, x, y);
  stream_sync(s, 1);
  if (right) give(s, x);
}

PAIR(copy_into_freed_part) {
  unsigned char *pool = zeros(s, "pool", 4 * ALL);
  if (!right) give(s, pool);
  up(s, 2, pool + ALL, inbox, HALF);
  stream_sync(s, 2);
  if (right) give(s, pool);
}

PAIR(free_twice) {
  void *x = floats(s, "x");
  set(s, 1, x, 0, ALL);
  stream_sync(s, 1);
  give(s, x);
  if (!right) give(s, x);
}

PAIR(free_of_inner_address) {
  unsigned char *x = floats(s, "x");
  give(s, right ? x : x + HALF);
}

// The block's next owner works on another stream.
PAIR(next_owner_too_soon) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  axpy(s, 1, x, y);
  if (right) stream_sync(s, 1);
  give(s, x);
  set(s, 2, room(s, "next", ALL), 1, ALL);
}

PAIR(copy_past_end) {
  unsigned char *x = floats(s, "x");
  down(s, 1, outbox, x + HALF, right ? HALF : HALF + 4);
}

PAIR(launch_past_end) {
  void *x = zeros(s, "x", 2 * ALL), *y = floats(s, "y");
  axpy_part(s, 1, x, y, right ? SIM_FLOATS : SIM_FLOATS + 1);
}

// The argument of a launch that is kept and given again.
PAIR(stale_argument) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *w = floats(s, "w");
  axpy_call c;
  const og_launch *launch = sim_axpy_launch(&c, x, y, 2);
  note(s, opgraft_driver_launch(s->driver, s->stream[1], launch, &s->error));
  stream_sync(s, 1);
  give(s, x);
  if (right) c.x.data = w;
  note(s, opgraft_driver_launch(s->driver, s->stream[1], launch, &s->error));
}

// --- Captures and replays ----------------------------------------------------

PAIR(executables_share_scratch) {
  void *x = floats(s, "x"), *scratch = floats(s, "scratch");
  void *y = floats(s, "y"), *z = floats(s, "z");
  begin(s, 1);
  set(s, 1, scratch, 0, ALL);
  axpy(s, 1, x, scratch);
  axpy(s, 1, scratch, y);
  void *a = end(s, 1);
  begin(s, 2);
  across(s, 2, scratch, x, ALL);
  axpy(s, 2, scratch, z);
  void *b = end(s, 2);
  replay(s, a, 1);
  if (right) order(s, 1, 2);
  replay(s, b, 2);
}

// Launches of one executable run one after the other, those of two do not.
PAIR(two_executables_of_one_graph) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  begin(s, 1);
  axpy(s, 1, x, y);
  void *graph = end_graph(s, 1);
  void *a = instantiate(s, graph), *b = instantiate(s, graph);
  drop_graph(s, graph);
  replay(s, a, 1);
  replay(s, right ? a : b, 2);
}

PAIR(replay_against_set) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *made = axpy_executable(s, 1, x, y);
  set(s, 2, y, 0, ALL);
  if (right) order(s, 2, 1);
  replay(s, made, 1);
}

PAIR(replay_of_freed) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *w = floats(s, "w");
  void *made = axpy_executable(s, 1, x, y);
  if (right) update(s, made, 0, w, y);
  give(s, x);
  replay(s, made, 1);
}

PAIR(replay_of_freed_and_allocated_again) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *made = axpy_executable(s, 1, x, y);
  replay(s, made, 1);
  stream_sync(s, 1);
  give(s, x);
  x = floats(s, "another");
  if (right) {
    drop_executable(s, made);
    made = axpy_executable(s, 1, x, y);
  }
  replay(s, made, 1);
}

PAIR(replay_copies_into_freed) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  begin(s, 2);
  axpy(s, 2, y, x);
  down(s, 2, outbox, x, ALL);
  void *made = end(s, 2);
  replay(s, made, 2);
  stream_sync(s, 2);
  if (!right) give(s, x);
  replay(s, made, 3);
  stream_sync(s, 3);
  if (right) give(s, x);
}

PAIR(update_to_written_address) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *w = floats(s, "w");
  void *made = axpy_executable(s, 1, x, y);
  up(s, 2, w, inbox, ALL);
  update(s, made, 0, w, y);
  if (right) order(s, 2, 1);
  replay(s, made, 1);
}

// Copies do not count in an update's index.
PAIR(update_of_wrong_launch) {
  void *x = floats(s, "x"), *w = floats(s, "w"), *y = floats(s, "y");
  void *z = floats(s, "z"), *y2 = floats(s, "y2");
  begin(s, 1);
  across(s, 1, x, w, ALL);
  axpy(s, 1, x, y);
  axpy(s, 1, x, z);
  void *made = end(s, 1);
  update(s, made, right ? 0 : 1, x, y2);
  give(s, y);
  replay(s, made, 1);
}

PAIR(update_to_freed) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *w = floats(s, "w");
  void *made = axpy_executable(s, 1, x, y);
  update(s, made, 0, x, w);
  replay(s, made, 1);
  stream_sync(s, 1);
  if (right) update(s, made, 0, x, y);
  give(s, w);
  replay(s, made, 1);
}

// Another stream still reads the new output.
PAIR(update_moves_output_under_reader) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *w = floats(s, "w");
  void *z = floats(s, "z");
  void *made = axpy_executable(s, 1, x, y);
  axpy(s, 3, w, z);
  update(s, made, 0, x, w);
  if (right) order(s, 3, 1);
  replay(s, made, 1);
}

PAIR(branches_write_one_output) {
  void *x = floats(s, "x"), *w = floats(s, "w"), *y = floats(s, "y");
  void *fork_event = event(s), *join_event = event(s);
  begin(s, 1);
  set(s, 1, x, 0, ALL);
  record(s, fork_event, 1);
  await(s, fork_event, 2);
  axpy(s, 2, x, y);
  record(s, join_event, 2);
  if (right) await(s, join_event, 1);
  axpy(s, 1, w, y);
  if (!right) await(s, join_event, 1);
  replay(s, end(s, 1), 1);
}

PAIR(branch_forked_too_early) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *fork_event = event(s), *join_event = event(s);
  begin(s, 1);
  set(s, 1, x, 0, ALL);
  if (!right) record(s, fork_event, 1);
  axpy(s, 1, x, y);
  if (right) record(s, fork_event, 1);
  await(s, fork_event, 2);
  axpy(s, 2, y, z);
  record(s, join_event, 2);
  await(s, join_event, 1);
  replay(s, end(s, 1), 1);
}

PAIR(three_branches_broken_in_middle) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *fork_event = event(s), *middle = event(s);
  void *second = event(s), *third = event(s);
  begin(s, 1);
  set(s, 1, x, 0, ALL);
  record(s, fork_event, 1);
  await(s, fork_event, 2);
  await(s, fork_event, 3);
  axpy(s, 2, x, y);
  record(s, middle, 2);
  if (right) await(s, middle, 3);
  across(s, 3, z, y, ALL);
  record(s, second, 2);
  record(s, third, 3);
  await(s, second, 1);
  await(s, third, 1);
  down(s, 1, outbox, z, ALL);
  replay(s, end(s, 1), 1);
}

// Streams 1 and 2 joined in a capture; y by the first, z by the second.
static void *forked_executable(sim *s, void *x, void *y, void *z) {
  void *fork_event = event(s), *join_event = event(s);
  begin(s, 1);
  set(s, 1, x, 0, ALL);
  record(s, fork_event, 1);
  await(s, fork_event, 2);
  axpy(s, 2, x, z);
  axpy(s, 1, x, y);
  record(s, join_event, 2);
  await(s, join_event, 1);
  return end(s, 1);
}

// A replay occupies the stream it is given to, none that was captured.
PAIR(joined_stream_is_free_later) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *made = forked_executable(s, x, y, z);
  replay(s, made, 1);
  if (right) order(s, 1, 2);
  down(s, 2, outbox, z, ALL);
}

PAIR(free_after_joined_stream) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *made = forked_executable(s, x, y, z);
  replay(s, made, 1);
  stream_sync(s, right ? 1 : 2);
  give(s, z);
}

PAIR(captured_here_replayed_there) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *made = axpy_executable(s, 1, x, y);
  replay(s, made, 3);
  if (right) order(s, 3, 1);
  down(s, 1, outbox, y, ALL);
}

// The order with what its stream did before the capture is not captured.
PAIR(work_before_capture) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  up(s, 1, x, inbox, ALL);
  void *made = axpy_executable(s, 1, x, y);
  replay(s, made, right ? 1 : 2);
}

PAIR(host_refills_under_replay) {
  void *x = floats(s, "x");
  begin(s, 1);
  up(s, 1, x, inbox, ALL);
  void *made = end(s, 1);
  host_writes(s, inbox, ALL);
  replay(s, made, 1);
  if (right) stream_sync(s, 1);
  host_writes(s, inbox, ALL);
  replay(s, made, 1);
}

PAIR(host_waits_for_captured_stream) {
  void *x = floats(s, "x");
  begin(s, 1);
  down(s, 1, outbox, x, ALL);
  void *made = end(s, 1);
  replay(s, made, 2);
  stream_sync(s, right ? 2 : 1);
  host_reads(s, outbox, ALL);
}

PAIR(record_before_replay) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *made = axpy_executable(s, 1, x, y), *e = event(s);
  if (!right) record(s, e, 1);
  replay(s, made, 1);
  if (right) record(s, e, 1);
  await(s, e, 2);
  axpy(s, 2, y, z);
}

PAIR(second_replay_under_reader) {
  void *x = floats(s, "x"), *y = floats(s, "y"), *z = floats(s, "z");
  void *made = axpy_executable(s, 1, x, y);
  replay(s, made, 1);
  order(s, 1, 2);
  axpy(s, 2, y, z);
  if (right) order(s, 2, 1);
  replay(s, made, 1);
}

PAIR(reader_of_first_replay_under_second) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  void *made = axpy_executable(s, 1, x, y);
  replay(s, made, 1);
  replay(s, made, 2);
  if (right) order(s, 2, 1);
  down(s, 1, outbox, y, ALL);
}

PAIR(replay_of_part) {
  unsigned char *pool = zeros(s, "pool", 2 * ALL);
  void *x = floats(s, "x");
  void *made = axpy_executable(s, 1, x, pool + HALF);
  replay(s, made, 1);
  down(s, 2, outbox, pool, right ? HALF : HALF + 1);
  down(s, 2, outbox + 3 * HALF, pool + 3 * HALF, HALF);
}

PAIR(host_waits_while_capturing) {
  void *x = floats(s, "x");
  begin(s, 1);
  down(s, 1, outbox, x, ALL);
  if (!right) stream_sync(s, 1);
  void *made = end(s, 1);
  replay(s, made, 1);
  stream_sync(s, 1);
  host_reads(s, outbox, ALL);
}

// Destroying a graph waits for nothing, destroying an executable does.
PAIR(free_under_replay) {
  void *x = floats(s, "x"), *y = floats(s, "y");
  begin(s, 1);
  axpy(s, 1, x, y);
  void *graph = end_graph(s, 1);
  void *made = instantiate(s, graph);
  replay(s, made, 1);
  drop_graph(s, graph);
  if (right) drop_executable(s, made);
  give(s, y);
}

// --- The table ---------------------------------------------------------------

#define ROW(name) \
  { #name, name##_wrong, name##_right }

static const planted_row rows[] = {
    ROW(free_under_upload),
    ROW(free_under_download),
    ROW(free_source_of_copy),
    ROW(free_target_of_copy),
    ROW(free_under_set),
    ROW(free_input_of_launch),
    ROW(free_output_after_early_record),
    ROW(free_under_second_reader),
    ROW(free_pool_under_its_end),
    ROW(free_after_host_function),
    ROW(launch_after_free),
    ROW(copy_into_freed_part),
    ROW(free_twice),
    ROW(free_of_inner_address),
    ROW(next_owner_too_soon),
    ROW(copy_past_end),
    ROW(launch_past_end),
    ROW(stale_argument),
    ROW(executables_share_scratch),
    ROW(two_executables_of_one_graph),
    ROW(replay_against_set),
    ROW(replay_of_freed),
    ROW(replay_of_freed_and_allocated_again),
    ROW(replay_copies_into_freed),
    ROW(update_to_written_address),
    ROW(update_of_wrong_launch),
    ROW(update_to_freed),
    ROW(update_moves_output_under_reader),
    ROW(branches_write_one_output),
    ROW(branch_forked_too_early),
    ROW(three_branches_broken_in_middle),
    ROW(joined_stream_is_free_later),
    ROW(free_after_joined_stream),
    ROW(captured_here_replayed_there),
    ROW(work_before_capture),
    ROW(host_refills_under_replay),
    ROW(host_waits_for_captured_stream),
    ROW(record_before_replay),
    ROW(second_replay_under_reader),
    ROW(reader_of_first_replay_under_second),
    ROW(replay_of_part),
    ROW(host_waits_while_capturing),
    ROW(free_under_replay),
};

PLANTED_TESTS(rows)

TEST_MAIN("device_planted_ends", CASE_NO_FAULTS(each_fault_is_found),
          CASE_NO_FAULTS(no_repaired_program_is_reported))

// SPDX-License-Identifier: Apache-2.0
// Programs for the simulated NPU with faults that were planted for its race
// detector. Each is a pair: as a careless author writes it, which must be
// found, and repaired, which must give no report and no error. Whoever wrote
// them had read opgraft/device.h alone, and froze them before their first run:
// 81 of 81 were found then, and one repaired one was reported
// (free_under_replay, for the detector did not know that exec_destroy waits).

#ifndef OG_TEST_DEVICE_PLANTED_H
#define OG_TEST_DEVICE_PLANTED_H

#include <opgraft/driver.h>
#include <stdio.h>
#include <string.h>

#include "device_sim.h"

enum { ALL = SIM_BYTES, HALF = SIM_BYTES / 2, MANY = 64 };

// Host memory that copies read and write.
static unsigned char inbox[4 * ALL], outbox[4 * ALL];

// What a program made, for the end; and what went wrong.
static void *memory[MANY], *events[MANY], *executables[MANY];
static int errors;
static char first_error[1100];

static inline og_status note(sim *s, og_status status) {
  if (status != OG_OK && errors++ == 0)
    snprintf(first_error, sizeof first_error, "%s", s->error.text);
  return status;
}

static inline void keep(void **list, void *thing) {
  for (int i = 0; i < MANY; ++i)
    if (list[i] == NULL) {
      list[i] = thing;
      return;
    }
}

static inline void forget(void **list, const void *thing) {
  for (int i = 0; i < MANY; ++i)
    if (list[i] == thing) list[i] = NULL;
}

// --- The driver's functions, with streams as numbers -------------------------

static inline void stream_sync(sim *s, int k) { note(s, sim_wait(s, k)); }

static inline void set(sim *s, int k, void *to, int byte, size_t size) {
  note(s,
       opgraft_driver_set(s->driver, s->stream[k], to, byte, size, &s->error));
}

static inline void up(sim *s, int k, void *to, const void *from, size_t size) {
  note(s, opgraft_driver_copy(s->driver, s->stream[k], OPGRAFT_COPY_TO_DEVICE,
                              to, from, size, &s->error));
}

static inline void down(sim *s, int k, void *to, const void *from,
                        size_t size) {
  note(s, opgraft_driver_copy(s->driver, s->stream[k], OPGRAFT_COPY_TO_HOST, to,
                              from, size, &s->error));
}

static inline void across(sim *s, int k, void *to, const void *from,
                          size_t size) {
  note(s, opgraft_driver_copy(s->driver, s->stream[k], OPGRAFT_COPY_ON_DEVICE,
                              to, from, size, &s->error));
}

static inline void axpy(sim *s, int k, void *x, void *y) {
  note(s, sim_axpy_give(s, k, x, y, 2));
}

// As axpy, over `count` floats.
static inline void axpy_part(sim *s, int k, void *x, void *y, int64_t count) {
  axpy_call c;
  const og_launch *launch = sim_axpy_launch(&c, x, y, 2);
  c.shape = count;
  note(s, opgraft_driver_launch(s->driver, s->stream[k], launch, &s->error));
}

static inline void *room(sim *s, const char *label, size_t size) {
  void *address = NULL;
  note(s,
       opgraft_driver_allocate(s->driver, 0, size, label, &address, &s->error));
  if (address != NULL) keep(memory, address);
  return address;
}

// Memory that holds zeros already.
static inline unsigned char *zeros(sim *s, const char *label, size_t size) {
  void *address = room(s, label, size);
  set(s, 1, address, 0, size);
  stream_sync(s, 1);
  return address;
}

static inline unsigned char *floats(sim *s, const char *label) {
  void *address = sim_floats(s, label);
  if (address != NULL) keep(memory, address);
  set(s, 1, address, 0, ALL);
  stream_sync(s, 1);
  return address;
}

// A free that fails has done nothing: the memory is freed at the end.
static inline void give(sim *s, void *address) {
  if (note(s, opgraft_driver_free(s->driver, 0, address, &s->error)) == OG_OK)
    forget(memory, address);
}

static inline void *event(sim *s) {
  void *made = NULL;
  note(s, opgraft_driver_event_create(s->driver, 0, &made, &s->error));
  if (made != NULL) keep(events, made);
  return made;
}

static inline void drop_event(sim *s, void *made) {
  note(s, opgraft_driver_event_destroy(s->driver, made, &s->error));
  forget(events, made);
}

static inline void record(sim *s, void *made, int k) {
  note(s,
       opgraft_driver_event_record(s->driver, made, s->stream[k], &s->error));
}

static inline void await(sim *s, void *made, int k) {
  note(s, opgraft_driver_event_wait(s->driver, made, s->stream[k], &s->error));
}

static inline void event_sync(sim *s, void *made) {
  note(s, opgraft_driver_event_synchronize(s->driver, made, -1, &s->error));
}

// What `later` gets from now on runs after what `first` was given.
static inline void order(sim *s, int first, int later) {
  void *made = event(s);
  record(s, made, first);
  await(s, made, later);
}

static inline void host_reads(sim *s, const void *address, size_t size) {
  opgraft_driver_host_access(s->driver, address, size, 0);
}

static inline void host_writes(sim *s, const void *address, size_t size) {
  opgraft_driver_host_access(s->driver, address, size, 1);
}

static inline void nothing(void *user) { (void)user; }

static inline void host_function(sim *s, int k) {
  note(s, opgraft_driver_host_function(s->driver, s->stream[k], nothing, NULL,
                                       &s->error));
}

static inline void begin(sim *s, int k) {
  note(s, opgraft_driver_capture_begin(s->driver, s->stream[k], &s->error));
}

static inline void *end_graph(sim *s, int k) {
  void *graph = NULL;
  note(s,
       opgraft_driver_capture_end(s->driver, s->stream[k], &graph, &s->error));
  return graph;
}

static inline void *instantiate(sim *s, void *graph) {
  void *made = NULL;
  if (graph == NULL) return NULL;
  note(s, opgraft_driver_graph_instantiate(s->driver, graph, &made, &s->error));
  if (made != NULL) keep(executables, made);
  return made;
}

static inline void drop_graph(sim *s, void *graph) {
  if (graph == NULL) return;
  note(s, opgraft_driver_graph_destroy(s->driver, graph, &s->error));
}

static inline void *end(sim *s, int k) {
  void *graph = end_graph(s, k);
  void *made = instantiate(s, graph);
  drop_graph(s, graph);
  return made;
}

static inline void drop_executable(sim *s, void *made) {
  if (made == NULL) return;
  note(s, opgraft_driver_exec_destroy(s->driver, made, &s->error));
  forget(executables, made);
}

static inline void replay(sim *s, void *made, int k) {
  if (made == NULL) return;
  note(s, opgraft_driver_exec_launch(s->driver, made, s->stream[k], &s->error));
}

static inline void update(sim *s, void *made, int32_t index, void *x, void *y) {
  axpy_call c;
  if (made == NULL) return;
  note(s, opgraft_driver_exec_update(s->driver, made, index,
                                     sim_axpy_launch(&c, x, y, 2), &s->error));
}

// An executable that does y += 2 x.
static inline void *axpy_executable(sim *s, int k, void *x, void *y) {
  begin(s, k);
  axpy(s, k, x, y);
  return end(s, k);
}

// One program, wrong and right.
#define PAIR(name)                                     \
  static void name(sim *s, bool right);                \
  static void name##_wrong(sim *s) { name(s, false); } \
  static void name##_right(sim *s) { name(s, true); }  \
  static void name(sim *s, bool right)

// --- Running -----------------------------------------------------------------

typedef struct planted_row {
  const char *name;
  void (*wrong)(sim *s);
  void (*right)(sim *s);
} planted_row;

// Whether anything was reported, or a call gave an error; says what.
static inline bool is_told(void (*program)(sim *s), int seed, char *text,
                           size_t size) {
  sim s;
  char options[64];
  errors = 0;
  text[0] = '\0';
  memset(memory, 0, sizeof memory);
  memset(events, 0, sizeof events);
  memset(executables, 0, sizeof executables);
  snprintf(options, sizeof options, "seed=%d,delay_us=50,races=1", seed);
  if (!sim_open(&s, options)) return false;
  program(&s);
  for (int k = 0; k < 4; ++k)
    if (s.stream[k] != NULL) stream_sync(&s, k);
  for (int i = 0; i < MANY; ++i)
    if (executables[i] != NULL) drop_executable(&s, executables[i]);
  for (int i = 0; i < MANY; ++i)
    if (events[i] != NULL) drop_event(&s, events[i]);
  for (int i = 0; i < MANY; ++i)
    if (memory[i] != NULL) give(&s, memory[i]);
  sim_close(&s);
  if (s.reports > 0)
    snprintf(text, size, "%s", s.report);
  else if (errors > 0)
    snprintf(text, size, "%s", first_error);
  return text[0] != '\0';
}

// Both tests over a table of rows.
#define PLANTED_TESTS(rows)                                          \
  TEST(each_fault_is_found) {                                        \
    char text[1100];                                                 \
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); ++i)      \
      if (!CHECK(is_told(rows[i].wrong, i + 1, text, sizeof text)))  \
        printf("%s: nothing was found\n", rows[i].name);             \
  }                                                                  \
  TEST(no_repaired_program_is_reported) {                            \
    char text[1100];                                                 \
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); ++i)      \
      if (!CHECK(!is_told(rows[i].right, i + 1, text, sizeof text))) \
        printf("%s: %s\n", rows[i].name, text);                      \
  }

#endif  // OG_TEST_DEVICE_PLANTED_H

// SPDX-License-Identifier: Apache-2.0
// The race detector of the simulated NPU: faults that were planted, and random
// programs whose order a closure over all pairs decides. Each removal of an
// event that the closure needs is found, and nothing else is reported.

#include <stdlib.h>

#include "device_sim.h"
#include "devices/npu_race.c"  // its ranges, which no driver exports

// --- Random programs ---------------------------------------------------------

enum {
  STREAMS = 3,
  DEVICE_BUFFERS = 4,
  HOST_BUFFERS = 2,
  BUFFERS = DEVICE_BUFFERS + HOST_BUFFERS,
  OPS_MAX = 24,
  EDGES_MAX = 128,
  HOST = -1,
  NONE = -1,
};

typedef struct op {
  int stream;         // HOST, or an index
  int read, written;  // buffers; from DEVICE_BUFFERS on they are the host's
  int halves;         // 1: the first half of both, 2: the second, 3: all
} op;

// An event, recorded behind `from` and waited for before `to`.
typedef struct edge {
  int from, to;
} edge;

typedef struct program {
  op ops[OPS_MAX];
  int op_count;
  edge edges[EDGES_MAX];
  int edge_count;
} program;

static uint64_t random_state;

static int random_below(int most) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((random_state >> 33) % (uint64_t)most);
}

static op op_draw(void) {
  op o = {.stream = random_below(STREAMS),
          .read = random_below(BUFFERS),
          .written = random_below(BUFFERS),
          .halves = 1 + random_below(3)};
  const bool reads_host = o.read >= DEVICE_BUFFERS;
  if (random_below(6) == 0) {  // the host itself
    o.stream = HOST;
    const int buffer = DEVICE_BUFFERS + random_below(HOST_BUFFERS);
    const bool is_write = random_below(2) == 0;
    o.read = is_write ? NONE : buffer;
    o.written = is_write ? buffer : NONE;
  } else if (o.read == o.written) {
    o.read = NONE;  // memory_set
    if (o.written >= DEVICE_BUFFERS) o.written -= DEVICE_BUFFERS;
  } else if (reads_host && o.written >= DEVICE_BUFFERS) {
    o.written -= DEVICE_BUFFERS;
  }
  return o;
}

static bool shares(int a, int b) { return a != NONE && a == b; }

static bool conflicts(const op *a, const op *b) {
  return (a->halves & b->halves) != 0 &&
         (shares(a->written, b->written) || shares(a->written, b->read) ||
          shares(a->read, b->written));
}

// The ops that come before op j, as bits, without edge `removed`.
static uint64_t before_find(const program *p, int j, const uint64_t *before,
                            int removed) {
  const op *o = &p->ops[j];
  uint64_t found = 0;
  for (int i = 0; i < j; ++i)
    if (p->ops[i].stream == HOST || p->ops[i].stream == o->stream)
      found |= before[i] | (uint64_t)1 << i;
  for (int e = 0; e < p->edge_count; ++e)
    if (p->edges[e].to == j && e != removed)
      found |= before[p->edges[e].from] | (uint64_t)1 << p->edges[e].from;
  return found;
}

static bool is_racy(const program *p, int removed) {
  uint64_t before[OPS_MAX];
  for (int j = 0; j < p->op_count; ++j) {
    before[j] = before_find(p, j, before, removed);
    for (int i = 0; i < j; ++i)
      if (conflicts(&p->ops[i], &p->ops[j]) && (before[j] >> i & 1) == 0)
        return true;
  }
  return false;
}

static void edge_add(program *p, int from, int to) {
  if (p->edge_count < EDGES_MAX) p->edges[p->edge_count++] = (edge){from, to};
}

// Ops with the events that order them, and some that nobody needs.
static void program_draw(program *p) {
  uint64_t before[OPS_MAX];
  *p = (program){.op_count = 4 + random_below(OPS_MAX - 4)};
  for (int j = 0; j < p->op_count; ++j) {
    p->ops[j] = op_draw();
    before[j] = before_find(p, j, before, NONE);
    for (int i = j - 1; i >= 0; --i) {
      const bool is_needed =
          conflicts(&p->ops[i], &p->ops[j]) && (before[j] >> i & 1) == 0;
      if (p->ops[i].stream == HOST || (!is_needed && random_below(20) != 0))
        continue;
      edge_add(p, i, j);
      before[j] = before_find(p, j, before, NONE);
    }
  }
}

typedef struct machine {
  sim s;
  char *buffer[BUFFERS];
  void *event[EDGES_MAX];
  float host[HOST_BUFFERS][SIM_FLOATS];
} machine;

static bool machine_begin(machine *m, const char *options) {
  if (!sim_open(&m->s, options)) return false;
  for (int b = 0; b < DEVICE_BUFFERS; ++b) {
    char label[32];
    snprintf(label, sizeof label, "buffer %d", b);
    m->buffer[b] = sim_floats(&m->s, label);
  }
  for (int b = 0; b < HOST_BUFFERS; ++b)
    m->buffer[DEVICE_BUFFERS + b] = (char *)m->host[b];
  for (int e = 0; e < EDGES_MAX; ++e) m->event[e] = sim_event(&m->s);
  return true;
}

static void machine_end(machine *m) {
  for (int e = 0; e < EDGES_MAX; ++e)
    SIM_OK(&m->s,
           opgraft_driver_event_destroy(m->s.driver, m->event[e], &m->s.error));
  for (int b = 0; b < DEVICE_BUFFERS; ++b) sim_free(&m->s, m->buffer[b]);
  sim_close(&m->s);
}

static void op_run(machine *m, const op *o) {
  const size_t begin = o->halves == 2 ? SIM_BYTES / 2 : 0;
  const size_t bytes = o->halves == 3 ? SIM_BYTES : SIM_BYTES / 2;
  char *to = o->written != NONE ? m->buffer[o->written] + begin : NULL;
  char *from = o->read != NONE ? m->buffer[o->read] + begin : NULL;
  sim *s = &m->s;
  if (o->stream == HOST) {
    opgraft_driver_host_access(s->driver, to != NULL ? to : from, bytes,
                               to != NULL);
    return;
  }
  void *stream = s->stream[o->stream];
  if (from == NULL) {
    SIM_OK(s, opgraft_driver_set(s->driver, stream, to, 1, bytes, &s->error));
    return;
  }
  const int32_t kind = o->read >= DEVICE_BUFFERS      ? OPGRAFT_COPY_TO_DEVICE
                       : o->written >= DEVICE_BUFFERS ? OPGRAFT_COPY_TO_HOST
                                                      : OPGRAFT_COPY_ON_DEVICE;
  SIM_OK(s, opgraft_driver_copy(s->driver, stream, kind, to, from, bytes,
                                &s->error));
}

static void wait_run(machine *m, const op *o, void *event) {
  sim *s = &m->s;
  if (o->stream == HOST)
    SIM_OK(s,
           opgraft_driver_event_synchronize(s->driver, event, -1, &s->error));
  else
    sim_wait_event(s, event, o->stream);
}

// Runs the program without edge `removed`; how many races were reported.
static int program_run(machine *m, const program *p, int removed) {
  sim *s = &m->s;
  s->reports = 0;
  for (int j = 0; j < p->op_count; ++j) {
    for (int e = 0; e < p->edge_count; ++e)
      if (p->edges[e].to == j && e != removed)
        wait_run(m, &p->ops[j], m->event[e]);
    op_run(m, &p->ops[j]);
    for (int e = 0; e < p->edge_count; ++e)
      if (p->edges[e].from == j && e != removed)
        sim_record(s, m->event[e], p->ops[j].stream);
  }
  const int found = s->reports;
  for (int i = 0; i < STREAMS; ++i) SIM_OK(s, sim_wait(s, i));
  return found;
}

TEST(random_programs_and_every_removal) {
  static machine m;
  static program p;
  const char *wanted = getenv("OG_RACE_PROGRAMS");
  const int programs = wanted != NULL ? atoi(wanted) : 1000;
  int removals = 0, needed = 0;
  random_state = 7;
  REQUIRE(machine_begin(&m, "races=1"));
  for (int n = 0; n < programs && test_now.missed == 0; ++n) {
    program_draw(&p);
    CHECK(!is_racy(&p, NONE));
    if (!CHECK_EQ(program_run(&m, &p, NONE), 0)) printf("%s\n", m.s.report);
    for (int e = 0; e < p.edge_count; ++e) {
      const bool is_needed = is_racy(&p, e);
      const bool is_found = program_run(&m, &p, e) > 0;
      if (!CHECK_EQ(is_found, is_needed))
        printf("program %d, edge %d: %s\n", n, e, m.s.report);
      ++removals;
      needed += is_needed;
    }
  }
  CHECK(needed > programs && removals - needed > programs / 10);
  printf("device_race: %d programs, %d removals, %d of them needed\n", programs,
         removals, needed);
done:
  machine_end(&m);
}

// --- Planted faults ----------------------------------------------------------

// One fault in a program of a few steps. x and y are set up and settled.
typedef struct planted_state {
  sim s;
  void *x, *y, *event;
  float host[SIM_FLOATS];
} planted_state;

static void record(planted_state *p, int stream) {
  sim_record(&p->s, p->event, stream);
}
static void wait_event(planted_state *p, int stream) {
  sim_wait_event(&p->s, p->event, stream);
}
static void to_device(planted_state *p, int stream, void *to) {
  SIM_OK(&p->s, sim_copy(&p->s, stream, OPGRAFT_COPY_TO_DEVICE, to, p->host));
}
static void to_host(planted_state *p, int stream, const void *from) {
  SIM_OK(&p->s, sim_copy(&p->s, stream, OPGRAFT_COPY_TO_HOST, p->host, from));
}
static void axpy(planted_state *p, int stream) {
  SIM_OK(&p->s, sim_axpy_give(&p->s, stream, p->x, p->y, 1));
}
static void host_reads(planted_state *p) {
  opgraft_driver_host_access(p->s.driver, p->host, SIM_BYTES, 0);
}
static void host_writes(planted_state *p) {
  opgraft_driver_host_access(p->s.driver, p->host, SIM_BYTES, 1);
}
static void *y_renewed(planted_state *p) {
  sim_free(&p->s, p->y);
  p->y = sim_floats(&p->s, "y");
  return p->y;
}

static void no_event(planted_state *p) { to_device(p, 1, p->x), axpy(p, 2); }
static void no_wait(planted_state *p) {
  to_device(p, 1, p->x), record(p, 1), axpy(p, 2);
}
static void wait_on_another_stream(planted_state *p) {
  to_device(p, 1, p->x), record(p, 1), wait_event(p, 3), axpy(p, 2);
}
static void record_too_early(planted_state *p) {
  record(p, 1), to_device(p, 1, p->x), wait_event(p, 2), axpy(p, 2);
}
static void wait_before_record(planted_state *p) {
  wait_event(p, 2), to_device(p, 1, p->x), record(p, 1), axpy(p, 2);
}
static void event_recorded_anew(planted_state *p) {
  to_device(p, 1, p->x), record(p, 1), record(p, 3), wait_event(p, 2);
  axpy(p, 2);
}
static void write_under_a_read(planted_state *p) {
  axpy(p, 1), to_device(p, 2, p->x);
}
static void two_writes(planted_state *p) { to_device(p, 1, p->y), axpy(p, 2); }
static void free_under_a_write(planted_state *p) { axpy(p, 1), y_renewed(p); }
static void free_after_the_wrong_wait(planted_state *p) {
  axpy(p, 1), SIM_OK(&p->s, sim_wait(&p->s, 2)), y_renewed(p);
}
static void free_behind_an_event_too_early(planted_state *p) {
  record(p, 1), axpy(p, 1);
  SIM_OK(&p->s, opgraft_driver_event_synchronize(p->s.driver, p->event, -1,
                                                 &p->s.error));
  y_renewed(p);
}
static void host_reads_too_early(planted_state *p) {
  to_host(p, 1, p->y), host_reads(p);
}
static void host_writes_too_early(planted_state *p) {
  to_device(p, 1, p->x), host_writes(p);
}
static void host_waits_for_another_stream(planted_state *p) {
  to_host(p, 1, p->y), SIM_OK(&p->s, sim_wait(&p->s, 2)), host_reads(p);
}
static void reuse_on_another_stream(planted_state *p) {
  axpy(p, 1), to_device(p, 2, p->y);
}
static void host_memory_of_two_copies(planted_state *p) {
  to_host(p, 1, p->y), to_device(p, 2, p->x);
}

// y += x, captured on stream 1.
static void *captured_axpy(planted_state *p) {
  void *graph = NULL, *exec = NULL;
  sim *s = &p->s;
  SIM_OK(s, opgraft_driver_capture_begin(s->driver, s->stream[1], &s->error));
  axpy(p, 1);
  SIM_OK(s, opgraft_driver_capture_end(s->driver, s->stream[1], &graph,
                                       &s->error));
  SIM_OK(s,
         opgraft_driver_graph_instantiate(s->driver, graph, &exec, &s->error));
  SIM_OK(s, opgraft_driver_graph_destroy(s->driver, graph, &s->error));
  return exec;
}
static void exec_launch(planted_state *p, void *exec, int stream) {
  SIM_OK(&p->s, opgraft_driver_exec_launch(p->s.driver, exec,
                                           p->s.stream[stream], &p->s.error));
}
static void exec_end(planted_state *p, void *exec) {
  SIM_OK(&p->s, opgraft_driver_exec_destroy(p->s.driver, exec, &p->s.error));
}
static void replay_over_a_write(planted_state *p) {
  void *exec = captured_axpy(p);
  to_device(p, 2, p->x), exec_launch(p, exec, 1), exec_end(p, exec);
}
static void write_over_a_replay(planted_state *p) {
  void *exec = captured_axpy(p);
  exec_launch(p, exec, 1), to_device(p, 3, p->x), exec_end(p, exec);
}
// Nothing is wrong: two launches of one executable are ordered.
static void replays_on_two_streams(planted_state *p) {
  void *exec = captured_axpy(p);
  exec_launch(p, exec, 1), exec_launch(p, exec, 2);
  exec_launch(p, exec, 3), exec_end(p, exec);
}
static void two_reads(planted_state *p) {
  to_device(p, 1, p->x), record(p, 1), wait_event(p, 2), wait_event(p, 3);
  SIM_OK(&p->s, sim_axpy_give(&p->s, 2, p->x, p->y, 1));
  SIM_OK(&p->s, sim_copy(&p->s, 3, OPGRAFT_COPY_TO_HOST, p->host, p->x));
}

static const struct planted {
  const char *name;
  void (*run)(planted_state *p);
  const char *first, *second;  // what the report names; NULL: none comes
} planted[] = {
    {"no event", no_event, "copy_to_device", "axpy"},
    {"no wait", no_wait, "copy_to_device", "axpy"},
    {"wait on another stream", wait_on_another_stream, "copy_to_device",
     "axpy"},
    {"record too early", record_too_early, "copy_to_device", "axpy"},
    {"wait before record", wait_before_record, "copy_to_device", "axpy"},
    {"event recorded anew", event_recorded_anew, "copy_to_device", "axpy"},
    {"write under a read", write_under_a_read, "axpy", "copy_to_device"},
    {"two writes", two_writes, "copy_to_device", "axpy"},
    {"free under a write", free_under_a_write, "axpy", "memory_free of 'y'"},
    {"free after the wrong wait", free_after_the_wrong_wait, "axpy",
     "memory_free of 'y'"},
    {"free behind an event too early", free_behind_an_event_too_early, "axpy",
     "memory_free of 'y'"},
    {"host reads too early", host_reads_too_early, "copy_to_host",
     "the host reads"},
    {"host writes too early", host_writes_too_early, "copy_to_device",
     "the host writes"},
    {"host waits for another stream", host_waits_for_another_stream,
     "copy_to_host", "the host reads"},
    {"reuse on another stream", reuse_on_another_stream, "axpy",
     "copy_to_device"},
    {"host memory of two copies", host_memory_of_two_copies, "copy_to_host",
     "copy_to_device"},
    {"replay over a write", replay_over_a_write, "copy_to_device", "axpy"},
    {"write over a replay", write_over_a_replay, "axpy", "copy_to_device"},
    {"replays on two streams", replays_on_two_streams, NULL, NULL},
    {"two reads", two_reads, NULL, NULL},
};

static void planted_try(const struct planted *row) {
  static planted_state p;
  const int missed = test_now.missed;
  if (!sim_open(&p.s, "races=1")) return;
  p.x = sim_floats(&p.s, "x");
  p.y = sim_floats(&p.s, "y");
  p.event = sim_event(&p.s);
  row->run(&p);
  CHECK_EQ(p.s.reports > 0, row->first != NULL);
  CHECK_EQ(opgraft_driver_report_count(p.s.driver), p.s.reports);
  if (row->first != NULL) {
    const char *first = strstr(p.s.report, row->first);
    CHECK(first != NULL && strstr(first, row->second) != NULL);
  }
  if (test_now.missed != missed) printf("%s: %s\n", row->name, p.s.report);
  for (int i = 0; i < 4; ++i) SIM_OK(&p.s, sim_wait(&p.s, i));
  SIM_OK(&p.s, opgraft_driver_event_destroy(p.s.driver, p.event, &p.s.error));
  sim_free(&p.s, p.x);
  sim_free(&p.s, p.y);
  sim_close(&p.s);
}

TEST(planted_faults) {
  for (size_t i = 0; i < sizeof planted / sizeof *planted; ++i)
    planted_try(&planted[i]);
}

// --- Ranges ------------------------------------------------------------------

enum { BYTES = 64 };

// The bytes of a tensor of bytes, as bits.
static uint64_t bytes_of(const og_tensor *t, int64_t base) {
  uint64_t found = 0;
  int64_t at[3] = {0};
  for (;;) {
    int64_t offset = (int64_t)(uintptr_t)t->data - base;
    for (int32_t d = 0; d < t->ndim; ++d) offset += at[d] * t->strides[d];
    found |= (uint64_t)1 << offset;
    int32_t d = t->ndim - 1;
    while (d >= 0 && ++at[d] == t->shape[d]) at[d--] = 0;
    if (d < 0) return found;
  }
}

static og_tensor tensor_draw(char *bytes, int64_t *shape, int64_t *strides) {
  int64_t last = 0, first = 0;
  const int32_t rank = random_below(4);
  for (int32_t d = 0; d < rank; ++d) {
    shape[d] = 1 + random_below(4);
    strides[d] = random_below(9) - 2;
    const int64_t reach = (shape[d] - 1) * strides[d];
    *(reach < 0 ? &first : &last) += reach;
  }
  if (last - first >= BYTES) return tensor_draw(bytes, shape, strides);
  const int64_t room = BYTES - (last - first);
  return (og_tensor){.data = bytes - first + random_below((int)room),
                     .ndim = rank,
                     .dtype = {OG_CODE_UINT, 8, 1},
                     .shape = shape,
                     .strides = strides};
}

TEST(ranges_share_a_byte_or_none) {
  static char bytes[BYTES];
  int64_t shape[2][3], strides[2][3];
  int met = 0;
  random_state = 3;
  for (int n = 0; n < 20000 && test_now.missed == 0; ++n) {
    const og_tensor a = tensor_draw(bytes, shape[0], strides[0]);
    const og_tensor b = tensor_draw(bytes, shape[1], strides[1]);
    const npu_range ra = npu_range_tensor(&a), rb = npu_range_tensor(&b);
    const int64_t base = (int64_t)(uintptr_t)bytes;
    const bool meets = (bytes_of(&a, base) & bytes_of(&b, base)) != 0;
    CHECK_EQ(npu_range_meets(&ra, &rb), meets);
    met += meets;
  }
  CHECK(met > 2000 && met < 18000);
}

TEST_MAIN("device_race", CASE_NO_FAULTS(planted_faults),
          CASE_NO_FAULTS(ranges_share_a_byte_or_none),
          CASE_NO_FAULTS(random_programs_and_every_removal))

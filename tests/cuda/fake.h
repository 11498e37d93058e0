// SPDX-License-Identifier: Apache-2.0
// A CUDA driver library without a GPU, for tests: libcuda.so.1 from
// fake_libcuda.c (devices, contexts, failures), fake_memory.c, fake_stream.c
// and fake_graph.c.
//
// Work is done by the thread that waits for it, as late as it may be, or, with
// a seed, at calls that chance picks. What is wrong gives the result that CUDA
// has for it, a line on stderr, and counts as a misuse.
//
// Environment: OPGRAFT_FAKE_KERNELS, a shared object with the host form of each
// kernel, `void opgraft_fake_NAME(const unsigned grid[3], const unsigned
// block[3], unsigned shared_bytes, void **parameters)`, and its parameters'
// sizes, `const size_t opgraft_fake_NAME_sizes[]`, which ends with 0.
// OPGRAFT_FAKE_FAIL="cuMemAlloc_v2:3:2": the third call gives result 2; several
// with commas. OPGRAFT_FAKE_SEED, OPGRAFT_FAKE_DEVICES (1),
// OPGRAFT_FAKE_MEMORY_MB (64, of all devices), OPGRAFT_FAKE_POOLS (1).
//
// Invariant: everything below is used with the lock, which an entry takes by
// FAKE_ENTER and releases by fake_leave.

#ifndef OG_TEST_CUDA_FAKE_H
#define OG_TEST_CUDA_FAKE_H

#include <opgraft/op.h>
#include <stdbool.h>

#include "devices/cuda/api.h"

#define OG_CUDA_FN(name, symbol, parameters) OG_EXPORT int symbol parameters;
#define OG_CUDA_DRIVER_FN OG_CUDA_FN
#include "devices/cuda/api.def"
#undef OG_CUDA_DRIVER_FN
#undef OG_CUDA_FN

// --- For the test program, which looks them up -------------------------------

// The nth call from now of a symbol, or of any ("*"), gives the result; 0 calls
// none off.
OG_EXPORT void opgraft_fake_fail(const char *symbol, int nth, int result);
// The symbol that failed so since; NULL: none yet.
OG_EXPORT const char *opgraft_fake_met(void);
// Objects that live: "stream", "event", "graph", "exec", "node", "pool",
// "library", "kernel", "context" (retained), "memory".
OG_EXPORT int opgraft_fake_count(const char *kind);
OG_EXPORT int opgraft_fake_misuses(void);
// A context that was lost is as new; forgets misuses and sets the seed.
OG_EXPORT void opgraft_fake_reset(unsigned seed);

// --- Objects -----------------------------------------------------------------

typedef enum fake_kind {
  FAKE_CONTEXT,
  FAKE_STREAM,
  FAKE_EVENT,
  FAKE_GRAPH,
  FAKE_NODE,
  FAKE_EXEC,
  FAKE_POOL,
  FAKE_LIBRARY,
  FAKE_KERNEL,
} fake_kind;

// The head of each.
typedef struct fake_object {
  struct fake_object *next;
  fake_kind kind;
} fake_object;

// Zeroed, and known from now on.
void *fake_make(fake_kind kind, size_t size_bytes);
void fake_drop(void *object);
// Whether the pointer is such an object; a misuse of `symbol` where not.
bool fake_is(fake_kind kind, const void *object, const char *symbol);
// The first of a kind behind `after` (NULL: all).
void *fake_next(fake_kind kind, const void *after);

typedef struct fake_context {
  fake_object object;
  int device;
  int references;
} fake_context;

typedef struct fake_kernel {
  fake_object object;
  void *library;
  char name[128];
  void (*run)(const unsigned grid[3], const unsigned block[3],
              unsigned shared_bytes, void **parameters);
  const size_t *sizes;  // NULL: not known, so it runs at once
} fake_kernel;

// --- Entries -----------------------------------------------------------------

// Takes the lock; 0, or what the call gives at once, without the lock.
int fake_enter(const char *symbol);
int fake_leave(int result);
#define FAKE_ENTER(symbol)                 \
  do {                                     \
    const int early_ = fake_enter(symbol); \
    if (early_ != 0) return early_;        \
  } while (0)

// A line on stderr, and counted; gives `result` back.
int fake_misuse(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Every later call gives the result.
void fake_lose(int result);
int fake_lost(void);
// The thread's context; NULL where it has none.
fake_context *fake_current(void);
// The thread's, which CUDA's entries want; a misuse where it is NULL.
bool fake_has_context(const char *symbol);
// Whether chance, with a seed, picks this.
bool fake_chance(unsigned one_in);
// Of the thread, by cuThreadExchangeStreamCaptureMode.
int fake_mode(void);
void fake_host_begin(void);
void fake_host_end(void);
int fake_environment(const char *name, int otherwise);

// --- Memory ------------------------------------------------------------------

// Whether the range lies in one live block.
bool fake_memory_has(uint64_t address, size_t size_bytes);
// Whether it lies in the memory of a device at all.
bool fake_memory_is_device(uint64_t address);
int fake_memory_count(void);
// A misuse for each block whose guards were written.
void fake_memory_check(void);

// --- Work --------------------------------------------------------------------

typedef struct fake_stream fake_stream;

// Where a stream had got to at a record.
typedef struct fake_mark {
  int references;
  bool is_done;
  int64_t time_ns;
  fake_stream *stream;
} fake_mark;

typedef enum fake_work_kind {
  FAKE_RUN,
  FAKE_COPY,
  FAKE_SET,
  FAKE_HOST,
  FAKE_RECORD,
  FAKE_WAIT,
  FAKE_GRAPH_RUN,
} fake_work_kind;

typedef struct fake_work {
  struct fake_work *next;
  fake_work_kind kind;
  uint64_t to, from;  // addresses of the device, or of the host
  bool is_to_device, is_from_device;
  size_t size_bytes;
  int byte;
  void (*fn)(void *user);
  void *user;
  fake_kernel *kernel;
  unsigned grid[3], block[3], shared_bytes;
  void **parameters;  // copies, in one block
  fake_mark *mark;
  struct fake_work *works;  // of a graph, in order
} fake_work;

// NULL where there is no memory.
fake_work *fake_work_copy(const fake_work *work);
void fake_work_free(fake_work *work);
void fake_work_run(fake_work *work);
// Copies of the parameters; false where there is no memory.
bool fake_parameters_copy(const fake_kernel *kernel, void *const *from,
                          void ***out_parameters);
// Whether work that waits on a stream reads or writes the range.
bool fake_is_used(uint64_t address, size_t size_bytes);

// --- Streams and captures ----------------------------------------------------

typedef struct fake_node {
  fake_object object;
  struct fake_graph *graph;
  int type;  // CUgraphNodeType
  fake_work *work;
  struct fake_node **before;
  size_t before_count;
} fake_node;

typedef struct fake_graph {
  fake_object object;
  fake_node **nodes;  // each stands behind those that it depends on
  size_t count;
} fake_graph;

typedef struct fake_capture {
  uint64_t id;
  fake_graph *graph;
  fake_stream *origin;
  int mode;
  bool is_broken;
} fake_capture;

// The nodes that what comes next depends on.
typedef struct fake_front {
  fake_node **nodes;
  size_t count;
} fake_front;

struct fake_stream {
  fake_object object;
  fake_context *context;  // NULL: the thread's (a default stream)
  bool is_blocking;       // waits for the legacy stream, and it for this one
  fake_work *first;
  fake_capture *capture;  // NULL: none
  fake_front front;
};

// The stream of a handle; NULL for a wrong one, which is a misuse.
fake_stream *fake_stream_find(void *handle, const char *symbol);
// Takes the work: into the stream or its capture. The call's result.
int fake_give(fake_stream *stream, fake_work *work, const char *symbol);
// Gives the work behind all that another stream has in front of the mark, and
// has the mark stand behind the work.
int fake_give_behind(fake_stream *stream, fake_work *work, fake_mark **mark,
                     const char *symbol);
void fake_mark_release(fake_mark *mark);
void fake_drain(fake_stream *stream);
void fake_drain_all(void);
// Some work of some stream, where chance picks it.
void fake_tick(void);

bool fake_front_add(fake_front *front, fake_node *node);
void fake_front_reset(fake_front *front);
// Whether calls that may wait or allocate are forbidden to this thread.
bool fake_is_forbidden(const char *symbol);
// With the work, which it takes.
int fake_node_add(fake_stream *stream, fake_work *work);

#endif  // OG_TEST_CUDA_FAKE_H

// SPDX-License-Identifier: Apache-2.0
// A device driver's whole world: one table of functions, which a shared object
// exports with OG_DEVICE_DRIVER. opgraft loads it, checks it and derives the
// rest: tensors in the device's memory, operators that run there, graphs.
//
// Every function may be called from any thread, and at once with others. One
// that fails returns a status other than OG_OK, writes why into `error` (never
// NULL), and has done nothing. Outputs are NULL or 0 before the call. Work on
// one stream runs in order; streams are not ordered with each other but by
// events. What a stream's work reads and writes stays there until the stream
// has passed it.
//
// The table and the structs grow at the end: docs/abi.md.

#ifndef OPGRAFT_DEVICE_H
#define OPGRAFT_DEVICE_H

#include <opgraft/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OG_DEVICE_ABI_VERSION 1u

// Why a function failed: one sentence that ends with NUL.
typedef struct og_device_error {
  char text[512];
} og_device_error;

// What opgraft gives a driver when it opens it. Lives until `close` returns.
typedef struct og_device_host {
  uint32_t struct_size;
  uint32_t reserved;
  const char *options;  // "seed=3,delay_us=50", the driver's words; never NULL
  // Takes what no function can return, such as work that failed after its
  // function had returned. Any thread, no lock of the driver's held.
  void (*report)(void *user, og_status code, const char *text);
  void *user;
} og_device_host;

// A driver fills what lies within struct_size.
typedef struct og_device_properties {
  uint32_t struct_size;
  uint32_t alignment;  // of allocations, a power of two
  uint64_t memory_bytes;
  char model[64];  // for people
} og_device_properties;

// An operator's kernel and its call. `run`, `name` and call->derived stay until
// the stream has passed them, and those of a capture until its graph and its
// executables are destroyed; all else is the caller's and may be gone when the
// function returns. Tensors and the workspace lie on the device; attributes,
// dims and shapes on the host. A plain tensor stands in in[i] or out[i], and a
// list in in_list[i] or out_list[i], where in[i] or out[i] is NULL; both are
// empty for an absent optional.
typedef struct og_launch {
  uint32_t struct_size;
  int32_t device;
  const char *name;  // the operator's, for messages
  og_status (*run)(const og_call *call);
  // Its stream is set. It has one thread, and `fail` keeps a kernel's reason
  // until the function returns.
  const og_call *call;
  int32_t in_count;
  int32_t out_count;
  int32_t attr_count;
  int32_t dim_count;
} og_launch;

// A tensor of a captured launch, and where it lies in memory that moves.
typedef struct og_slot {
  int32_t launch;  // its number in the capture, as for exec_update
  // Its number in the call: those that are not NULL, results first; entries of
  // a list stand in its place.
  int32_t tensor;
  int64_t offset_bytes;
} og_slot;

// The device runs C functions of this process, as a simulated one does: a
// launch's `run` may be any that touches no memory but its call's, and what
// call->derived stands for. Without it only an operator's kernels for the
// device run there; with it also opgraft's own kernels, for graphs.
#define OG_DEVICE_RUNS_C 1u

typedef struct og_device_driver {
  uint32_t struct_size;
  uint32_t abi_version;  // OG_DEVICE_ABI_VERSION
  const char *name;      // "npu": small letters; torch's device name
  int32_t device_type;   // OG_EXT_DEV, ...
  uint32_t flags;        // OG_DEVICE_*

  // --- Required

  // Once, before any other function. The state is given to all others.
  og_status (*open)(const og_device_host *host, void **out_state,
                    og_device_error *error);
  // Once, the last call. Waits for what streams still do.
  void (*close)(void *state);
  og_status (*device_count)(void *state, int32_t *out_count,
                            og_device_error *error);
  og_status (*properties)(void *state, int32_t device,
                          og_device_properties *out_properties,
                          og_device_error *error);
  // Uninitialised, aligned as the properties say; size_bytes > 0. OG_MEMORY
  // where the device has no room.
  og_status (*memory_allocate)(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error);
  // An address of memory_allocate. No stream uses the memory any more.
  og_status (*memory_free)(void *state, int32_t device, void *address,
                           og_device_error *error);
  // Sets each byte, on the stream.
  og_status (*memory_set)(void *state, void *stream, void *address,
                          int32_t byte, size_t size_bytes,
                          og_device_error *error);
  // Copies on the stream, size_bytes > 0. Addresses may lie inside of an
  // allocation.
  og_status (*copy_to_device)(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error);
  og_status (*copy_to_host)(void *state, void *stream, void *to,
                            const void *from, size_t size_bytes,
                            og_device_error *error);
  og_status (*copy_on_device)(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error);
  // A new one each time.
  og_status (*stream_create)(void *state, int32_t device, void **out_stream,
                             og_device_error *error);
  // Waits for the stream's work.
  og_status (*stream_destroy)(void *state, void *stream,
                              og_device_error *error);
  // Waits until all work that was given to the stream is done, at most
  // timeout_ns: 0 asks without waiting, a negative number waits for ever.
  // OG_BUSY: not done yet. Work of the stream that failed since the last call
  // makes it fail, once, with that work's status.
  og_status (*stream_synchronize)(void *state, void *stream, int64_t timeout_ns,
                                  og_device_error *error);

  // --- Optional: NULL, and the comment says what is lost

  // Names memory in messages. Without it they have addresses alone.
  void (*memory_label)(void *state, void *address, const char *label);
  // The five go together. Without them all work uses one stream.
  og_status (*event_create)(void *state, int32_t device, void **out_event,
                            og_device_error *error);
  // Waits on streams for the event stay as they are.
  og_status (*event_destroy)(void *state, void *event, og_device_error *error);
  // The event stands for what the stream was given before.
  og_status (*event_record)(void *state, void *event, void *stream,
                            og_device_error *error);
  // What the stream gets from now on runs after the event's latest record; at
  // once where there is none.
  og_status (*event_wait)(void *state, void *event, void *stream,
                          og_device_error *error);
  // As stream_synchronize, for the event's latest record.
  og_status (*event_synchronize)(void *state, void *event, int64_t timeout_ns,
                                 og_device_error *error);
  // Between the latest records of two events, both done. Without it no times
  // are measured on the device.
  og_status (*event_elapsed)(void *state, void *begin, void *end,
                             int64_t *out_ns, og_device_error *error);
  // Calls fn on a thread of the driver's, in the stream's order. fn calls no
  // function of the driver. Without it the host waits for the stream first.
  og_status (*host_function)(void *state, void *stream, void (*fn)(void *user),
                             void *user, og_device_error *error);
  // Puts a kernel on the stream: its `run` is called by the driver, later, with
  // a copy of the call whose tensors' data the kernel can read; or at once, on
  // this thread, with the call's stream, where it puts its work. Without it
  // `run` is called on the host's thread, with the call's stream, and puts its
  // work there by itself.
  og_status (*launch)(void *state, void *stream, const og_launch *launch,
                      og_device_error *error);
  // The seven go together. Without them a graph is launched node by node.
  // Begin: what the stream gets is kept instead of done. Another stream that
  // waits for an event that was recorded in the capture joins it. Waiting for a
  // capturing stream on the host is OG_INVALID.
  og_status (*capture_begin)(void *state, void *stream, og_device_error *error);
  og_status (*capture_end)(void *state, void *stream, void **out_graph,
                           og_device_error *error);
  og_status (*graph_destroy)(void *state, void *graph, og_device_error *error);
  // An executable of the graph, which may then be destroyed.
  og_status (*graph_instantiate)(void *state, void *graph, void **out_exec,
                                 og_device_error *error);
  // Waits for the executable's launches.
  og_status (*exec_destroy)(void *state, void *exec, og_device_error *error);
  // Gives launch number `index` of the capture (copies and events do not
  // count) other arguments: addresses, shapes, attributes. The kernel stays.
  // Launches of the executable that were given before keep theirs.
  // OG_UNSUPPORTED: the executable cannot take them, and may only be destroyed;
  // the caller captures again.
  og_status (*exec_update)(void *state, void *exec, int32_t index,
                           const og_launch *launch, og_device_error *error);
  // Does what was captured, on this stream, at the addresses of the capture.
  // Launches of one executable run one after the other.
  og_status (*exec_launch)(void *state, void *exec, void *stream,
                           og_device_error *error);
  // The host reads or writes its own memory, which a copy may read or write.
  // Without it no one finds that the host did so too early.
  void (*host_access)(void *state, const void *address, size_t size_bytes,
                      int32_t is_write);
  // Gives tensors of captured launches other addresses: each one's data is
  // `address` and its offset, all of one allocation. Shapes and attributes
  // stay, and so do the arguments of launches that were given before. `slots`
  // stay until the executable is destroyed. Where it fails the executable may
  // be told again, or destroyed; OG_UNSUPPORTED as for exec_update. Without it
  // exec_update is called for each launch.
  og_status (*exec_move)(void *state, void *exec, const og_slot *slots,
                         int32_t count, void *address, og_device_error *error);
} og_device_driver;

// Ends a driver. `table` is an og_device_driver without struct_size and
// abi_version: OG_DEVICE_DRIVER(.name = "npu", .open = npu_open, ...)
#define OG_DEVICE_DRIVER(...)                                         \
  OG_EXPORT const og_device_driver *opgraft_device(uint32_t max_abi); \
  const og_device_driver *opgraft_device(uint32_t max_abi) {          \
    static const og_device_driver driver = {                          \
        .struct_size = (uint32_t)sizeof driver,                       \
        .abi_version = OG_DEVICE_ABI_VERSION,                         \
        __VA_ARGS__};                                                 \
    return max_abi >= OG_DEVICE_ABI_VERSION ? &driver : NULL;         \
  }

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_DEVICE_H

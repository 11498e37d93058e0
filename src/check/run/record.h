// SPDX-License-Identifier: Apache-2.0
// What a child tells the parent, over a pipe.
//
// Every record is of one size, below what a pipe writes at once, so that a
// signal handler may write one too. The parent forked the child: pointers into
// the module's declarations mean the same in both.

#ifndef OG_CHECK_RUN_RECORD_H
#define OG_CHECK_RUN_RECORD_H

#include <opgraft/check.h>

#include "check/run/mode.h"
#include "decl/decl.h"
#include "module/module.h"

typedef enum og_record_kind {
  OG_RECORD_BEGIN,    // a call is being drawn: call.index
  OG_RECORD_CALL,     // a sampled call begins: call
  OG_RECORD_SHRUNK,   // a smaller one does: call
  OG_RECORD_SHOWN,    // what the next finding shows: call.numel, call.text
  OG_RECORD_UNDRAWN,  // no such call was found: undrawn
  OG_RECORD_PROBE,    // a probe begins: probe
  OG_RECORD_FINDING,  // finding
  OG_RECORD_REFUSED,  // the kernel refused the call: refusal
  OG_RECORD_CRASH,    // crash
  OG_RECORD_USE,      // whether an argument is read: effect
  OG_RECORD_ENDS,     // which of its elements have an effect: effect
  OG_RECORD_ORDER,    // order
  OG_RECORD_EXPECT,   // whether the call is as `expect` says: expect
  OG_RECORD_END,      // of a call: counts
  OG_RECORD_DONE,
  OG_RECORD_DEVICE,  // what a driver drives: driver
} og_record_kind;

typedef struct og_record_call {
  int32_t index;
  int32_t step;           // of shrinking
  bool has_index_hazard;  // an index that no empty dim can hold
  bool is_index_far;      // all indices are out of range, on purpose
  int64_t numel;
  char type[16];     // of the first tensor; "": there is none
  char missing[64];  // the only argument that is not all there, or ""
  char text[420];    // "x f32[3], dim=1"
} og_record_call;

typedef struct og_record_undrawn {
  int32_t index;
  char why[420];  // the last refusal
} og_record_undrawn;

typedef struct og_record_finding {
  int32_t kind;  // OPGRAFT_*
  bool is_note;
  bool is_end;  // the child ends by it
  char argument[64];
  char text[420];
} og_record_finding;

typedef struct og_record_refusal {
  int32_t status;
  char text[420];
} og_record_refusal;

// What a signal handler knows. `role` and what follows it are of the buffer
// that the address is in or near.
typedef struct og_record_crash {
  int32_t signal_number;
  int32_t signal_code;
  bool is_write;
  bool is_near_stack;
  bool is_return;  // to an address that cannot be: the stack is overwritten
  bool is_memory_short;
  bool is_released;
  uint64_t address;
  // The instruction, and the call that a function which has called nothing
  // returns from: the kernel's own, where the fault is in memcpy or the like.
  uint64_t code[2];
  int32_t role;  // og_role; -1: no buffer is near
  int32_t index;
  int32_t entry;
  int64_t before;  // bytes before its start, or
  int64_t after;   // bytes past its end
  int64_t bytes;
  int64_t item_bytes;
} og_record_crash;

typedef struct og_record_effect {
  char argument[64];
  uint32_t used;  // bits of OG_USE_* or OG_END_*
} og_record_effect;

// Of an item of a fresh result's shape: the orders of its items that fit.
typedef struct og_record_order {
  int32_t fresh;
  int32_t item;
  uint32_t fits;  // bits
} og_record_order;

typedef struct og_record_expect {
  og_expect_kind kind;
  char name[64];
  bool holds;
} og_record_expect;

typedef struct og_record_counts {
  int32_t runs;
  bool is_compared;  // with a reference
  int32_t layouts[OG_LAYOUT_COUNT];
  int32_t offsets;
} og_record_counts;

typedef struct og_record_device {
  int32_t status;  // of loading it
  int32_t type;    // OG_EXT_DEV, ...
  char name[32];
  char text[420];  // why it cannot be loaded
} og_record_device;

typedef struct og_record {
  og_record_kind kind;   // says which of the union is set
  const opgraft_op *op;  // whose kernel ran
  union {
    og_record_call call;
    og_record_undrawn undrawn;
    int32_t probe;
    og_record_finding finding;
    og_record_refusal refusal;
    og_record_crash crash;
    og_record_effect effect;
    og_record_order order;
    og_record_expect expect;
    og_record_counts counts;
    og_record_device driver;
  };
} og_record;

// The pipe of this child.
void og_record_open(int32_t pipe);
// Records go to a function of this process instead; NULL: to the pipe again.
typedef void (*og_record_fn)(void *state, const og_record *record);
void og_record_hand(og_record_fn fn, void *state);
// Ends the process where nobody reads. Safe in a signal handler.
void og_record_send(const og_record *record);

// Tells of a finding; further runs go on. `argument` may be "".
void og_tell_finding(const opgraft_op *op, int32_t kind, bool is_note,
                     const char *argument, const char *format, ...)
    OG_PRINTF(5, 6);
// The same for what this process ends by.
void og_tell_end(const opgraft_op *op, int32_t kind, bool is_note,
                 const char *text);
// Tells, as bits, who read the argument: the operator or its backward operator,
// and the operator itself.
enum { OG_USE_ANY, OG_USE_OWN };
void og_tell_use(const opgraft_op *op, const char *argument, uint32_t used);

// Tells whether the call is as the declaration's `expect` says of the argument
// or result; nothing where it says nothing.
void og_tell_expect(const opgraft_op *op, og_expect_kind kind, const char *name,
                    bool holds);

// Elements of an argument: the first, one between, the last. Tells which of
// them something depends on, as bits.
// OG_END_READ: on none, but the kernel read the argument.
enum { OG_END_FIRST, OG_END_NONE, OG_END_LAST, OG_END_READ, OG_END_COUNT };
enum { OG_ENDS_ALL = 1 << OG_END_FIRST | 1 << OG_END_NONE | 1 << OG_END_LAST };
void og_tell_ends(const opgraft_op *op, const char *argument, uint32_t used);
// Tells in which orders of a result's items (bits; run/axis_order.h) a change
// of an argument is at its place along an item of a fresh result.
void og_tell_order(const opgraft_op *op, int32_t fresh, int32_t item,
                   uint32_t fits);

#endif  // OG_CHECK_RUN_RECORD_H

// SPDX-License-Identifier: Apache-2.0
// A call's arguments and results. Arguments come in the schema's order, tensors
// and others alike; those behind the last that is given have their defaults.

#ifndef OG_HOSTS_TVM_FFI_VALUES_H
#define OG_HOSTS_TVM_FFI_VALUES_H

#include "shared/kept.h"
#include "tvm_ffi/library.h"

typedef struct og_tvm_call {
  const og_tvm_library *library;
  const tvm_any *args;
  int32_t count;
  int32_t held_count;
  int32_t is_raised;  // the library holds an error of its own already
  const char *kind;   // class of `error`; NULL: its code tells
  void *memory[OPGRAFT_ATTR_MAX];   // what lists and texts point to
  void *held[OG_HOST_ENTRIES_MAX];  // entries of tensor lists
  opgraft_error error;
  og_host_call *call;
} og_tvm_call;

// An operator's kept call, and the arguments that are not tensors.
typedef struct og_tvm_kept {
  og_host_kept *kept;              // first: see og_host_kept_table
  int32_t count;                   // of arguments that were given
  tvm_any args[OPGRAFT_ATTR_MAX];  // by attribute
} og_tvm_kept;

// A TypeError that begins with the operator's name.
og_status og_tvm_refuse(og_tvm_call *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Gives `args` to c->call, behind og_host_begin. Release always follows.
og_status og_tvm_args_read(og_tvm_call *c);
void og_tvm_args_release(og_tvm_call *c);
// Behind og_tvm_args_read and og_host_infer: keeps the call, unless it has an
// argument that the caller's memory holds.
void og_tvm_args_keep(const og_tvm_call *c, og_tvm_kept *kept);
// Whether c's arguments are the kept call's, which then has its tensors.
int og_tvm_args_match(const og_tvm_call *c, og_tvm_kept *kept);
// `value`, or the object that the caller gives away with it.
tvm_any og_tvm_settled(const tvm_any *value);
// Results are made in memory of the CPU, and kernels run there.
og_status og_tvm_device_check(og_tvm_call *c, const char *name,
                              og_device device);
// NULL where `value` is not a tensor.
const og_tensor *og_tvm_tensor(const tvm_any *value);

// Behind og_host_infer: memory of its own for each fresh result.
og_status og_tvm_results_place(og_tvm_call *c);
// Behind the run: None, a tensor, or an array of the results. A tensor's memory
// is freed by libc, so it may outlive the module.
og_status og_tvm_results_take(og_tvm_call *c, tvm_any *out_result);
// What was placed and not taken.
void og_tvm_results_drop(og_tvm_call *c);

#endif  // OG_HOSTS_TVM_FFI_VALUES_H

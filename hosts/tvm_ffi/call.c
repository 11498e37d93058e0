// SPDX-License-Identifier: Apache-2.0
// TVM-FFI's calls. An operator that is given all of its arguments and as many
// tensors more as it has fresh results writes to those.

#include "tvm_ffi/call.h"

#include <stdio.h>

#include "shared/team.h"
#include "tvm_ffi/values.h"

// Whether results may be given: their number and sizes are known.
static int takes_results(const og_own_op *op) {
  if ((op->info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0) return 0;
  for (int32_t i = 0; i < op->info.fresh_count; ++i)
    if ((op->fresh[i]->flags & OPGRAFT_RESULT_LIST) != 0) return 0;
  return op->info.fresh_count > 0;
}

static og_status count_check(og_tvm_call *c, int32_t *out_given) {
  const og_own_op *op = c->call.op;
  const int32_t params = op->info.param_count;
  const int32_t results = takes_results(op) ? op->info.fresh_count : 0;
  *out_given = results > 0 && c->count == params + results;
  if (c->count <= params || *out_given) return OG_OK;
  if (results == 0)
    return og_tvm_refuse(c, "found %d arguments, expected at most %d",
                         (int)c->count, (int)params);
  return og_tvm_refuse(
      c, "found %d arguments, expected at most %d, or %d with its results",
      (int)c->count, (int)params, (int)(params + results));
}

static og_status result_refuse(og_tvm_call *c, int32_t i,
                               const og_tensor *tensor) {
  char name[32];
  snprintf(name, sizeof name, "result %d", (int)i);
  return tensor == NULL ? og_tvm_refuse(c, "%s: expected a tensor", name)
                        : og_tvm_device_check(c, name, tensor->device);
}

static og_status result_give(og_tvm_call *c, int32_t i) {
  const tvm_any value =
      og_tvm_settled(&c->args[c->call.op->info.param_count + i]);
  const og_tensor *tensor = og_tvm_tensor(&value);
  return tensor != NULL && tensor->device.type == OG_CPU
             ? opgraft_frame_set_out(&c->call.frame, i, tensor, &c->error)
             : result_refuse(c, i, tensor);
}

static og_status results_give(og_tvm_call *c) {
  og_status status = OG_OK;
  for (int32_t i = 0; status == OG_OK && i < c->call.op->info.fresh_count; ++i)
    status = result_give(c, i);
  return status;
}

static og_status run(og_tvm_call *c, tvm_any *result) {
  int32_t is_given = 0;
  og_status status = count_check(c, &is_given);
  if (status == OG_OK) status = og_tvm_args_read(c);
  if (status != OG_OK) return status;
  og_host_share(&c->call);
  status = og_host_infer(&c->call, &c->error);
  if (status != OG_OK) return status;
  if (is_given) {
    status = results_give(c);
    return status == OG_OK ? og_host_run(&c->call, &c->error) : status;
  }
  status = og_tvm_results_place(c);
  if (status == OG_OK) status = og_host_run(&c->call, &c->error);
  if (status == OG_OK) status = og_tvm_results_take(c, result);
  og_tvm_results_drop(c);
  return status;
}

// The name of an exception class of Python.
static const char *kind_of(const og_tvm_call *c) {
  if (c->kind != NULL) return c->kind;
  switch (c->error.code) {
    case OG_MEMORY:
      return "MemoryError";
    case OG_KERNEL:
    case OG_INTERNAL:
      return "RuntimeError";
    default:
      return "ValueError";
  }
}

int32_t opgraft_tvm_ffi_call(int32_t op, const void *args, int32_t count,
                             void *result) {
  const og_tvm_library *library = og_tvm_library_get();
  if (library == NULL) return -1;
  const og_own *own = og_own_get();
  if (own->error.code != OG_OK) {
    library->raise("ImportError", own->error.text);
    return -1;
  }
  og_tvm_call c;
  c.library = library;
  c.args = args;
  c.count = count;
  c.held_count = 0;
  c.is_raised = 0;
  c.kind = NULL;
  c.error.code = OG_OK;
  for (int32_t a = 0; a < own->ops[op].info.attr_count; ++a) c.memory[a] = NULL;
  og_host_begin(&c.call, &own->ops[op]);
  const og_status status = run(&c, result);
  og_host_end(&c.call);
  og_tvm_args_release(&c);
  if (status == OG_OK) return 0;
  if (!c.is_raised) library->raise(kind_of(&c), c.error.text);
  return -1;
}

// SPDX-License-Identifier: Apache-2.0
// TVM-FFI's calls. An operator that is given all of its arguments and as many
// tensors more as it has fresh results writes to those. A call that is like the
// operator's last is not inferred again.

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
  const og_own_op *op = c->call->op;
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
      og_tvm_settled(&c->args[c->call->op->info.param_count + i]);
  const og_tensor *tensor = og_tvm_tensor(&value);
  return tensor != NULL && tensor->device.type == OG_CPU
             ? opgraft_frame_set_out(&c->call->frame, i, tensor, &c->error)
             : result_refuse(c, i, tensor);
}

static og_status results_give(og_tvm_call *c) {
  og_status status = OG_OK;
  for (int32_t i = 0; status == OG_OK && i < c->call->op->info.fresh_count; ++i)
    status = result_give(c, i);
  return status;
}

static og_status run_inferred(og_tvm_call *c, int32_t is_given,
                              tvm_any *result) {
  og_status status;
  if (is_given) {
    status = results_give(c);
    return status == OG_OK ? og_host_run(c->call, &c->error) : status;
  }
  status = og_tvm_results_place(c);
  if (status == OG_OK) status = og_host_run(c->call, &c->error);
  if (status == OG_OK) status = og_tvm_results_take(c, result);
  og_tvm_results_drop(c);
  return status;
}

static og_status infer(og_tvm_call *c, int32_t *out_given) {
  og_status status = count_check(c, out_given);
  if (status == OG_OK) status = og_tvm_args_read(c);
  if (status != OG_OK) return status;
  og_host_share(c->call);
  return og_host_infer(c->call, &c->error);
}

// `kept`: what the call is made in; NULL: in memory that goes with it.
static og_status run_afresh(og_tvm_call *c, const og_own_op *op,
                            og_tvm_kept *kept, tvm_any *result) {
  int32_t is_given = 0;
  for (int32_t a = 0; a < op->info.attr_count; ++a) c->memory[a] = NULL;
  if (kept != NULL) og_host_kept_restart(kept->kept);
  og_host_begin(c->call, op);
  og_status status = infer(c, &is_given);
  if (status == OG_OK && kept != NULL) og_tvm_args_keep(c, kept);
  if (status == OG_OK) status = run_inferred(c, is_given, result);
  og_host_end(c->call);
  og_tvm_args_release(c);
  return status;
}

static og_status run_apart(og_tvm_call *c, const og_own_op *op,
                           tvm_any *result) {
  og_host_call call;
  c->call = &call;
  return run_afresh(c, op, NULL, result);
}

static og_status run_again(og_tvm_call *c, og_tvm_kept *kept, int32_t is_given,
                           tvm_any *result) {
  og_status status = og_host_kept_begin(kept->kept, &c->error);
  if (status == OG_OK) status = run_inferred(c, is_given, result);
  og_host_kept_end(kept->kept);
  return status;
}

static og_status run_kept(og_tvm_call *c, const og_own_op *op,
                          og_tvm_kept *kept, tvm_any *result) {
  int32_t is_given = 0;
  c->call = &kept->kept->call;
  const int is_same = kept->kept->is_inferred &&
                      count_check(c, &is_given) == OG_OK &&
                      og_tvm_args_match(c, kept);
  const og_status status = is_same ? run_again(c, kept, is_given, result)
                                   : run_afresh(c, op, kept, result);
  og_host_kept_give(kept->kept);
  return status;
}

// --- Kept calls --------------------------------------------------------------

static og_host_kept_table kepts = {.entry_bytes = sizeof(og_tvm_kept)};

__attribute__((destructor)) static void kepts_drop(void) {
  og_host_kept_table_drop(&kepts);
}

// --- Errors ------------------------------------------------------------------

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
  const og_own_op *own_op = &own->ops[op];
  og_tvm_kept *kept = og_host_kept_table_take(&kepts, op);
  const og_status status = kept != NULL ? run_kept(&c, own_op, kept, result)
                                        : run_apart(&c, own_op, result);
  if (status == OG_OK) return 0;
  if (!c.is_raised) library->raise(kind_of(&c), c.error.text);
  return -1;
}

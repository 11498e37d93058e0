// SPDX-License-Identifier: Apache-2.0
// Calls that stay inferred.
//
// Invariant: where is_inferred holds, the call's tensors point into `sizes` and
// the call itself, and what a run put in their place (row-major twins, a
// caller's results) is put back before the next.

#include "shared/kept.h"

#include <pthread.h>
#include <stdlib.h>

#include "shared/control.h"

og_host_kept *og_host_kept_create(const og_own_op *op) {
  if ((op->info.flags & (OPGRAFT_OP_LISTS | OPGRAFT_OP_DATA_DEPENDENT)) != 0)
    return NULL;
  og_host_kept *kept = calloc(1, sizeof *kept);
  if (kept == NULL) return NULL;
  kept->call.op = op;
  og_own_busy_add(&kept->busy);
  return kept;
}

void og_host_kept_destroy(og_host_kept *kept) {
  if (kept == NULL) return;
  og_own_busy_remove(&kept->busy);
  free(kept);
}

void og_host_kept_restart(og_host_kept *kept) { kept->is_inferred = 0; }

// Points *sizes at a copy in the call's own memory.
static void own_copy(og_host_kept *kept, int32_t *used, int32_t rank,
                     int64_t **sizes) {
  int64_t *copy = kept->sizes + *used;
  if (rank > 0) memcpy(copy, *sizes, (size_t)rank * sizeof *copy);
  *sizes = copy;
  *used += rank;
}

void og_host_kept_keep(og_host_kept *kept) {
  og_host_call *call = &kept->call;
  int32_t used = 0;
  for (int32_t t = 0; t < call->op->info.tensor_count; ++t) {
    og_tensor *tensor = &call->inputs[t];
    kept->is_given[t] = call->frame.in[t] != NULL;
    if (!kept->is_given[t]) continue;
    const int32_t rank = tensor->ndim;
    if (tensor->strides == NULL || 2 * rank > OG_HOST_STRIDES_MAX - used)
      return;
    uint64_t step = 1;
    kept->is_dense[t] = 1;
    for (int32_t i = rank; i-- > 0;) {
      kept->is_dense[t] &= (uint64_t)tensor->strides[i] == step;
      step *= tensor->shape[i] > 1 ? (uint64_t)tensor->shape[i] : 1;
    }
    own_copy(kept, &used, rank, &tensor->shape);
    own_copy(kept, &used, rank, &tensor->strides);
  }
  for (int32_t i = 0; i < call->op->info.fresh_count; ++i)
    kept->fresh_strides[i] = call->frame.fresh[i].strides;
  kept->is_inferred = 1;
}

og_status og_host_kept_begin(og_host_kept *kept, opgraft_error *error) {
  og_host_call *call = &kept->call;
  opgraft_frame *frame = &call->frame;
  const og_own_op *op = call->op;
  og_tensor **out = frame->out;
  call->control = og_control_enter();
  for (int32_t t = 0; t < op->info.tensor_count; ++t)
    frame->in[t] = kept->is_given[t] ? &call->inputs[t] : NULL;
  for (int32_t j = 0; j < op->info.mutated_count; ++j) {
    const int32_t t = op->mutated_tensors[j];
    *out++ = kept->is_given[t] ? &call->inputs[t] : NULL;
  }
  for (int32_t i = 0; i < op->info.fresh_count; ++i) {
    og_tensor *fresh = &frame->fresh[i];
    fresh->data = NULL;
    fresh->byte_offset = 0;
    fresh->strides = kept->fresh_strides[i];
    *out++ = fresh;
  }
  return op->info.mutated_count > 0
             ? opgraft_frame_check_written(frame, NULL, error)
             : OG_OK;
}

void og_host_kept_end(og_host_kept *kept) {
  opgraft_frame_reset(&kept->call.frame);
  og_control_leave(kept->call.control);
}

// --- One of each operator ----------------------------------------------------

static og_host_kept **entry_of(const og_host_kept_table *table, int32_t op) {
  return (og_host_kept **)(void *)(table->entries +
                                   (size_t)op * table->entry_bytes);
}

static void table_make(og_host_kept_table *table) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const og_own *own = og_own_get();
  pthread_mutex_lock(&mutex);
  if (!table->is_made) {
    table->entries = calloc((size_t)own->op_count, table->entry_bytes);
    table->count = table->entries != NULL ? own->op_count : 0;
    for (int32_t i = 0; i < table->count; ++i)
      *entry_of(table, i) = og_host_kept_create(&own->ops[i]);
    __atomic_store_n(&table->is_made, 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&mutex);
}

void *og_host_kept_table_take(og_host_kept_table *table, int32_t op) {
  if (__builtin_expect(!__atomic_load_n(&table->is_made, __ATOMIC_ACQUIRE), 0))
    table_make(table);
  if (table->entries == NULL) return NULL;
  og_host_kept **entry = entry_of(table, op);
  return og_host_kept_take(*entry) ? entry : NULL;
}

void og_host_kept_table_drop(og_host_kept_table *table) {
  if (og_own_is_called()) return;
  for (int32_t i = 0; i < table->count; ++i)
    og_host_kept_destroy(*entry_of(table, i));
  free(table->entries);
  table->entries = NULL;
  table->count = 0;
}

// SPDX-License-Identifier: Apache-2.0
// One node: its attributes are read when it is made, its tensors at each run.

#include "onnxruntime/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "onnxruntime/group.h"
#include "onnxruntime/shares.h"
#include "shared/team.h"

typedef struct kernel {
  ort_api api;
  int has_shapes;
  const og_own_op *op;
  og_ort_group *group;
} kernel;

void *og_ort_fail(ort_api api, const opgraft_error *error) {
  const int is_ours = error->code == OG_MEMORY || error->code == OG_KERNEL ||
                      error->code == OG_INTERNAL;
  return ORT(api, create_status)(is_ours ? ORT_FAIL : ORT_INVALID_ARGUMENT,
                                 error->text);
}

static void *no_memory(ort_api api, const og_own_op *op) {
  opgraft_error error;
  og_own_fail(op, OG_MEMORY, &error, "out of memory");
  return og_ort_fail(api, &error);
}

void *og_ort_kernel_create(const ort_custom_op *op, ort_api api,
                           const void *info, void **out_kernel) {
  const og_ort_op *own = (const og_ort_op *)(const void *)op;
  const og_ort_source source = og_ort_kernel_source(api, info);
  opgraft_error error = {.code = OG_OK};
  og_ort_attrs attrs;
  *out_kernel = NULL;
  if (og_ort_attrs_read(own->op, &source, &attrs, &error) != OG_OK) {
    og_ort_attrs_reset(&attrs);
    return og_ort_fail(api, &error);
  }
  kernel *made = calloc(1, sizeof *made);
  if (made != NULL)
    made->group = og_ort_group_join(own->op, op->version, &attrs);
  if (made == NULL || made->group == NULL) {
    og_ort_attrs_reset(&attrs);
    free(made);
    return no_memory(api, own->op);
  }
  made->api = api;
  made->has_shapes = own->has_shapes;
  made->op = own->op;
  *out_kernel = made;
  return NULL;
}

void og_ort_kernel_destroy(void *kernel_state) {
  kernel *k = kernel_state;
  og_ort_group_leave(k->group);
  free(k);
}

// --- Tensors -----------------------------------------------------------------

// One run. Functions return a status of ONNX Runtime's, NULL for success.
typedef struct run {
  const kernel *kernel;
  void *context;
  size_t input_count;
  og_host_call *call;
  og_ort_shares shares;
  opgraft_error error;
  int64_t dims[OG_HOST_STRIDES_MAX];
  size_t dims_used;
  void *apart[OPGRAFT_OUT_MAX];  // results whose size only the kernel finds
} run;

static void *refuse(run *r) { return og_ort_fail(r->kernel->api, &r->error); }

static void *too_large(run *r) {
  og_own_fail(r->kernel->op, OG_INVALID, &r->error,
              "the inputs have more than %d dims together",
              OG_HOST_STRIDES_MAX);
  return refuse(r);
}

static void tensor_set(og_tensor *out, int type, int64_t *dims, size_t rank) {
  const og_dtype dtype = og_ort_dtype(type);
  out->device.type = OG_CPU;
  out->device.id = 0;
  out->ndim = (int32_t)rank;
  memcpy(&out->dtype, &dtype, sizeof dtype);
  out->shape = dims;
  out->strides = NULL;
  out->byte_offset = 0;
}

// The value's own sizes, which live as long as it does.
static void *shape_borrow(const run *r, const void *value, og_tensor *out) {
  size_t rank = 0;
  int type = 0;
  const int64_t *own = NULL;
  int64_t *dims;
  void *status = ORT(r->kernel->api, get_shape)(value, &type, &own, &rank);
  if (status != NULL) return status;
  memcpy(&dims, &own, sizeof dims);  // a frame reads shapes only
  tensor_set(out, type, dims, rank);
  return NULL;
}

static void *info_read(run *r, const void *info, og_tensor *out) {
  const ort_api api = r->kernel->api;
  size_t rank = 0;
  int type = 0;
  int64_t *dims = r->dims + r->dims_used;
  void *status = ORT(api, get_rank)(info, &rank);
  if (status == NULL) status = ORT(api, get_type)(info, &type);
  if (status == NULL && rank > OG_HOST_STRIDES_MAX - r->dims_used)
    status = too_large(r);
  else if (status == NULL && rank > 0)
    status = ORT(api, get_dims)(info, dims, rank);
  if (status != NULL) return status;
  r->dims_used += rank;
  tensor_set(out, type, dims, rank);
  return NULL;
}

// What the value is, but for its memory.
static void *shape_read(run *r, const void *value, og_tensor *out) {
  const ort_api api = r->kernel->api;
  void *info = NULL;
  if (r->kernel->has_shapes) return shape_borrow(r, value, out);
  void *status = ORT(api, get_info)(value, &info);
  if (status != NULL) return status;
  status = info_read(r, info, out);
  ORT(api, release_info)(info);
  return status;
}

// Input `index`; *out_given is 0 where the node lacks it.
static void *input_read(run *r, size_t index, og_tensor *out, int *out_given) {
  const ort_api api = r->kernel->api;
  void *value = NULL;
  *out_given = 0;
  if (index >= r->input_count) return NULL;
  void *status = ORT(api, input)(r->context, index, &value);
  if (status != NULL || value == NULL) return status;
  status = shape_read(r, value, out);
  if (status != NULL) return status;
  *out_given = 1;
  return ORT(api, tensor_data)(value, &out->data);
}

static void *output_make(run *r, size_t index, const og_tensor *tensor,
                         void **out_data) {
  const ort_api api = r->kernel->api;
  void *value = NULL;
  void *status = ORT(api, output)(r->context, index, tensor->shape,
                                  (size_t)tensor->ndim, &value);
  if (status != NULL) return status;
  if (value != NULL) return ORT(api, tensor_data)(value, out_data);
  og_own_fail(r->kernel->op, OG_INVALID, &r->error,
              "output %zu has no name in the model; name every output", index);
  return refuse(r);
}

static void *list_read(run *r, int32_t t) {
  for (size_t i = (size_t)t; i < r->input_count; ++i) {
    og_tensor tensor;
    int is_given = 0;
    void *status = input_read(r, i, &tensor, &is_given);
    if (status != NULL) return status;
    if (og_host_entry(r->call, t, is_given ? &tensor : NULL, &r->error) !=
        OG_OK)
      return refuse(r);
  }
  return NULL;
}

// Its new value is the output behind the fresh ones; where ONNX Runtime gave
// that the input's memory nothing is copied.
static void *written_read(run *r, const opgraft_param_info *param,
                          og_tensor tensor) {
  void *data = NULL;
  const size_t index = (size_t)(r->kernel->op->info.fresh_count + param->out);
  void *status = output_make(r, index, &tensor, &data);
  if (status == NULL) og_host_written(r->call, param->tensor, &tensor, data);
  return status;
}

static void *inputs_read(run *r) {
  for (int32_t t = 0; t < r->kernel->op->info.tensor_count; ++t) {
    const opgraft_param_info *param = r->kernel->op->tensor_params[t];
    og_tensor *tensor = og_host_place(r->call, t);
    int is_given = 0;
    void *status = (param->flags & OPGRAFT_PARAM_LIST) != 0
                       ? list_read(r, t)
                       : input_read(r, (size_t)t, tensor, &is_given);
    if (status == NULL && is_given && param->out >= 0)
      status = written_read(r, param, *tensor);
    else if (status == NULL && is_given)
      og_host_placed(r->call, t);
    if (status != NULL) return status;
  }
  return NULL;
}

// --- Results -----------------------------------------------------------------

static int is_found_late(const run *r) {
  return (r->kernel->op->info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0;
}

static void *outputs_make(run *r) {
  for (int32_t i = 0; i < r->kernel->op->info.fresh_count; ++i) {
    og_tensor *fresh = &r->call->frame.fresh[i];
    if (!is_found_late(r)) {
      void *status = output_make(r, (size_t)i, fresh, &fresh->data);
      if (status != NULL) return status;
      continue;
    }
    const size_t bytes = (og_host_bytes(fresh) + 127) / 64 * 64;
    r->apart[i] = aligned_alloc(64, bytes);
    fresh->data = r->apart[i];
    if (fresh->data == NULL) return no_memory(r->kernel->api, r->kernel->op);
  }
  return NULL;
}

// Results whose sizes the kernel has found.
static void *outputs_copy(run *r) {
  for (int32_t i = 0; i < r->kernel->op->info.fresh_count; ++i) {
    const og_tensor *fresh = &r->call->frame.fresh[i];
    void *data = NULL;
    void *status = output_make(r, (size_t)i, fresh, &data);
    if (status != NULL) return status;
    const size_t bytes = og_host_bytes(fresh);
    if (bytes > 0) memcpy(data, r->apart[i], bytes);
  }
  return NULL;
}

// --- Running -----------------------------------------------------------------

static void *run_inferred(run *r) {
  void *status = outputs_make(r);
  if (status != NULL) return status;
  if (og_host_run(r->call, &r->error) != OG_OK) return refuse(r);
  return is_found_late(r) ? outputs_copy(r) : NULL;
}

// `kept`: what the call is made in, NULL where nobody keeps it.
static void *run_all(run *r, og_host_kept *kept) {
  const og_own_op *op = r->kernel->op;
  const og_ort_group *group = r->kernel->group;
  void *status = inputs_read(r);
  if (status != NULL) return status;
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    r->call->frame.attr[a] = group->attrs.attr[a];
  if (group->level >= ORT_LEVEL_THREADS)
    og_ort_shares_set(r->call, &r->shares);
  else
    og_host_share(r->call);
  if (og_host_infer(r->call, &r->error) != OG_OK) return refuse(r);
  if (kept != NULL) og_host_kept_keep(kept);
  return run_inferred(r);
}

static void *run_afresh(run *r, og_host_kept *kept) {
  const int32_t fresh_count = r->kernel->op->info.fresh_count;
  for (int32_t i = 0; i < fresh_count; ++i) r->apart[i] = NULL;
  r->dims_used = 0;
  og_host_begin(r->call, r->kernel->op);
  void *status = run_all(r, kept);
  og_host_end(r->call);
  for (int32_t i = 0; i < fresh_count; ++i) free(r->apart[i]);
  return status;
}

// Apart, so that its memory is not on the stack of a call that is kept.
static __attribute__((noinline)) void *run_apart(run *r) {
  og_host_call call;
  r->call = &call;
  return run_afresh(r, NULL);
}

// Whether the node's inputs are as the kept call's, which then has their
// memory.
static void *inputs_match(run *r, og_host_kept *kept, int *out_same) {
  *out_same = kept->is_inferred;
  for (int32_t t = 0; *out_same && t < r->kernel->op->info.tensor_count; ++t) {
    og_tensor tensor;
    int is_given = 0;
    void *status = input_read(r, (size_t)t, &tensor, &is_given);
    if (status != NULL) return status;
    *out_same = og_host_kept_matches(kept, t, is_given ? &tensor : NULL);
  }
  return NULL;
}

static void *written_make(run *r, og_host_kept *kept) {
  const og_own_op *op = r->kernel->op;
  for (int32_t j = 0; j < op->info.mutated_count; ++j) {
    const int32_t t = op->mutated_tensors[j];
    og_tensor *tensor = &kept->call.inputs[t];
    void *data = NULL;
    if (!kept->is_given[t]) continue;
    void *status =
        output_make(r, (size_t)(op->info.fresh_count + j), tensor, &data);
    if (status != NULL) return status;
    og_host_written_move(tensor, data);
  }
  return NULL;
}

static void *run_again(run *r, og_host_kept *kept) {
  if (r->kernel->group->level >= ORT_LEVEL_THREADS)
    r->call->frame.call.host = &r->shares;
  void *status = written_make(r, kept);
  if (status != NULL) return status;
  status = og_host_kept_begin(kept, &r->error) == OG_OK ? run_inferred(r)
                                                        : refuse(r);
  og_host_kept_end(kept);
  return status;
}

static void *run_kept(run *r, og_host_kept *kept) {
  int is_same = 0;
  r->call = &kept->call;
  r->dims_used = 0;
  void *status = inputs_match(r, kept, &is_same);
  if (status != NULL) return status;
  if (is_same) return run_again(r, kept);
  og_host_kept_restart(kept);
  return run_afresh(r, kept);
}

void *og_ort_kernel_compute(void *kernel_state, void *context) {
  run r;
  r.kernel = kernel_state;
  r.context = context;
  r.shares = (og_ort_shares){r.kernel->api, context};
  r.error.code = OG_OK;
  void *status = ORT(r.kernel->api, input_count)(context, &r.input_count);
  if (status != NULL) return status;
  og_host_kept *kept = r.kernel->group->kept;
  if (!og_host_kept_take(kept)) return run_apart(&r);
  status = run_kept(&r, kept);
  og_host_kept_give(kept);
  return status;
}

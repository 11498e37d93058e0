// SPDX-License-Identifier: Apache-2.0
// A node's kernel: made once, called with each set of inputs.
//
// Outputs: the fresh results, then the new value of each argument that is
// written, in that argument's memory where no one else holds it.

#include "tensorflow/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/packed.h"
#include "shared/team.h"
#include "tensorflow/library.h"

enum {
  INPUTS_MAX = OPGRAFT_ARG_MAX + OG_HOST_ENTRIES_MAX,
  NAME_MAX = 256,
};

typedef struct kernel {
  int64_t *words;
  og_packed node;
} kernel;

static int code_of(og_status status) {
  if (status == OG_MEMORY) return TF_CODE_EXHAUSTED;
  return status == OG_KERNEL || status == OG_INTERNAL
             ? TF_CODE_INTERNAL
             : TF_CODE_INVALID_ARGUMENT;
}

static og_status say(opgraft_error *error, og_status code, const char *name,
                     const char *text) {
  error->code = code;
  snprintf(error->text, sizeof error->text, "%s: %s", name, text);
  return code;
}

// --- Making it ---------------------------------------------------------------

static const og_own_op *op_find(const char *name) {
  const og_own *own = og_own_get();
  for (int32_t i = 0; i < own->op_count; ++i)
    if (strcmp(own->ops[i].info.name, name) == 0) return &own->ops[i];
  return NULL;
}

static og_status op_read(const og_tf_library *tf, void *made, void *status,
                         const og_own_op **out_op, opgraft_error *error) {
  char name[NAME_MAX];
  int32_t count = 0, bytes = 0;
  tf->OpKernelConstruction_GetAttrSize(made, "op", &count, &bytes, status);
  if (tf->GetCode(status) != TF_CODE_OK || bytes < 0 || bytes >= NAME_MAX)
    return say(error, OG_INVALID, og_own_get()->name,
               "a node's attribute op is not an operator's name");
  tf->OpKernelConstruction_GetAttrString(made, "op", name, NAME_MAX - 1,
                                         status);
  name[bytes] = '\0';
  *out_op = op_find(name);
  if (*out_op == NULL)
    return say(error, OG_INVALID, og_own_get()->name,
               "the file has no operator of the name in a node's attribute op");
  const char *limit = og_own_op_limit(*out_op);  // a graph may hold any name
  return limit == NULL ? OG_OK : say(error, OG_UNSUPPORTED, name, limit);
}

static og_status words_read(const og_tf_library *tf, void *made, void *status,
                            kernel *k, int32_t *out_count,
                            opgraft_error *error) {
  int32_t bytes = 0;
  tf->OpKernelConstruction_GetAttrSize(made, "call", out_count, &bytes, status);
  if (tf->GetCode(status) != TF_CODE_OK || *out_count < 0)
    return say(error, OG_INVALID, og_own_get()->name,
               "a node's attribute call is missing");
  k->words = calloc((size_t)*out_count + 1, sizeof *k->words);
  if (k->words == NULL)
    return say(error, OG_MEMORY, og_own_get()->name, "out of memory");
  if (*out_count > 0)
    tf->OpKernelConstruction_GetAttrInt64List(made, "call", k->words,
                                              *out_count, status);
  return OG_OK;
}

static og_status kernel_read(const og_tf_library *tf, void *made, void *status,
                             kernel *k, opgraft_error *error) {
  const og_own_op *op = NULL;
  int32_t count = 0;
  OG_HOST_TRY(op_read(tf, made, status, &op, error));
  OG_HOST_TRY(words_read(tf, made, status, k, &count, error));
  og_words words = {.word = k->words, .count = count};
  return og_packed_read(&k->node, op, &words, error);
}

void *og_tf_kernel_create(void *construction) {
  const og_tf_library *tf = og_tf_library_get();
  opgraft_error error = {.code = OG_OK};
  void *status = tf->NewStatus();
  kernel *k = calloc(1, sizeof *k);
  og_status code =
      k != NULL ? kernel_read(tf, construction, status, k, &error)
                : say(&error, OG_MEMORY, og_own_get()->name, "out of memory");
  if (code != OG_OK) {
    tf->SetStatus(status, code_of(code), error.text);
    tf->OpKernelConstruction_Failure(construction, status);
    og_tf_kernel_delete(k);
    k = NULL;
  }
  tf->DeleteStatus(status);
  return k;
}

void og_tf_kernel_delete(void *made) {
  kernel *k = made;
  if (k == NULL) return;
  og_packed_reset(&k->node);
  free(k->words);
  free(k);
}

// --- A call ------------------------------------------------------------------

typedef struct run {
  const og_tf_library *tf;
  const og_packed *node;
  void *context;
  void *status;
  og_host_call call;
  void *inputs[INPUTS_MAX];
  void *outputs[INPUTS_MAX];
  int32_t input_count;
  int32_t output_count;
  int64_t dims[OG_HOST_STRIDES_MAX];
  int32_t dims_used;
  void *apart[OPGRAFT_OUT_MAX];  // results whose size only the kernel finds
} run;

static og_status count_error(const run *r, const char *what, int found,
                             int64_t wanted, opgraft_error *error) {
  return og_own_fail(r->node->op, OG_INVALID, error,
                     "found %d %s, expected %lld", found, what,
                     (long long)wanted);
}

// What TensorFlow says.
static og_status host_error(const run *r, opgraft_error *error) {
  return og_own_fail(r->node->op, OG_MEMORY, error, "%s",
                     r->tf->Message(r->status));
}

static og_status input_tensor(run *r, int32_t index, og_tensor *out,
                              opgraft_error *error) {
  r->tf->GetInput(r->context, index, &r->inputs[index], r->status);
  if (r->tf->GetCode(r->status) != TF_CODE_OK) return host_error(r, error);
  const void *tensor = r->inputs[index];
  const int rank = r->tf->NumDims(tensor);
  int64_t *dims = r->dims + r->dims_used;
  if (rank < 0 || rank > OG_HOST_STRIDES_MAX - r->dims_used)
    return count_error(r, "dims of the inputs together", r->dims_used + rank,
                       OG_HOST_STRIDES_MAX, error);
  for (int i = 0; i < rank; ++i) dims[i] = r->tf->Dim(tensor, i);
  r->dims_used += rank;
  *out = (og_tensor){.data = r->tf->TensorData(tensor),
                     .device = {OG_CPU, 0},
                     .ndim = rank,
                     .dtype = og_tf_dtype(r->tf->TensorType(tensor)),
                     .shape = dims};
  return OG_OK;
}

// TensorFlow allocates by the type that the node says.
static og_status output_type_check(const run *r, int32_t index,
                                   const og_tensor *tensor,
                                   opgraft_error *error) {
  const int type = r->tf->ExpectedOutputDataType(r->context, index);
  const int wanted = og_tf_number(tensor->dtype);
  if (type == wanted) return OG_OK;
  return og_own_fail(
      r->node->op, OG_DTYPE, error,
      "output %d has TensorFlow's type %d in the node, expected %d", (int)index,
      type, wanted);
}

// The memory of the node's output `index`.
static og_status output_make(run *r, int32_t index, const og_tensor *tensor,
                             void **out_data, opgraft_error *error) {
  OG_HOST_TRY(output_type_check(r, index, tensor, error));
  void *made = r->tf->AllocateOutput(
      r->context, index, og_tf_number(tensor->dtype), tensor->shape,
      tensor->ndim, og_host_bytes(tensor), r->status);
  if (r->tf->GetCode(r->status) != TF_CODE_OK) return host_error(r, error);
  r->outputs[index] = made;
  *out_data = r->tf->TensorData(made);
  return OG_OK;
}

// The argument's own memory is its new value's where our reference is the last
// one: it is given up for that, and taken again where another holds the memory.
static og_status written_read(run *r, const opgraft_param_info *param,
                              int32_t index, const og_tensor *tensor,
                              opgraft_error *error) {
  const int32_t out =
      r->output_count - r->node->op->info.mutated_count + param->out;
  int from = -1;
  OG_HOST_TRY(output_type_check(r, out, tensor, error));
  r->tf->DeleteTensor(r->inputs[index]);
  r->inputs[index] = NULL;
  r->outputs[out] = r->tf->ForwardInputOrAllocateOutput(
      r->context, &index, 1, out, tensor->shape, tensor->ndim, &from,
      r->status);
  if (r->tf->GetCode(r->status) != TF_CODE_OK) return host_error(r, error);
  og_tensor source = *tensor;
  source.data = r->tf->TensorData(r->outputs[out]);
  void *data = source.data;
  if (from < 0) {
    r->tf->GetInput(r->context, index, &r->inputs[index], r->status);
    if (r->tf->GetCode(r->status) != TF_CODE_OK) return host_error(r, error);
    source.data = r->tf->TensorData(r->inputs[index]);
  }
  og_host_written(&r->call, param->tensor, &source, data);
  return OG_OK;
}

static og_status input_give(void *state, int32_t t, int32_t index, int is_list,
                            opgraft_error *error) {
  run *r = state;
  const opgraft_param_info *param = r->node->op->tensor_params[t];
  og_tensor tensor;
  OG_HOST_TRY(input_tensor(r, index, &tensor, error));
  if (is_list) return og_host_entry(&r->call, t, &tensor, error);
  if (param->out >= 0) return written_read(r, param, index, &tensor, error);
  og_host_input(&r->call, t, &tensor);
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static int is_found_late(const run *r) {
  return (r->node->op->info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0;
}

static og_status apart_make(run *r, int32_t i, opgraft_error *error) {
  og_tensor *fresh = &r->call.frame.fresh[i];
  r->apart[i] = aligned_alloc(64, (og_host_bytes(fresh) + 127) / 64 * 64);
  fresh->data = r->apart[i];
  if (fresh->data != NULL) return OG_OK;
  return say(error, OG_MEMORY, r->node->op->info.name, "out of memory");
}

static og_status outputs_make(run *r, opgraft_error *error) {
  const int64_t wanted = og_host_results_count(&r->call);
  if (r->output_count != wanted)
    return count_error(r, "outputs", r->output_count, wanted, error);
  int32_t index = 0;
  for (int32_t i = 0; i < r->node->op->info.fresh_count; ++i)
    for (int64_t k = 0; k < og_host_result_count(&r->call, i); ++k) {
      og_tensor *result = og_host_result(&r->call, i, k);
      OG_HOST_TRY(is_found_late(r) && !og_host_is_list(&r->call, i)
                      ? apart_make(r, i, error)
                      : output_make(r, index++, result, &result->data, error));
    }
  return OG_OK;
}

// Results whose sizes the kernel has found.
static og_status outputs_copy(run *r, opgraft_error *error) {
  for (int32_t i = 0; i < r->node->op->info.fresh_count; ++i) {
    const og_tensor *fresh = &r->call.frame.fresh[i];
    void *data = NULL;
    OG_HOST_TRY(output_make(r, i, fresh, &data, error));
    const size_t bytes = og_host_bytes(fresh);
    if (bytes > 0) memcpy(data, r->apart[i], bytes);
  }
  return OG_OK;
}

static og_status run_all(run *r, opgraft_error *error) {
  const og_packed *node = r->node;
  const int32_t least = node->op->info.mutated_count;
  if (r->input_count != node->input_count)
    return count_error(r, "inputs", r->input_count, node->input_count, error);
  if (r->output_count < least || r->output_count > INPUTS_MAX)
    return count_error(r, "outputs", r->output_count, least, error);
  OG_HOST_TRY(og_packed_inputs(node, &r->call, input_give, r, error));
  for (int32_t a = 0; a < node->op->info.attr_count; ++a)
    r->call.frame.attr[a] = node->attr[a];
  og_host_share(&r->call);
  OG_HOST_TRY(og_host_infer(&r->call, error));
  OG_HOST_TRY(outputs_make(r, error));
  OG_HOST_TRY(og_host_run(&r->call, error));
  return is_found_late(r) ? outputs_copy(r, error) : OG_OK;
}

static void run_reset(run *r) {
  for (int32_t i = 0; i < INPUTS_MAX; ++i) {
    if (r->inputs[i] != NULL) r->tf->DeleteTensor(r->inputs[i]);
    if (r->outputs[i] != NULL) r->tf->DeleteTensor(r->outputs[i]);
  }
  for (int32_t i = 0; i < OPGRAFT_OUT_MAX; ++i) free(r->apart[i]);
}

void og_tf_kernel_compute(void *made, void *context) {
  const kernel *k = made;
  run r = {.inputs = {NULL}};
  opgraft_error error = {.code = OG_OK};
  r.tf = og_tf_library_get();
  r.node = &k->node;
  r.context = context;
  r.status = r.tf->NewStatus();
  r.input_count = r.tf->NumInputs(context);
  r.output_count = r.tf->NumOutputs(context);
  og_host_begin(&r.call, k->node.op);
  const og_status status = run_all(&r, &error);
  og_host_end(&r.call);
  if (status != OG_OK) {
    r.tf->SetStatus(r.status, code_of(status), error.text);
    r.tf->OpKernelContext_Failure(context, r.status);
  }
  run_reset(&r);
  r.tf->DeleteStatus(r.status);
}

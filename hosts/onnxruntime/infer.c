// SPDX-License-Identifier: Apache-2.0
// Result shapes where a model is loaded and sizes may be names.
//
// A rule runs on numbers only, so it runs on several: each name gets a size of
// its own, another one each time. A result's size that stays the same is that
// number, one that is always a name's is the name, any other is unknown and
// gets a name of its own: ONNX Runtime takes a size without a name for a
// number. Where the rule refuses (two names may stand for one size), or an
// input's rank is unknown, nothing is inferred; a run then says what is wrong.
//
// Invariant: og_ort_infer returns NULL. ONNX Runtime drops the status that
// inference returns, and would leak it.

#include "onnxruntime/infer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/attrs.h"
#include "onnxruntime/kernel.h"
#include "shared/call.h"

enum {
  TRIALS = 3,
  NAMES_MAX = 64,
  INPUTS_MAX = OPGRAFT_ARG_MAX + OG_HOST_ENTRIES_MAX,
  SHAPES_MAX = INPUTS_MAX * 8,
  UNKNOWN_BYTES = 32,
};

typedef struct inference {
  ort_api api;
  void *context;
  const og_ort_op *form;
  og_ort_attrs attrs;
  const char *names[NAMES_MAX];  // "" for a size without a name
  int32_t name_count;
  og_tensor inputs[INPUTS_MAX];
  int is_given[INPUTS_MAX];
  int64_t dims[SHAPES_MAX];  // sizes, or -1 - name
  int32_t dims_used;
  // For each trial, each result in turn: its rank, then its sizes.
  int64_t results[TRIALS][SHAPES_MAX];
} inference;

// Sizes that no rule of thumb meets: far apart, prime, and small enough that
// the bytes of four of them multiplied are a size.
static int64_t name_size(int32_t name, int trial) {
  static const int64_t primes[TRIALS] = {1009, 2003, 4001};
  return primes[trial] + (int64_t)name * (2 * trial + 101);
}

// Functions that end in a number return 1 where inference goes on.
static int is_ok(const inference *in, void *status) {
  if (status == NULL) return 1;
  ORT(in->api, release_status)(status);
  return 0;
}

// The number of a name; one without a name is a new one each time.
static int32_t name_find(inference *in, const char *name) {
  for (int32_t i = 0; name[0] != '\0' && i < in->name_count; ++i)
    if (strcmp(in->names[i], name) == 0) return i;
  if (in->name_count == NAMES_MAX) return -1;
  in->names[in->name_count] = name;
  return in->name_count++;
}

// 0 for rank 0 too: an unknown rank reads as 0.
static int shape_read(inference *in, void *info, og_tensor *out) {
  const char *names[OPGRAFT_RANK_MAX];
  int64_t *dims = in->dims + in->dims_used;
  size_t rank = 0;
  int type = 0;
  if (!is_ok(in, ORT(in->api, get_rank)(info, &rank)) ||
      !is_ok(in, ORT(in->api, get_type)(info, &type)))
    return 0;
  if (rank == 0 || rank > OPGRAFT_RANK_MAX ||
      (size_t)in->dims_used + rank > SHAPES_MAX)
    return 0;
  if (!is_ok(in, ORT(in->api, get_dims)(info, dims, rank)) ||
      !is_ok(in, ORT(in->api, get_symbols)(info, names, rank)))
    return 0;
  for (size_t i = 0; i < rank; ++i) {
    const char *name = names[i] != NULL ? names[i] : "";
    if (dims[i] > 0 || (dims[i] == 0 && name[0] == '\0')) continue;
    const int32_t found = name_find(in, name);
    if (found < 0) return 0;
    dims[i] = -1 - found;
  }
  in->dims_used += (int32_t)rank;
  *out = (og_tensor){.device = {OG_CPU, 0},
                     .ndim = (int32_t)rank,
                     .dtype = og_ort_dtype(type),
                     .shape = dims};
  return 1;
}

static int inputs_read(inference *in) {
  size_t count = 0;
  if (!is_ok(in, ORT(in->api, infer_count)(in->context, &count)) ||
      count > INPUTS_MAX)
    return 0;
  for (size_t i = 0; i < count; ++i) {
    void *info = NULL;
    if (!is_ok(in, ORT(in->api, infer_input)(in->context, i, &info))) return 0;
    if (info == NULL) continue;
    if (!shape_read(in, info, &in->inputs[i])) return 0;
    in->is_given[i] = 1;
  }
  return 1;
}

// --- Trials ------------------------------------------------------------------

static og_status trial_infer(const inference *in, og_host_call *call,
                             const int64_t *dims, opgraft_error *error) {
  const og_own_op *op = in->form->op;
  for (int32_t i = 0; i < INPUTS_MAX; ++i) {
    const int32_t last = op->info.tensor_count - 1;
    const int32_t t = i < last ? i : last;
    if (!in->is_given[i] || t < 0) continue;
    og_tensor tensor = in->inputs[i];
    const int64_t *own = dims + (tensor.shape - in->dims);
    memcpy(&tensor.shape, &own, sizeof own);
    if ((op->tensor_params[t]->flags & OPGRAFT_PARAM_LIST) == 0) {
      og_host_input(call, t, &tensor);
      continue;
    }
    OG_HOST_TRY(og_host_entry(call, t, &tensor, error));
  }
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    call->frame.attr[a] = in->attrs.attr[a];
  return og_host_infer(call, error);
}

static int result_keep(int64_t *results, int32_t *used,
                       const og_tensor *tensor) {
  if (*used + 1 + tensor->ndim > SHAPES_MAX) return 0;
  results[(*used)++] = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; ++i)
    results[(*used)++] = tensor->shape[i];
  return 1;
}

// 0 where the rule refuses these sizes.
static int trial_run(inference *in, int trial) {
  int64_t dims[SHAPES_MAX];
  const og_own_op *op = in->form->op;
  opgraft_error error = {.code = OG_OK};
  og_host_call call;
  int32_t used = 0;
  for (int32_t i = 0; i < in->dims_used; ++i)
    dims[i] = in->dims[i] >= 0 ? in->dims[i]
                               : name_size((int32_t)(-1 - in->dims[i]), trial);
  og_host_begin(&call, op);
  int is_kept = trial_infer(in, &call, dims, &error) == OG_OK;
  for (int32_t i = 0; is_kept && i < op->info.fresh_count; ++i)
    is_kept = result_keep(in->results[trial], &used, &call.frame.fresh[i]);
  for (int32_t m = 0; is_kept && m < op->info.mutated_count; ++m)
    is_kept = result_keep(in->results[trial], &used, call.frame.out[m]);
  og_host_end(&call);
  return is_kept;
}

// The size at `at` in every trial: a number, or -1 and a name ("" if unknown).
static int64_t size_find(const inference *in, int32_t at, const char **name) {
  const int64_t first = in->results[0][at];
  int is_number = 1;
  for (int k = 1; k < TRIALS; ++k) is_number &= in->results[k][at] == first;
  *name = "";
  if (is_number) return first;
  for (int32_t i = 0; i < in->name_count; ++i) {
    int is_name = 1;
    for (int k = 0; k < TRIALS; ++k)
      is_name &= in->results[k][at] == name_size(i, k);
    if (is_name) *name = in->names[i];
  }
  return -1;
}

// --- Results -----------------------------------------------------------------

// A name that no other size of the process has.
static const char *unknown_name(char out[UNKNOWN_BYTES]) {
  static atomic_uint count;
  snprintf(out, UNKNOWN_BYTES, "opgraft_unknown_%u",
           atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  return out;
}

static void sizes_find(const inference *in, int32_t index, int32_t at,
                       int32_t rank, int64_t *dims, const char **names) {
  for (int32_t i = 0; i < rank; ++i) dims[i] = size_find(in, at + i, &names[i]);
  // The first size of a result that the kernel finds is a bound.
  if ((in->form->op->info.flags & OPGRAFT_OP_DATA_DEPENDENT) == 0 ||
      rank == 0 || index >= in->form->op->info.fresh_count)
    return;
  dims[0] = -1;
  names[0] = "";
}

static int output_set(const inference *in, int32_t index, int32_t at,
                      int32_t rank) {
  int64_t dims[OPGRAFT_RANK_MAX];
  const char *names[OPGRAFT_RANK_MAX];
  char unknown[OPGRAFT_RANK_MAX][UNKNOWN_BYTES];
  const size_t count = (size_t)rank;
  const ort_api api = in->api;
  void *info = NULL;
  sizes_find(in, index, at, rank, dims, names);
  for (int32_t i = 0; i < rank; ++i)
    if (dims[i] < 0 && names[i][0] == '\0') names[i] = unknown_name(unknown[i]);
  if (!is_ok(in, ORT(api, create_info)(&info))) return 0;
  const int is_set =
      is_ok(in, ORT(api, set_type)(info, in->form->output_types[index])) &&
      is_ok(in, ORT(api, set_dims)(info, dims, count)) &&
      is_ok(in, ORT(api, set_symbols)(info, names, count)) &&
      is_ok(in, ORT(api, infer_output)(in->context, (size_t)index, info));
  ORT(api, release_info)(info);
  return is_set;
}

static void outputs_set(const inference *in) {
  int32_t at = 0;
  for (int32_t i = 0; i < in->form->output_count; ++i) {
    const int64_t rank = in->results[0][at++];
    for (int k = 1; k < TRIALS; ++k)
      if (in->results[k][at - 1] != rank) return;
    if (rank > OPGRAFT_RANK_MAX || !output_set(in, i, at, (int32_t)rank))
      return;
    at += (int32_t)rank;
  }
}

// ONNX Runtime asks the first custom operator of a name, whichever the types
// are. NULL where none has them.
static const og_ort_op *form_find(const inference *in) {
  const int32_t last = in->form->op->info.tensor_count - 1;
  for (int32_t f = 0; f < in->form->form_count; ++f) {
    const og_ort_op *form = &in->form->forms[f];
    int is_right = 1;
    for (int32_t i = 0; i < INPUTS_MAX; ++i)
      if (in->is_given[i])
        is_right &= form->input_types[i < last ? i : last] ==
                    og_ort_type(in->inputs[i].dtype);
    if (is_right) return form;
  }
  return NULL;
}

static void infer(inference *in) {
  opgraft_error error = {.code = OG_OK};
  const og_ort_source source = og_ort_infer_source(in->api, in->context);
  if (!inputs_read(in)) return;
  in->form = form_find(in);
  if (in->form == NULL ||
      og_ort_attrs_read(in->form->op, &source, &in->attrs, &error) != OG_OK)
    return;
  for (int k = 0; k < TRIALS; ++k)
    if (!trial_run(in, k)) return;
  outputs_set(in);
}

void *og_ort_infer(const ort_custom_op *op, void *context) {
  const og_ort_op *form = (const og_ort_op *)(const void *)op;
  inference *in = calloc(1, sizeof *in);
  if (in == NULL) return NULL;  // inference is advice; the run will say
  in->api = form->api;
  in->context = context;
  in->form = form;
  infer(in);
  og_ort_attrs_reset(&in->attrs);
  free(in);
  return NULL;
}

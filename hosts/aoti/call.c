// SPDX-License-Identifier: Apache-2.0
// Calls of code that AOTInductor compiled: arguments are borrowed, results are
// the caller's.

#include "aoti/call.h"

#include <string.h>

#include "aoti/library.h"
#include "shared/team.h"

typedef struct reading {
  const og_aoti_library *library;
  const aoti_word *words;
  int32_t used;
  aoti_tensor into;  // for the one result; NULL: results are made
  aoti_tensor made[OPGRAFT_OUT_MAX];
  int32_t made_count;
  int64_t bools[OG_HOST_ENTRIES_MAX];  // of all lists, one behind the other
  int32_t bools_used;
  opgraft_error error;
  og_host_call call;
} reading;

static og_status refuse(reading *r, og_status code, const char *what) {
  return og_own_fail(r->call.op, code, &r->error, "%s", what);
}

// --- Tensors -----------------------------------------------------------------

static og_status tensor_get(reading *r, aoti_tensor handle, og_tensor *out) {
  const og_aoti_library *own = r->library;
  int64_t rank = 0;
  int32_t dtype = -1, device = -1;
  if (own->get_dim(handle, &rank) != 0 ||
      own->get_sizes(handle, &out->shape) != 0 ||
      own->get_strides(handle, &out->strides) != 0 ||
      own->get_dtype(handle, &dtype) != 0 ||
      own->get_device_type(handle, &device) != 0 ||
      own->get_data_ptr(handle, &out->data) != 0)
    return refuse(r, OG_INTERNAL, "libtorch did not describe a tensor");
  out->device.type = OG_CPU;
  out->device.id = 0;
  out->ndim = (int32_t)rank;
  out->dtype = og_aoti_dtype(own, dtype);
  out->byte_offset = 0;
  return device == own->cpu
             ? OG_OK
             : refuse(r, OG_DEVICE, "an argument is not on the CPU");
}

// The address of a list and, behind it, its length.
static og_status entries_read(reading *r, const opgraft_param_info *param,
                              const void **out_entries, int64_t *out_count) {
  *out_entries = r->words[r->used++].p;
  *out_count = r->words[r->used++].i;
  if (*out_count >= 0) return OG_OK;
  return og_own_fail(r->call.op, OG_INVALID, &r->error,
                     "%s has %lld entries, expected 0 or more", param->name,
                     (long long)*out_count);
}

static og_status list_read(reading *r, const opgraft_param_info *param) {
  const void *entries;
  int64_t count;
  OG_HOST_TRY(entries_read(r, param, &entries, &count));
  aoti_tensor const *handles = entries;
  for (int64_t i = 0; i < count; ++i) {
    og_tensor tensor;
    OG_HOST_TRY(tensor_get(r, handles[i], &tensor));
    OG_HOST_TRY(og_host_entry(&r->call, param->tensor, &tensor, &r->error));
  }
  return OG_OK;
}

// An optional tensor comes by the address of its handle.
static og_status tensor_read(reading *r, const opgraft_param_info *param) {
  if ((param->flags & OPGRAFT_PARAM_LIST) != 0) return list_read(r, param);
  aoti_tensor handle = r->words[r->used++].p;
  if ((param->flags & OPGRAFT_PARAM_OPTIONAL) != 0) {
    if (handle == NULL) return OG_OK;
    memcpy(&handle, handle, sizeof handle);
  }
  const og_status status =
      tensor_get(r, handle, og_host_place(&r->call, param->tensor));
  if (status == OG_OK) og_host_placed(&r->call, param->tensor);
  return status;
}

// --- Other arguments ---------------------------------------------------------

static og_status bools_read(reading *r, const int32_t *bools, og_attr *out) {
  int64_t *own = r->bools + r->bools_used;
  if (out->count > OG_HOST_ENTRIES_MAX - r->bools_used)
    return refuse(r, OG_UNSUPPORTED,
                  "the lists of a call have more than 64 bools in this host; "
                  "pass them as a tensor");
  for (int64_t i = 0; i < out->count; ++i) own[i] = bools[i] != 0;
  r->bools_used += (int32_t)out->count;
  out->ints = own;
  return OG_OK;
}

static og_status numbers_read(reading *r, const opgraft_param_info *param,
                              og_attr *out) {
  const void *values;
  int64_t count;
  OG_HOST_TRY(entries_read(r, param, &values, &count));
  *out = (og_attr){.count = count};
  if (param->type == OPGRAFT_TYPE_BOOL) {
    out->kind = OG_ATTR_BOOLS;
    return bools_read(r, values, out);
  }
  if (param->type == OPGRAFT_TYPE_FLOAT) {
    out->kind = OG_ATTR_FLOATS;
    out->floats = values;
    return OG_OK;
  }
  out->kind = OG_ATTR_INTS;
  out->ints = values;
  return OG_OK;
}

static og_status value_set(reading *r, const opgraft_param_info *param,
                           aoti_word word, og_attr *out) {
  *out = (og_attr){.kind = OG_ATTR_INT, .i = word.i};
  switch (param->type) {
    case OPGRAFT_TYPE_FLOAT:
      *out = (og_attr){.kind = OG_ATTR_FLOAT, .f = word.f};
      return OG_OK;
    case OPGRAFT_TYPE_BOOL:
      *out = (og_attr){.kind = OG_ATTR_BOOL, .i = word.i != 0};
      return OG_OK;
    case OPGRAFT_TYPE_STR:
      *out = (og_attr){.kind = OG_ATTR_STR, .s = word.p};
      out->count = (int64_t)strlen(out->s);
      return OG_OK;
    case OPGRAFT_TYPE_SCALAR_TYPE:
      *out = (og_attr){.kind = OG_ATTR_DTYPE,
                       .dtype = og_aoti_dtype(r->library, (int32_t)word.i)};
      return OG_OK;
    default:
      return OG_OK;
  }
}

// The value that an optional argument's word points to.
static aoti_word pointed(const opgraft_param_info *param, const void *at) {
  aoti_word word = {.i = 0};
  int32_t narrow;
  if (param->type == OPGRAFT_TYPE_BOOL ||
      param->type == OPGRAFT_TYPE_SCALAR_TYPE) {
    memcpy(&narrow, at, sizeof narrow);
    word.i = narrow;
  } else {
    memcpy(&word, at, sizeof word);
  }
  return word;
}

static og_status attr_read(reading *r, const opgraft_param_info *param) {
  og_attr *out = &r->call.frame.attr[param->attr];
  if ((param->flags & OPGRAFT_PARAM_LIST) != 0)
    return numbers_read(r, param, out);
  aoti_word word = r->words[r->used++];
  if ((param->flags & OPGRAFT_PARAM_OPTIONAL) != 0) {
    if (word.p == NULL) {
      *out = (og_attr){.kind = OG_ATTR_NONE};
      return OG_OK;
    }
    word = pointed(param, word.p);
  }
  return value_set(r, param, word, out);
}

static og_status args_read(reading *r) {
  const og_own_op *op = r->call.op;
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    const opgraft_param_info *param = &op->params[i];
    OG_HOST_TRY(param->tensor >= 0 ? tensor_read(r, param)
                                   : attr_read(r, param));
  }
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static og_status results_make(reading *r) {
  for (int32_t i = 0; i < r->call.op->info.fresh_count; ++i) {
    og_tensor *fresh = &r->call.frame.fresh[i];
    int32_t number;
    if (!og_aoti_number(r->library, fresh->dtype, &number))
      return refuse(r, OG_DTYPE, "libtorch lacks the type of a result");
    if (r->library->empty_strided(fresh->ndim, fresh->shape, fresh->strides,
                                  number, r->library->cpu, 0, &r->made[i]) != 0)
      return refuse(r, OG_MEMORY, "libtorch made no memory for a result");
    r->made_count = i + 1;
    if (r->library->get_data_ptr(r->made[i], &fresh->data) != 0)
      return refuse(r, OG_INTERNAL, "libtorch did not describe a result");
  }
  return OG_OK;
}

static og_status result_take(reading *r) {
  og_tensor out;
  const og_status status = tensor_get(r, r->into, &out);
  return status == OG_OK
             ? opgraft_frame_set_out(&r->call.frame, 0, &out, &r->error)
             : status;
}

static og_status run(reading *r) {
  OG_HOST_TRY(args_read(r));
  og_host_share(&r->call);
  og_status status = og_host_infer(&r->call, &r->error);
  if (status == OG_OK)
    status = r->into != NULL ? result_take(r) : results_make(r);
  return status == OG_OK ? og_host_run(&r->call, &r->error) : status;
}

// c10::Error passes through the frames of C, which hold nothing by then.
static int32_t fail(const og_aoti_library *library, const char *text) {
  library->check(false, "opgraft", __FILE__, __LINE__, text);
  return 1;
}

// Into `into`, or new tensors at `results`.
static int32_t call(int32_t op, const aoti_word *words, aoti_tensor into,
                    void **const *results) {
  const og_aoti_library *library = og_aoti_library_get();
  if (library == NULL) return 1;
  const og_own *own = og_own_get();
  if (own->error.code != OG_OK) return fail(library, own->error.text);
  reading r;
  r.library = library;
  r.words = words;
  r.used = 0;
  r.into = into;
  r.made_count = 0;
  r.bools_used = 0;
  r.error.code = OG_OK;
  og_host_begin(&r.call, &own->ops[op]);
  const og_status status = run(&r);
  og_host_end(&r.call);
  if (status == OG_OK) {
    for (int32_t i = 0; i < r.made_count; ++i) *results[i] = r.made[i];
    return 0;
  }
  for (int32_t i = 0; i < r.made_count; ++i)
    library->delete_tensor_object(r.made[i]);
  return fail(library, r.error.text);
}

int32_t opgraft_aoti_call(int32_t op, const union aoti_word *words,
                          void **const *results) {
  return call(op, words, NULL, results);
}

int32_t opgraft_aoti_call_into(int32_t op, const union aoti_word *words,
                               void *out) {
  return call(op, words, out, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// TVM-FFI's values as an operator's arguments.

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_ffi/values.h"

og_status og_tvm_refuse(og_tvm_call *c, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  og_own_fail_by(c->call->op, OG_INVALID, &c->error, format, rest);
  va_end(rest);
  c->kind = "TypeError";
  return OG_INVALID;
}

static og_status no_memory(og_tvm_call *c) {
  return og_own_fail(c->call->op, OG_MEMORY, &c->error,
                     "not enough memory for the arguments");
}

// A call of the library's own failed, and it holds the reason.
static og_status raised(og_tvm_call *c) {
  c->is_raised = 1;
  return OG_INTERNAL;
}

// --- Values ------------------------------------------------------------------

static const char *type_name(int32_t type) {
  switch (type) {
    case TVM_NONE:
      return "None";
    case TVM_INT:
      return "an int";
    case TVM_BOOL:
      return "a bool";
    case TVM_FLOAT:
      return "a float";
    case TVM_DTYPE:
      return "a dtype";
    case TVM_DEVICE:
      return "a device";
    case TVM_DL_TENSOR:
    case TVM_TENSOR:
      return "a tensor";
    case TVM_RAW_STR:
    case TVM_SMALL_STR:
    case TVM_STR:
      return "a str";
    case TVM_SHAPE:
    case TVM_ARRAY:
    case TVM_LIST:
      return "a list";
    default:
      return "an object of another type";
  }
}

static og_status wrong(og_tvm_call *c, const opgraft_param_info *param,
                       const tvm_any *value) {
  return og_tvm_refuse(
      c, "%s: found %s, expected %s%s%s", param->name, type_name(value->type),
      opgraft_type_name(param->type),
      (param->flags & OPGRAFT_PARAM_LIST) != 0 ? "[]" : "",
      (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0 ? " or None" : "");
}

static const void *object_body(const void *object) {
  return (const tvm_object *)object + 1;
}

// The object behind a value that the caller gives away is the caller's until
// it is taken, which nothing here does.
tvm_any og_tvm_settled(const tvm_any *value) {
  if (value->type != TVM_MOVED || value->p == NULL) return *value;
  void *object;
  memcpy(&object, value->p, sizeof object);
  if (object == NULL) return (tvm_any){.type = TVM_NONE};
  return (tvm_any){.type = ((const tvm_object *)object)->type, .p = object};
}

const og_tensor *og_tvm_tensor(const tvm_any *value) {
  if (value->type == TVM_DL_TENSOR) return value->p;
  return value->type == TVM_TENSOR ? object_body(value->p) : NULL;
}

// The bytes of a text; 0 where `value` is not a text. A short one lies in
// `value`.
static int text_get(const tvm_any *value, tvm_bytes *out) {
  switch (value->type) {
    case TVM_RAW_STR:
      *out = (tvm_bytes){value->p, strlen(value->p)};
      return 1;
    case TVM_SMALL_STR:
      *out = (tvm_bytes){value->text, value->small_length};
      return value->small_length <= sizeof value->text;
    case TVM_STR:
      memcpy(out, object_body(value->p), sizeof *out);
      return 1;
    default:
      return 0;
  }
}

og_status og_tvm_device_check(og_tvm_call *c, const char *name,
                              og_device device) {
  if (device.type == OG_CPU) return OG_OK;
  og_tvm_refuse(c, "%s has device type %d; in TVM-FFI calls run on the CPU",
                name, (int)device.type);
  c->kind = "ValueError";
  return OG_INVALID;
}

// --- Lists -------------------------------------------------------------------

static int is_list(const tvm_any *value) {
  return value->type == TVM_SHAPE || value->type == TVM_ARRAY ||
         value->type == TVM_LIST;
}

static og_status list_count(og_tvm_call *c, const tvm_any *list,
                            int64_t *out_count) {
  tvm_sizes sizes;
  if (list->type == TVM_SHAPE) {
    memcpy(&sizes, object_body(list->p), sizeof sizes);
    *out_count = (int64_t)sizes.size;
    return OG_OK;
  }
  void *size =
      list->type == TVM_ARRAY ? c->library->array_size : c->library->list_size;
  tvm_any arg = *list, count = {.type = TVM_NONE};
  if (size == NULL)
    return og_tvm_refuse(c, "this release of TVM-FFI cannot read its lists");
  if (c->library->call(size, &arg, 1, &count) != 0) return raised(c);
  *out_count = count.i;
  return OG_OK;
}

// Entry `index`, which the caller releases where it is an object.
static og_status list_get(og_tvm_call *c, const tvm_any *list, int64_t index,
                          tvm_any *out) {
  *out = (tvm_any){.type = TVM_INT};
  if (list->type == TVM_SHAPE) {
    tvm_sizes sizes;
    memcpy(&sizes, object_body(list->p), sizeof sizes);
    out->i = sizes.data[index];
    return OG_OK;
  }
  void *get =
      list->type == TVM_ARRAY ? c->library->array_get : c->library->list_get;
  tvm_any args[2] = {*list, {.type = TVM_INT, .i = index}};
  *out = (tvm_any){.type = TVM_NONE};
  if (get == NULL)
    return og_tvm_refuse(c, "this release of TVM-FFI cannot read its lists");
  return c->library->call(get, args, 2, out) == 0 ? OG_OK : raised(c);
}

static void value_release(const og_tvm_call *c, const tvm_any *value) {
  if (value->type >= TVM_OBJECTS) c->library->release(value->p);
}

// --- Arguments that are not tensors ------------------------------------------

// A number that `type` takes; 0 where it takes no such value.
static int number_get(int32_t type, const tvm_any *value, og_attr *out) {
  const int is_whole = value->type == TVM_INT || value->type == TVM_BOOL;
  *out = (og_attr){.kind = OG_ATTR_INT, .i = value->i};
  switch (type) {
    case OPGRAFT_TYPE_INT:
    case OPGRAFT_TYPE_SYM_INT:
      return is_whole;
    case OPGRAFT_TYPE_BOOL:
      out->kind = OG_ATTR_BOOL;
      out->i = value->i != 0;
      return is_whole;
    case OPGRAFT_TYPE_FLOAT:
    case OPGRAFT_TYPE_SCALAR:
      break;
    default:
      return 0;
  }
  if (is_whole && type == OPGRAFT_TYPE_SCALAR) {
    if (value->type == TVM_BOOL) out->kind = OG_ATTR_BOOL;
    return 1;
  }
  out->kind = OG_ATTR_FLOAT;
  out->f = is_whole ? (double)value->i : value->f;
  return is_whole || value->type == TVM_FLOAT;
}

static og_status text_read(og_tvm_call *c, const opgraft_param_info *param,
                           const tvm_any *value, og_attr *out) {
  tvm_bytes bytes;
  if (!text_get(value, &bytes)) return wrong(c, param, value);
  char *copy = malloc(bytes.size + 1);
  if (copy == NULL) return no_memory(c);
  if (bytes.size > 0) memcpy(copy, bytes.data, bytes.size);
  copy[bytes.size] = '\0';
  c->memory[param->attr] = copy;
  *out =
      (og_attr){.kind = OG_ATTR_STR, .count = (int64_t)bytes.size, .s = copy};
  return OG_OK;
}

static og_status scalar_read(og_tvm_call *c, const opgraft_param_info *param,
                             const tvm_any *value, og_attr *out) {
  if (param->type == OPGRAFT_TYPE_STR) return text_read(c, param, value, out);
  if (param->type == OPGRAFT_TYPE_SCALAR_TYPE && value->type == TVM_DTYPE) {
    *out = (og_attr){.kind = OG_ATTR_DTYPE, .dtype = value->dtype};
    return OG_OK;
  }
  if (param->type == OPGRAFT_TYPE_DEVICE && value->type == TVM_DEVICE) {
    *out = (og_attr){.kind = OG_ATTR_DEVICE, .device = value->device};
    return OG_OK;
  }
  return number_get(param->type, value, out) ? OG_OK : wrong(c, param, value);
}

// Numbers of `list` in c->memory[param->attr]: int64 or double.
static og_status numbers_read(og_tvm_call *c, const opgraft_param_info *param,
                              const tvm_any *list, int64_t count) {
  int64_t *words = calloc((size_t)count + 1, sizeof *words);
  if (words == NULL) return no_memory(c);
  c->memory[param->attr] = words;
  for (int64_t i = 0; i < count; ++i) {
    tvm_any value;
    og_attr number;
    OG_HOST_TRY(list_get(c, list, i, &value));
    if (!number_get(param->type, &value, &number)) {
      wrong(c, param, &value);
      value_release(c, &value);
      return OG_INVALID;
    }
    memcpy(&words[i], &number.i, sizeof words[i]);  // a double has its bits
  }
  return OG_OK;
}

// Appends a text to the texts in *memory, which has `used` bytes.
static og_status text_append(og_tvm_call *c, const opgraft_param_info *param,
                             const tvm_any *value, size_t *used) {
  tvm_bytes bytes;
  if (!text_get(value, &bytes)) return wrong(c, param, value);
  if (bytes.size > 0 && memchr(bytes.data, '\0', bytes.size) != NULL)
    return og_tvm_refuse(c,
                         "%s: found a str with a NUL character, which would "
                         "end it in C; leave the character out",
                         param->name);
  char *grown = realloc(c->memory[param->attr], *used + bytes.size + 1);
  if (grown == NULL) return no_memory(c);
  c->memory[param->attr] = grown;
  if (bytes.size > 0) memcpy(grown + *used, bytes.data, bytes.size);
  *used += bytes.size;
  grown[(*used)++] = '\0';
  return OG_OK;
}

// Room for `count` addresses, then the texts behind them.
static og_status texts_read(og_tvm_call *c, const opgraft_param_info *param,
                            const tvm_any *list, int64_t count) {
  size_t used = ((size_t)count + 1) * sizeof(char *);
  c->memory[param->attr] = malloc(used);
  if (c->memory[param->attr] == NULL) return no_memory(c);
  for (int64_t i = 0; i < count; ++i) {
    tvm_any value;
    OG_HOST_TRY(list_get(c, list, i, &value));
    const og_status status = text_append(c, param, &value, &used);
    value_release(c, &value);
    if (status != OG_OK) return status;
  }
  const char **texts = c->memory[param->attr];
  const char *text = (const char *)(texts + count + 1);
  for (int64_t i = 0; i < count; ++i) {
    texts[i] = text;
    text += strlen(text) + 1;
  }
  return OG_OK;
}

// One number for an int[2]: as many of it.
static og_status number_spread(og_tvm_call *c, const opgraft_param_info *param,
                               const tvm_any *value) {
  og_attr number;
  if (!number_get(param->type, value, &number)) return wrong(c, param, value);
  int64_t *words = calloc((size_t)param->list_size, sizeof *words);
  if (words == NULL) return no_memory(c);
  c->memory[param->attr] = words;
  for (int32_t i = 0; i < param->list_size; ++i)
    memcpy(&words[i], &number.i, sizeof words[i]);
  return OG_OK;
}

static og_status list_read(og_tvm_call *c, const opgraft_param_info *param,
                           const tvm_any *value, og_attr *out) {
  static const int32_t kinds[] = {
      [OPGRAFT_TYPE_INT] = OG_ATTR_INTS,
      [OPGRAFT_TYPE_SYM_INT] = OG_ATTR_INTS,
      [OPGRAFT_TYPE_BOOL] = OG_ATTR_BOOLS,
      [OPGRAFT_TYPE_FLOAT] = OG_ATTR_FLOATS,
      [OPGRAFT_TYPE_STR] = OG_ATTR_STRS,
  };
  int64_t count = param->list_size;
  const int is_one = count > 0 && !is_list(value);
  if (!is_one && !is_list(value)) return wrong(c, param, value);
  OG_HOST_TRY(is_one ? number_spread(c, param, value)
                     : list_count(c, value, &count));
  if (!is_one)
    OG_HOST_TRY(param->type == OPGRAFT_TYPE_STR
                    ? texts_read(c, param, value, count)
                    : numbers_read(c, param, value, count));
  *out = (og_attr){.kind = kinds[param->type], .count = count};
  out->ints = c->memory[param->attr];
  return OG_OK;
}

static og_status attr_read(og_tvm_call *c, const opgraft_param_info *param,
                           const tvm_any *value) {
  og_attr *out = &c->call->frame.attr[param->attr];
  if (value->type == TVM_NONE) {
    if ((param->flags & OPGRAFT_PARAM_OPTIONAL) == 0)
      return wrong(c, param, value);
    *out = (og_attr){.kind = OG_ATTR_NONE};
    return OG_OK;
  }
  return (param->flags & OPGRAFT_PARAM_LIST) != 0
             ? list_read(c, param, value, out)
             : scalar_read(c, param, value, out);
}

// --- Tensors -----------------------------------------------------------------

// Its own memory is written where the operator writes it.
static og_status tensor_read(og_tvm_call *c, const opgraft_param_info *param,
                             const tvm_any *value) {
  if (value->type == TVM_NONE && (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0)
    return OG_OK;
  const og_tensor *tensor = og_tvm_tensor(value);
  if (tensor == NULL) return wrong(c, param, value);
  og_host_input(c->call, param->tensor, tensor);
  return og_tvm_device_check(c, param->name, tensor->device);
}

static og_status entry_read(og_tvm_call *c, const opgraft_param_info *param,
                            const tvm_any *value) {
  const og_tensor *tensor = og_tvm_tensor(value);
  const int is_absent = value->type == TVM_NONE;
  if (tensor == NULL &&
      !(is_absent && (param->flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) != 0))
    return wrong(c, param, value);
  const og_status status =
      tensor != NULL ? og_tvm_device_check(c, param->name, tensor->device)
                     : OG_OK;
  return status == OG_OK
             ? og_host_entry(c->call, param->tensor, tensor, &c->error)
             : status;
}

static og_status tensors_read(og_tvm_call *c, const opgraft_param_info *param,
                              const tvm_any *list) {
  int64_t count = 0;
  if (list->type == TVM_NONE && (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0)
    return OG_OK;
  if (!is_list(list)) return wrong(c, param, list);
  og_status status = list_count(c, list, &count);
  for (int64_t i = 0; status == OG_OK && i < count; ++i) {
    tvm_any value;
    OG_HOST_TRY(list_get(c, list, i, &value));
    status = entry_read(c, param, &value);
    // The list may drop it while the operator runs.
    if (status == OG_OK && value.type >= TVM_OBJECTS)
      c->held[c->held_count++] = value.p;
    else
      value_release(c, &value);
  }
  return status;
}

static og_status arg_read(og_tvm_call *c, const opgraft_param_info *param,
                          const tvm_any *value) {
  if (param->tensor < 0) return attr_read(c, param, value);
  return (param->flags & OPGRAFT_PARAM_LIST) != 0
             ? tensors_read(c, param, value)
             : tensor_read(c, param, value);
}

// Given ones and defaults.
static og_status devices_check(og_tvm_call *c) {
  og_status status = OG_OK;
  for (int32_t a = 0; status == OG_OK && a < c->call->op->info.attr_count; ++a)
    if (c->call->frame.attr[a].kind == OG_ATTR_DEVICE)
      status = og_tvm_device_check(c, c->call->op->attr_params[a]->name,
                                   c->call->frame.attr[a].device);
  return status;
}

og_status og_tvm_args_read(og_tvm_call *c) {
  const og_own_op *op = c->call->op;
  for (int32_t i = 0; i < op->info.param_count; ++i) {
    const opgraft_param_info *param = &op->params[i];
    if (i >= c->count) {
      if ((param->flags & OPGRAFT_PARAM_DEFAULT) != 0) continue;
      return og_tvm_refuse(c, "%s is missing", param->name);
    }
    const tvm_any value = og_tvm_settled(&c->args[i]);
    OG_HOST_TRY(arg_read(c, param, &value));
  }
  return devices_check(c);
}

void og_tvm_args_release(og_tvm_call *c) {
  for (int32_t i = 0; i < c->held_count; ++i) c->library->release(c->held[i]);
  for (int32_t a = 0; a < c->call->op->info.attr_count; ++a) free(c->memory[a]);
}

// --- Kept calls --------------------------------------------------------------

static int32_t given_count(const og_tvm_call *c) {
  const int32_t most = c->call->op->info.param_count;
  return c->count < most ? c->count : most;
}

// Whether the value alone says what it is.
static int is_plain(const tvm_any *value) {
  return value->type == TVM_NONE || value->type == TVM_INT ||
         value->type == TVM_BOOL || value->type == TVM_FLOAT ||
         value->type == TVM_DTYPE || value->type == TVM_DEVICE;
}

static int is_same(const tvm_any *a, const tvm_any *b) {
  if (a->type != b->type) return 0;
  if (a->type == TVM_NONE) return 1;
  return a->type == TVM_DTYPE
             ? memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0
             : a->i == b->i;
}

void og_tvm_args_keep(const og_tvm_call *c, og_tvm_kept *kept) {
  const og_own_op *op = c->call->op;
  kept->count = given_count(c);
  for (int32_t i = 0; i < kept->count; ++i) {
    const int32_t attr = op->params[i].attr;
    if (attr < 0) continue;
    kept->args[attr] = c->args[i];
    // An int for an int[2] has memory as well.
    if (!is_plain(&c->args[i]) || c->memory[attr] != NULL) return;
  }
  og_host_kept_keep(kept->kept);
}

int og_tvm_args_match(const og_tvm_call *c, og_tvm_kept *kept) {
  const og_own_op *op = c->call->op;
  if (kept->count != given_count(c)) return 0;
  for (int32_t i = 0; i < kept->count; ++i) {
    const opgraft_param_info *param = &op->params[i];
    if (param->tensor < 0) {
      if (!is_same(&c->args[i], &kept->args[param->attr])) return 0;
      continue;
    }
    const tvm_any value = og_tvm_settled(&c->args[i]);
    const og_tensor *tensor = og_tvm_tensor(&value);
    if ((tensor == NULL && value.type != TVM_NONE) ||
        !og_host_kept_matches(kept->kept, param->tensor, tensor))
      return 0;
  }
  return 1;
}

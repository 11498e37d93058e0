// SPDX-License-Identifier: Apache-2.0
// Arguments written on a command line into a frame.
//
// Invariants: everything that the frame points to is in call->owned.

#include "bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *keep(cli_call *call, void *memory) {
  call->owned = cli_realloc(call->owned, (size_t)call->owned_count + 1,
                            sizeof *call->owned);
  call->owned[call->owned_count++] = memory;
  return memory;
}

static void *keep_new(cli_call *call, size_t count, size_t size_bytes) {
  return keep(call, cli_alloc(count, size_bytes));
}

// --- Words separated by a character ------------------------------------------

typedef struct part {
  const char *text;
  size_t length;
} part;

static part trim(part p) {
  while (p.length > 0 && strchr(" \t", p.text[0]) != NULL) ++p.text, --p.length;
  while (p.length > 0 && strchr(" \t", p.text[p.length - 1]) != NULL)
    --p.length;
  return p;
}

// Cuts the next part off `rest`; false at the end.
static bool part_next(part *rest, char separator, part *out_part) {
  *out_part = (part){"", 0};
  if (rest->text == NULL) return false;
  const char *end = memchr(rest->text, separator, rest->length);
  const size_t length = end != NULL ? (size_t)(end - rest->text) : rest->length;
  *out_part = trim((part){rest->text, length});
  rest->text = end != NULL ? end + 1 : NULL;
  rest->length -= end != NULL ? length + 1 : length;
  return true;
}

static int64_t part_count(part all, char separator) {
  part one;
  int64_t count = 0;
  while (part_next(&all, separator, &one)) ++count;
  return count;
}

static part unbracket(part p) {
  if (p.length >= 2 && p.text[0] == '[' && p.text[p.length - 1] == ']')
    return trim((part){p.text + 1, p.length - 2});
  return p;
}

static bool part_is(part p, const char *word) {
  return strlen(word) == p.length && memcmp(p.text, word, p.length) == 0;
}

// Numbers are read from a copy: a part has no end of its own.
static bool int_read(part p, int64_t *out_value) {
  char *copy = cli_strndup(p.text, p.length), *end;
  errno = 0;
  *out_value = strtoll(copy, &end, 10);
  const bool is_right = errno == 0 && end != copy && *end == '\0';
  free(copy);
  return is_right;
}

static bool float_read(part p, double *out_value) {
  char *copy = cli_strndup(p.text, p.length), *end;
  *out_value = strtod(copy, &end);
  const bool is_right = end != copy && *end == '\0';
  free(copy);
  return is_right;
}

static bool bool_read(part p, int64_t *out_value) {
  *out_value = part_is(p, "true") || part_is(p, "True") || part_is(p, "1");
  return *out_value || part_is(p, "false") || part_is(p, "False") ||
         part_is(p, "0");
}

// "1+2j"
static bool complex_read(part p, og_attr *out_attr) {
  char *copy = cli_strndup(p.text, p.length), *end;
  out_attr->f = strtod(copy, &end);
  char *imaginary = end;
  out_attr->imag = strtod(imaginary, &end);
  const bool is_right =
      imaginary != copy && end != imaginary && strcmp(end, "j") == 0;
  free(copy);
  return is_right;
}

// --- Tensors -----------------------------------------------------------------

static og_tensor *tensor_create(cli_call *call, og_dtype dtype, int32_t ndim) {
  og_tensor *tensor = keep_new(call, 1, sizeof *tensor);
  *tensor = (og_tensor){
      .device = {OG_CPU, 0},
      .dtype = dtype,
      .ndim = ndim,
      .shape = keep_new(call, (size_t)ndim, sizeof(int64_t)),
      .strides = keep_new(call, (size_t)ndim, sizeof(int64_t)),
  };
  return tensor;
}

static bool strides_set(og_tensor *tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    tensor->strides[i] = stride;
    const int64_t size = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
    if (stride > INT64_MAX / 16 / size) return false;
    stride *= size;
  }
  return true;
}

static og_tensor *tensor_read(cli_call *call, const char *name, part sizes,
                              og_dtype dtype) {
  part one, rest = unbracket(sizes);
  const int64_t ndim = rest.length > 0 ? part_count(rest, ',') : 0;
  if (ndim > OPGRAFT_RANK_MAX) {
    cli_error("%s: has %lld dims, expected at most %d", name, (long long)ndim,
              OPGRAFT_RANK_MAX);
    return NULL;
  }
  og_tensor *tensor = tensor_create(call, dtype, (int32_t)ndim);
  for (int32_t i = 0; i < ndim && part_next(&rest, ',', &one); ++i)
    if (!int_read(one, &tensor->shape[i]) || tensor->shape[i] < 0) {
      cli_error(
          "%s: size %d is '%.*s', expected a whole number from 0, as in "
          "%s=2,3",
          name, (int)i, (int)one.length, one.text, name);
      return NULL;
    }
  if (strides_set(tensor)) return tensor;
  cli_error("%s: has more elements than can be counted; give smaller sizes",
            name);
  return NULL;
}

// The type that the rule suggests: that of the argument that this one must
// equal, else f32, else the first that is allowed.
static og_dtype default_type(const cli_call *call, int32_t position) {
  opgraft_tensor_info rule = {.struct_size = sizeof rule};
  opgraft_op_get_tensor(call->frame.op, position, &rule);
  if (rule.same_as >= 0 && rule.same_as < position) {
    const og_tensor *other = call->frame.in[rule.same_as];
    if (other != NULL) return other->dtype;
    const og_tensor_list *list = &call->frame.in_list[rule.same_as];
    return list->count > 0 ? list->tensors[0]->dtype
                           : default_type(call, rule.same_as);
  }
  for (int32_t i = 0; i < rule.dtype_count; ++i)
    if (rule.dtypes[i].code == OG_CODE_FLOAT && rule.dtypes[i].bits == 32)
      return rule.dtypes[i];
  return rule.dtypes[0];
}

// `type`: the text between : and [, or nothing.
static bool tensor_bind(cli_call *call, const opgraft_param_info *param,
                        part type, part value) {
  const char *name = param->name;
  const int32_t t = param->tensor;
  og_dtype dtype = default_type(call, t);
  part one;
  if (type.length > 0 && !cli_dtype_parse(type.text, type.length, &dtype)) {
    cli_error("%s: the type is '%.*s', expected f32, bf16, i64, bool, ...",
              name, (int)type.length, type.text);
    return false;
  }
  if (!(param->flags & OPGRAFT_PARAM_LIST)) {
    call->frame.in[t] = tensor_read(call, name, value, dtype);
    return call->frame.in[t] != NULL;
  }
  const int64_t count = value.length > 0 ? part_count(value, ';') : 0;
  og_tensor **tensors = keep_new(call, (size_t)count, sizeof *tensors);
  for (int64_t i = 0; i < count && part_next(&value, ';', &one); ++i) {
    if (part_is(one, "none")) continue;
    tensors[i] = tensor_read(call, name, one, dtype);
    if (tensors[i] == NULL) return false;
  }
  call->frame.in_list[t] = (og_tensor_list){count, tensors};
  return true;
}

// --- Attributes --------------------------------------------------------------

static bool scalar_read(part p, og_attr *out_attr) {
  *out_attr = (og_attr){.kind = OG_ATTR_INT};
  if (int_read(p, &out_attr->i)) return true;
  out_attr->kind = OG_ATTR_FLOAT;
  if (float_read(p, &out_attr->f)) return true;
  out_attr->kind = OG_ATTR_COMPLEX;
  if (complex_read(p, out_attr)) return true;
  *out_attr = (og_attr){.kind = OG_ATTR_BOOL};
  return bool_read(p, &out_attr->i);
}

static bool device_read(part p, og_attr *out_attr) {
  static const struct {
    const char *name;
    int32_t type;
  } devices[] = {{"cpu", OG_CPU}, {"cuda", OG_CUDA}, {"rocm", OG_ROCM}};
  part kind, rest = p;
  int64_t id = 0;
  part_next(&rest, ':', &kind);
  if (rest.text != NULL && !int_read(rest, &id)) return false;
  out_attr->kind = OG_ATTR_DEVICE;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; ++i)
    if (part_is(kind, devices[i].name)) {
      out_attr->device = (og_device){devices[i].type, (int32_t)id};
      return true;
    }
  return false;
}

static bool string_read(cli_call *call, part p, og_attr *out_attr) {
  out_attr->kind = OG_ATTR_STR;
  out_attr->s = keep(call, cli_strndup(p.text, p.length));
  out_attr->count = (int64_t)p.length;
  return true;
}

static bool plain_read(cli_call *call, int32_t type, part p,
                       og_attr *out_attr) {
  *out_attr = (og_attr){0};
  switch (type) {
    case OPGRAFT_TYPE_INT:
    case OPGRAFT_TYPE_SYM_INT:
      out_attr->kind = OG_ATTR_INT;
      return int_read(p, &out_attr->i);
    case OPGRAFT_TYPE_FLOAT:
      out_attr->kind = OG_ATTR_FLOAT;
      return float_read(p, &out_attr->f);
    case OPGRAFT_TYPE_BOOL:
      out_attr->kind = OG_ATTR_BOOL;
      return bool_read(p, &out_attr->i);
    case OPGRAFT_TYPE_SCALAR_TYPE:
      out_attr->kind = OG_ATTR_DTYPE;
      return cli_dtype_parse(p.text, p.length, &out_attr->dtype);
    case OPGRAFT_TYPE_SCALAR:
      return scalar_read(p, out_attr);
    case OPGRAFT_TYPE_DEVICE:
      return device_read(p, out_attr);
    default:
      return string_read(call, p, out_attr);
  }
}

// Entry i of a list attribute from a plain one.
static void entry_set(og_attr *list, int64_t i, const og_attr *entry) {
  if (list->kind == OG_ATTR_FLOATS)
    ((double *)(uintptr_t)list->floats)[i] = entry->f;
  else if (list->kind == OG_ATTR_STRS)
    ((const char **)(uintptr_t)list->strs)[i] = entry->s;
  else
    ((int64_t *)(uintptr_t)list->ints)[i] = entry->i;
}

static void list_init(cli_call *call, int32_t type, int64_t count,
                      og_attr *out_attr) {
  *out_attr = (og_attr){.kind = OG_ATTR_INTS, .count = count};
  if (type == OPGRAFT_TYPE_FLOAT) out_attr->kind = OG_ATTR_FLOATS;
  if (type == OPGRAFT_TYPE_BOOL) out_attr->kind = OG_ATTR_BOOLS;
  if (type == OPGRAFT_TYPE_STR) out_attr->kind = OG_ATTR_STRS;
  out_attr->ints = keep_new(call, (size_t)count, sizeof(int64_t));
}

static bool list_read(cli_call *call, const opgraft_param_info *param, part p,
                      og_attr *out_attr) {
  part one, rest = unbracket(p);
  og_attr entry;
  int64_t count = rest.length > 0 ? part_count(rest, ',') : 0;
  // int[2] takes one number for both.
  const bool is_repeated = count == 1 && param->list_size > 1;
  list_init(call, param->type, is_repeated ? param->list_size : count,
            out_attr);
  for (int64_t i = 0; i < count && part_next(&rest, ',', &one); ++i) {
    if (!plain_read(call, param->type, one, &entry)) return false;
    entry_set(out_attr, i, &entry);
  }
  for (int64_t i = 1; is_repeated && i < param->list_size; ++i)
    entry_set(out_attr, i, &entry);
  return true;
}

static bool attr_bind(cli_call *call, const opgraft_param_info *param,
                      part value) {
  const bool is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  og_attr *attr = &call->frame.attr[param->attr];
  const bool is_right = is_list ? list_read(call, param, value, attr)
                                : plain_read(call, param->type, value, attr);
  if (!is_right)
    cli_error("%s: is '%.*s', expected %s%s", param->name, (int)value.length,
              value.text, opgraft_type_name(param->type), is_list ? "[]" : "");
  return is_right;
}

// None where an optional has no default.
static bool default_bind(cli_call *call, const opgraft_param_info *param) {
  const bool is_tensor = param->tensor >= 0;
  if (!(param->flags & (OPGRAFT_PARAM_DEFAULT | OPGRAFT_PARAM_OPTIONAL))) {
    cli_error("%s: %s %s is not given; add %s=%s",
              opgraft_op_name(call->frame.op), opgraft_type_name(param->type),
              param->name, param->name,
              is_tensor ? "SIZES, as in 2,3" : "VALUE");
    return false;
  }
  if (!is_tensor) call->frame.attr[param->attr] = param->default_value;
  return true;
}

// --- Bindings ----------------------------------------------------------------

// "name=value", "name:type[value]" or "name:type=value".
static bool binding_split(const char *text, part *out_name, part *out_type,
                          part *out_value) {
  const size_t name = strcspn(text, "=:[");
  *out_name = (part){text, name};
  *out_type = *out_value = (part){"", 0};
  if (name == 0 || text[name] == '\0') return false;
  const char *at = text + name;
  if (*at == ':') {
    ++at;
    const size_t type = strcspn(at, "=[");
    *out_type = (part){at, type};
    at += type;
  }
  if (*at == '=') ++at;
  *out_value = trim((part){at, strlen(at)});
  return true;
}

// The last binding of a name counts, as with options.
static const char *binding_find(const char *wanted, const char *const *bindings,
                                int count) {
  part name, type, value;
  for (int i = count - 1; i >= 0; --i)
    if (binding_split(bindings[i], &name, &type, &value) &&
        part_is(name, wanted))
      return bindings[i];
  return NULL;
}

static bool param_bind(cli_call *call, const opgraft_param_info *param,
                       const char *binding) {
  part name, type, value;
  binding_split(binding, &name, &type, &value);
  if ((param->flags & OPGRAFT_PARAM_OPTIONAL) &&
      (part_is(value, "none") || part_is(value, "None")))
    return true;
  if (param->tensor >= 0) return tensor_bind(call, param, type, value);
  return attr_bind(call, param, value);
}

static bool names_check(const cli_call *call, const char *const *bindings,
                        int count) {
  opgraft_param_info param = {.struct_size = sizeof param};
  const char *names[OPGRAFT_ARG_MAX + OPGRAFT_ATTR_MAX];
  int name_count = 0;
  while (opgraft_op_get_param(call->frame.op, name_count, &param) == OG_OK)
    names[name_count++] = param.name;
  for (int i = 0; i < count; ++i) {
    part name, type, value;
    if (!binding_split(bindings[i], &name, &type, &value)) {
      cli_error("'%s' is not an argument, expected NAME=VALUE, as in x=2,3",
                bindings[i]);
      return false;
    }
    bool is_known = false;
    for (int n = 0; n < name_count; ++n) is_known |= part_is(name, names[n]);
    if (is_known) continue;
    char *wanted = cli_strndup(name.text, name.length);
    const char *near = cli_nearest(wanted, names, name_count);
    cli_error("%s: has no argument '%s'%s%s%s", opgraft_op_name(call->frame.op),
              wanted, near != NULL ? "; did you mean " : "",
              near != NULL ? near : "", near != NULL ? "?" : "");
    free(wanted);
    return false;
  }
  return true;
}

cli_call *cli_call_create(const opgraft_op *op, const char *const *bindings,
                          int count) {
  cli_call *call = cli_alloc(1, sizeof *call);
  opgraft_frame_init(&call->frame, op);
  opgraft_param_info param = {.struct_size = sizeof param};
  bool is_right = names_check(call, bindings, count);
  for (int32_t p = 0; is_right && opgraft_op_get_param(op, p, &param) == OG_OK;
       ++p) {
    const char *binding = binding_find(param.name, bindings, count);
    is_right = binding != NULL ? param_bind(call, &param, binding)
                               : default_bind(call, &param);
  }
  if (is_right) return call;
  cli_call_destroy(call);
  return NULL;
}

void cli_call_destroy(cli_call *call) {
  opgraft_frame_reset(&call->frame);
  for (int i = 0; i < call->owned_count; ++i) free(call->owned[i]);
  free(call->owned);
  free(call);
}

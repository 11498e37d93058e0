// SPDX-License-Identifier: Apache-2.0
// XLA's attributes as og_attr.

#include "jax/attrs.h"

#include <string.h>

og_dtype og_jax_dtype(int32_t type) {
  static const og_dtype table[XLA_TYPES] = {
#define ENTRY(code, kind, bits) [code] = {kind, bits, 1},
      XLA_TYPE_LIST(ENTRY)
#undef ENTRY
  };
  const og_dtype none = {0, 0, 0};
  return type >= 0 && type < XLA_TYPES ? table[type] : none;
}

// The position of `name` with `suffix`, or -1.
static int64_t find(const xla_attrs *attrs, const char *name,
                    const char *suffix) {
  const size_t head = strlen(name), tail = strlen(suffix);
  for (int64_t i = 0; i < attrs->count; ++i) {
    const xla_span *own = attrs->names[i];
    if (own->length == head + tail && memcmp(own->text, name, head) == 0 &&
        memcmp(own->text + head, suffix, tail) == 0)
      return i;
  }
  return -1;
}

og_status og_jax_given(const xla_attrs *attrs, const int64_t **out_given,
                       int64_t *out_count) {
  const int64_t at = find(attrs, "opgraft.given", "");
  *out_given = NULL;
  *out_count = 0;
  if (at < 0) return OG_OK;
  const xla_array *array = attrs->values[at];
  if (attrs->kinds[at] != XLA_ATTR_ARRAY || array->type != XLA_TYPE_S64)
    return OG_INVALID;
  *out_given = array->values;
  *out_count = (int64_t)array->count;
  return OG_OK;
}

// --- One value ---------------------------------------------------------------

// What is read now, and where its parts go.
typedef struct reading {
  const opgraft_param_info *param;
  og_jax_room *room;
  og_attr *out;
} reading;

static void *room_take(og_jax_room *room, size_t count, size_t size) {
  const size_t begin = (room->used + 15) / 16 * 16;
  if (begin > sizeof room->bytes ||
      count > (sizeof room->bytes - begin) / size) {
    room->is_full = 1;
    return NULL;
  }
  room->used = begin + count * size;
  return room->bytes + begin;
}

// A number of any type that is exact in `out`. 0: it is not one.
static int int_get(int32_t type, const void *value, int64_t *out) {
  switch (type) {
    case 1:
    case 6:
      *out = *(const uint8_t *)value;
      return 1;
    case 2:
      *out = *(const int8_t *)value;
      return 1;
    case 4:
      *out = *(const int32_t *)value;
      return 1;
    case XLA_TYPE_S64:
      *out = *(const int64_t *)value;
      return 1;
    default:
      return 0;
  }
}

static int float_get(int32_t type, const void *value, double *out) {
  if (type == 11)
    *out = (double)*(const float *)value;
  else if (type == XLA_TYPE_F64)
    *out = *(const double *)value;
  else
    return 0;
  return 1;
}

static int scalar_get(const reading *r, const xla_scalar *scalar) {
  og_attr *out = r->out;
  const int32_t wanted = r->param->type;
  const int is_int = int_get(scalar->type, scalar->value, &out->i);
  const int is_bool = is_int && scalar->type == XLA_TYPE_BOOL;
  out->kind = is_bool ? OG_ATTR_BOOL : OG_ATTR_INT;
  if (wanted == OPGRAFT_TYPE_BOOL) {
    out->kind = OG_ATTR_BOOL;
    return is_int;
  }
  if (wanted == OPGRAFT_TYPE_INT || wanted == OPGRAFT_TYPE_SYM_INT) {
    out->kind = OG_ATTR_INT;
    return is_int;
  }
  if (wanted == OPGRAFT_TYPE_SCALAR && is_int) return 1;
  if (wanted != OPGRAFT_TYPE_FLOAT && wanted != OPGRAFT_TYPE_SCALAR) return 0;
  out->kind = OG_ATTR_FLOAT;
  if (!is_int) return float_get(scalar->type, scalar->value, &out->f);
  out->f = (double)out->i;
  return 1;
}

static int ints_get(const reading *r, const xla_array *array, int32_t kind) {
  int64_t *ints = room_take(r->room, array->count + 1, sizeof *ints);
  const size_t step = array->type == XLA_TYPE_S64 ? 8
                      : array->type == 4          ? 4
                                                  : 1;
  if (ints == NULL) return 0;
  for (size_t i = 0; i < array->count; ++i)
    if (!int_get(array->type, (const char *)array->values + i * step, &ints[i]))
      return 0;
  r->out->kind = kind;
  r->out->count = (int64_t)array->count;
  r->out->ints = ints;
  return 1;
}

static int floats_get(const reading *r, const xla_array *array) {
  double *floats = room_take(r->room, array->count + 1, sizeof *floats);
  const size_t step = array->type == XLA_TYPE_F64 ? 8 : 4;
  if (floats == NULL) return 0;
  for (size_t i = 0; i < array->count; ++i)
    if (!float_get(array->type, (const char *)array->values + i * step,
                   &floats[i]))
      return 0;
  r->out->kind = OG_ATTR_FLOATS;
  r->out->count = (int64_t)array->count;
  r->out->floats = floats;
  return 1;
}

static int complex_get(const reading *r, const xla_array *array) {
  if (array->count != 2 || array->type != XLA_TYPE_F64) return 0;
  r->out->kind = OG_ATTR_COMPLEX;
  r->out->f = ((const double *)array->values)[0];
  r->out->imag = ((const double *)array->values)[1];
  return 1;
}

static int array_get(const reading *r, const xla_array *array) {
  const int is_list = (r->param->flags & OPGRAFT_PARAM_LIST) != 0;
  switch (r->param->type) {
    case OPGRAFT_TYPE_INT:
    case OPGRAFT_TYPE_SYM_INT:
      return is_list && ints_get(r, array, OG_ATTR_INTS);
    case OPGRAFT_TYPE_BOOL:
      return is_list && ints_get(r, array, OG_ATTR_BOOLS);
    case OPGRAFT_TYPE_FLOAT:
      return is_list && floats_get(r, array);
    case OPGRAFT_TYPE_SCALAR:
      return !is_list && complex_get(r, array);
    default:
      return 0;
  }
}

// "a\nbc\n": each text of a list ends with a line.
static int texts_get(const reading *r, char *text, size_t length) {
  size_t count = 0;
  for (size_t i = 0; i < length; ++i) count += text[i] == '\n';
  if (length > 0 && text[length - 1] != '\n') return 0;
  const char **texts = room_take(r->room, count + 1, sizeof *texts);
  if (texts == NULL) return 0;
  r->out->kind = OG_ATTR_STRS;
  r->out->count = (int64_t)count;
  r->out->strs = texts;
  for (size_t i = 0, begin = 0, at = 0; i < length; ++i) {
    if (text[i] != '\n') continue;
    text[i] = '\0';
    texts[at++] = text + begin;
    begin = i + 1;
  }
  return 1;
}

static int text_get(const reading *r, const xla_span *span) {
  char *text = room_take(r->room, span->length + 1, 1);
  if (text == NULL) return 0;
  if (span->length > 0) memcpy(text, span->text, span->length);
  text[span->length] = '\0';
  if (r->param->type == OPGRAFT_TYPE_SCALAR_TYPE) {
    r->out->kind = OG_ATTR_DTYPE;
    return og_own_dtype_find(text, &r->out->dtype);
  }
  if (r->param->type != OPGRAFT_TYPE_STR) return 0;
  if ((r->param->flags & OPGRAFT_PARAM_LIST) != 0)
    return texts_get(r, text, span->length);
  r->out->kind = OG_ATTR_STR;
  r->out->count = (int64_t)span->length;
  r->out->s = text;
  return 1;
}

static int value_get(const reading *r, int32_t kind, const void *value) {
  *r->out = (og_attr){0};
  switch (kind) {
    case XLA_ATTR_SCALAR:
      return (r->param->flags & OPGRAFT_PARAM_LIST) == 0 &&
             scalar_get(r, value);
    case XLA_ATTR_ARRAY:
      return array_get(r, value);
    case XLA_ATTR_STRING:
      return text_get(r, value);
    default:
      return 0;
  }
}

static int empty_get(const reading *r) {
  const xla_array none = {XLA_TYPE_S64, 0, NULL};
  const xla_array no_floats = {XLA_TYPE_F64, 0, NULL};
  *r->out = (og_attr){0};
  if (r->param->type == OPGRAFT_TYPE_STR) return texts_get(r, NULL, 0);
  return array_get(r,
                   r->param->type == OPGRAFT_TYPE_FLOAT ? &no_floats : &none);
}

static og_status wrong(const reading *r, const og_own_op *op,
                       opgraft_error *error) {
  if (r->room->is_full)
    return og_own_fail(
        op, OG_INVALID, error,
        "attribute %s: the lists and texts of a call have more than "
        "%zu bytes, the most in JAX; pass long ones as tensors",
        r->param->name, sizeof r->room->bytes);
  return og_own_fail(op, OG_INVALID, error, "attribute %s is not a %s%s",
                     r->param->name, opgraft_type_name(r->param->type),
                     (r->param->flags & OPGRAFT_PARAM_LIST) != 0 ? "[]" : "");
}

// Whether `own` is an argument's name, alone or with a suffix that stands for a
// value.
static int is_name_of(const xla_span *own, const char *name) {
  static const char *const suffixes[] = {"", ".none", ".empty"};
  const size_t head = strlen(name);
  if (own->length < head || memcmp(own->text, name, head) != 0) return 0;
  for (int i = 0; i < 3; ++i)
    if (own->length - head == strlen(suffixes[i]) &&
        memcmp(own->text + head, suffixes[i], own->length - head) == 0)
      return 1;
  return 0;
}

static og_status names_check(const xla_attrs *attrs, const og_own_op *op,
                             opgraft_error *error) {
  for (int64_t i = 0; i < attrs->count; ++i) {
    int is_known = is_name_of(attrs->names[i], "opgraft.given");
    for (int32_t a = 0; !is_known && a < op->info.attr_count; ++a)
      is_known = is_name_of(attrs->names[i], op->attr_params[a]->name);
    if (is_known) continue;
    return og_own_fail(op, OG_INVALID, error, "has no attribute %.*s",
                       (int)attrs->names[i]->length, attrs->names[i]->text);
  }
  return OG_OK;
}

og_status og_jax_attrs(const xla_attrs *attrs, og_host_call *call,
                       og_jax_room *room, opgraft_error *error) {
  const og_own_op *op = call->op;
  OG_HOST_TRY(names_check(attrs, op, error));
  room->used = 0;
  room->is_full = 0;
  for (int32_t a = 0; a < op->info.attr_count; ++a) {
    const opgraft_param_info *param = op->attr_params[a];
    const reading r = {param, room, &call->frame.attr[a]};
    const int64_t at = find(attrs, param->name, "");
    int is_right = 1;
    if (at >= 0)
      is_right = value_get(&r, attrs->kinds[at], attrs->values[at]);
    else if (find(attrs, param->name, ".none") >= 0)
      *r.out = (og_attr){0};
    else if (find(attrs, param->name, ".empty") >= 0)
      is_right = empty_get(&r);
    if (!is_right) return wrong(&r, op, error);
  }
  return OG_OK;
}

// SPDX-License-Identifier: Apache-2.0
// A node's attributes. ONNX has 64-bit ints, 32-bit floats, texts and lists of
// the first two; a bool is an int, a type its name ("f32").
//
// ONNX Runtime tells of an attribute that is missing by an error, which is
// released: the declaration's default stands then.

#include "onnxruntime/attrs.h"

#include <stdlib.h>
#include <string.h>

#include "onnxruntime/forms.h"

// A node need not have the attribute.
enum { GIVEN_NOT = OPGRAFT_PARAM_DEFAULT | OPGRAFT_PARAM_OPTIONAL };

// --- Where a kernel is made --------------------------------------------------

// 1 where the call succeeded.
static int settled(const og_ort_source *s, void *status) {
  if (status == NULL) return 1;
  ORT(s->api, release_status)(status);
  return 0;
}

static int kernel_int(const og_ort_source *s, const char *name, int64_t *out) {
  return settled(s, ORT(s->api, attr_int)(s->node, name, out));
}

static int kernel_float(const og_ort_source *s, const char *name, float *out) {
  return settled(s, ORT(s->api, attr_float)(s->node, name, out));
}

static int kernel_ints(const og_ort_source *s, const char *name, int64_t *out,
                       size_t *size) {
  return settled(s, ORT(s->api, attr_ints)(s->node, name, out, size));
}

static int kernel_floats(const og_ort_source *s, const char *name, float *out,
                         size_t *size) {
  return settled(s, ORT(s->api, attr_floats)(s->node, name, out, size));
}

static int kernel_text(const og_ort_source *s, const char *name, char *out,
                       size_t *size) {
  return settled(s, ORT(s->api, attr_text)(s->node, name, out, size));
}

og_ort_source og_ort_kernel_source(ort_api api, const void *info) {
  return (og_ort_source){kernel_int,  kernel_float, kernel_ints, kernel_floats,
                         kernel_text, api,          info};
}

// --- Where shapes are inferred -----------------------------------------------

// Reads `size` bytes at most; *size becomes what there are.
static int infer_read(const og_ort_source *s, const char *name, int kind,
                      void *out, size_t *size) {
  const void *attr = NULL;
  if (!settled(s, ORT(s->api, infer_attr)(s->node, name, &attr)) ||
      attr == NULL)
    return 0;
  const size_t room = out != NULL ? *size : 0;
  const int is_read =
      settled(s, ORT(s->api, attr_read)(attr, kind, out, room, size));
  return is_read || (out == NULL && *size > 0);
}

static int infer_int(const og_ort_source *s, const char *name, int64_t *out) {
  size_t size = sizeof *out;
  return infer_read(s, name, ORT_ATTR_INT, out, &size);
}

static int infer_float(const og_ort_source *s, const char *name, float *out) {
  size_t size = sizeof *out;
  return infer_read(s, name, ORT_ATTR_FLOAT, out, &size);
}

static int infer_many(const og_ort_source *s, const char *name, int kind,
                      void *out, size_t *size, size_t item) {
  size_t bytes = *size * item;
  const int is_read = infer_read(s, name, kind, out, &bytes);
  *size = is_read ? bytes / item : 0;
  return is_read;
}

static int infer_ints(const og_ort_source *s, const char *name, int64_t *out,
                      size_t *size) {
  return infer_many(s, name, ORT_ATTR_INTS, out, size, sizeof *out);
}

static int infer_floats(const og_ort_source *s, const char *name, float *out,
                        size_t *size) {
  return infer_many(s, name, ORT_ATTR_FLOATS, out, size, sizeof *out);
}

// The count that inference gives has no NUL.
static int infer_text(const og_ort_source *s, const char *name, char *out,
                      size_t *size) {
  size_t bytes = out != NULL ? *size - 1 : 0;
  if (!infer_read(s, name, ORT_ATTR_STRING, out, &bytes)) return 0;
  if (out != NULL) out[*size - 1] = '\0';
  *size = bytes + 1;
  return 1;
}

og_ort_source og_ort_infer_source(ort_api api, const void *context) {
  return (og_ort_source){infer_int,  infer_float, infer_ints, infer_floats,
                         infer_text, api,         context};
}

// --- Values ------------------------------------------------------------------

// An attribute on its way. Each reader returns READ_OK, or what is wrong.
enum { READ_MISSING = 0, READ_OK = 1, READ_MISFIT = -1, READ_NO_MEMORY = -2 };
typedef struct reading {
  const opgraft_param_info *param;
  const og_ort_source *source;
  og_attr *out;
  void **memory;
} reading;

static int ints_read(const reading *r, int32_t kind) {
  size_t size = 0;
  if (!r->source->get_ints(r->source, r->param->name, NULL, &size))
    return READ_MISSING;
  int64_t *ints = calloc(size + 1, sizeof *ints);
  *r->memory = ints;
  if (ints == NULL) return READ_NO_MEMORY;
  if (size > 0 && !r->source->get_ints(r->source, r->param->name, ints, &size))
    return READ_MISFIT;
  r->out->kind = kind;
  r->out->count = (int64_t)size;
  r->out->ints = ints;
  return READ_OK;
}

static int floats_read(const reading *r) {
  size_t size = 0;
  if (!r->source->get_floats(r->source, r->param->name, NULL, &size))
    return READ_MISSING;
  double *floats = calloc(size + 1, sizeof *floats + sizeof(float));
  *r->memory = floats;
  if (floats == NULL) return READ_NO_MEMORY;
  float *narrow = (float *)(void *)(floats + size + 1);
  if (size > 0 &&
      !r->source->get_floats(r->source, r->param->name, narrow, &size))
    return READ_MISFIT;
  for (size_t i = 0; i < size; ++i) floats[i] = (double)narrow[i];
  r->out->kind = OG_ATTR_FLOATS;
  r->out->count = (int64_t)size;
  r->out->floats = floats;
  return READ_OK;
}

static int text_read(const reading *r) {
  size_t size = 0;
  if (!r->source->get_text(r->source, r->param->name, NULL, &size))
    return READ_MISSING;
  char *text = calloc(size + 1, 1);
  *r->memory = text;
  if (text == NULL) return READ_NO_MEMORY;
  if (!r->source->get_text(r->source, r->param->name, text, &size))
    return READ_MISFIT;
  if (r->param->type == OPGRAFT_TYPE_SCALAR_TYPE) {
    r->out->kind = OG_ATTR_DTYPE;
    return og_own_dtype_find(text, &r->out->dtype) ? READ_OK : READ_MISFIT;
  }
  r->out->kind = OG_ATTR_STR;
  r->out->count = (int64_t)strlen(text);
  r->out->s = text;
  return READ_OK;
}

static int int_read(const reading *r, int32_t kind) {
  if (!r->source->get_int(r->source, r->param->name, &r->out->i))
    return READ_MISSING;
  r->out->kind = kind;
  return READ_OK;
}

static int float_read(const reading *r) {
  float value = 0;
  if (!r->source->get_float(r->source, r->param->name, &value))
    return READ_MISSING;
  r->out->kind = OG_ATTR_FLOAT;
  r->out->f = (double)value;
  return READ_OK;
}

static int value_read(const reading *r) {
  const int is_list = (r->param->flags & OPGRAFT_PARAM_LIST) != 0;
  int is_read;
  switch (r->param->type) {
    case OPGRAFT_TYPE_INT:
    case OPGRAFT_TYPE_SYM_INT:
      return is_list ? ints_read(r, OG_ATTR_INTS) : int_read(r, OG_ATTR_INT);
    case OPGRAFT_TYPE_BOOL:
      return is_list ? ints_read(r, OG_ATTR_BOOLS) : int_read(r, OG_ATTR_BOOL);
    case OPGRAFT_TYPE_FLOAT:
    case OPGRAFT_TYPE_SCALAR:
      if (is_list) return floats_read(r);
      is_read = float_read(r);
      if (is_read != READ_MISSING) return is_read;
      is_read = int_read(r, OG_ATTR_INT);
      if (is_read == READ_OK && r->param->type == OPGRAFT_TYPE_FLOAT) {
        r->out->kind = OG_ATTR_FLOAT;
        r->out->f = (double)r->out->i;
      }
      return is_read;
    case OPGRAFT_TYPE_DEVICE:  // the host's choice
      return READ_MISSING;
    default:
      return text_read(r);
  }
}

// A node that has the attribute, of a kind that the argument does not take,
// looks to its getter as one that lacks it.
static int is_of_another_kind(const reading *r) {
  const og_ort_source *s = r->source;
  const char *name = r->param->name;
  int64_t number;
  float real;
  size_t size = 0;
  return s->get_int(s, name, &number) || s->get_float(s, name, &real) ||
         s->get_text(s, name, NULL, &size) ||
         s->get_ints(s, name, NULL, &size) ||
         s->get_floats(s, name, NULL, &size);
}

static og_status wrong(const og_own_op *op, const opgraft_param_info *param,
                       int is_read, opgraft_error *error) {
  if (is_read == READ_NO_MEMORY)
    return og_own_fail(op, OG_MEMORY, error, "out of memory");
  if (is_read == READ_MISSING)
    return og_own_fail(op, OG_INVALID, error,
                       "attribute %s is missing, and has no default",
                       param->name);
  return og_own_fail(op, OG_INVALID, error,
                     "attribute %s could not be read as a %s%s", param->name,
                     opgraft_type_name(param->type),
                     (param->flags & OPGRAFT_PARAM_LIST) != 0 ? "[]" : "");
}

og_status og_ort_attrs_read(const og_own_op *op, const og_ort_source *source,
                            og_ort_attrs *out_attrs, opgraft_error *error) {
  *out_attrs = (og_ort_attrs){0};
  for (int32_t a = 0; a < op->info.attr_count; ++a) {
    og_attr value = {0};
    const reading r = {op->attr_params[a], source, &value,
                       &out_attrs->memory[a]};
    int is_read = value_read(&r);
    if (is_read == READ_MISSING && is_of_another_kind(&r))
      is_read = READ_MISFIT;
    out_attrs->attr[a] = is_read == READ_OK ? value : r.param->default_value;
    if (is_read < 0 ||
        (is_read == READ_MISSING && (r.param->flags & GIVEN_NOT) == 0))
      return wrong(op, r.param, is_read, error);
  }
  return OG_OK;
}

void og_ort_attrs_reset(og_ort_attrs *attrs) {
  for (int32_t a = 0; a < OPGRAFT_ATTR_MAX; ++a) free(attrs->memory[a]);
  *attrs = (og_ort_attrs){0};
}

// SPDX-License-Identifier: Apache-2.0
// Names of types, and tensors and attributes as text.

#include <string.h>

#include "bind.h"

typedef struct type_row {
  const char *name;
  const char *long_name;
  uint8_t code;
  uint8_t bits;
} type_row;

static const type_row types[] = {
#define DTYPE_ROW(name, long_name, code, bits) {#name, #long_name, code, bits},
    OG_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

const char *cli_dtype_name(og_dtype dtype) {
  for (int i = 0; i < TYPE_COUNT; ++i)
    if (types[i].code == dtype.code && types[i].bits == dtype.bits)
      return types[i].name;
  return "?";
}

static bool is_word(const char *name, const char *text, size_t length) {
  return strlen(name) == length && memcmp(name, text, length) == 0;
}

bool cli_dtype_parse(const char *text, size_t length, og_dtype *out_dtype) {
  for (int i = 0; i < TYPE_COUNT; ++i) {
    if (!is_word(types[i].name, text, length) &&
        !is_word(types[i].long_name, text, length))
      continue;
    *out_dtype = (og_dtype){types[i].code, types[i].bits, 1};
    return true;
  }
  return false;
}

static void sizes_print(FILE *to, const int64_t *sizes, int64_t count) {
  fputc('[', to);
  for (int64_t i = 0; i < count; ++i)
    fprintf(to, "%s%lld", i > 0 ? ", " : "", (long long)sizes[i]);
  fputc(']', to);
}

void cli_tensor_print(FILE *to, const og_tensor *tensor) {
  if (tensor == NULL) {
    fputs("None", to);
    return;
  }
  fputs(cli_dtype_name(tensor->dtype), to);
  sizes_print(to, tensor->shape, tensor->ndim);
}

static void list_print(FILE *to, const og_attr *attr) {
  fputc('[', to);
  for (int64_t i = 0; i < attr->count; ++i) {
    if (i > 0) fputs(", ", to);
    if (attr->kind == OG_ATTR_FLOATS)
      fprintf(to, "%g", attr->floats[i]);
    else if (attr->kind == OG_ATTR_STRS)
      fprintf(to, "\"%s\"", attr->strs[i]);
    else if (attr->kind == OG_ATTR_BOOLS)
      fputs(attr->ints[i] ? "True" : "False", to);
    else
      fprintf(to, "%lld", (long long)attr->ints[i]);
  }
  fputc(']', to);
}

void cli_attr_print(FILE *to, const og_attr *attr) {
  switch (attr->kind) {
    case OG_ATTR_NONE:
      fputs("None", to);
      break;
    case OG_ATTR_INT:
      fprintf(to, "%lld", (long long)attr->i);
      break;
    case OG_ATTR_FLOAT:
      fprintf(to, "%g", attr->f);
      break;
    case OG_ATTR_BOOL:
      fputs(attr->i ? "True" : "False", to);
      break;
    case OG_ATTR_COMPLEX:
      fprintf(to, "%g%+gj", attr->f, attr->imag);
      break;
    case OG_ATTR_STR:
      fprintf(to, "\"%s\"", attr->s);
      break;
    case OG_ATTR_DTYPE:
      fputs(cli_dtype_name(attr->dtype), to);
      break;
    case OG_ATTR_DEVICE:
      fprintf(to, "device %d:%d", (int)attr->device.type, (int)attr->device.id);
      break;
    default:
      list_print(to, attr);
  }
}

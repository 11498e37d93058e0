// SPDX-License-Identifier: Apache-2.0
// Reads a graph from text (docs/ir.md). The input is not trusted.

#include "graph/parse.h"

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/names.h"
#include "graph/op.h"
#include "graph/size_parse.h"
#include "graph/verify.h"
#include "scalar/element.h"

enum {
  NAME_MAX_BYTES = 200,
  LIST_MAX = 4096,  // operands, results or arguments of one node
  NEST_MAX = 8      // lists in lists
};

typedef struct parser {
  opgraft_graph *graph;
  const char *text;
  size_t length;
  size_t at;
  opgraft_error *error;
  const char *data;  // of the file; NULL for plain text
  size_t data_bytes;
  og_names names;
  // What the node being read has so far.
  opgraft_value in[LIST_MAX];
  int32_t in_count;
  opgraft_value out[LIST_MAX];
  int32_t out_count;
} parser;

// --- Tokens ------------------------------------------------------------------

static og_status wrong(const parser *p, const char *wanted) {
  int line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < p->at && i < p->length; ++i)
    if (p->text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  size_t shown = 0;
  while (p->at + shown < p->length && shown < 30 &&
         p->text[p->at + shown] != '\n')
    ++shown;
  return og_error_at(p->error, OG_INVALID, NULL, NULL, (int32_t)p->at,
                     (int32_t)(p->at + shown),
                     "graph text, line %d, column %d: found \"%.*s\", expected "
                     "%s",
                     line, (int)(p->at - line_start) + 1, (int)shown,
                     p->text + p->at, wanted);
}

static char peek(const parser *p) {
  return p->at < p->length ? p->text[p->at] : '\0';
}

static void skip_space(parser *p) {
  for (;;) {
    const char c = peek(p);
    if (c == '#') {
      while (p->at < p->length && p->text[p->at] != '\n') ++p->at;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++p->at;
    } else {
      return;
    }
  }
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static bool take(parser *p, const char *token) {
  skip_space(p);
  const size_t n = strlen(token);
  if (p->length - p->at < n || memcmp(p->text + p->at, token, n) != 0)
    return false;
  // A word ends where it ends: "in" is not the start of "inf".
  if (is_word_char(token[n - 1]) && p->at + n < p->length &&
      is_word_char(p->text[p->at + n]))
    return false;
  p->at += n;
  return true;
}

static og_status need(parser *p, const char *token) {
  if (take(p, token)) return OG_OK;
  char wanted[32] = "\"";
  strncat(wanted, token, 20);
  strcat(wanted, "\"");
  return wrong(p, wanted);
}

static size_t word(parser *p, const char **out_word) {
  skip_space(p);
  const size_t begin = p->at;
  size_t n = 0;
  while (begin + n < p->length && is_word_char(p->text[begin + n])) ++n;
  *out_word = p->text + begin;
  return n;
}

static og_status read_word(parser *p, const char **out_word, size_t *out_length,
                           const char *wanted) {
  *out_length = word(p, out_word);
  if (*out_length == 0 || *out_length > NAME_MAX_BYTES) return wrong(p, wanted);
  p->at += *out_length;
  return OG_OK;
}

static og_status read_int(parser *p, int32_t *out) {
  skip_space(p);
  int64_t number = 0;
  const size_t begin = p->at;
  for (; peek(p) >= '0' && peek(p) <= '9' && number < INT32_MAX; ++p->at)
    number = number * 10 + (peek(p) - '0');
  if (p->at == begin || number > INT32_MAX) return wrong(p, "a small number");
  *out = (int32_t)number;
  return OG_OK;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static og_status read_string(parser *p, const char **out_string) {
  OG_TRY(need(p, "\""));
  const char *rest = p->text + p->at;
  const char *end = memchr(rest, '\n', p->length - p->at);
  const size_t bound = end != NULL ? (size_t)(end - rest) : p->length - p->at;
  char *string = og_arena_alloc(&p->graph->arena, bound + 1);
  if (string == NULL) return og_graph_no_memory(p->error);
  size_t used = 0;
  for (; peek(p) != '"'; ++p->at) {
    char c = peek(p);
    if (c == '\0' || c == '\n') return wrong(p, "the end of the string");
    if (c == '\\') {
      c = ++p->at < p->length ? p->text[p->at] : '\0';
      if (c == 'x' && p->length - p->at > 2) {
        const int high = hex_digit(p->text[p->at + 1]);
        const int low = hex_digit(p->text[p->at + 2]);
        if (high < 0 || low < 0 || high + low == 0)
          return wrong(p, "two hexadecimal digits");
        c = (char)(high * 16 + low);
        p->at += 2;
      } else if (c != '"' && c != '\\') {
        return wrong(p, "\\\", \\\\ or \\x and two digits");
      }
    }
    string[used++] = c;
  }
  ++p->at;
  *out_string = string;
  return OG_OK;
}

static og_status read_number_size(parser *p, opgraft_size *out) {
  skip_space(p);
  size_t used;
  const og_status status =
      og_size_read(&p->graph->sizes, p->text + p->at, p->length - p->at, &used,
                   out, p->error);
  p->at += used;
  if (status == OG_INVALID) return wrong(p, "a size expression");
  return status;
}

static og_status read_size(parser *p, opgraft_size *out) {
  OG_TRY(read_number_size(p, out));
  return og_size_is_float(&p->graph->sizes, *out)
             ? wrong(p, "an integer before this, no float")
             : OG_OK;
}

// --- Names -------------------------------------------------------------------

// Reads "%name"; a number is a name that is not kept.
static og_status read_value_name(parser *p, const char **out_name,
                                 size_t *out_length) {
  OG_TRY(need(p, "%"));
  const size_t n = word(p, out_name);
  if (n == 0 || n > NAME_MAX_BYTES) return wrong(p, "a name");
  *out_length = n;
  p->at += n;
  return OG_OK;
}

static og_status name_define(parser *p, const char *name, size_t length,
                             opgraft_value value) {
  opgraft_value known;
  if (og_names_find(&p->names, name, length, &known)) {
    p->at = (size_t)(name - p->text);
    return wrong(p, "a name that is not defined yet");
  }
  if (!og_names_add(&p->names, name, length, value))
    return og_graph_no_memory(p->error);
  if (name[0] >= '0' && name[0] <= '9') return OG_OK;
  const char *copy = og_arena_strndup(&p->graph->arena, name, length);
  if (copy == NULL) return og_graph_no_memory(p->error);
  p->graph->values[value].name = copy;
  return OG_OK;
}

static og_status read_value_use(parser *p, opgraft_value *out) {
  const char *name;
  size_t length = 0;
  skip_space(p);
  const size_t begin = p->at;
  OG_TRY(read_value_name(p, &name, &length));
  if (og_names_find(&p->names, name, length, out)) return OG_OK;
  p->at = begin;
  return wrong(p, "a value that is defined before its use");
}

// --- Types -------------------------------------------------------------------

typedef struct value_type {
  og_dtype dtype;
  og_device device;
  int32_t ndim;
  bool has_strides;
  opgraft_size shape[OPGRAFT_RANK_MAX];
  opgraft_size strides[OPGRAFT_RANK_MAX];
  opgraft_size offset;
} value_type;

static og_status read_sizes(parser *p, const char *end, opgraft_size *out,
                            int32_t *out_count) {
  *out_count = 0;
  if (take(p, end)) return OG_OK;
  do {
    if (*out_count == OPGRAFT_RANK_MAX) return wrong(p, "at most 64 dims");
    OG_TRY(read_size(p, &out[(*out_count)++]));
  } while (take(p, ","));
  return need(p, end);
}

static og_status read_dtype(parser *p, og_dtype *out) {
  const char *name;
  const size_t length = word(p, &name);
  if (!og_dtype_parse(name, length, out)) return wrong(p, "a type as f32");
  p->at += length;
  return OG_OK;
}

// " on cuda:0", or nothing for the CPU.
static og_status read_place(parser *p, og_device *out) {
  const char *name;
  *out = og_cpu;
  if (!take(p, "on")) return OG_OK;
  const size_t length = word(p, &name);
  if (!og_device_parse(name, length, &out->type))
    return wrong(p, "cpu, cuda, rocm or ext");
  p->at += length;
  OG_TRY(need(p, ":"));
  return read_int(p, &out->id);
}

static og_status read_type(parser *p, value_type *out) {
  int32_t count;
  OG_TRY(read_dtype(p, &out->dtype));
  OG_TRY(need(p, "["));
  OG_TRY(read_sizes(p, "]", out->shape, &out->ndim));
  out->offset = OG_SIZE_ZERO;
  out->has_strides = take(p, "{");
  if (out->has_strides) {
    OG_TRY(read_sizes(p, "}", out->strides, &count));
    if (count != out->ndim) return wrong(p, "as many strides as dims before");
  }
  if (take(p, "+(")) {
    OG_TRY(read_size(p, &out->offset));
    OG_TRY(need(p, ")"));
  }
  return read_place(p, &out->device);
}

static og_status value_make(parser *p, og_value_kind kind,
                            const value_type *type, opgraft_value *out) {
  OG_TRY(og_graph_add_value(
      p->graph, kind, type->dtype, type->device, type->ndim, type->shape,
      type->has_strides ? type->strides : NULL, out, p->error));
  p->graph->values[*out].offset = type->offset;
  return OG_OK;
}

// --- Inputs and constants ----------------------------------------------------

static og_status read_size_input(parser *p) {
  const char *name;
  char copy[NAME_MAX_BYTES + 1] = "";
  size_t length = 0;
  opgraft_size size;
  OG_TRY(read_word(p, &name, &length, "the size's name"));
  memcpy(copy, name, length);
  OG_TRY(need(p, "="));
  OG_TRY(read_size(p, &size));
  return opgraft_graph_add_size_input(
      p->graph, strcmp(copy, "_") == 0 ? NULL : copy, size, p->error);
}

static og_status read_input(parser *p) {
  const char *name;
  size_t length = 0;
  value_type type;
  opgraft_value value;
  if (take(p, "size")) return read_size_input(p);
  OG_TRY(read_value_name(p, &name, &length));
  OG_TRY(need(p, ":"));
  OG_TRY(read_type(p, &type));
  if (type.offset != OG_SIZE_ZERO) return wrong(p, "no offset before this");
  uint32_t flags = take(p, "static") ? OPGRAFT_INPUT_STATIC : 0;
  for (int i = 0; i < OG_PRECISIONS && (flags & OG_PRECISION_FLAGS) == 0; ++i)
    if (take(p, og_precisions[i].name)) flags |= og_precisions[i].flag;
  const opgraft_value_info info = {
      .struct_size = sizeof info,
      .flags = flags,
      .dtype = type.dtype,
      .ndim = type.ndim,
      .shape = type.shape,
      .strides = type.has_strides ? type.strides : NULL,
      .device = type.device};
  OG_TRY(opgraft_graph_add_input(p->graph, NULL, &info, &value, p->error));
  OG_TRY(name_define(p, name, length, value));
  p->graph->inputs[p->graph->input_count - 1].name =
      p->graph->values[value].name;
  return OG_OK;
}

// The characters of a number; 0 where there is none.
static size_t number_length(const parser *p) {
  size_t n = 0;
  if (p->at < p->length && p->text[p->at] == '-') n = 1;
  for (; p->at + n < p->length; ++n) {
    const char c = p->text[p->at + n];
    const char before = n > 0 ? p->text[p->at + n - 1] : '\0';
    const bool is_sign = (c == '-' || c == '+') && before == 'e';
    if (!is_word_char(c) && !is_sign) break;
  }
  return n;
}

// Sets an element from decimal text.
static og_status read_element(parser *p, og_dtype dtype, void *out) {
  skip_space(p);
  const size_t length = number_length(p);
  int64_t number;
  double real;
  if (og_i64_parse(p->text + p->at, length, &number))
    og_element_set_int(dtype, out, number);
  else if (length > 0 && og_double_parse(p->text + p->at, length, &real))
    og_element_set_double(dtype, out, real);
  else
    return wrong(p, "a number");
  p->at += length;
  return OG_OK;
}

static og_status read_elements(parser *p, og_dtype dtype, size_t count,
                               char *out) {
  OG_TRY(need(p, "["));
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) OG_TRY(need(p, ","));
    OG_TRY(read_element(p, dtype, out + i * og_dtype_bytes(dtype)));
  }
  return need(p, "]");
}

static og_status constant_define(parser *p, const char *name, size_t length,
                                 const og_tensor *tensor) {
  opgraft_value value;
  OG_TRY(opgraft_graph_add_constant(p->graph, NULL, tensor, &value, p->error));
  return name_define(p, name, length, value);
}

// "data OFFSET": the bytes stay where they are, in the file's mapping.
static og_status read_data_constant(parser *p, const char *name, size_t length,
                                    const value_type *type) {
  int64_t offset = -1, size;
  size_t bytes = og_dtype_bytes(type->dtype);
  opgraft_value value;
  skip_space(p);
  if (p->data == NULL) return wrong(p, "numbers, for this text has no data");
  const size_t digits = number_length(p);
  for (int32_t i = 0; i < type->ndim; ++i)
    if (!og_size_get(&p->graph->sizes, type->shape[i], &size) || size < 0 ||
        !og_size_mul(bytes, (size_t)size, &bytes))
      return wrong(p, "a constant of known sizes before this");
  if (!og_i64_parse(p->text + p->at, digits, &offset) || offset < 0 ||
      offset % 64 != 0 || (uint64_t)offset > p->data_bytes ||
      bytes > p->data_bytes - (size_t)offset)
    return wrong(p, "a multiple of 64 that leaves room in the file's data");
  p->at += digits;
  OG_TRY(value_make(p, OG_VALUE_CONSTANT, type, &value));
  p->graph->values[value].data = p->data + offset;
  p->graph->values[value].data_bytes = bytes;
  return name_define(p, name, length, value);
}

static og_status read_constant(parser *p) {
  const char *name;
  size_t length = 0, count = 1;
  value_type type;
  int64_t shape[OPGRAFT_RANK_MAX], strides[OPGRAFT_RANK_MAX];
  OG_TRY(read_value_name(p, &name, &length));
  OG_TRY(need(p, ":"));
  OG_TRY(read_type(p, &type));
  OG_TRY(need(p, "="));
  if (type.has_strides || type.offset != OG_SIZE_ZERO ||
      !og_device_equal(type.device, og_cpu))
    return wrong(p, "a row-major constant on the CPU");
  if (take(p, "data")) return read_data_constant(p, name, length, &type);
  if (og_dtype_class(type.dtype) == OG_CLASS_NONE)
    return wrong(p, "\"data\", or a constant of a real type");
  // Every element takes two characters, so the text bounds the size.
  for (int32_t i = type.ndim - 1; i >= 0; --i) {
    strides[i] = (int64_t)count;
    if (!og_size_get(&p->graph->sizes, type.shape[i], &shape[i]) ||
        shape[i] < 0 || !og_size_mul(count, (size_t)shape[i], &count) ||
        count > p->length)
      return wrong(p, "as many numbers as the constant's sizes say");
  }
  void *data = og_alloc((count + 1) * og_dtype_bytes(type.dtype));
  if (data == NULL) return og_graph_no_memory(p->error);
  const og_tensor tensor = {.data = data,
                            .device = og_cpu,
                            .ndim = type.ndim,
                            .dtype = type.dtype,
                            .shape = shape,
                            .strides = strides};
  og_status status = read_elements(p, type.dtype, count, data);
  if (status == OG_OK) status = constant_define(p, name, length, &tensor);
  og_free(data);
  return status;
}

// --- Arguments ---------------------------------------------------------------

// Whether the text ahead is a number with a point or an exponent, or a word
// for one.
static bool ahead_is_float(const parser *p, double *out) {
  const size_t length = number_length(p);
  int64_t number;
  return length > 0 && !og_i64_parse(p->text + p->at, length, &number) &&
         og_double_parse(p->text + p->at, length, out);
}

static og_status read_operand(parser *p, opgraft_value *out);
static og_status read_arg(parser *p, int depth, opgraft_arg *out);

static og_status operand_add(parser *p, opgraft_value value) {
  if (p->in_count == LIST_MAX) return wrong(p, "at most 4096 operands");
  p->in[p->in_count++] = value;
  return OG_OK;
}

static og_status args_push(parser *p, opgraft_arg **args, int32_t count,
                           int32_t *capacity, opgraft_arg arg) {
  if (count == *capacity) {
    const int32_t grown = *capacity ? *capacity * 2 : 8;
    if (grown > LIST_MAX) return wrong(p, "a shorter list");
    opgraft_arg *moved =
        og_arena_array(&p->graph->arena, (size_t)grown, sizeof *moved);
    if (moved == NULL) return og_graph_no_memory(p->error);
    if (count > 0) memcpy(moved, *args, (size_t)count * sizeof *moved);
    *args = moved;
    *capacity = grown;
  }
  (*args)[count] = arg;
  return OG_OK;
}

// "a, b, name=c)" up to and with `end`.
static og_status read_args(parser *p, const char *end, int depth,
                           const opgraft_arg **out_args, int32_t *out_count) {
  opgraft_arg *args = NULL;
  int32_t count = 0, capacity = 0;
  if (depth > NEST_MAX) return wrong(p, "less nesting");
  if (!take(p, end)) {
    do {
      opgraft_arg arg;
      OG_TRY(read_arg(p, depth, &arg));
      OG_TRY(args_push(p, &args, count, &capacity, arg));
      ++count;
    } while (take(p, ","));
    OG_TRY(need(p, end));
  }
  *out_args = args;
  *out_count = count;
  return OG_OK;
}

static og_status read_device(parser *p, opgraft_arg *out) {
  out->kind = OPGRAFT_ARG_DEVICE;
  OG_TRY(read_int(p, &out->device.type));
  OG_TRY(need(p, ":"));
  return read_int(p, &out->device.id);
}

static og_status read_plain_arg(parser *p, int depth, opgraft_arg *out) {
  skip_space(p);
  double real;
  if (take(p, "[")) {
    out->kind = OPGRAFT_ARG_LIST;
    return read_args(p, "]", depth + 1, &out->list, &out->count);
  }
  if (peek(p) == '%') {
    opgraft_value value;
    OG_TRY(read_value_use(p, &value));
    out->kind = OPGRAFT_ARG_VALUE;
    out->value = p->in_count;
    return operand_add(p, value);
  }
  out->kind = OPGRAFT_ARG_STR;
  if (peek(p) == '"') return read_string(p, &out->s);
  out->kind = OPGRAFT_ARG_OTHER;
  if (take(p, "other")) return read_string(p, &out->s);
  out->kind = OPGRAFT_ARG_DTYPE;
  if (take(p, "dtype")) return read_dtype(p, &out->dtype);
  if (take(p, "device")) return read_device(p, out);
  out->kind = OPGRAFT_ARG_NONE;
  if (take(p, "none")) return OG_OK;
  out->kind = OPGRAFT_ARG_BOOL;
  out->i = take(p, "true");
  if (out->i || take(p, "false")) return OG_OK;
  if (ahead_is_float(p, &real)) {
    p->at += number_length(p);
    out->kind = OPGRAFT_ARG_FLOAT;
    out->f = real;
    return OG_OK;
  }
  out->kind = OPGRAFT_ARG_SIZE;
  return read_number_size(p, &out->size);
}

static og_status read_arg(parser *p, int depth, opgraft_arg *out) {
  memset(out, 0, sizeof *out);
  const char *name;
  const size_t length = word(p, &name);
  const size_t begin = p->at;
  const bool is_name =
      length > 0 && length <= NAME_MAX_BYTES && !(name[0] <= '9');
  if (is_name) {
    p->at += length;
    if (take(p, "=")) {
      out->name = og_arena_strndup(&p->graph->arena, name, length);
      if (out->name == NULL) return og_graph_no_memory(p->error);
    } else {
      p->at = begin;
    }
  }
  return read_plain_arg(p, depth, out);
}

// An operand of an IR operator: a value, a literal, or none.
static og_status read_operand(parser *p, opgraft_value *out) {
  double real;
  int64_t number;
  skip_space(p);
  if (peek(p) == '%') return read_value_use(p, out);
  if (take(p, "none")) {
    *out = -1;
    return OG_OK;
  }
  if (take(p, "true"))
    return og_graph_literal_bool(p->graph, true, out, p->error);
  if (take(p, "false"))
    return og_graph_literal_bool(p->graph, false, out, p->error);
  const size_t length = number_length(p);
  if (ahead_is_float(p, &real)) {
    p->at += length;
    return og_graph_literal_float(p->graph, real, out, p->error);
  }
  if (!og_i64_parse(p->text + p->at, length, &number))
    return wrong(p, "an operand");
  p->at += length;
  return og_graph_literal_int(p->graph, number, out, p->error);
}

// --- Nodes -------------------------------------------------------------------

static og_status read_attrs(parser *p, int32_t op, opgraft_arg *out_attrs) {
  memset(out_attrs, 0, OG_OP_ATTR_MAX * sizeof *out_attrs);
  if (!take(p, ";")) return OG_OK;
  do {
    opgraft_arg arg;
    skip_space(p);
    const size_t begin = p->at;
    OG_TRY(read_arg(p, 0, &arg));
    const int32_t index =
        arg.name ? og_op_attr_index(op, arg.name, strlen(arg.name)) : -1;
    if (index < 0 || arg.kind == OPGRAFT_ARG_VALUE) {
      p->at = begin;
      return wrong(p, "an attribute that the operator has");
    }
    arg.name = NULL;
    out_attrs[index] = arg;
  } while (take(p, ","));
  return OG_OK;
}

static og_status read_update(parser *p, og_node *node) {
  int32_t result, operand;
  OG_TRY(read_int(p, &result));
  OG_TRY(need(p, ":"));
  OG_TRY(read_int(p, &operand));
  if (result >= node->out_count || operand >= node->in_count)
    return wrong(p, "result:operand of this node before");
  if (node->update == NULL) {
    node->update = og_arena_array(&p->graph->arena, (size_t)node->out_count,
                                  sizeof *node->update);
    if (node->update == NULL) return og_graph_no_memory(p->error);
  }
  ((int32_t *)(uintptr_t)node->update)[result] = operand + 1;
  return OG_OK;
}

static og_status read_foreign_notes(parser *p, og_node *node,
                                    og_origin *origin) {
  if (!take(p, "{")) return OG_OK;
  do {
    if (take(p, "node"))
      OG_TRY(read_int(p, &origin->host_node));
    else if (take(p, "random"))
      node->flags |= OG_OP_RANDOM;
    else if (take(p, "effect"))
      node->flags |= OG_OP_EFFECT;
    else if (take(p, "update"))
      OG_TRY(read_update(p, node));
    else if (take(p, "why"))
      OG_TRY(read_string(p, &origin->reason));
    else
      return wrong(p, "node, random, effect, update or why");
  } while (take(p, ","));
  return need(p, "}");
}

static og_status node_append(parser *p, int32_t op, const opgraft_arg *attrs,
                             int32_t *out_node) {
  return og_graph_append(p->graph, op, p->in, p->in_count, p->out, p->out_count,
                         attrs, out_node, p->error);
}

static og_status read_foreign(parser *p, int32_t *out_node) {
  og_origin *origin = og_arena_alloc(&p->graph->arena, sizeof *origin);
  if (origin == NULL) return og_graph_no_memory(p->error);
  OG_TRY(read_string(p, &origin->name));
  OG_TRY(need(p, "("));
  OG_TRY(read_args(p, ")", 0, &origin->args, &origin->arg_count));
  if (take(p, "of")) {
    do {
      opgraft_value base;
      skip_space(p);
      OG_TRY(read_value_use(p, &base));
      OG_TRY(operand_add(p, base));
    } while (take(p, ","));
  }
  OG_TRY(node_append(p, OG_IR_foreign, NULL, out_node));
  og_node *node = &p->graph->nodes[*out_node];
  node->origin = origin;
  node->is_as_recorded = true;
  return read_foreign_notes(p, node, origin);
}

static og_status read_operation(parser *p, int32_t *out_node) {
  const char *name;
  size_t length = 0;
  opgraft_arg attrs[OG_OP_ATTR_MAX];
  p->in_count = 0;
  OG_TRY(read_word(p, &name, &length, "an operator"));
  const int32_t op = og_op_find(name, length);
  if (op < 0) {
    p->at -= length;
    return wrong(p, "an IR operator, or foreign \"name\"");
  }
  if (op == OG_IR_foreign) return read_foreign(p, out_node);
  OG_TRY(need(p, "("));
  skip_space(p);
  if (peek(p) != ')' && peek(p) != ';') {
    do {
      opgraft_value operand;
      OG_TRY(read_operand(p, &operand));
      OG_TRY(operand_add(p, operand));
    } while (take(p, ","));
  }
  OG_TRY(read_attrs(p, op, attrs));
  OG_TRY(need(p, ")"));
  const og_op_info *info = &og_ops[op];
  if (p->in_count < info->in_min ||
      (info->in_max >= 0 && p->in_count > info->in_max))
    return wrong(p, "the operator's count of operands before this");
  if (info->out_count >= 0 && p->out_count != info->out_count)
    return wrong(p, "the operator's count of results before this");
  return node_append(p, op, attrs, out_node);
}

typedef struct pending {
  const char *name;
  size_t length;
  bool has_root;
} pending;

// What a result lies in: an earlier result of this node, or a value before it.
static og_status read_root(parser *p, const pending *names, int32_t count,
                           opgraft_value *out) {
  const char *name;
  size_t length;
  skip_space(p);
  const size_t begin = p->at;
  OG_TRY(read_value_name(p, &name, &length));
  for (int32_t r = 0; r < count; ++r)
    if (names[r].name != NULL && names[r].length == length &&
        memcmp(names[r].name, name, length) == 0) {
      *out = p->out[r];
      return OG_OK;
    }
  p->at = begin;
  return read_value_use(p, out);
}

static og_status read_result(parser *p, pending *names) {
  value_type type;
  const int32_t before = p->out_count;
  pending *out_pending = &names[before];
  *out_pending = (pending){NULL, 0, false};
  if (p->out_count == LIST_MAX) return wrong(p, "at most 4096 results");
  opgraft_value *out = &p->out[p->out_count++];
  *out = -1;
  if (take(p, "none")) return OG_OK;
  OG_TRY(read_value_name(p, &out_pending->name, &out_pending->length));
  OG_TRY(need(p, ":"));
  OG_TRY(read_type(p, &type));
  OG_TRY(value_make(p, OG_VALUE_RESULT, &type, out));
  out_pending->has_root = take(p, "in");
  if (!out_pending->has_root) return OG_OK;
  opgraft_value root;
  OG_TRY(read_root(p, names, before, &root));
  p->graph->values[*out].root = p->graph->values[root].root;
  return OG_OK;
}

// "@ file:line" to the end of the line; the file's name may hold anything.
static og_status read_source(parser *p, og_node *node) {
  if (!take(p, "@")) return OG_OK;
  while (peek(p) == ' ') ++p->at;
  const size_t begin = p->at;
  while (p->at < p->length && p->text[p->at] != '\n') ++p->at;
  const size_t end = p->at;
  size_t number = end;  // behind the last colon
  while (number > begin && p->text[number - 1] != ':') --number;
  if (number < begin + 2) return wrong(p, "file:line before this");
  p->at = number;
  OG_TRY(read_int(p, &node->line));
  while (p->at < end && strchr(" \t\r", p->text[p->at]) != NULL) ++p->at;
  if (p->at != end) return wrong(p, "the end of the line");
  node->file =
      og_arena_strndup(&p->graph->arena, p->text + begin, number - 1 - begin);
  return node->file != NULL ? OG_OK : og_graph_no_memory(p->error);
}

static og_status view_bind(parser *p, const og_node *node) {
  if (node->out[0] < 0) return wrong(p, "a result of the view before this");
  if (node->in[0] < 0) return wrong(p, "a value to view before this");
  p->graph->values[node->out[0]].root = p->graph->values[node->in[0]].root;
  return OG_OK;
}

static og_status read_node(parser *p) {
  pending names[64];
  int32_t node;
  p->out_count = 0;
  skip_space(p);
  const bool has_results = peek(p) == '%' || take(p, "none");
  if (has_results) {
    if (peek(p) != '%') p->at -= 4;
    do {
      if (p->out_count == 64) return wrong(p, "at most 64 results");
      OG_TRY(read_result(p, names));
    } while (take(p, ","));
    OG_TRY(need(p, "="));
  }
  OG_TRY(read_operation(p, &node));
  if (og_op_is(&p->graph->nodes[node], OG_OP_VIEW))
    OG_TRY(view_bind(p, &p->graph->nodes[node]));
  OG_TRY(read_source(p, &p->graph->nodes[node]));
  // Defined after its operands were read: a node cannot use its own results.
  for (int32_t r = 0; r < p->out_count; ++r)
    if (names[r].name != NULL)
      OG_TRY(name_define(p, names[r].name, names[r].length, p->out[r]));
  return OG_OK;
}

static og_status read_output(parser *p) {
  opgraft_value value = -1;
  opgraft_size size;
  if (take(p, "size")) {
    OG_TRY(read_size(p, &size));
    return opgraft_graph_add_size_output(p->graph, size, p->error);
  }
  if (!take(p, "none")) OG_TRY(read_value_use(p, &value));
  return opgraft_graph_add_output(p->graph, value, p->error);
}

static og_status read_return(parser *p) {
  skip_space(p);
  if (peek(p) != '}') {
    do {
      OG_TRY(read_output(p));
    } while (take(p, ","));
  }
  OG_TRY(need(p, "}"));
  skip_space(p);
  return p->at == p->length ? OG_OK : wrong(p, "the end of the text");
}

static og_status read_graph(parser *p) {
  const char *name;
  size_t length = 0;
  OG_TRY(need(p, "graph"));
  OG_TRY(read_word(p, &name, &length, "the graph's name"));
  p->graph->name = og_arena_strndup(&p->graph->arena, name, length);
  if (p->graph->name == NULL) return og_graph_no_memory(p->error);
  OG_TRY(need(p, "("));
  if (!take(p, ")")) {
    do {
      OG_TRY(read_input(p));
    } while (take(p, ","));
    OG_TRY(need(p, ")"));
  }
  OG_TRY(need(p, "{"));
  while (!take(p, "return")) {
    if (take(p, "constant"))
      OG_TRY(read_constant(p));
    else
      OG_TRY(read_node(p));
  }
  return read_return(p);
}

og_status opgraft_graph_parse(const char *text, size_t length,
                              opgraft_graph **out_graph, opgraft_error *error) {
  return og_graph_parse_data(text, length, NULL, 0, out_graph, error);
}

og_status og_graph_parse_data(const char *text, size_t length, const char *data,
                              size_t data_bytes, opgraft_graph **out_graph,
                              opgraft_error *error) {
  *out_graph = NULL;
  // Names go into C strings; what they would lose must not be there.
  const char *nul = memchr(text, 0, length);
  if (nul != NULL)
    return og_error_at(error, OG_INVALID, NULL, NULL, (int32_t)(nul - text),
                       (int32_t)(nul - text) + 1,
                       "graph text, byte %td: found a NUL, expected text, or "
                       "a file that opgraft.export wrote",
                       nul - text);
  parser *p = og_alloc_zeroed(1, sizeof *p);
  if (p == NULL) return og_graph_no_memory(error);
  p->text = text;
  p->length = length;
  p->data = data;
  p->data_bytes = data_bytes;
  p->error = error;
  og_status status = opgraft_graph_create("graph", &p->graph, error);
  if (status == OG_OK) {
    p->graph->is_text = true;
    p->graph->data = data;
    p->graph->data_bytes = data_bytes;
    status = read_graph(p);
  }
  if (status == OG_OK) status = og_graph_verify(p->graph, error);
  if (status == OG_OK)
    *out_graph = p->graph;
  else
    opgraft_graph_release(p->graph);
  og_names_reset(&p->names);
  og_free(p);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// .npy files. The input is not trusted.
// Source: NumPy Enhancement Proposal 1, "A simple file format for NumPy
// arrays", 2007, and numpy.lib.format.

#include "base/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAGIC_BYTES = 6, HEADER_ALIGNMENT = 64 };
static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

typedef struct npy_type {
  char name[4];
  og_dtype dtype;
} npy_type;

static const npy_type types[] = {
    {"f4", {OG_CODE_FLOAT, 32, 1}},     {"f8", {OG_CODE_FLOAT, 64, 1}},
    {"f2", {OG_CODE_FLOAT, 16, 1}},     {"V2", {OG_CODE_BFLOAT, 16, 1}},
    {"i1", {OG_CODE_INT, 8, 1}},        {"i2", {OG_CODE_INT, 16, 1}},
    {"i4", {OG_CODE_INT, 32, 1}},       {"i8", {OG_CODE_INT, 64, 1}},
    {"u1", {OG_CODE_UINT, 8, 1}},       {"u2", {OG_CODE_UINT, 16, 1}},
    {"u4", {OG_CODE_UINT, 32, 1}},      {"u8", {OG_CODE_UINT, 64, 1}},
    {"b1", {OG_CODE_BOOL, 8, 1}},       {"c8", {OG_CODE_COMPLEX, 64, 1}},
    {"c16", {OG_CODE_COMPLEX, 128, 1}},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

// --- Reading the header ------------------------------------------------------

// The header's dict, as Python writes it.
typedef struct reader {
  const char *path;
  const char *text;
  size_t length;
  size_t at;
  opgraft_error *error;
} reader;

static og_status wrong(const reader *in, const char *wanted) {
  const size_t rest = in->length - in->at;
  return og_error_set(in->error, OG_INVALID, NULL, NULL,
                      "%s: its header has \"%.*s\" where %s is expected; NumPy "
                      "would not write such a file",
                      in->path, (int)(rest < 24 ? rest : 24), in->text + in->at,
                      wanted);
}

static char peek(const reader *in) {
  return in->at < in->length ? in->text[in->at] : '\0';
}

static bool take(reader *in, const char *token) {
  while (peek(in) == ' ' || peek(in) == '\n') ++in->at;
  const size_t n = strlen(token);
  if (in->length - in->at < n || memcmp(in->text + in->at, token, n) != 0)
    return false;
  in->at += n;
  return true;
}

static og_status need(reader *in, const char *token) {
  return take(in, token) ? OG_OK : wrong(in, token);
}

static og_status read_descr(reader *in, og_npy *out) {
  if (!take(in, "'")) return wrong(in, "the name of one type");
  const char order = peek(in);
  const bool has_order = order != '\0' && strchr("<>|=", order) != NULL;
  if (has_order) ++in->at;
  const char *name = in->text + in->at;
  size_t length = 0;
  while (in->at + length < in->length && name[length] != '\'') ++length;
  for (int i = 0; i < TYPE_COUNT; ++i) {
    if (strlen(types[i].name) != length ||
        memcmp(types[i].name, name, length) != 0)
      continue;
    out->dtype = types[i].dtype;
    if (order == '>' && types[i].dtype.bits > 8)
      return og_error_set(in->error, OG_DTYPE, NULL, NULL,
                          "%s: its numbers are big-endian; write it with "
                          "a.astype(a.dtype.newbyteorder('<'))",
                          in->path);
    in->at += length;
    return need(in, "'");
  }
  return og_error_set(
      in->error, OG_DTYPE, NULL, NULL,
      "%s: a tensor cannot have NumPy's type \"%.*s\"; expected "
      "a float, integer, bool or complex type, or V2 for bf16",
      in->path, (int)(length < 24 ? length : 24), name);
}

static og_status read_size(reader *in, int64_t *out) {
  const size_t begin = in->at;
  *out = 0;
  for (; peek(in) >= '0' && peek(in) <= '9'; ++in->at)
    if (!og_i64_mul(*out, 10, out) || !og_i64_add(*out, peek(in) - '0', out))
      return wrong(in, "a size that memory can have");
  return in->at > begin ? OG_OK : wrong(in, "a size");
}

static og_status read_shape(reader *in, og_npy *out) {
  OG_TRY(need(in, "("));
  out->ndim = 0;
  while (!take(in, ")")) {
    if (out->ndim == OPGRAFT_RANK_MAX) return wrong(in, "at most 64 dims");
    OG_TRY(read_size(in, &out->shape[out->ndim++]));
    if (!take(in, ",") && !take(in, ")")) return wrong(in, "\",\" or \")\"");
    if (in->text[in->at - 1] == ')') break;
  }
  return OG_OK;
}

static og_status read_dict(reader *in, og_npy *out) {
  bool has_descr = false, has_order = false, has_shape = false;
  OG_TRY(need(in, "{"));
  while (!take(in, "}")) {
    if (take(in, "'descr':")) {
      take(in, "");
      OG_TRY(read_descr(in, out));
      has_descr = true;
    } else if (take(in, "'fortran_order':")) {
      out->is_fortran = take(in, "True");
      if (!out->is_fortran) OG_TRY(need(in, "False"));
      has_order = true;
    } else if (take(in, "'shape':")) {
      OG_TRY(read_shape(in, out));
      has_shape = true;
    } else {
      return wrong(in, "'descr', 'fortran_order' or 'shape'");
    }
    if (!take(in, ",") && peek(in) != '}') return wrong(in, "\",\" or \"}\"");
  }
  if (!has_descr || !has_order || !has_shape)
    return wrong(in, "'descr', 'fortran_order' and 'shape' before this");
  take(in, "");
  return in->at == in->length ? OG_OK : wrong(in, "the end of the header");
}

static og_status sizes_check(const og_npy *npy, size_t size_bytes,
                             const char *path, opgraft_error *error) {
  const size_t held = size_bytes - npy->data_offset;
  if (held == npy->data_bytes) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "%s: its header asks for %zu bytes of data, and %zu %s; "
                      "%s",
                      path, npy->data_bytes, held, "follow it",
                      held < npy->data_bytes
                          ? "the file was cut short: write it again"
                          : "expected one array and nothing else in it");
}

og_status og_npy_parse(const char *bytes, size_t size_bytes, const char *path,
                       og_npy *out, opgraft_error *error) {
  const unsigned char *at = (const unsigned char *)bytes;
  memset(out, 0, sizeof *out);
  if (size_bytes < 10 || memcmp(bytes, magic, MAGIC_BYTES) != 0)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: does not begin as a .npy file; numpy.save writes "
                        "one",
                        path);
  const int version = at[6];
  if (version < 1 || version > 3)
    return og_error_set(error, OG_VERSION, NULL, NULL,
                        "%s: is a .npy file of version %d, expected 1, 2 or 3",
                        path, version);
  const size_t begin = version == 1 ? 10 : 12;
  size_t length = (size_t)at[8] | (size_t)at[9] << 8;
  if (version > 1 && size_bytes >= begin)
    length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
  if (size_bytes < begin || size_bytes - begin < length)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: the file was cut short in its header: write it "
                        "again",
                        path);
  reader in = {path, bytes + begin, length, 0, error};
  OG_TRY(read_dict(&in, out));
  out->data_offset = begin + length;
  out->data_bytes = og_dtype_bytes(out->dtype);
  bool is_empty = false;
  for (int32_t d = 0; d < out->ndim; ++d) is_empty |= out->shape[d] == 0;
  for (int32_t d = 0; d < out->ndim; ++d)
    if (!og_size_mul(out->data_bytes, (size_t)out->shape[d],
                     &out->data_bytes) ||
        (!is_empty && out->data_bytes > PTRDIFF_MAX))
      return wrong(&in, "sizes that memory can have before this");
  return sizes_check(out, size_bytes, path, error);
}

// --- Tensors -----------------------------------------------------------------

// One allocation: the struct, its sizes and strides, the data at 64 bytes.
typedef struct npy_tensor {
  og_tensor tensor;
  int64_t shape[OPGRAFT_RANK_MAX];
  int64_t strides[OPGRAFT_RANK_MAX];
} npy_tensor;

enum { DATA_AT = (int)((sizeof(npy_tensor) + 63) / 64 * 64) };

static void strides_set(npy_tensor *to, const og_npy *npy) {
  int64_t stride = 1;
  for (int32_t i = 0; i < npy->ndim; ++i) {
    const int32_t d = npy->is_fortran ? i : npy->ndim - 1 - i;
    to->shape[d] = npy->shape[d];
    to->strides[d] = stride;
    stride *= npy->shape[d] > 0 ? npy->shape[d] : 1;
  }
}

static og_status tensor_make(const og_mapping *file, const char *path,
                             og_tensor **out_tensor, opgraft_error *error) {
  og_npy npy;
  OG_TRY(og_npy_parse(file->bytes, file->size_bytes, path, &npy, error));
  npy_tensor *to = og_alloc_aligned(64, DATA_AT + npy.data_bytes + 64);
  if (to == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "%s: not enough memory for its %zu bytes", path,
                        npy.data_bytes);
  memset(to, 0, sizeof *to);
  strides_set(to, &npy);
  to->tensor = (og_tensor){.data = (char *)to + DATA_AT,
                           .device = og_cpu,
                           .ndim = npy.ndim,
                           .dtype = npy.dtype,
                           .shape = to->shape,
                           .strides = to->strides};
  if (npy.data_bytes > 0)
    memcpy(to->tensor.data, file->bytes + npy.data_offset, npy.data_bytes);
  *out_tensor = &to->tensor;
  return OG_OK;
}

og_status opgraft_npy_read(const char *path, og_tensor **out_tensor,
                           opgraft_error *error) {
  og_mapping file;
  *out_tensor = NULL;
  OG_TRY(og_file_map(path, &file, error));
  const og_status status = tensor_make(&file, path, out_tensor, error);
  og_file_unmap(&file);
  return status;
}

void opgraft_npy_release(og_tensor *tensor) { og_free(tensor); }

// --- Writing -----------------------------------------------------------------

typedef void (*write_fn)(void *user, const char *bytes, size_t length);

static og_status header_make(const og_tensor *tensor, og_text *out,
                             opgraft_error *error) {
  const char *type = NULL;
  for (int i = 0; i < TYPE_COUNT; ++i)
    if (og_dtype_equal(types[i].dtype, tensor->dtype)) type = types[i].name;
  if (type == NULL)
    return og_error_set(error, OG_DTYPE, NULL, NULL, "NumPy has no type for %s",
                        og_dtype_name(tensor->dtype));
  const char *order = tensor->dtype.bits == 8 || type[0] == 'V' ? "|" : "<";
  og_text dict = {0};
  og_text_addf(&dict, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
               order, type);
  for (int32_t d = 0; d < tensor->ndim; ++d)
    og_text_addf(&dict, "%" PRId64 ",%s", tensor->shape[d],
                 d + 1 < tensor->ndim ? " " : "");
  og_text_add(&dict, "), }");
  const size_t whole = (10 + dict.length + HEADER_ALIGNMENT) /
                       HEADER_ALIGNMENT * HEADER_ALIGNMENT;
  const size_t length = whole - 10;
  const char start[4] = {1, 0, (char)(length & 0xff), (char)(length >> 8)};
  og_text_add_n(out, magic, MAGIC_BYTES);
  og_text_add_n(out, start, sizeof start);
  og_text_addf(out, "%s%*s", dict.failed ? "" : dict.data,
               (int)(whole - 10 - dict.length), "\n");
  const bool failed = dict.failed || out->failed;
  og_text_reset(&dict);
  return failed ? og_error_set(error, OG_MEMORY, NULL, NULL,
                               "not enough memory to write a tensor")
                : OG_OK;
}

static void data_write(const og_tensor *tensor, write_fn write, void *user) {
  const size_t item = og_dtype_bytes(tensor->dtype);
  const int64_t count = og_numel(tensor);
  const char *base = (const char *)tensor->data + tensor->byte_offset;
  int64_t index[OPGRAFT_RANK_MAX] = {0};
  const int32_t last = tensor->ndim - 1;
  const int64_t width = last >= 0 ? tensor->shape[last] : 1;
  int64_t dense[OPGRAFT_RANK_MAX];
  const int64_t *strides = tensor->strides;
  if (strides == NULL) {
    og_row_major(tensor->shape, tensor->ndim, dense);
    strides = dense;
  }
  const int64_t step = last >= 0 ? strides[last] : 1;
  for (int64_t done = 0; done < count; done += width) {
    int64_t at = 0;
    for (int32_t d = 0; d < last; ++d) at += index[d] * strides[d];
    const char *row = base + at * (int64_t)item;
    if (step == 1)
      write(user, row, item * (size_t)width);
    else
      for (int64_t i = 0; i < width; ++i)
        write(user, row + i * step * (int64_t)item, item);
    for (int32_t d = last - 1; d >= 0; --d) {
      if (++index[d] < tensor->shape[d]) break;
      index[d] = 0;
    }
  }
}

og_status opgraft_npy_print(const og_tensor *tensor, write_fn write, void *user,
                            opgraft_error *error) {
  og_text header = {0};
  if (tensor->device.type != OG_CPU)
    return og_error_set(error, OG_DEVICE, NULL, NULL,
                        "a tensor is on a device of type %d, expected the CPU; "
                        "copy it there first",
                        (int)tensor->device.type);
  const og_status status = header_make(tensor, &header, error);
  if (status == OG_OK) {
    write(user, header.data, header.length);
    data_write(tensor, write, user);
  }
  og_text_reset(&header);
  return status;
}

static void on_bytes(void *user, const char *bytes, size_t length) {
  if (length > 0) fwrite(bytes, 1, length, user);
}

og_status opgraft_npy_write(const char *path, const og_tensor *tensor,
                            opgraft_error *error) {
  og_file_out file;
  opgraft_error found = {0};
  OG_TRY(og_file_begin(path, &file, error));
  const og_status status =
      opgraft_npy_print(tensor, on_bytes, file.stream, &found);
  if (status != OG_OK)
    og_error_set(error, status, NULL, NULL, "%s: %.900s", path, found.text);
  return og_file_end(&file, status, error);
}

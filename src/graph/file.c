// SPDX-License-Identifier: Apache-2.0
// Graph files: a line of fixed length, the text, the constants
// (docs/graph-file.md). What is read is not trusted.

#include "graph/file.h"

#include <inttypes.h>
#include <opgraft/graph_file.h>
#include <string.h>

#include "base/checksum.h"
#include "graph/graph.h"
#include "graph/parse.h"
#include "graph/print.h"

enum {
  VERSION = 1,
  CONSTANT_ALIGNMENT = 64,
  DATA_ALIGNMENT = 4096,  // a page, so that a mapping begins at it
};

// The line is a comment of the text form. Its numbers are hexadecimal with
// leading zeros; the checksum covers all that follows it.
#define MAGIC "#opgraft graph file "
#define HEADER_FORMAT                                           \
  MAGIC "version %04x checksum %016" PRIx64 " text %016" PRIx64 \
        " data %016" PRIx64 " %016" PRIx64 "\n"
enum {
  MAGIC_BYTES = (int)sizeof MAGIC - 1,
  VERSION_AT = MAGIC_BYTES + 8,
  CHECKSUM_AT = VERSION_AT + 4 + 10,
  COVERED_AT = CHECKSUM_AT + 16,
  TEXT_AT = COVERED_AT + 6,
  DATA_AT = TEXT_AT + 16 + 6,
  DATA_BYTES_AT = DATA_AT + 16 + 1,
  HEADER_BYTES = DATA_BYTES_AT + 16 + 1,
};

typedef struct header {
  uint64_t checksum, text_bytes, data_offset, data_bytes;
} header;

// --- Opening -----------------------------------------------------------------

static bool hex_read(const char *at, int digits, uint64_t *out) {
  *out = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = at[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return false;
    *out = *out << 4 | (uint64_t)digit;
  }
  return true;
}

static og_status cut_short(const char *path, size_t found, uint64_t wanted,
                           opgraft_error *error) {
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "%s: the file was cut short: it has %zu byte%s, its "
                      "header says %" PRIu64 "; copy or export it again",
                      path, found, og_plural((int64_t)found), wanted);
}

static og_status altered(const char *path, const char *what,
                         opgraft_error *error) {
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "%s: the file was altered: %s; copy or export it again",
                      path, what);
}

static void header_print(const header *head, char line[HEADER_BYTES + 1]) {
  snprintf(line, HEADER_BYTES + 1, HEADER_FORMAT, (unsigned)VERSION,
           head->checksum, head->text_bytes, head->data_offset,
           head->data_bytes);
}

// Nothing but the numbers may differ from what is written.
static bool header_is(const char *bytes, const header *head) {
  char line[HEADER_BYTES + 1];
  header_print(head, line);
  return memcmp(bytes, line, HEADER_BYTES) == 0;
}

static og_status header_read(const char *bytes, size_t size, const char *path,
                             header *out, opgraft_error *error) {
  uint64_t version;
  if (size < HEADER_BYTES) return cut_short(path, size, HEADER_BYTES, error);
  if (!hex_read(bytes + VERSION_AT, 4, &version))
    return altered(path, "its version is not a number", error);
  if (version != VERSION)
    return og_error_set(error, OG_VERSION, NULL, NULL,
                        "%s: is a graph file of version %" PRIu64
                        ", this opgraft reads version %d; %s",
                        path, version, VERSION,
                        version > VERSION ? "a newer opgraft wrote it: update "
                                            "this one, or export it again here"
                                          : "export it again");
  const bool has_all = hex_read(bytes + CHECKSUM_AT, 16, &out->checksum) &&
                       hex_read(bytes + TEXT_AT, 16, &out->text_bytes) &&
                       hex_read(bytes + DATA_AT, 16, &out->data_offset) &&
                       hex_read(bytes + DATA_BYTES_AT, 16, &out->data_bytes);
  if (!has_all || !header_is(bytes, out))
    return altered(path, "its first line is not as it was written", error);
  const uint64_t limit = (uint64_t)1 << 56;
  if (out->text_bytes > limit || out->data_offset > limit ||
      out->data_bytes > limit ||
      out->data_offset < HEADER_BYTES + out->text_bytes ||
      out->data_offset % CONSTANT_ALIGNMENT != 0)
    return altered(path, "its first line says impossible sizes", error);
  const uint64_t wanted = out->data_offset + out->data_bytes;
  if (size < wanted) return cut_short(path, size, wanted, error);
  if (size > wanted) return altered(path, "something follows its end", error);
  if (og_checksum(bytes + COVERED_AT, size - COVERED_AT) != out->checksum)
    return altered(path, "its checksum is not that of what it holds", error);
  return OG_OK;
}

static og_status with_path(const char *path, og_status status,
                           opgraft_error *error) {
  if (status == OG_OK || status == OG_MEMORY || error == NULL) return status;
  char text[sizeof error->text];
  memcpy(text, error->text, sizeof text);
  return og_error_set(error, status, NULL, NULL, "%s: %.900s", path, text);
}

og_status og_graph_read(const char *bytes, size_t size_bytes, const char *path,
                        opgraft_graph **out_graph, opgraft_error *error) {
  header head;
  *out_graph = NULL;
  if (size_bytes < MAGIC_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
    return with_path(
        path, opgraft_graph_parse(bytes, size_bytes, out_graph, error), error);
  OG_TRY(header_read(bytes, size_bytes, path, &head, error));
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  if (head.data_bytes > 0)
    return og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                        "%s: its constants are little-endian, this machine is "
                        "not",
                        path);
#endif
  return with_path(
      path,
      og_graph_parse_data(bytes + HEADER_BYTES, (size_t)head.text_bytes,
                          bytes + head.data_offset, (size_t)head.data_bytes,
                          out_graph, error),
      error);
}

og_status opgraft_graph_open(const char *path, opgraft_graph **out_graph,
                             opgraft_error *error) {
  og_mapping file;
  *out_graph = NULL;
  OG_TRY(og_file_map(path, &file, error));
  const og_status status =
      og_graph_read(file.bytes, file.size_bytes, path, out_graph, error);
  if (status == OG_OK)
    (*out_graph)->file = file;
  else
    og_file_unmap(&file);
  return status;
}

// --- Saving ------------------------------------------------------------------

static int64_t align(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

// Each constant's offset; returns the bytes of all.
static int64_t offsets_set(const opgraft_graph *graph, int64_t *offsets) {
  int64_t end = 0;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    if (graph->values[v].kind != OG_VALUE_CONSTANT) continue;
    offsets[v] = align(end, CONSTANT_ALIGNMENT);
    end = offsets[v] + (int64_t)graph->values[v].data_bytes;
  }
  return end;
}

// The text as it will stand in the file must read back: names that two values
// share and types without a name are found here, not by who opens the file.
static og_status text_check(const og_text *text, size_t data_bytes,
                            const char *path, opgraft_error *error) {
  opgraft_graph *graph;
  opgraft_error found;
  const og_status status = og_graph_parse_data(text->data, text->length, "",
                                               data_bytes, &graph, &found);
  opgraft_graph_release(graph);
  if (status == OG_OK) return OG_OK;
  if (status == OG_MEMORY) return og_graph_no_memory(error);
  return og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                      "%s: the graph cannot be said in text: %.800s", path,
                      found.text);
}

typedef struct writer {
  FILE *stream;
  int64_t written;
} writer;

static void put(writer *to, const void *bytes, size_t size) {
  if (size > 0) fwrite(bytes, 1, size, to->stream);
  to->written += (int64_t)size;
}

static void pad(writer *to, int64_t until) {
  static const char zeros[DATA_ALIGNMENT] = {0};
  while (to->written < until) {
    const int64_t left = until - to->written;
    put(to, zeros, (size_t)(left < DATA_ALIGNMENT ? left : DATA_ALIGNMENT));
  }
}

static void body_write(const opgraft_graph *graph, const int64_t *offsets,
                       const og_text *text, const header *head, writer *to) {
  put(to, text->data, text->length);
  pad(to, (int64_t)head->data_offset);
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    if (value->kind != OG_VALUE_CONSTANT) continue;
    pad(to, (int64_t)head->data_offset + offsets[v]);
    put(to, value->data, value->data_bytes);
  }
}

// The checksum is of the file itself, mapped once it is written.
static og_status header_write(const og_file_out *file, header *head,
                              opgraft_error *error) {
  og_mapping written;
  char line[HEADER_BYTES + 1];
  if (fflush(file->stream) != 0) return OG_OK;  // og_file_end says so
  OG_TRY(og_file_map(file->temporary, &written, error));
  if (written.size_bytes > COVERED_AT)
    head->checksum = og_checksum(written.bytes + COVERED_AT,
                                 written.size_bytes - COVERED_AT);
  og_file_unmap(&written);
  header_print(head, line);
  if (fseek(file->stream, 0, SEEK_SET) == 0)
    fwrite(line, 1, HEADER_BYTES, file->stream);
  return OG_OK;
}

static og_status file_write(const opgraft_graph *graph, const int64_t *offsets,
                            const og_text *text, int64_t data_bytes,
                            const char *path, opgraft_error *error) {
  og_file_out file;
  char line[HEADER_BYTES + 1];
  const int64_t text_end = HEADER_BYTES + (int64_t)text->length;
  header head = {
      .text_bytes = text->length,
      .data_offset = (uint64_t)align(
          text_end, data_bytes > 0 ? DATA_ALIGNMENT : CONSTANT_ALIGNMENT),
      .data_bytes = (uint64_t)data_bytes};
  OG_TRY(og_file_begin(path, &file, error));
  writer to = {.stream = file.stream};
  header_print(&head, line);
  put(&to, line, HEADER_BYTES);
  body_write(graph, offsets, text, &head, &to);
  pad(&to, (int64_t)(head.data_offset + head.data_bytes));
  const og_status status = header_write(&file, &head, error);
  return og_file_end(&file, status, error);
}

og_status opgraft_graph_save(const opgraft_graph *graph, const char *path,
                             opgraft_error *error) {
  og_text text = {0};
  int64_t *offsets =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *offsets);
  if (offsets == NULL) return og_graph_no_memory(error);
  const int64_t data_bytes = offsets_set(graph, offsets);
  og_graph_print_data(graph, offsets, &text);
  og_status status = text.failed ? og_graph_no_memory(error) : OG_OK;
  if (status == OG_OK)
    status = text_check(&text, (size_t)data_bytes, path, error);
  if (status == OG_OK)
    status = file_write(graph, offsets, &text, data_bytes, path, error);
  og_text_reset(&text);
  og_free(offsets);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Graph files: a line of fixed length, the text, the constants, packed forms of
// some (docs/graph-file.md). What is read is not trusted.

#include "graph/file.h"

#include <inttypes.h>
#include <opgraft/graph_file.h>
#include <string.h>

#include "base/checksum.h"
#include "graph/parse.h"
#include "graph/prepacked.h"

// --- The first line ----------------------------------------------------------

// It is a comment of the text form. Its numbers are hexadecimal with leading
// zeros.
#define MAGIC "#opgraft graph file "
#define HEADER_FORMAT                                           \
  MAGIC "version %04x checksum %016" PRIx64 " text %016" PRIx64 \
        " table %016" PRIx64 " data %016" PRIx64 " %016" PRIx64 \
        " packed %016" PRIx64 "\n"
enum {
  DIGITS = 16,
  MAGIC_BYTES = (int)sizeof MAGIC - 1,
  VERSION_AT = MAGIC_BYTES + 8,
  CHECKSUM_AT = VERSION_AT + 4 + 10,
  TEXT_AT = CHECKSUM_AT + DIGITS + 6,
  TABLE_AT = TEXT_AT + DIGITS + 7,
  DATA_AT = TABLE_AT + DIGITS + 6,
  DATA_BYTES_AT = DATA_AT + DIGITS + 1,
  PACKED_AT = DATA_BYTES_AT + DIGITS + 8,
};
_Static_assert(CHECKSUM_AT + DIGITS == OG_FILE_COVERED_AT, "behind the sum");
_Static_assert(PACKED_AT + DIGITS + 1 == OG_FILE_HEADER_BYTES, "all of it");

void og_file_header_print(const og_file_header *head,
                          char line[OG_FILE_HEADER_BYTES + 1]) {
  snprintf(line, OG_FILE_HEADER_BYTES + 1, HEADER_FORMAT,
           (unsigned)OG_FILE_VERSION, head->checksum, head->text_bytes,
           head->table_bytes, head->data_offset, head->data_bytes,
           head->packed_bytes);
}

static uint64_t align(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t og_file_packed_offset(const og_file_header *head) {
  const uint64_t end = head->data_offset + head->data_bytes;
  return head->packed_bytes > 0 ? align(end, OG_FILE_PAGE) : end;
}

uint64_t og_file_bytes(const og_file_header *head) {
  return og_file_packed_offset(head) + head->packed_bytes;
}

int64_t og_file_blocks(const og_file_header *head) {
  return og_blocks_count(og_file_bytes(head) - head->data_offset);
}

uint64_t og_file_sums_offset(const og_file_header *head) {
  return head->data_offset - 8 * (uint64_t)og_file_blocks(head);
}

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

// Nothing but the numbers may differ from what is written.
static bool header_is(const char *bytes, const og_file_header *head) {
  char line[OG_FILE_HEADER_BYTES + 1];
  og_file_header_print(head, line);
  return memcmp(bytes, line, OG_FILE_HEADER_BYTES) == 0;
}

static bool sizes_fit(const og_file_header *head) {
  const uint64_t limit = (uint64_t)1 << 56;
  const uint64_t numbers[] = {head->text_bytes, head->table_bytes,
                              head->data_offset, head->data_bytes,
                              head->packed_bytes};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    if (numbers[i] > limit) return false;
  const uint64_t sums_bytes = 8 * (uint64_t)og_file_blocks(head);
  return head->data_offset % OG_PREPACKED_ALIGNMENT == 0 &&
         head->data_offset >= OG_FILE_HEADER_BYTES + head->text_bytes +
                                  head->table_bytes + sums_bytes;
}

static og_status version_check(const char *bytes, const char *path,
                               opgraft_error *error) {
  uint64_t version;
  if (!hex_read(bytes + VERSION_AT, 4, &version))
    return altered(path, "its version is not a number", error);
  if (version == OG_FILE_VERSION) return OG_OK;
  return og_error_set(error, OG_VERSION, NULL, NULL,
                      "%s: is a graph file of version %" PRIu64
                      ", this opgraft reads version %d; %s",
                      path, version, OG_FILE_VERSION,
                      version > OG_FILE_VERSION
                          ? "a newer opgraft wrote it: update this one, or "
                            "export it again here"
                          : "export it again");
}

static og_status header_read(const char *bytes, size_t size, const char *path,
                             og_file_header *out, opgraft_error *error) {
  if (size < VERSION_AT + 4)
    return cut_short(path, size, OG_FILE_HEADER_BYTES, error);
  OG_TRY(version_check(bytes, path, error));
  if (size < OG_FILE_HEADER_BYTES)
    return cut_short(path, size, OG_FILE_HEADER_BYTES, error);
  const bool has_all =
      hex_read(bytes + CHECKSUM_AT, DIGITS, &out->checksum) &&
      hex_read(bytes + TEXT_AT, DIGITS, &out->text_bytes) &&
      hex_read(bytes + TABLE_AT, DIGITS, &out->table_bytes) &&
      hex_read(bytes + DATA_AT, DIGITS, &out->data_offset) &&
      hex_read(bytes + DATA_BYTES_AT, DIGITS, &out->data_bytes) &&
      hex_read(bytes + PACKED_AT, DIGITS, &out->packed_bytes);
  if (!has_all || !header_is(bytes, out))
    return altered(path, "its first line is not as it was written", error);
  if (!sizes_fit(out))
    return altered(path, "its first line says impossible sizes", error);
  const uint64_t wanted = og_file_bytes(out);
  if (size < wanted) return cut_short(path, size, wanted, error);
  if (size > wanted) return altered(path, "something follows its end", error);
  const size_t covered = (size_t)out->data_offset - OG_FILE_COVERED_AT;
  if (og_checksum(bytes + OG_FILE_COVERED_AT, covered) != out->checksum)
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

// What the graph needs to know of the file that it came from.
static og_status file_keep(opgraft_graph *graph, const char *bytes,
                           const og_file_header *head, const char *path,
                           opgraft_error *error) {
  const size_t table_at = OG_FILE_HEADER_BYTES + (size_t)head->text_bytes;
  const char *wrong;
  const int64_t count = og_file_blocks(head);
  if (count > INT32_MAX)
    return altered(path, "its first line says impossible sizes", error);
  if (!og_prepacked_read(bytes + table_at, (size_t)head->table_bytes,
                         bytes + og_file_packed_offset(head),
                         (size_t)head->packed_bytes, &graph->arena,
                         &graph->packed, &graph->packed_count, &wrong))
    return wrong != NULL ? altered(path, wrong, error)
                         : og_graph_no_memory(error);
  const char *name = og_graph_string(graph, path);
  uint8_t *states =
      og_arena_array(&graph->arena, (size_t)count + 1, sizeof *states);
  if (name == NULL || states == NULL) return og_graph_no_memory(error);
  graph->blocks = (og_blocks){
      .data = bytes + head->data_offset,
      .size_bytes = (size_t)(og_file_bytes(head) - head->data_offset),
      .sums = bytes + og_file_sums_offset(head),
      .states = states,
      .count = (int32_t)count,
      .path = name};
  graph->file_text = bytes + OG_FILE_HEADER_BYTES;
  graph->file_text_bytes = (size_t)head->text_bytes;
  return OG_OK;
}

og_status og_graph_read(const char *bytes, size_t size_bytes, const char *path,
                        opgraft_graph **out_graph, opgraft_error *error) {
  og_file_header head = {0};
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
  OG_TRY(with_path(
      path,
      og_graph_parse_data(bytes + OG_FILE_HEADER_BYTES, (size_t)head.text_bytes,
                          bytes + head.data_offset, (size_t)head.data_bytes,
                          out_graph, error),
      error));
  const og_status status = file_keep(*out_graph, bytes, &head, path, error);
  if (status == OG_OK) return OG_OK;
  opgraft_graph_release(*out_graph);
  *out_graph = NULL;
  return status;
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

// SPDX-License-Identifier: Apache-2.0
// Graph files, written (docs/graph-file.md).

#include <opgraft/graph_file.h>
#include <string.h>

#include "base/checksum.h"
#include "graph/file.h"
#include "graph/parse.h"
#include "graph/prepacked.h"
#include "graph/print.h"

enum { CONSTANT_ALIGNMENT = 64 };

static int64_t align(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

// --- Parts -------------------------------------------------------------------

typedef struct writer {
  og_file_out *file;
  int64_t written;
} writer;

static void put(writer *to, const void *bytes, size_t size) {
  og_file_put(to->file, bytes, size);
  to->written += (int64_t)size;
}

static void pad(writer *to, int64_t until) {
  static const char zeros[OG_FILE_PAGE] = {0};
  while (to->written < until) {
    const int64_t left = until - to->written;
    put(to, zeros, (size_t)(left < OG_FILE_PAGE ? left : OG_FILE_PAGE));
  }
}

static void body_write(const og_file_parts *parts, const og_text *table,
                       const og_file_header *head, writer *to) {
  const int64_t data = (int64_t)head->data_offset;
  const int64_t packed = (int64_t)og_file_packed_offset(head);
  put(to, parts->text, parts->text_bytes);
  put(to, table->data, table->length);
  for (int32_t i = 0; i < parts->piece_count; ++i) {
    pad(to, data + parts->pieces[i].offset_bytes);
    put(to, parts->pieces[i].bytes, parts->pieces[i].size_bytes);
  }
  pad(to, data + (int64_t)head->data_bytes);
  pad(to, packed);
  for (int32_t i = 0; i < parts->packed_count; ++i) {
    pad(to, packed + og_prepacked_align(to->written - packed));
    put(to, parts->packed[i].bytes, (size_t)parts->packed[i].size_bytes);
  }
}

// --- Checksums ---------------------------------------------------------------

// Of the file itself, mapped once it is written.
static og_status sums_write(og_file_out *file, const og_file_header *head,
                            opgraft_error *error) {
  og_mapping written;
  OG_TRY(og_file_flush(file, error));
  OG_TRY(og_file_map(file->temporary, &written, error));
  const bool is_whole =
      written.size_bytes == og_file_bytes(head) &&
      fseek(file->stream, (long)og_file_sums_offset(head), SEEK_SET) == 0;
  const int64_t count = is_whole ? og_file_blocks(head) : 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t sum = og_block_sum(written.bytes + head->data_offset,
                                written.size_bytes - head->data_offset, i);
    char bytes[8];
    for (int b = 0; b < 8; ++b, sum >>= 8) bytes[b] = (char)(sum & 255);
    og_file_put(file, bytes, sizeof bytes);
  }
  og_file_unmap(&written);
  return OG_OK;
}

static og_status header_write(og_file_out *file, og_file_header *head,
                              opgraft_error *error) {
  og_mapping written;
  char line[OG_FILE_HEADER_BYTES + 1];
  OG_TRY(og_file_flush(file, error));
  OG_TRY(og_file_map(file->temporary, &written, error));
  if (written.size_bytes >= head->data_offset)
    head->checksum =
        og_checksum(written.bytes + OG_FILE_COVERED_AT,
                    (size_t)head->data_offset - OG_FILE_COVERED_AT);
  og_file_unmap(&written);
  og_file_header_print(head, line);
  if (fseek(file->stream, 0, SEEK_SET) == 0)
    og_file_put(file, line, OG_FILE_HEADER_BYTES);
  return OG_OK;
}

// --- Files -------------------------------------------------------------------

// The sums stand between the table and the data, and their number depends on
// what follows these alone.
static void offsets_set(og_file_header *head) {
  const uint64_t table_end =
      OG_FILE_HEADER_BYTES + head->text_bytes + head->table_bytes;
  const uint64_t sums_bytes = 8 * (uint64_t)og_file_blocks(head);
  const bool has_data = head->data_bytes + head->packed_bytes > 0;
  head->data_offset =
      (uint64_t)align((int64_t)(table_end + sums_bytes),
                      has_data ? OG_FILE_PAGE : CONSTANT_ALIGNMENT);
}

static og_status file_write(const og_file_parts *parts, const og_text *table,
                            const char *path, opgraft_error *error) {
  og_file_out file;
  char line[OG_FILE_HEADER_BYTES + 1];
  og_file_header head = {.text_bytes = parts->text_bytes,
                         .table_bytes = table->length,
                         .data_bytes = (uint64_t)parts->data_bytes,
                         .packed_bytes = (uint64_t)og_prepacked_bytes_of(
                             parts->packed, parts->packed_count)};
  offsets_set(&head);
  OG_TRY(og_file_begin(path, &file, error));
  writer to = {.file = &file};
  og_file_header_print(&head, line);
  put(&to, line, OG_FILE_HEADER_BYTES);
  body_write(parts, table, &head, &to);
  og_status status = sums_write(&file, &head, error);
  if (status == OG_OK) status = header_write(&file, &head, error);
  return og_file_end(&file, status, error);
}

og_status og_graph_file_write(const og_file_parts *parts, const char *path,
                              opgraft_error *error) {
  og_text table = {0};
  og_prepacked_print(parts->packed, parts->packed_count, &table);
  const og_status status = table.failed
                               ? og_graph_no_memory(error)
                               : file_write(parts, &table, path, error);
  og_text_reset(&table);
  return status;
}

// --- Graphs ------------------------------------------------------------------

// Each constant's offset, and the constants as pieces; the bytes of all.
static int64_t constants_place(const opgraft_graph *graph, int64_t *offsets,
                               og_file_piece *pieces, int32_t *out_count) {
  int64_t end = 0;
  *out_count = 0;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    if (value->kind != OG_VALUE_CONSTANT) continue;
    offsets[v] = align(end, CONSTANT_ALIGNMENT);
    end = offsets[v] + (int64_t)value->data_bytes;
    pieces[(*out_count)++] =
        (og_file_piece){offsets[v], value->data, value->data_bytes};
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

static og_status graph_save(const opgraft_graph *graph, int64_t *offsets,
                            og_file_piece *pieces, const char *path,
                            opgraft_error *error) {
  og_file_parts parts = {.pieces = pieces};
  og_text text = {0};
  parts.data_bytes =
      constants_place(graph, offsets, pieces, &parts.piece_count);
  for (int32_t i = 0; i < parts.piece_count; ++i)
    OG_TRY(og_blocks_check(&graph->blocks, pieces[i].bytes,
                           pieces[i].size_bytes, error));
  og_graph_print_data(graph, offsets, &text);
  parts.text = text.data;
  parts.text_bytes = text.length;
  og_status status = text.failed ? og_graph_no_memory(error) : OG_OK;
  if (status == OG_OK)
    status = text_check(&text, (size_t)parts.data_bytes, path, error);
  if (status == OG_OK) status = og_graph_file_write(&parts, path, error);
  og_text_reset(&text);
  return status;
}

og_status opgraft_graph_save(const opgraft_graph *graph, const char *path,
                             opgraft_error *error) {
  const size_t most = (size_t)graph->value_count + 1;
  int64_t *offsets = og_alloc_zeroed(most, sizeof *offsets);
  og_file_piece *pieces = og_alloc_zeroed(most, sizeof *pieces);
  const og_status status = offsets != NULL && pieces != NULL
                               ? graph_save(graph, offsets, pieces, path, error)
                               : og_graph_no_memory(error);
  og_free(offsets);
  og_free(pieces);
  return status;
}

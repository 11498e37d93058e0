// SPDX-License-Identifier: Apache-2.0
// Where the nodes of a picture stand: in the plan's order, views below what
// they share memory with.

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "inspect_picture.h"

// --- Rows --------------------------------------------------------------------

static int32_t id_of(const cli_node *id) {
  return (int32_t)strtol(id->text, NULL, 10);
}

static void values_find(cli_picture *p) {
  const cli_node *values = cli_node_get(p->tree, "values");
  const cli_node *first = values != NULL ? values->first : NULL;
  for (const cli_node *v = first; v != NULL; v = v->next) {
    const int32_t id = (int32_t)cli_node_int(v, "id", 0);
    if (id >= p->value_count) p->value_count = id + 1;
  }
  p->values = cli_alloc((size_t)p->value_count + 1, sizeof *p->values);
  p->makers = cli_alloc((size_t)p->value_count + 1, sizeof *p->makers);
  for (int32_t i = 0; i < p->value_count; ++i) p->makers[i] = -1;
  for (const cli_node *v = first; v != NULL; v = v->next)
    p->values[cli_node_int(v, "id", 0)] = v;
}

// Until the rows are sorted, makers are numbers of nodes in the graph's order,
// in which whoever makes a value stands before whoever reads it.
static int32_t step_of(const cli_picture *p, const cli_node *node) {
  const int32_t step = (int32_t)cli_node_int(node, "step", -1);
  const cli_node *base = cli_node_at(cli_node_get(node, "reads"), 0);
  if (step >= 0 || base == NULL) return step;
  const int32_t maker = p->makers[id_of(base)];
  return maker >= 0 ? p->rows[maker].step : -1;
}

static int by_step(const void *x, const void *y) {
  const cli_picture_row *a = x, *b = y;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  return (a->index > b->index) - (a->index < b->index);
}

static void makers_set(cli_picture *p, const cli_node *node, int32_t row) {
  for (const cli_node *id = cli_node_get(node, "makes")->first; id != NULL;
       id = id->next)
    p->makers[id_of(id)] = row;
}

static void rows_find(cli_picture *p) {
  const cli_node *nodes = cli_node_get(p->tree, "nodes");
  p->rows = cli_alloc((size_t)nodes->count + 1, sizeof *p->rows);
  for (const cli_node *n = nodes->first; n != NULL; n = n->next) {
    const int32_t index = p->row_count++;
    p->rows[index] =
        (cli_picture_row){.node = n, .index = index, .step = step_of(p, n)};
    makers_set(p, n, index);
    p->step_count += cli_node_int(n, "step", -1) >= 0;
  }
  qsort(p->rows, (size_t)p->row_count, sizeof *p->rows, by_step);
  p->row_of_step = cli_alloc((size_t)p->step_count + 1, sizeof *p->row_of_step);
  for (int32_t r = 0; r < p->row_count; ++r) {
    const int64_t step = cli_node_int(p->rows[r].node, "step", -1);
    p->rows[r].row = r;
    makers_set(p, p->rows[r].node, r);
    if (step >= 0) p->row_of_step[step] = r;
  }
}

// --- Memory ------------------------------------------------------------------

int64_t cli_picture_offset(const cli_picture *picture, const cli_node *buffer) {
  int64_t at = cli_node_int(buffer, "arena", 0);
  int64_t offset = cli_node_int(buffer, "offset", 0);
  for (const cli_node *a = cli_node_get(picture->tree, "arenas")->first;
       a != NULL && at > 0; a = a->next, --at)
    offset += cli_node_int(a, "bytes", 0);
  return offset;
}

// Bytes come with a buffer's first step and go behind its last.
static void memory_find(cli_picture *p) {
  const cli_node *arenas = cli_node_get(p->tree, "arenas");
  const cli_node *buffers = cli_node_get(p->tree, "buffers");
  int64_t *more = cli_alloc((size_t)p->step_count + 2, sizeof *more);
  for (const cli_node *a = arenas ? arenas->first : NULL; a; a = a->next) {
    p->arena_bytes += cli_node_int(a, "bytes", 0);
    p->bound_bytes += cli_node_int(a, "lower_bound_bytes", 0);
  }
  for (const cli_node *b = buffers ? buffers->first : NULL; b; b = b->next) {
    const int64_t bytes = cli_node_int(b, "bytes", 0);
    more[cli_node_int(b, "first", 0)] += bytes;
    more[cli_node_int(b, "last", 0) + 1] -= bytes;
  }
  for (int32_t s = 0, r = 0; r < p->row_count; ++r) {
    for (; s <= p->rows[r].step; ++s) more[s] += s > 0 ? more[s - 1] : 0;
    p->rows[r].live_bytes = s > 0 ? more[s - 1] : 0;
  }
  free(more);
}

void cli_picture_init(const cli_node *tree, cli_picture *out) {
  *out = (cli_picture){.tree = tree};
  values_find(out);
  rows_find(out);
  memory_find(out);
}

void cli_picture_reset(cli_picture *picture) {
  free(picture->values);
  free(picture->makers);
  free(picture->rows);
  free(picture->row_of_step);
  memset(picture, 0, sizeof *picture);
}

// --- Text --------------------------------------------------------------------

void cli_picture_names(const cli_picture *picture, const cli_node *ids,
                       int32_t most) {
  int32_t count = 0;
  for (const cli_node *id = ids->first; id != NULL; id = id->next, ++count) {
    if (count == most) {
      fputs(", …", stdout);
      return;
    }
    if (count > 0) fputs(", ", stdout);
    cli_xml_print(cli_node_text(picture->values[id_of(id)], "name"), -1);
  }
}

// The bytes of a UTF-8 character, which JSON has checked, and its code.
static int character_read(const char *s, uint32_t *out_code) {
  const unsigned char first = (unsigned char)*s;
  const int length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  *out_code = length == 1 ? first : first & (0xFFu >> (length + 1));
  for (int i = 1; i < length; ++i) {
    if (((unsigned char)s[i] & 0xC0) != 0x80) return i;
    *out_code = *out_code << 6 | ((unsigned char)s[i] & 0x3Fu);
  }
  return length;
}

// A character that XML allows and that neither hides nor turns what follows.
static bool is_plain(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E))
    return false;
  if ((code >= 0x2060 && code <= 0x206F) || code == 0x061C) return false;
  return code != 0xFEFF && code != 0xFFFE && code != 0xFFFF;
}

void cli_xml_print(const char *text, int32_t most) {
  for (int32_t count = 0; *text != '\0'; ++count) {
    uint32_t code;
    const int length = character_read(text, &code);
    if (count == most) {
      fputs("…", stdout);
      return;
    }
    if (!is_plain(code))
      fputs("\xEF\xBF\xBD", stdout);
    else if (strchr("&<>\"'", *text) != NULL)
      printf("&#%u;", (unsigned)code);
    else
      printf("%.*s", length, text);
    text += length;
  }
}

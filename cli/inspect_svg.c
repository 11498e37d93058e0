// SPDX-License-Identifier: Apache-2.0
// A plan as SVG. From the left: arcs from who makes a value to who reads it,
// the nodes, and the arena, in which a buffer is a bar as long as it is in use.

#include <stdlib.h>

#include "cli.h"
#include "inspect_picture.h"

// In pixels. The width fits a phone.
enum {
  WIDTH = 370,
  ROW = 16,
  TOP = 34,
  ARCS = 56,
  NAMES = 72,
  NAME_MOST = 25,
  MEMORY = 250,
  MEMORY_WIDTH = 112,
};

static const char style[] =
    "<style>.og{font:11px ui-monospace,monospace;fill:#1c1e21}"
    ".og .a{fill:none;stroke:#8c959f;stroke-opacity:.7}"
    ".og .b{fill:#2f81f7;fill-opacity:.35;stroke:#2f81f7;stroke-width:.5}"
    ".og .m{fill:none;stroke:#57606a}"
    ".og .l{stroke:#cf222e;stroke-dasharray:4 3}"
    ".og .e{stroke:#57606a}.og .view{fill:#8c959f}.og .plain{fill:#bf8700}"
    ".og .fast,.og .packed,.og .winograd,.og .epilogue{fill:#2da44e}"
    ".og .module{fill:#8250df}.og .host{fill:#cf222e}"
    "@media(prefers-color-scheme:dark){.og{fill:#e6e8eb}"
    ".og .m,.og .e{stroke:#9aa0aa}.og .view{fill:#9aa0aa}}</style>\n";

static int middle(int32_t row) { return TOP + row * ROW + ROW / 2; }

// --- Nodes and edges ---------------------------------------------------------

static void source_print(const cli_node *node) {
  const char *file = cli_node_text(node, "file");
  const long long line = (long long)cli_node_int(node, "line", 0);
  if (file[0] == '\0') return;
  fputs("; ", stdout);
  cli_xml_print(file, -1);
  if (line > 0) printf(":%lld", line);
}

static void node_print(const cli_picture *p, const cli_picture_row *row) {
  const cli_node *made = cli_node_get(row->node, "makes");
  const char *by = cli_node_text(row->node, "by");
  const char *name = cli_node_text(row->node, "operator");
  char *label = NULL;
  size_t size;
  const cli_node *first = cli_node_at(made, 0);
  const char *result =
      first != NULL
          ? cli_node_text(p->values[strtol(first->text, NULL, 10)], "name")
          : "";
  FILE *to = cli_memory_open(&label, &size);
  fprintf(to, "%s%s%s", result, first != NULL ? " " : "", name);
  fclose(to);
  const int y = middle(row->row);
  printf("<g><title>");
  cli_picture_names(p, made, 8);
  printf("%s", made->count > 0 ? " = " : "");
  cli_xml_print(name, -1);
  fputs("(", stdout);
  cli_picture_names(p, cli_node_get(row->node, "reads"), 8);
  printf("), %s: ", by);
  cli_xml_print(cli_node_text(row->node, "reason"), -1);
  source_print(row->node);
  printf(
      "</title><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"8\" "
      "height=\"8\"/><text x=\"%d\" y=\"%d\">",
      by, ARCS + 4, y - 4, NAMES, y + 4);
  cli_xml_print(label, NAME_MOST);
  printf("</text></g>\n");
  free(label);
}

// From each node that makes an operand; wide where it goes far.
static void arcs_print(const cli_picture *p, const cli_picture_row *row) {
  for (const cli_node *id = cli_node_get(row->node, "reads")->first; id != NULL;
       id = id->next) {
    const int32_t from = p->makers[strtol(id->text, NULL, 10)];
    if (from < 0) continue;
    const int far = row->row > from ? row->row - from : from - row->row;
    const int reach = far < 12 ? 4 + far * 4 : ARCS - 2;
    printf("<path class=\"a\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", ARCS,
           middle(from), ARCS - reach, middle(from), ARCS - reach,
           middle(row->row), ARCS, middle(row->row));
  }
}

// --- Memory ------------------------------------------------------------------

static double memory_x(const cli_picture *p, int64_t bytes) {
  return MEMORY + (double)bytes * MEMORY_WIDTH / (double)p->arena_bytes;
}

// A view's row belongs to the step above it.
static int32_t row_behind(const cli_picture *p, int64_t step) {
  return step + 1 < p->step_count ? p->row_of_step[step + 1] : p->row_count;
}

static void buffer_print(const cli_picture *p, const cli_node *buffer) {
  const int64_t bytes = cli_node_int(buffer, "bytes", 0);
  const int64_t offset = cli_picture_offset(p, buffer);
  const int32_t first = p->row_of_step[cli_node_int(buffer, "first", 0)];
  const int32_t behind = row_behind(p, cli_node_int(buffer, "last", 0));
  printf(
      "<rect class=\"b\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\">"
      "<title>",
      memory_x(p, offset), TOP + first * ROW,
      memory_x(p, offset + bytes) - memory_x(p, offset),
      (behind - first) * ROW);
  cli_xml_print(
      cli_node_text(p->values[cli_node_int(buffer, "value", 0)], "name"), -1);
  printf(", %lld bytes at %lld</title></rect>\n", (long long)bytes,
         (long long)offset);
}

// What is in use while each node runs.
static void live_print(const cli_picture *p) {
  fputs("<path class=\"m\" d=\"", stdout);
  for (int32_t r = 0; r < p->row_count; ++r)
    printf("%c%.2f %dV%d", r == 0 ? 'M' : 'L',
           memory_x(p, p->rows[r].live_bytes), TOP + r * ROW,
           TOP + (r + 1) * ROW);
  fputs("\"/>\n", stdout);
}

static void memory_print(const cli_picture *p) {
  const int bottom = TOP + p->row_count * ROW;
  if (p->arena_bytes == 0) return;
  for (const cli_node *b = cli_node_get(p->tree, "buffers")->first; b != NULL;
       b = b->next)
    buffer_print(p, b);
  live_print(p);
  printf("<path class=\"e\" d=\"M%d %dV%d\"/>\n", MEMORY + MEMORY_WIDTH,
         TOP - 4, bottom);
  printf("<path class=\"l\" d=\"M%.2f %dV%d\"/>\n", memory_x(p, p->bound_bytes),
         TOP - 4, bottom);
}

static void heads_print(const cli_picture *p) {
  printf("<text x=\"%d\" y=\"13\">", MEMORY - 60);
  fputs("arena ", stdout);
  cli_print_bytes(stdout, (double)p->arena_bytes);
  printf("</text>\n<text x=\"%d\" y=\"27\">lower bound ", MEMORY - 60);
  cli_print_bytes(stdout, (double)p->bound_bytes);
  printf("</text>\n");
}

void cli_picture_svg(const cli_picture *picture) {
  const int height = TOP + picture->row_count * ROW + 6;
  printf(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"og\" "
      "viewBox=\"0 0 %d %d\" role=\"img\"><title>graph ",
      WIDTH, height);
  cli_xml_print(cli_node_text(picture->tree, "graph"), -1);
  printf("</title>\n%s", style);
  if (picture->row_count == 0)
    printf("<text x=\"8\" y=\"20\">no node runs</text>\n");
  else
    heads_print(picture);
  for (int32_t r = 0; r < picture->row_count; ++r)
    arcs_print(picture, &picture->rows[r]);
  for (int32_t r = 0; r < picture->row_count; ++r)
    node_print(picture, &picture->rows[r]);
  memory_print(picture);
  printf("</svg>\n");
}

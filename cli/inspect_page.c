// SPDX-License-Identifier: Apache-2.0
// A plan as one page: sizes, who runs how much, the picture, and a table with
// the reasons. No script, nothing loaded from anywhere.

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "inspect_picture.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, "
    "initial-scale=1\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "&#39;none&#39;; style-src &#39;unsafe-inline&#39;\"/>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--line:#d5d8de;"
    "--soft:#667}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#16181c;"
    "--line:#363a42;--soft:#9aa0aa}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;"
    "padding:.6rem;font:1rem/1.45 system-ui,sans-serif;color:var(--ink);"
    "background:var(--paper);overflow-wrap:anywhere}\n"
    "h1{font-size:1.3rem}h2{font-size:1.1rem}svg{display:block;width:100%;"
    "max-width:36rem}.key{width:.7rem;height:.7rem;display:inline-block}\n"
    "table{border-collapse:collapse;width:100%;font-size:.85rem}"
    "td,th{border-top:1px solid var(--line);padding:.2rem .3rem;"
    "text-align:left;vertical-align:top}td:last-child{white-space:nowrap}"
    ".soft{color:var(--soft)}\n"
    "</style>\n";

// Every word that the schedule has for who runs a node.
static const struct {
  const char *by, *text;
} runners[] = {
    {"fast", "a fast kernel of the engine"},
    {"packed", "a fast kernel, over weights that stay packed"},
    {"winograd", "a fast kernel, a convolution through transformed tiles"},
    {"epilogue", "the contraction before it, tile by tile"},
    {"plain", "a plain kernel of the engine"},
    {"module", "a module's kernel"},
    {"host", "a host: opgraft run lacks it"},
    {"view", "nobody: views do no work"},
};

// --- Parts -------------------------------------------------------------------

static void title_print(const cli_picture *p) {
  const cli_node *symbols = cli_node_get(p->tree, "symbols");
  fputs("<title>graph ", stdout);
  cli_xml_print(cli_node_text(p->tree, "graph"), -1);
  fputs("</title></head><body>\n<h1>graph ", stdout);
  cli_xml_print(cli_node_text(p->tree, "graph"), -1);
  fputs("</h1>\n<p>", stdout);
  for (const cli_node *s = symbols ? symbols->first : NULL; s; s = s->next) {
    cli_xml_print(cli_node_text(s, "name"), -1);
    printf(" = %lld, ", (long long)cli_node_int(s, "value", 0));
  }
  printf("%d steps, %d views. ", (int)p->step_count,
         (int)(p->row_count - p->step_count));
  if (p->arena_bytes == 0) {
    puts("Nothing lies in an arena.</p>");
    return;
  }
  fputs("The arena has ", stdout);
  cli_print_bytes(stdout, (double)p->arena_bytes);
  fputs("; in this order no layout needs less than ", stdout);
  cli_print_bytes(stdout, (double)p->bound_bytes);
  puts(".</p>");
}

static void runners_print(const cli_picture *p) {
  puts("<h2>Who runs the nodes</h2>\n<ul class=\"og\">");
  for (size_t k = 0; k < sizeof runners / sizeof *runners; ++k) {
    int32_t count = 0;
    for (int32_t r = 0; r < p->row_count; ++r)
      count += strcmp(cli_node_text(p->rows[r].node, "by"), runners[k].by) == 0;
    if (count > 0)
      printf(
          "<li><svg class=\"key\" viewBox=\"0 0 8 8\"><rect class=\"%s\" "
          "width=\"8\" height=\"8\"/></svg> %d by %s</li>\n",
          runners[k].by, (int)count, runners[k].text);
  }
  puts("</ul>");
}

static void source_print(const cli_node *node) {
  const char *file = cli_node_text(node, "file");
  const long long line = (long long)cli_node_int(node, "line", 0);
  fputs("<br/><span class=\"soft\">", stdout);
  cli_xml_print(file, -1);
  if (line > 0) printf(":%lld", line);
  fputs("</span>", stdout);
}

static void types_print(const cli_picture *p, const cli_node *ids) {
  for (const cli_node *id = ids->first; id != NULL; id = id->next) {
    const cli_node *value = p->values[strtol(id->text, NULL, 10)];
    cli_xml_print(cli_node_text(value, "name"), -1);
    fputs(": ", stdout);
    cli_xml_print(cli_node_text(value, "type"), -1);
    if (id->next != NULL) fputs(", ", stdout);
  }
}

static void row_print(const cli_picture *p, const cli_picture_row *row) {
  const cli_node *node = row->node;
  fputs("<tr><td>", stdout);
  types_print(p, cli_node_get(node, "makes"));
  if (cli_node_text(node, "file")[0] != '\0') source_print(node);
  fputs("</td><td>", stdout);
  cli_xml_print(cli_node_text(node, "operator"), -1);
  fputs("(", stdout);
  cli_picture_names(p, cli_node_get(node, "reads"), 16);
  printf(")</td><td>%s: ", cli_node_text(node, "by"));
  cli_xml_print(cli_node_text(node, "reason"), -1);
  fputs("</td><td>", stdout);
  cli_print_bytes(stdout, (double)row->live_bytes);
  puts("</td></tr>");
}

void cli_picture_page(const cli_picture *picture) {
  fputs(head, stdout);
  title_print(picture);
  runners_print(picture);
  puts(
      "<h2>Nodes, what they read, and memory</h2>\n"
      "<p class=\"soft\">From top to bottom in the order of the run. A bar is "
      "a part of the arena, as long as it is in use; the line beside the bars "
      "is their sum, the dashed one its lower bound.</p>");
  cli_picture_svg(picture);
  puts(
      "<h2>Why</h2>\n<table><tr><th>Results</th><th>Operator</th>"
      "<th>Who, and why</th><th>In use</th></tr>");
  for (int32_t r = 0; r < picture->row_count; ++r)
    row_print(picture, &picture->rows[r]);
  puts("</table>\n</body></html>");
}

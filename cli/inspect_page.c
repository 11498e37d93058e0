// SPDX-License-Identifier: Apache-2.0
// A plan as one page: assets/graph.html, which opgraft.stats(f).html() is too,
// with d3 and the plan in it. It fetches nothing.

#include <string.h>

#include "cli.h"
#include "inspect.h"

// The files, as they are; cmake/cli.cmake says in which folder.
#define ASSET(name, file)                                                    \
  __asm__(".section .rodata\n.global " #name "\n" #name ":\n.incbin \"" file \
          "\"\n.byte 0\n.previous\n");                                       \
  extern const char name[];
ASSET(cli_asset_page, "graph.html")
ASSET(cli_asset_d3, "d3.min.js")

// The data's text must not end its script.
static void data_print(const char *json) {
  for (; *json != '\0'; ++json)
    if (*json == '<')
      fputs("\\u003c", stdout);
    else
      putchar(*json);
}

void cli_page_print(const char *schedule) {
  static const char d3[] = "/*D3*/", data[] = "/*DATA*/null";
  const char *at_d3 = strstr(cli_asset_page, d3);
  const char *at_data = strstr(cli_asset_page, data);
  printf("%.*s%s%.*s", (int)(at_d3 - cli_asset_page), cli_asset_page,
         cli_asset_d3, (int)(at_data - at_d3 - (int)strlen(d3)),
         at_d3 + strlen(d3));
  fputs(
      "{\"title\": \"opgraft inspect\", \"graphs\": [{\"lists\": [], "
      "\"notes\": [], \"schedule\": ",
      stdout);
  data_print(schedule);
  printf("}]}%s", at_data + strlen(data));
}

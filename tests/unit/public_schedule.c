// SPDX-License-Identifier: Apache-2.0
// The schedule of a plan, by the public headers alone: nothing before a plan is
// made; then each node with its step, and buffers within the arena.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "unit/test.h"

static const char graph_text[] =
    "graph g(%x: f32[s0, 8]) {\n"
    "  %y: f32[s0, 8] = exp(%x) @ model.py:3\n"
    "  %v: f32[8, s0]{1, 8} = view(%y)\n"
    "  %s: f32[s0] = sum(%y; dims=[1])\n"
    "  return %s, %v\n"
    "}\n";

// NULL where memory is short.
static char *schedule_of(const opgraft_executable *executable) {
  const size_t length = opgraft_executable_schedule(executable, NULL, 0);
  char *text = length > 0 ? malloc(length + 1) : NULL;
  if (text != NULL &&
      opgraft_executable_schedule(executable, text, length + 1) != length) {
    free(text);
    return NULL;
  }
  return text;
}

TEST(schedule_of_a_plan) {
  const char *names[] = {"s0"};
  const int64_t sizes[] = {5};
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  opgraft_error error;
  char *text = NULL;
  REQUIRE(opgraft_graph_parse(graph_text, sizeof graph_text - 1, &graph,
                              &error) == OG_OK);
  REQUIRE(opgraft_graph_finish(graph, NULL, &error) == OG_OK);
  REQUIRE(opgraft_executable_create(graph, NULL, &executable, &error) == OG_OK);
  text = schedule_of(executable);
  REQUIRE(text != NULL);
  CHECK_STR(text, "{\"graph\": \"g\", \"nodes\": []}");
  free(text);
  text = NULL;
  REQUIRE(opgraft_executable_plan(executable, names, sizes, 1, &error) ==
          OG_OK);
  text = schedule_of(executable);
  REQUIRE(text != NULL);
  CHECK(strstr(text, "\"symbols\": [{\"name\": \"s0\", \"value\": 5}]"));
  CHECK(strstr(text, "\"name\": \"%y\", \"type\": \"f32[5, 8]\""));
  CHECK(strstr(text, "\"operator\": \"exp\""));
  CHECK(strstr(text, "\"step\": 0, \"file\": \"model.py\", \"line\": 3"));
  CHECK(strstr(text, "\"operator\": \"view\", \"by\": \"view\""));
  CHECK(strstr(text, "\"step\": -1"));
done:
  free(text);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
}

TEST_MAIN("public_schedule", CASE(schedule_of_a_plan))

// SPDX-License-Identifier: Apache-2.0
// The code of an executable's row programs, by the public headers alone: for
// each set, whether the machine has it or not, and none before a plan is made.

#include <opgraft/executable.h>
#include <stdlib.h>

#include "unit/test.h"

static const char graph_text[] =
    "graph g(%x: f32[s0, 8]) {\n"
    "  %y: f32[s0, 8] = exp(%x)\n"
    "  %s: f32[s0] = sum(%y; dims=[1])\n"
    "  return %y, %s\n"
    "}\n";

// NULL where memory is short or it fails.
static char *code_of(const opgraft_executable *executable, const char *isa) {
  opgraft_error error;
  size_t length, again;
  if (opgraft_executable_code(executable, isa, NULL, 0, &length, &error) !=
      OG_OK)
    return NULL;
  char *text = malloc(length + 1);
  if (text != NULL && opgraft_executable_code(executable, isa, text, length + 1,
                                              &again, &error) != OG_OK) {
    free(text);
    return NULL;
  }
  if (text != NULL) CHECK_EQ(strlen(text), length);
  return text;
}

static void holds(const opgraft_executable *executable, const char *isa,
                  const char *wanted) {
  char *text = code_of(executable, isa);
  if (CHECK(text != NULL)) CHECK(strstr(text, wanted) != NULL);
  free(text);
}

TEST(code_of_every_set) {
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = OPGRAFT_OPTION_MAX_AUTOTUNE};
  const char *names[] = {"s0"};
  const int64_t sizes[] = {5};
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  opgraft_error error;
  size_t length = 1;
  REQUIRE(opgraft_graph_parse(graph_text, sizeof graph_text - 1, &graph,
                              &error) == OG_OK);
  REQUIRE(opgraft_graph_finish(graph, &options, &error) == OG_OK);
  REQUIRE(opgraft_executable_create(graph, NULL, &executable, &error) == OG_OK);
  REQUIRE(opgraft_executable_code(executable, NULL, NULL, 0, &length, &error) ==
          OG_OK);
  CHECK_EQ(length, 0);
  REQUIRE(opgraft_executable_plan(executable, names, sizes, 1, &error) ==
          OG_OK);
  holds(executable, NULL, "fused f32[5,8] -> f32[5,8] f32[5]: fast\n");
  holds(executable, "scalar", "no code: the interpreter runs it\npass 0, row:");
  holds(executable, "avx2", "ymm");
  holds(executable, "avx512", "zmm");
  CHECK_EQ(opgraft_executable_code(executable, "mmx", NULL, 0, &length, &error),
           OG_INVALID);
  CHECK_EQ(length, 0);
  CHECK(strstr(error.text, "isa is \"mmx\"") != NULL);
done:
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
}

TEST_MAIN("public_code", CASE(code_of_every_set))

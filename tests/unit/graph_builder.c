// SPDX-License-Identifier: Apache-2.0
// A graph built node by node, as a host in plain C walks its own: operators,
// lists, items, mutating operators made functional, and what a host gets wrong.

#include <opgraft/builder.h>
#include <stdlib.h>

#include "test.h"

typedef struct host {
  opgraft_graph *graph;
  opgraft_builder *b;
  opgraft_error error;
  opgraft_size sizes[2];  // 2, s0
  opgraft_size strides[2];
  int32_t next;  // node
} host;

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
static const og_dtype i64 = {OG_CODE_INT, 64, 1};

// Matrices of [2, s0].
static opgraft_value_info matrix(const host *h) {
  return (opgraft_value_info){.struct_size = sizeof(opgraft_value_info),
                              .dtype = f32,
                              .ndim = 2,
                              .shape = h->sizes};
}

// A row of one.
static opgraft_value_info row(const host *h, opgraft_size offset) {
  return (opgraft_value_info){.struct_size = sizeof(opgraft_value_info),
                              .dtype = f32,
                              .ndim = 1,
                              .shape = h->sizes + 1,
                              .offset = offset};
}

static og_status input_add(host *h, const char *name) {
  const opgraft_value_info info = matrix(h);
  opgraft_arg arg = {.kind = OPGRAFT_ARG_VALUE};
  const og_status status =
      opgraft_graph_add_input(h->graph, name, &info, &arg.value, &h->error);
  if (status != OG_OK) return status;
  return opgraft_builder_set(h->b, h->next++, &arg, &h->error);
}

// Nodes 0 and 1: the inputs x and y.
static bool host_make(host *h) {
  memset(h, 0, sizeof *h);
  return opgraft_graph_create("g", &h->graph, &h->error) == OG_OK &&
         opgraft_builder_create(h->graph, &h->b, &h->error) == OG_OK &&
         opgraft_graph_size(h->graph, 2, &h->sizes[0], &h->error) == OG_OK &&
         opgraft_graph_size(h->graph, 1, &h->strides[1], &h->error) == OG_OK &&
         opgraft_graph_size_parse(h->graph, "s0", &h->sizes[1], &h->error) ==
             OG_OK &&
         input_add(h, "x") == OG_OK && input_add(h, "y") == OG_OK;
}

static void host_free(host *h) {
  opgraft_builder_destroy(h->b);
  opgraft_graph_release(h->graph);
}

static og_status begin(host *h, const char *name, int32_t is_functional) {
  const opgraft_record record = {.struct_size = sizeof record,
                                 .name = name,
                                 .file = "m.c",
                                 .line = 7,
                                 .host_node = h->next};
  return opgraft_builder_begin(h->b, &record, is_functional, &h->error);
}

static og_status end(host *h) {
  return opgraft_builder_end(h->b, h->next++, &h->error);
}

static og_status item(host *h, int32_t list, int64_t index) {
  return opgraft_builder_set_item(h->b, h->next++, list, index, &h->error);
}

static og_status arg_of(host *h, int32_t node) {
  return opgraft_builder_add_node_arg(h->b, NULL, node, &h->error);
}

static og_status result(host *h) {
  const opgraft_value_info info = matrix(h);
  return opgraft_builder_add_result(h->b, &info, &h->error);
}

static bool prints_as(const host *h, const char *wanted) {
  const size_t length = opgraft_graph_print(h->graph, NULL, 0);
  char *text = length > 0 ? malloc(length + 1) : NULL;
  if (text == NULL) return false;
  const bool printed =
      opgraft_graph_print(h->graph, text, length + 1) == length;
  const bool same = printed && CHECK_STR(text, wanted);
  free(text);
  return same;
}

// Every value that the graph gives may be read.
static bool finishes(host *h) {
  return CHECK_EQ(opgraft_graph_finish(h->graph, NULL, &h->error), OG_OK);
}

// --- Operators ---------------------------------------------------------------

TEST(operators_and_constants) {
  host h;
  char name[] = "alpha";
  opgraft_arg half = {.name = name, .kind = OPGRAFT_ARG_FLOAT, .f = 0.5};
  REQUIRE(host_make(&h));
  REQUIRE(opgraft_builder_set(h.b, 2, &half, &h.error) == OG_OK);
  h.next = 3;
  REQUIRE(begin(&h, "aten.sub.Tensor", false) == OG_OK);
  REQUIRE(arg_of(&h, 0) == OG_OK && arg_of(&h, 1) == OG_OK);
  REQUIRE(opgraft_builder_add_node_arg(h.b, name, 2, &h.error) == OG_OK);
  name[0] = '?';  // was copied
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
  REQUIRE(begin(&h, "aten._softmax.default", false) == OG_OK);
  const opgraft_arg dim = {.kind = OPGRAFT_ARG_INT, .i = -1};
  const opgraft_arg no = {.kind = OPGRAFT_ARG_BOOL};
  REQUIRE(arg_of(&h, 3) == OG_OK);
  REQUIRE(opgraft_builder_add_arg(h.b, &dim, &h.error) == OG_OK);
  REQUIRE(opgraft_builder_add_arg(h.b, &no, &h.error) == OG_OK);
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
  REQUIRE(opgraft_builder_add_output(h.b, 4, &h.error) == OG_OK);
  CHECK(prints_as(&h,
                  "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
                  "  %0: f32[2, s0] = add_scaled(%x, %y, -0.5) @ m.c:7\n"
                  "  %1: f32[2, s0] = softmax(%0; dim=-1) @ m.c:7\n"
                  "  return %1\n"
                  "}\n"));
  finishes(&h);
done:
  host_free(&h);
}

TEST(what_gives_nothing) {
  host h;
  opgraft_arg found;
  REQUIRE(host_make(&h));
  REQUIRE(begin(&h, "ns.log.default", false) == OG_OK);
  const opgraft_arg text = {.kind = OPGRAFT_ARG_STR, .s = "seen"};
  REQUIRE(opgraft_builder_add_arg(h.b, &text, &h.error) == OG_OK);
  REQUIRE(end(&h) == OG_OK);
  REQUIRE(opgraft_builder_get(h.b, 2, &found, &h.error) == OG_OK);
  CHECK_EQ(found.kind, OPGRAFT_ARG_NONE);
  REQUIRE(opgraft_builder_add_output(h.b, 2, &h.error) == OG_OK);
  CHECK(prints_as(&h,
                  "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
                  "  foreign \"ns.log.default\"(\"seen\") {node 2, why "
                  "\"there is no row for it\"} @ m.c:7\n"
                  "  return none\n"
                  "}\n"));
done:
  host_free(&h);
}

// --- Lists -------------------------------------------------------------------

// ns.many(x, sizes=[2, [s0, 0.5]]) -> (x's rows, None, s0, 3)
static og_status many_add(host *h) {
  const opgraft_arg two = {.kind = OPGRAFT_ARG_INT, .i = 2};
  const opgraft_arg inner[2] = {{.kind = OPGRAFT_ARG_SIZE, .size = h->sizes[1]},
                                {.kind = OPGRAFT_ARG_FLOAT, .f = 0.5}};
  const opgraft_arg list = {
      .kind = OPGRAFT_ARG_LIST, .count = 2, .list = inner};
  const opgraft_arg three = {.kind = OPGRAFT_ARG_INT, .i = 3};
  const opgraft_value_info first = row(h, 0);
  const opgraft_value_info second = row(h, h->sizes[1]);
  opgraft_builder *b = h->b;
  opgraft_error *e = &h->error;
  const bool is_added =
      begin(h, "ns.many.default", false) == OG_OK && arg_of(h, 0) == OG_OK &&
      opgraft_builder_open_list(b, "sizes", e) == OG_OK &&
      opgraft_builder_add_arg(b, &two, e) == OG_OK &&
      opgraft_builder_add_arg(b, &list, e) == OG_OK &&
      opgraft_builder_close_list(b, e) == OG_OK &&
      opgraft_builder_open_results(b, e) == OG_OK &&
      opgraft_builder_open_results(b, e) == OG_OK &&
      opgraft_builder_add_result(b, &first, e) == OG_OK &&
      opgraft_builder_add_result(b, &second, e) == OG_OK &&
      opgraft_builder_close_results(b, e) == OG_OK &&
      opgraft_builder_add_result(b, NULL, e) == OG_OK &&
      opgraft_builder_add_known_result(b, &inner[0], e) == OG_OK &&
      opgraft_builder_add_known_result(b, &three, e) == OG_OK &&
      opgraft_builder_close_results(b, e) == OG_OK;
  return is_added ? end(h) : h->error.code;
}

TEST(lists_and_items) {
  host h;
  opgraft_arg found;
  REQUIRE(host_make(&h));
  REQUIRE(many_add(&h) == OG_OK);  // node 2
  for (int64_t i = 0; i < 4; ++i) REQUIRE(item(&h, 2, i) == OG_OK);
  REQUIRE(opgraft_builder_get(h.b, 3, &found, &h.error) == OG_OK);
  CHECK_EQ(found.kind, OPGRAFT_ARG_LIST);
  CHECK_EQ(found.count, 2);
  REQUIRE(item(&h, 3, 1) == OG_OK);  // node 7: the second row
  // A list of tensors as an argument, beside one of other things.
  REQUIRE(begin(&h, "ns.take.default", false) == OG_OK);
  REQUIRE(arg_of(&h, 3) == OG_OK && arg_of(&h, 4) == OG_OK &&
          arg_of(&h, 5) == OG_OK);
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
  for (int32_t node = 4; node < 9; ++node)
    REQUIRE(opgraft_builder_add_output(h.b, node, &h.error) == OG_OK);
  CHECK(prints_as(
      &h,
      "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
      "  %0: f32[s0], %1: f32[s0], none = foreign \"ns.many.default\"(%x, "
      "sizes=[2, [s0, 0.5]]) {node 2, why \"there is no row for it\"} @ m.c:7\n"
      "  %2: f32[2, s0] = foreign \"ns.take.default\"([%0, %1], none, s0) "
      "{node 8, why \"there is no row for it\"} @ m.c:7\n"
      "  return none, size s0, size 3, %1, %2\n"
      "}\n"));
  finishes(&h);
done:
  host_free(&h);
}

// --- Mutation ----------------------------------------------------------------

// Bases that are arguments: in the order of these, whatever that of the bases.
TEST(whole_bases_are_arguments) {
  host h;
  REQUIRE(host_make(&h));
  const opgraft_value_info info = matrix(&h);
  REQUIRE(begin(&h, "ns.swap.default", true) == OG_OK);
  REQUIRE(opgraft_builder_add_base(h.b, 1, &info, &h.error) == OG_OK);
  REQUIRE(opgraft_builder_add_base(h.b, 0, &info, &h.error) == OG_OK);
  REQUIRE(opgraft_builder_add_written_arg(h.b, NULL, 1, NULL, &h.error) ==
          OG_OK);
  REQUIRE(opgraft_builder_add_written_arg(h.b, "other", 0, NULL, &h.error) ==
          OG_OK);
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);  // node 2
  for (int64_t i = 0; i < 3; ++i) REQUIRE(item(&h, 2, i) == OG_OK);
  for (int32_t node = 3; node < 6; ++node)
    REQUIRE(opgraft_builder_add_output(h.b, node, &h.error) == OG_OK);
  // The return, then base 0, which is y, and base 1, x.
  CHECK(prints_as(
      &h,
      "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
      "  %0: f32[2, s0], %1: f32[2, s0], %2: f32[2, s0] = foreign "
      "\"ns.swap.default\"(%x, other=%y) {node 2, update 1:0, update 2:1, why "
      "\"there is no row for it\"} @ m.c:7\n"
      "  return %0, %2, %1\n"
      "}\n"));
  finishes(&h);
done:
  host_free(&h);
}

static og_status written_row(host *h, const char *name, opgraft_size offset) {
  const opgraft_value_info view = row(h, offset);
  return opgraft_builder_add_written_arg(h->b, name, 0, &view, &h->error);
}

// x's rows are written, one of them in a list beside none; y is not.
static og_status rows_add(host *h, const opgraft_value_info *info) {
  static const opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  opgraft_builder *b = h->b;
  opgraft_error *e = &h->error;
  const bool is_added = begin(h, "ns.rows.default", true) == OG_OK &&
                        opgraft_builder_add_base(b, 0, info, e) == OG_OK &&
                        written_row(h, NULL, 0) == OG_OK &&
                        arg_of(h, 1) == OG_OK &&
                        opgraft_builder_open_list(b, "rest", e) == OG_OK &&
                        written_row(h, NULL, h->sizes[1]) == OG_OK &&
                        opgraft_builder_add_arg(b, &none, e) == OG_OK &&
                        opgraft_builder_close_list(b, e) == OG_OK;
  return is_added ? end(h) : h->error.code;
}

TEST(views_of_a_base) {
  host h;
  REQUIRE(host_make(&h));
  const opgraft_value_info info = matrix(&h);
  REQUIRE(rows_add(&h, &info) == OG_OK);  // node 2
  REQUIRE(item(&h, 2, 0) == OG_OK);
  REQUIRE(opgraft_builder_add_output(h.b, 3, &h.error) == OG_OK);
  CHECK(prints_as(
      &h,
      "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
      "  %0: f32[s0] = view(%x)\n"
      "  %1: f32[s0]+(s0) = view(%x)\n"
      "  %2: f32[2, s0], %3: f32[s0] in %2, %4: f32[s0]+(s0) in %2 = foreign "
      "\"ns.rows.default\"(%0, %y, rest=[%1, none]) of %x {node 2, update 0:3, "
      "update 1:0, update 2:2, why \"there is no row for it\"} @ m.c:7\n"
      "  return %2\n"
      "}\n"));
  finishes(&h);
done:
  host_free(&h);
}

// A base stands behind the arguments where an argument is in a list, where it
// is written twice, and where none is.
TEST(bases_that_are_no_arguments) {
  for (int which = 0; which < 3; ++which) {
    static const char *const wanted[] = {
        "([%x]) of %x {node 2, update 0:1, update 1:0, ",
        "(%x, %0) of %x {node 2, update 0:2, update 1:0, update 2:1, ",
        "(%y) of %x {node 2, update 0:1, "};
    host h;
    char text[1024] = "";
    REQUIRE(host_make(&h));
    const opgraft_value_info info = matrix(&h);
    opgraft_builder *b = h.b;
    opgraft_error *e = &h.error;
    REQUIRE(begin(&h, "ns.op.default", true) == OG_OK);
    REQUIRE(opgraft_builder_add_base(b, 0, &info, e) == OG_OK);
    if (which == 0) REQUIRE(opgraft_builder_open_list(b, NULL, e) == OG_OK);
    if (which < 2)
      REQUIRE(opgraft_builder_add_written_arg(b, NULL, 0, NULL, e) == OG_OK);
    if (which == 0) REQUIRE(opgraft_builder_close_list(b, e) == OG_OK);
    if (which == 1) REQUIRE(written_row(&h, NULL, 0) == OG_OK);
    if (which == 2) REQUIRE(arg_of(&h, 1) == OG_OK);
    REQUIRE(end(&h) == OG_OK && item(&h, 2, 0) == OG_OK);
    REQUIRE(opgraft_builder_add_output(b, 3, e) == OG_OK);
    opgraft_graph_print(h.graph, text, sizeof text);
    if (!CHECK(strstr(text, wanted[which]) != NULL)) printf("%s", text);
    finishes(&h);
  done:
    host_free(&h);
  }
}

// The host then adds it as it is.
TEST(a_base_of_views_keeps_its_layout) {
  host h;
  REQUIRE(host_make(&h));
  opgraft_value_info info = matrix(&h);
  h.strides[0] = h.strides[1];
  h.strides[1] = h.sizes[0];
  info.strides = h.strides;
  CHECK_EQ(rows_add(&h, &info), OG_UNSUPPORTED);
  CHECK_STR(h.error.text,
            "ns.rows.default (m.c:7): it changes the layout of a base of "
            "views");
  REQUIRE(begin(&h, "ns.rows.default", false) == OG_OK);
  REQUIRE(arg_of(&h, 0) == OG_OK);
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
  REQUIRE(opgraft_builder_add_output(h.b, 3, &h.error) == OG_OK);
  CHECK(prints_as(&h,
                  "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
                  "  %0: f32[2, s0] = foreign \"ns.rows.default\"(%x) {node 3, "
                  "why \"there is no row for it\"} @ m.c:7\n"
                  "  return %0\n"
                  "}\n"));
done:
  host_free(&h);
}

// --- What a host gets wrong --------------------------------------------------

#define FAILS(call, code, words)      \
  do {                                \
    CHECK_EQ((call), (code));         \
    CHECK_STR(h.error.text, (words)); \
  } while (0)

TEST(nodes_are_set_once_and_first) {
  host h;
  opgraft_arg none = {.kind = OPGRAFT_ARG_NONE}, found;
  REQUIRE(host_make(&h));
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  FAILS(opgraft_builder_set(b, 1, &none, e), OG_INVALID,
        "graph g: node 1 is set twice");
  FAILS(opgraft_builder_set(b, -1, &none, e), OG_INVALID,
        "graph g: a node has the number -1, expected one from 0 to 16777215");
  FAILS(opgraft_builder_set(b, INT32_MAX, &none, e), OG_INVALID,
        "graph g: a node has the number 2147483647, expected one from 0 to "
        "16777215");
  FAILS(opgraft_builder_get(b, 2, &found, e), OG_INVALID,
        "graph g: node 2 is used before it is set");
  CHECK_EQ(found.kind, OPGRAFT_ARG_NONE);
  FAILS(opgraft_builder_set_item(b, 2, 9, 0, e), OG_INVALID,
        "graph g: node 9 is used before it is set");
  FAILS(opgraft_builder_set_item(b, 2, 0, 0, e), OG_UNSUPPORTED,
        "graph g: node 2 is an item of node 0, which is not a list");
  FAILS(opgraft_builder_add_output(b, 9, e), OG_INVALID,
        "graph g: node 9 is used before it is set");
  REQUIRE(many_add(&h) == OG_OK);
  FAILS(opgraft_builder_set_item(b, 3, 2, 4, e), OG_UNSUPPORTED,
        "graph g: node 3 is item 4 of node 2, which has 4");
  FAILS(opgraft_builder_set_item(b, 3, 2, -1, e), OG_UNSUPPORTED,
        "graph g: node 3 is item -1 of node 2, which has 4");
  FAILS(opgraft_builder_add_output(b, 2, e), OG_UNSUPPORTED,
        "graph g: output 0 is node 2, expected a tensor or integer");
  REQUIRE(opgraft_builder_set(b, 3, &none, e) == OG_OK);  // still free
done:
  host_free(&h);
}

TEST(arguments_are_looked_at) {
  host h;
  opgraft_arg deep[9];
  REQUIRE(host_make(&h));
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  for (int i = 0; i < 9; ++i)
    deep[i] = (opgraft_arg){
        .kind = OPGRAFT_ARG_LIST, .count = i < 8, .list = deep + i + 1};
  const struct {
    opgraft_arg arg;
    const char *text;
  } rows[] = {
      {{.kind = 99}, "has an unknown kind"},
      {{.kind = OPGRAFT_ARG_VALUE, .value = 5},
       "names a value that is not in the graph"},
      {{.kind = OPGRAFT_ARG_SIZE, .size = -2},
       "names a size that is not in the graph"},
      {{.kind = OPGRAFT_ARG_STR}, "is text that is NULL"},
      {{.kind = OPGRAFT_ARG_INT, .count = 1}, "has a count but is not a list"},
      {{.kind = OPGRAFT_ARG_LIST, .count = 1}, "is a list that is NULL"},
      {{.kind = OPGRAFT_ARG_LIST, .count = -1},
       "is a list with a negative count, or nested too deep"},
      {deep[0], "is a list with a negative count, or nested too deep"},
      {{.kind = OPGRAFT_ARG_VALUE, .written = OPGRAFT_WRITTEN},
       "is written: that is for opgraft_builder_add_written_arg"},
  };
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char text[160];
    snprintf(text, sizeof text, "graph g: an argument %s", rows[i].text);
    FAILS(opgraft_builder_add_arg(b, &rows[i].arg, e), OG_INVALID, text);
    FAILS(opgraft_builder_set(b, 2, &rows[i].arg, e), OG_INVALID, text);
  }
  // None of them is there.
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
  REQUIRE(opgraft_builder_add_output(b, 2, e) == OG_OK);
  CHECK(prints_as(&h,
                  "graph g(%x: f32[2, s0], %y: f32[2, s0]) {\n"
                  "  %0: f32[2, s0] = foreign \"ns.op.default\"() {node 2, why "
                  "\"there is no row for it\"} @ m.c:7\n"
                  "  return %0\n"
                  "}\n"));
done:
  host_free(&h);
}

TEST(lists_are_closed) {
  host h;
  const opgraft_arg named = {.name = "n", .kind = OPGRAFT_ARG_NONE};
  REQUIRE(host_make(&h));
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  FAILS(opgraft_builder_close_list(b, e), OG_INVALID,
        "ns.op.default (m.c:7): no list is open");
  FAILS(opgraft_builder_close_results(b, e), OG_INVALID,
        "ns.op.default (m.c:7): no list is open");
  for (int i = 0; i < 7; ++i)
    REQUIRE(opgraft_builder_open_list(b, NULL, e) == OG_OK);
  FAILS(opgraft_builder_open_list(b, NULL, e), OG_UNSUPPORTED,
        "ns.op.default (m.c:7): its lists are nested too deep");
  FAILS(opgraft_builder_add_arg(b, &named, e), OG_INVALID,
        "ns.op.default (m.c:7): an item of a list has a name");
  FAILS(end(&h), OG_INVALID, "ns.op.default (m.c:7): a list is still open");
  h.next = 2;  // it was dropped
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  REQUIRE(opgraft_builder_open_list(b, "l", e) == OG_OK);
  FAILS(opgraft_builder_open_list(b, "n", e), OG_INVALID,
        "ns.op.default (m.c:7): an item of a list has a name");
  REQUIRE(opgraft_builder_close_list(b, e) == OG_OK);
  REQUIRE(opgraft_builder_open_results(b, e) == OG_OK);
  FAILS(end(&h), OG_INVALID, "ns.op.default (m.c:7): a list is still open");
  h.next = 2;
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  REQUIRE(result(&h) == OG_OK && result(&h) == OG_OK);
  FAILS(end(&h), OG_INVALID,
        "ns.op.default (m.c:7): it has several results outside of a list");
done:
  host_free(&h);
}

TEST(one_operator_at_a_time) {
  host h;
  const opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  static const char first[] =
      "graph g: no operator was begun; call opgraft_builder_begin first";
  REQUIRE(host_make(&h));
  const opgraft_value_info info = matrix(&h);
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  FAILS(opgraft_builder_add_arg(b, &none, e), OG_INVALID, first);
  FAILS(arg_of(&h, 0), OG_INVALID, first);
  FAILS(opgraft_builder_open_list(b, NULL, e), OG_INVALID, first);
  FAILS(opgraft_builder_close_list(b, e), OG_INVALID, first);
  FAILS(opgraft_builder_add_result(b, NULL, e), OG_INVALID, first);
  FAILS(opgraft_builder_add_known_result(b, &none, e), OG_INVALID, first);
  FAILS(opgraft_builder_open_results(b, e), OG_INVALID, first);
  FAILS(opgraft_builder_close_results(b, e), OG_INVALID, first);
  FAILS(opgraft_builder_add_base(b, 0, &info, e), OG_INVALID, first);
  FAILS(opgraft_builder_add_written_arg(b, NULL, 0, NULL, e), OG_INVALID,
        first);
  FAILS(opgraft_builder_end(b, 2, e), OG_INVALID, first);
  opgraft_builder_drop(b);
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  FAILS(begin(&h, "ns.other.default", false), OG_INVALID,
        "ns.op.default (m.c:7): an operator begins before this one has ended");
  FAILS(opgraft_builder_end(b, 0, e), OG_INVALID,
        "graph g: node 0 is set twice");
  REQUIRE(begin(&h, "ns.other.default", false) == OG_OK);
  opgraft_builder_drop(b);
  REQUIRE(begin(&h, "ns.other.default", false) == OG_OK);
done:
  host_free(&h);
}

TEST(records_are_read_by_their_size) {
  host h;
  struct {
    opgraft_record record;
    int32_t more[2];
  } longer = {
      .record = {.struct_size = sizeof longer, .name = "ns.op.default"}};
  const opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  REQUIRE(host_make(&h));
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  opgraft_record record = {.name = "ns.op.default"};
  CHECK_EQ(opgraft_builder_begin(b, &record, 0, e), OG_INVALID);
  record.struct_size = sizeof record;
  record.arg_count = 1;
  record.args = &none;
  FAILS(opgraft_builder_begin(b, &record, 0, e), OG_INVALID,
        "ns.op.default: the record has arguments or results, which are the "
        "builder's to add");
  record.name = NULL;
  FAILS(opgraft_builder_begin(b, &record, 0, e), OG_INVALID,
        "opgraft_record.name is NULL, expected the node's name");
  longer.more[1] = 1;
  CHECK_EQ(opgraft_builder_begin(b, &longer.record, 0, e), OG_VERSION);
  longer.more[1] = 0;
  REQUIRE(opgraft_builder_begin(b, &longer.record, 0, e) == OG_OK);
  opgraft_builder_drop(b);
  longer.record.struct_size = offsetof(opgraft_record, args);  // an older one
  longer.record.arg_count = 5;                                 // is not read
  REQUIRE(opgraft_builder_begin(b, &longer.record, 0, e) == OG_OK);
  FAILS(opgraft_builder_close_list(b, e), OG_INVALID,
        "ns.op.default: no list is open");
done:
  host_free(&h);
}

TEST(results_are_looked_at) {
  host h;
  REQUIRE(host_make(&h));
  opgraft_value_info info = matrix(&h);
  const opgraft_arg value = {.kind = OPGRAFT_ARG_VALUE};
  const opgraft_arg list = {.kind = OPGRAFT_ARG_LIST};
  opgraft_size unknown[2] = {99, 0};
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  FAILS(opgraft_builder_add_known_result(b, &value, e), OG_INVALID,
        "ns.op.default (m.c:7): a known result is a tensor or a list, expected "
        "a size, a constant or NONE");
  CHECK_EQ(opgraft_builder_add_known_result(b, &list, e), OG_INVALID);
  info.strides = unknown;
  FAILS(opgraft_builder_add_result(b, &info, e), OG_INVALID,
        "ns.op.default (m.c:7): a tensor has a size that is not in the graph");
  info.shape = unknown;
  CHECK_EQ(opgraft_builder_add_result(b, &info, e), OG_INVALID);
  info.ndim = 65;
  FAILS(opgraft_builder_add_result(b, &info, e), OG_INVALID,
        "graph g: a tensor has 65 dims, at most 64 are possible");
  info.ndim = -2;
  CHECK_EQ(opgraft_builder_add_result(b, &info, e), OG_INVALID);
  info.shape = NULL;
  info.ndim = 1;
  CHECK_EQ(opgraft_builder_add_result(b, &info, e), OG_INVALID);
  info.struct_size = 0;
  CHECK_EQ(opgraft_builder_add_result(b, &info, e), OG_INVALID);
  REQUIRE(result(&h) == OG_OK && end(&h) == OG_OK);
done:
  host_free(&h);
}

TEST(bases_are_looked_at) {
  host h;
  opgraft_arg none = {.kind = OPGRAFT_ARG_NONE};
  REQUIRE(host_make(&h));
  const opgraft_value_info info = matrix(&h);
  opgraft_value_info other = info, view = row(&h, 0);
  opgraft_builder *b = h.b;
  opgraft_error *e = &h.error;
  REQUIRE(opgraft_builder_set(b, 2, &none, e) == OG_OK);
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  static const char plain[] =
      "ns.op.default (m.c:7): it writes, but was not begun as functional";
  FAILS(opgraft_builder_add_base(b, 0, &info, e), OG_INVALID, plain);
  FAILS(opgraft_builder_add_written_arg(b, NULL, 0, NULL, e), OG_INVALID,
        plain);
  opgraft_builder_drop(b);
  REQUIRE(begin(&h, "ns.op.default", true) == OG_OK);
  FAILS(opgraft_builder_add_base(b, 7, &info, e), OG_INVALID,
        "graph g: node 7 is used before it is set");
  FAILS(opgraft_builder_add_base(b, 2, &info, e), OG_UNSUPPORTED,
        "ns.op.default (m.c:7): a base is not a tensor");
  other.dtype = i64;
  FAILS(opgraft_builder_add_base(b, 0, &other, e), OG_DTYPE,
        "ns.op.default (m.c:7): it changes the type of a base");
  other = info;
  other.device = (og_device){OG_CUDA, 1};
  FAILS(opgraft_builder_add_base(b, 0, &other, e), OG_DEVICE,
        "ns.op.default (m.c:7): it changes the device of a base");
  other.ndim = -1;
  FAILS(opgraft_builder_add_base(b, 0, &other, e), OG_INVALID,
        "ns.op.default (m.c:7): what it writes is None");
  REQUIRE(opgraft_builder_add_base(b, 0, &info, e) == OG_OK);
  FAILS(opgraft_builder_add_base(b, 0, &info, e), OG_INVALID,
        "ns.op.default (m.c:7): two of its bases are one tensor");
  FAILS(opgraft_builder_add_written_arg(b, NULL, 1, NULL, e), OG_INVALID,
        "ns.op.default (m.c:7): it writes a base that it lacks");
  FAILS(opgraft_builder_add_written_arg(b, NULL, -1, NULL, e), OG_INVALID,
        "ns.op.default (m.c:7): it writes a base that it lacks");
  view.dtype = i64;
  FAILS(opgraft_builder_add_written_arg(b, NULL, 0, &view, e), OG_DTYPE,
        "ns.op.default (m.c:7): it changes the type of a base");
  other = info;
  other.view_of = 1;
  FAILS(opgraft_builder_add_result(b, &other, e), OG_INVALID,
        "ns.op.default (m.c:7): a functional operator returns a view");
  h.next = 3;
  REQUIRE(end(&h) == OG_OK);  // writes nothing of what was refused
  REQUIRE(item(&h, 3, 0) == OG_OK);
done:
  host_free(&h);
}

TEST(a_finished_graph_has_no_builder) {
  host h;
  opgraft_builder *b = NULL;
  REQUIRE(host_make(&h));
  REQUIRE(opgraft_builder_add_output(h.b, 0, &h.error) == OG_OK);
  REQUIRE(opgraft_graph_finish(h.graph, NULL, &h.error) == OG_OK);
  FAILS(opgraft_builder_create(h.graph, &b, &h.error), OG_INVALID,
        "graph g is finished; nothing can be added to it");
  CHECK(b == NULL);
  // The one that was there adds nothing either.
  REQUIRE(begin(&h, "ns.op.default", false) == OG_OK);
  FAILS(end(&h), OG_INVALID, "graph g is finished; nothing can be added to it");
done:
  host_free(&h);
}

TEST_MAIN("graph_builder", CASE(operators_and_constants),
          CASE(what_gives_nothing), CASE(lists_and_items),
          CASE(whole_bases_are_arguments), CASE(views_of_a_base),
          CASE(bases_that_are_no_arguments),
          CASE(a_base_of_views_keeps_its_layout),
          CASE(nodes_are_set_once_and_first), CASE(arguments_are_looked_at),
          CASE(lists_are_closed), CASE(one_operator_at_a_time),
          CASE(records_are_read_by_their_size), CASE(results_are_looked_at),
          CASE(bases_are_looked_at), CASE(a_finished_graph_has_no_builder))

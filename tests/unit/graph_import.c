// SPDX-License-Identifier: Apache-2.0
// Records become IR: rows, views by the host's word, fallbacks, mutation.

#include <opgraft/graph.h>
#include <stdlib.h>

#include "test.h"

typedef struct builder {
  opgraft_graph *graph;
  opgraft_error error;
  opgraft_size sizes[2];  // 2, s0
} builder;

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
static const og_dtype i64 = {OG_CODE_INT, 64, 1};

static bool builder_make(builder *b) {
  memset(b, 0, sizeof *b);
  return opgraft_graph_create("g", &b->graph, &b->error) == OG_OK &&
         opgraft_graph_size(b->graph, 2, &b->sizes[0], &b->error) == OG_OK &&
         opgraft_graph_size_parse(b->graph, "s0", &b->sizes[1], &b->error) ==
             OG_OK;
}

static opgraft_value_info matrix(const builder *b, og_dtype dtype) {
  return (opgraft_value_info){.struct_size = sizeof(opgraft_value_info),
                              .dtype = dtype,
                              .ndim = 2,
                              .shape = b->sizes};
}

static opgraft_value input(builder *b, const char *name, og_dtype dtype) {
  const opgraft_value_info info = matrix(b, dtype);
  opgraft_value value = -1;
  opgraft_graph_add_input(b->graph, name, &info, &value, &b->error);
  return value;
}

static opgraft_arg tensor(opgraft_value value) {
  return (opgraft_arg){.kind = OPGRAFT_ARG_VALUE, .value = value};
}
static opgraft_arg integer(int64_t number) {
  return (opgraft_arg){.kind = OPGRAFT_ARG_INT, .i = number};
}
static opgraft_arg real(double number) {
  return (opgraft_arg){.kind = OPGRAFT_ARG_FLOAT, .f = number};
}

// One record with results of the shape [2, s0].
static og_status node(builder *b, const char *name, const opgraft_arg *args,
                      int32_t count, og_dtype dtype, int32_t results,
                      opgraft_value *out) {
  const opgraft_value_info infos[2] = {matrix(b, dtype), matrix(b, dtype)};
  const opgraft_record record = {.struct_size = sizeof record,
                                 .name = name,
                                 .args = args,
                                 .arg_count = count,
                                 .result_count = results,
                                 .results = infos,
                                 .result_size = sizeof(opgraft_value_info),
                                 .file = "model.py",
                                 .line = 3,
                                 .host_node = 9};
  return opgraft_graph_add_node(b->graph, &record, out, &b->error);
}

static bool prints_as(const builder *b, const char *wanted) {
  const size_t length = opgraft_graph_print(b->graph, NULL, 0);
  char *text = length > 0 ? malloc(length + 1) : NULL;
  if (text == NULL) return false;
  const bool printed =
      opgraft_graph_print(b->graph, text, length + 1) == length;
  const bool same = printed && CHECK_STR(text, wanted);
  free(text);
  return same;
}

TEST(rows_and_arguments) {
  builder b;
  opgraft_value y = -1, z = -1, x;
  REQUIRE(builder_make(&b));
  REQUIRE((x = input(&b, "x", f32)) >= 0);
  opgraft_arg alpha = real(0.5);
  alpha.name = "alpha";
  const opgraft_arg sub[3] = {tensor(x), tensor(x), alpha};
  REQUIRE(node(&b, "aten.sub.Tensor", sub, 3, f32, 1, &y) == OG_OK);
  const opgraft_arg power[2] = {tensor(y), integer(2)};
  REQUIRE(node(&b, "aten.pow.Tensor_Scalar", power, 2, f32, 1, &z) == OG_OK);
  const opgraft_arg clamp[2] = {tensor(z), real(-1)};
  REQUIRE(node(&b, "aten.clamp.default", clamp, 2, f32, 1, &z) == OG_OK);
  const opgraft_arg soft[3] = {
      tensor(z), integer(-1), {.kind = OPGRAFT_ARG_BOOL}};
  REQUIRE(node(&b, "aten._softmax.default", soft, 3, f32, 1, &z) == OG_OK);
  REQUIRE(opgraft_graph_add_output(b.graph, z, &b.error) == OG_OK);
  CHECK(prints_as(&b,
                  "graph g(%x: f32[2, s0]) {\n"
                  "  %0: f32[2, s0] = add_scaled(%x, %x, -0.5) @ model.py:3\n"
                  "  %1: f32[2, s0] = mul(%0, %0) @ model.py:3\n"
                  "  %2: f32[2, s0] = clamp(%1, -1.0, inf) @ model.py:3\n"
                  "  %3: f32[2, s0] = softmax(%2; dim=-1) @ model.py:3\n"
                  "  return %3\n"
                  "}\n"));
done:
  opgraft_graph_release(b.graph);
}

TEST(numbers_that_do_not_fit_fall_back) {
  static const og_dtype u8 = {OG_CODE_UINT, 8, 1};
  static const og_dtype i8 = {OG_CODE_INT, 8, 1};
  builder b;
  opgraft_value y = -1, x, s;
  REQUIRE(builder_make(&b));
  REQUIRE((x = input(&b, "x", u8)) >= 0 && (s = input(&b, "s", i8)) >= 0);
  const opgraft_arg calls[][2] = {
      {tensor(x), integer(255)},  {tensor(x), integer(256)},
      {tensor(x), integer(-255)}, {tensor(x), integer(-256)},
      {tensor(s), integer(-128)}, {tensor(s), integer(128)}};
  for (int i = 0; i < 6; ++i)
    REQUIRE(node(&b, "aten.clamp_min.default", calls[i], 2, i < 4 ? u8 : i8, 1,
                 &y) == OG_OK);
  REQUIRE(opgraft_graph_add_output(b.graph, y, &b.error) == OG_OK);
  CHECK(prints_as(
      &b,
      "graph g(%x: u8[2, s0], %s: i8[2, s0]) {\n"
      "  %0: u8[2, s0] = clamp(%x, 255, 9223372036854775807) @ model.py:3\n"
      "  %1: u8[2, s0] = foreign \"aten.clamp_min.default\"(%x, 256) {node 9, "
      "why \"a number does not fit its tensor's type\"} @ model.py:3\n"
      "  %2: u8[2, s0] = clamp(%x, 1, 9223372036854775807) @ model.py:3\n"
      "  %3: u8[2, s0] = foreign \"aten.clamp_min.default\"(%x, -256) {node 9, "
      "why \"a number does not fit its tensor's type\"} @ model.py:3\n"
      "  %4: i8[2, s0] = clamp(%s, -128, 9223372036854775807) @ model.py:3\n"
      "  %5: i8[2, s0] = foreign \"aten.clamp_min.default\"(%s, 128) {node 9, "
      "why \"a number does not fit its tensor's type\"} @ model.py:3\n"
      "  return %5\n"
      "}\n"));
done:
  opgraft_graph_release(b.graph);
}

TEST(what_has_no_row_falls_back) {
  builder b;
  opgraft_value y[2] = {-1, -1}, z = -1, x;
  REQUIRE(builder_make(&b));
  REQUIRE((x = input(&b, "x", f32)) >= 0);
  const opgraft_arg list[2] = {tensor(x), {.kind = OPGRAFT_ARG_NONE}};
  const opgraft_arg args[3] = {
      tensor(x),
      {.kind = OPGRAFT_ARG_LIST, .count = 2, .list = list},
      {.kind = OPGRAFT_ARG_SIZE, .size = b.sizes[1]}};
  REQUIRE(node(&b, "ns.unknown.default", args, 3, f32, 2, y) == OG_OK);
  const opgraft_arg mask[2] = {
      tensor(x), {.kind = OPGRAFT_ARG_LIST, .count = 1, .list = &list[1]}};
  REQUIRE(node(&b, "aten.index.Tensor", mask, 2, f32, 1, &z) == OG_OK);
  REQUIRE(opgraft_graph_add_output(b.graph, y[1], &b.error) == OG_OK);
  CHECK(prints_as(
      &b,
      "graph g(%x: f32[2, s0]) {\n"
      "  %0: f32[2, s0], %1: f32[2, s0] = foreign \"ns.unknown.default\"(%x, "
      "[%x, none], s0) {node 9, why \"there is no row for it\"} @ "
      "model.py:3\n"
      "  %2: f32[2, s0] = foreign \"aten.index.Tensor\"(%x, [none]) {node "
      "9, why \"it has no index\"} @ model.py:3\n"
      "  return %1\n"
      "}\n"));
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = OPGRAFT_OPTION_FALLBACK_ERROR};
  CHECK_EQ(opgraft_graph_finish(b.graph, &options, &b.error), OG_UNSUPPORTED);
  CHECK_STR(b.error.text,
            "ns.unknown.default (model.py:3) falls back to the "
            "host: there is no row for it");
done:
  opgraft_graph_release(b.graph);
}

// A view by the host's word: no row is needed, and offsets are relative.
TEST(declared_views_are_views) {
  builder b;
  opgraft_value y = -1, x;
  opgraft_size seven;
  REQUIRE(builder_make(&b));
  REQUIRE((x = input(&b, "x", f32)) >= 0);
  REQUIRE(opgraft_graph_size(b.graph, 7, &seven, &b.error) == OG_OK);
  const opgraft_arg args[1] = {tensor(x)};
  const opgraft_value_info info = {.struct_size = sizeof info,
                                   .dtype = f32,
                                   .ndim = 1,
                                   .shape = b.sizes,
                                   .offset = seven,
                                   .view_of = 1};
  const opgraft_record record = {.struct_size = sizeof record,
                                 .name = "ns.peek.default",
                                 .args = args,
                                 .arg_count = 1,
                                 .result_count = 1,
                                 .results = &info,
                                 .result_size = sizeof(opgraft_value_info)};
  REQUIRE(opgraft_graph_add_node(b.graph, &record, &y, &b.error) == OG_OK);
  REQUIRE(opgraft_graph_add_output(b.graph, y, &b.error) == OG_OK);
  CHECK(prints_as(&b,
                  "graph g(%x: f32[2, s0]) {\n"
                  "  %0: f32[2]+(7) = view(%x)\n"
                  "  return %0\n"
                  "}\n"));
done:
  opgraft_graph_release(b.graph);
}

TEST(mutation_is_put_back_in_place) {
  builder b;
  opgraft_value out[1] = {-1}, x, w, y = -1;
  REQUIRE(builder_make(&b));
  REQUIRE((x = input(&b, "x", f32)) >= 0 && (w = input(&b, "w", f32)) >= 0);
  opgraft_arg written = tensor(x);
  written.written = OPGRAFT_WRITTEN;
  const opgraft_arg args[3] = {
      {.kind = OPGRAFT_ARG_STR, .s = "ns.add_to"}, written, tensor(w)};
  REQUIRE(node(&b, "auto_functionalized", args, 3, f32, 1, out) == OG_OK);
  const opgraft_arg back[2] = {tensor(x), tensor(out[0])};
  REQUIRE(node(&b, "aten.copy_.default", back, 2, f32, 1, &y) == OG_OK);
  REQUIRE(opgraft_graph_add_output(b.graph, y, &b.error) == OG_OK);
  REQUIRE(opgraft_graph_finish(b.graph, NULL, &b.error) == OG_OK);
  CHECK(prints_as(&b,
                  "graph g(%x: f32[2, s0], %w: f32[2, s0]) {\n"
                  "  %0: f32[2, s0] in %x = foreign \"ns.add_to\"(%x, %w) "
                  "{node 9, update 0:0, why \"there is no row for it\"} @ "
                  "model.py:3\n"
                  "  return %0\n"
                  "}\n"));
done:
  opgraft_graph_release(b.graph);
}

static opgraft_arg list_of(const opgraft_arg *list, int32_t count) {
  return (opgraft_arg){.kind = OPGRAFT_ARG_LIST, .count = count, .list = list};
}

TEST(malformed_arguments_are_errors) {
  builder b;
  opgraft_value y = -1;
  REQUIRE(builder_make(&b));
  REQUIRE(input(&b, "x", f32) >= 0);
  opgraft_arg deep[10] = {integer(1)};
  for (int32_t i = 1; i < 10; ++i) deep[i] = list_of(&deep[i - 1], 1);
  const opgraft_arg inner = tensor(70);
  const struct {
    opgraft_arg arg;
    const char *says;
  } cases[] = {
      {tensor(70), "value that is not in the graph"},
      {tensor(-1), "value that is not in the graph"},
      {list_of(&inner, 1), "value that is not in the graph"},
      {{.kind = OPGRAFT_ARG_SIZE, .size = 70}, "size that is not in the graph"},
      {{.kind = OPGRAFT_ARG_OTHER + 1}, "unknown kind"},
      {{.kind = -1}, "unknown kind"},
      {{.kind = OPGRAFT_ARG_VALUE, .count = 1}, "is not a list"},
      {{.kind = OPGRAFT_ARG_INT, .count = -1}, "is not a list"},
      {list_of(deep, -1), "negative count"},
      {deep[9], "nested too deep"},
      {{.kind = OPGRAFT_ARG_INT, .written = OPGRAFT_WRITTEN}, "written"},
      {{.kind = OPGRAFT_ARG_VALUE, .written = OPGRAFT_WRITTEN_BASE + 1},
       "written"},
      {{.kind = OPGRAFT_ARG_VALUE, .written = -1}, "written"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    CHECK_EQ(node(&b, "ns.f", &cases[i].arg, 1, f32, 1, &y), OG_INVALID);
    CHECK(strstr(b.error.text, cases[i].says) != NULL);
  }
  CHECK_EQ(node(&b, "ns.f", &deep[7], 1, f32, 1, &y), OG_OK);
done:
  opgraft_graph_release(b.graph);
}

TEST(bad_records_are_errors) {
  builder b;
  opgraft_value y = -1;
  REQUIRE(builder_make(&b));
  REQUIRE(input(&b, "x", i64) >= 0);
  const opgraft_arg args[1] = {tensor(70)};
  CHECK_EQ(node(&b, "aten.neg.default", args, 1, i64, 1, &y), OG_INVALID);
  CHECK_EQ(opgraft_graph_add_output(b.graph, 70, &b.error), OG_INVALID);
  REQUIRE(opgraft_graph_finish(b.graph, NULL, &b.error) == OG_OK);
  CHECK_EQ(opgraft_graph_finish(b.graph, NULL, &b.error), OG_INVALID);
  const opgraft_arg fine[1] = {tensor(0)};
  CHECK_EQ(node(&b, "aten.neg.default", fine, 1, i64, 1, &y), OG_INVALID);
done:
  opgraft_graph_release(b.graph);
}

TEST_MAIN("graph_import", CASE(rows_and_arguments),
          CASE(numbers_that_do_not_fit_fall_back),
          CASE(what_has_no_row_falls_back), CASE(declared_views_are_views),
          CASE(mutation_is_put_back_in_place),
          CASE(malformed_arguments_are_errors), CASE(bad_records_are_errors))

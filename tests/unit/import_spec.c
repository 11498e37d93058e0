// SPDX-License-Identifier: Apache-2.0
// The last column of aten.def: its grammar, and each row against its
// operator's row of ops.def.

#include "import/spec.h"

#include "test.h"

#define OG_ATEN_NUM(name, handler, op, numbers, spec) \
  {name, NULL, OG_IR_##op, OG_NUMBERS_##numbers, spec},
#define OG_ATEN(name, handler, op, spec) \
  OG_ATEN_NUM(name, handler, op, NONE, spec)
static const og_aten_row rows[] = {
#include "import/aten.def"
};
#undef OG_ATEN
#undef OG_ATEN_NUM

// What one item of the IR operator `sort` (dim, descending) is parsed to.
typedef struct item_case {
  const char *text;
  const char *name;
  int32_t position;
  int32_t attr;
  bool is_required;
  int32_t kind;  // of the fallback
  double number;
} item_case;

static const item_case items[] = {
    {"3", NULL, 3, -1, true, OPGRAFT_ARG_NONE, 0},
    {"12", NULL, 12, -1, true, OPGRAFT_ARG_NONE, 0},
    {"2|dim", "dim", 2, -1, true, OPGRAFT_ARG_NONE, 0},
    {"|alpha", "alpha", -1, -1, true, OPGRAFT_ARG_NONE, 0},
    {"|alpha?1", "alpha", -1, -1, false, OPGRAFT_ARG_INT, 1},
    {"1?", NULL, 1, -1, false, OPGRAFT_ARG_NONE, 0},
    {"1?-1.5", NULL, 1, -1, false, OPGRAFT_ARG_FLOAT, -1.5},
    {"#0.5", NULL, -1, -1, false, OPGRAFT_ARG_FLOAT, 0.5},
    {"#-2", NULL, -1, -1, false, OPGRAFT_ARG_INT, -2},
    {"-", NULL, -1, -1, false, OPGRAFT_ARG_NONE, 0},
    {"; dim=1?-1", NULL, 1, 0, false, OPGRAFT_ARG_INT, -1},
    {";descending=|descending?0", "descending", -1, 1, false, OPGRAFT_ARG_INT,
     0},
    {"; descending=#1", NULL, -1, 1, false, OPGRAFT_ARG_INT, 1},
};

static bool item_is(const og_spec_item *found, const item_case *wanted) {
  const opgraft_arg *fallback = &found->fallback;
  const double number =
      fallback->kind == OPGRAFT_ARG_FLOAT ? fallback->f : (double)fallback->i;
  return CHECK_EQ(found->position, wanted->position) &&
         CHECK_EQ(found->attr, wanted->attr) &&
         CHECK_EQ(found->is_required, wanted->is_required) &&
         CHECK_EQ(fallback->kind, wanted->kind) &&
         CHECK((found->name == NULL) == (wanted->name == NULL)) &&
         (found->name == NULL || CHECK_STR(found->name, wanted->name)) &&
         CHECK(wanted->kind == OPGRAFT_ARG_NONE || number == wanted->number);
}

TEST(each_form_of_an_item) {
  og_arena arena = {0};
  for (size_t i = 0; i < sizeof items / sizeof *items; ++i) {
    const og_aten_row row = {"sort", NULL, OG_IR_sort, OG_NUMBERS_NONE,
                             items[i].text};
    const og_spec *spec = og_spec_parse(&arena, &row);
    REQUIRE(spec != NULL);
    CHECK_EQ(spec->count, 1);
    if (!item_is(&spec->items[0], &items[i])) printf("%s\n", items[i].text);
  }
done:
  og_arena_destroy(&arena);
}

TEST(several_items_and_none) {
  og_arena arena = {0};
  const og_aten_row full = {"sort", NULL, OG_IR_sort, OG_NUMBERS_NONE,
                            "0 - |x?  ; dim=1 descending=2?"};
  const og_aten_row empty = {"sort", NULL, OG_IR_sort, OG_NUMBERS_NONE, ""};
  const og_spec *spec = og_spec_parse(&arena, &full);
  REQUIRE(spec != NULL);
  CHECK_EQ(spec->count, 5);
  CHECK_EQ(spec->items[2].attr, -1);
  CHECK_EQ(spec->items[3].attr, 0);
  CHECK_EQ(spec->items[4].attr, 1);
  spec = og_spec_parse(&arena, &empty);
  REQUIRE(spec != NULL);
  CHECK_EQ(spec->count, 0);
done:
  og_arena_destroy(&arena);
}

// Operands stand before attributes, no attribute stands twice, and there are
// no more operands than the operator takes, but for the scale of add and sub,
// which picks another operator.
static void row_check(const og_aten_row *row, const og_spec *spec) {
  uint32_t seen = 0;
  int32_t operands = 0;
  bool is_sound = true;
  for (int32_t i = 0; i < spec->count; ++i) {
    const int32_t attr = spec->items[i].attr;
    if (attr < 0) {
      is_sound = is_sound && seen == 0;
      ++operands;
      continue;
    }
    is_sound = is_sound && attr < OG_OP_ATTR_MAX && !(seen >> attr & 1u);
    seen |= 1u << attr;
  }
  const int32_t most = og_ops[row->op].in_max;
  const bool is_scaled = row->op == OG_IR_add || row->op == OG_IR_sub;
  if (!CHECK(is_sound && (most < 0 || operands <= most + is_scaled)))
    printf("%s: \"%s\"\n", row->name, row->spec);
}

TEST(every_row) {
  og_arena arena = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const og_spec *spec = og_spec_parse(&arena, &rows[i]);
    REQUIRE(spec != NULL);
    row_check(&rows[i], spec);
  }
done:
  og_arena_destroy(&arena);
}

TEST_MAIN("import_spec", CASE(each_form_of_an_item),
          CASE(several_items_and_none), CASE_NO_FAULTS(every_row))

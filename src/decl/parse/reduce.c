// SPDX-License-Identifier: Apache-2.0
// The reduce string: which dims may be cut into parts, and how the results of
// the parts join.
//
//   "N, O: sum; I: same"    cuts apart by ';'; dims that join alike by ','
//   "HQ + HK"               dims that are cut together
//   "N / 8"                 parts are multiples of 8
//   "I: sum(bias)"          the sum counts bias once
//   "D unless mode == 'x'"  not where a str argument has this value
//   "sum"                   all dims that arguments have and no output has

#include "decl/parse/reduce.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/names.h"

enum { CUTS_MAX = 16 };

static const char *const words[] = {
    [OG_JOIN_NONE] = NULL,   [OG_JOIN_SAME] = "same", [OG_JOIN_SUM] = "sum",
    [OG_JOIN_PROD] = "prod", [OG_JOIN_MAX] = "max",   [OG_JOIN_MIN] = "min",
};
enum { JOIN_COUNT = sizeof words / sizeof *words };

const char *og_join_word(og_parts_join join) { return words[join]; }

void og_cut_write(const og_decl *decl, const og_cut *cut, char *out,
                  size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int32_t i = 0; i < cut->dim_count && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s%s",
                             i > 0 ? " + " : "", decl->dims[cut->dims[i]].name);
}

// --- Where a dim is ----------------------------------------------------------

static bool expr_names(const og_expr *expr, int32_t dim) {
  for (int32_t i = 0; i < expr->count; ++i) {
    const int32_t op = expr->code[i].op;
    if (expr->code[i].slot == dim &&
        (op == OG_CODE_DIM_ || op == OG_CODE_PACK_RANK_ ||
         op == OG_CODE_PACK_AT_ || op == OG_CODE_VARY_AT_))
      return true;
  }
  return false;
}

static bool packs_name(const og_item *item, int32_t dim) {
  for (int32_t i = 0; i < item->pack_count; ++i)
    if (item->packs[i] == dim) return true;
  return false;
}

int32_t og_items_hold(const og_item *items, int32_t count, int32_t dim,
                      int32_t *out_item) {
  int32_t found = OG_HELD_NOT;
  *out_item = -1;
  for (int32_t i = 0; i < count; ++i) {
    const og_item *item = &items[i];
    const bool is_named =
        item->kind == OG_ITEM_DIM || item->kind == OG_ITEM_PACK;
    const bool is_name = is_named && item->dim == dim;
    const bool is_computed = !is_named && expr_names(&item->expr, dim);
    const bool is_elsewhere =
        packs_name(item, dim) || (is_computed && item->kind != OG_ITEM_EXPR) ||
        (is_name && item->kind == OG_ITEM_DIM && item->attr >= 0);
    if (!is_name && !is_computed && !is_elsewhere) continue;
    if (is_elsewhere || found != OG_HELD_NOT) return OG_HELD_OTHERWISE;
    found = OG_HELD_ONCE;
    *out_item = i;
  }
  return found;
}

og_items og_argument_items(const og_decl *decl, int32_t tensor) {
  const og_pattern *pattern = og_pattern_of(decl, tensor);
  return pattern != NULL && !pattern->is_list
             ? (og_items){pattern->items, pattern->item_count}
             : (og_items){NULL, 0};
}

og_items og_output_items(const og_decl *decl, int32_t output) {
  const int32_t r = output - decl->mutated_count;
  if (r < 0) return og_argument_items(decl, decl->mutated_tensors[output]);
  const og_shape_rule *rule = &decl->shapes[r];
  if (rule->kind == OG_SHAPE_LIKE)
    return og_argument_items(decl, rule->like_tensor);
  if (rule->kind != OG_SHAPE_ITEMS) return (og_items){NULL, 0};
  return (og_items){rule->items, rule->item_count};
}

// --- Whether a cut has a meaning ---------------------------------------------

// A cut, and where the string names it.
typedef struct reading {
  og_parser *parser;
  og_cut *cut;
  og_token name;
} reading;

static og_status argument_check(const reading *r, int32_t dim,
                                const og_pattern *pattern, bool *out_held) {
  const og_decl *decl = r->parser->decl;
  const char *name = og_tensor_param(decl, pattern->tensor)->name;
  int32_t item;
  const int32_t held =
      og_items_hold(pattern->items, pattern->item_count, dim, &item);
  if (held == OG_HELD_NOT) return OG_OK;
  if (pattern->is_list || held != OG_HELD_ONCE ||
      pattern->items[item].kind == OG_ITEM_EXPR)
    return og_read_error_token(
        &r->parser->reader, r->name,
        "%s has %s in a list, several times, or in a size that is computed; "
        "expected arguments that have it as one dim",
        name, decl->dims[dim].name);
  if (r->cut->once >> pattern->tensor & 1u)
    return og_read_error_token(&r->parser->reader, r->name,
                               "%s has %s: each part has a part of it; "
                               "expected an argument without it in sum()",
                               name, decl->dims[dim].name);
  *out_held = true;
  return OG_OK;
}

static og_status arguments_check(const reading *r) {
  const og_decl *decl = r->parser->decl;
  for (int32_t i = 0; i < r->cut->dim_count; ++i) {
    bool is_held = false;
    for (int32_t p = 0; p < decl->pattern_count; ++p)
      OG_TRY(argument_check(r, r->cut->dims[i], &decl->patterns[p], &is_held));
    if (!is_held)
      return og_read_error_token(&r->parser->reader, r->name,
                                 "no argument has %s as a dim",
                                 decl->dims[r->cut->dims[i]].name);
  }
  return OG_OK;
}

static void output_name(const og_decl *decl, int32_t index, char *out,
                        size_t size) {
  if (index < decl->mutated_count)
    snprintf(out, size, "%s",
             og_tensor_param(decl, decl->mutated_tensors[index])->name);
  else
    snprintf(out, size, "result %d", (int)(index - decl->mutated_count));
}

// Whether the output has one of the dims, each at most once.
static og_status output_check(const reading *r, int32_t index, bool *out_held) {
  const og_decl *decl = r->parser->decl;
  const og_items of = og_output_items(decl, index);
  int32_t item;
  char name[64];
  output_name(decl, index, name, sizeof name);
  *out_held = false;
  if (of.items == NULL && of.count == 0 && index >= decl->mutated_count &&
      decl->shapes[index - decl->mutated_count].kind != OG_SHAPE_ITEMS)
    return og_read_error_token(
        &r->parser->reader, r->name,
        "the shape rule does not say what dims %s has, so that parts of it "
        "cannot be joined",
        name);
  for (int32_t i = 0; i < r->cut->dim_count; ++i) {
    const int32_t held =
        og_items_hold(of.items, of.count, r->cut->dims[i], &item);
    if (held == OG_HELD_OTHERWISE)
      return og_read_error_token(
          &r->parser->reader, r->name,
          "%s has %s several times, or where an argument puts it; expected a "
          "dim that has one place",
          name, decl->dims[r->cut->dims[i]].name);
    *out_held |= held == OG_HELD_ONCE;
  }
  return OG_OK;
}

static og_status outputs_check(const reading *r) {
  const og_decl *decl = r->parser->decl;
  const int32_t count = decl->mutated_count + decl->fresh_count;
  char name[64], dims[120];
  for (int32_t i = 0; i < count; ++i) {
    bool is_held;
    OG_TRY(output_check(r, i, &is_held));
    if (is_held || r->cut->join != OG_JOIN_NONE) continue;
    output_name(decl, i, name, sizeof name);
    og_cut_write(decl, r->cut, dims, sizeof dims);
    return og_read_error_token(
        &r->parser->reader, r->name,
        "%s has no %s; say behind ':' how it comes from those of the parts: "
        "same, sum, prod, max or min",
        name, dims);
  }
  return OG_OK;
}

static og_status cut_check(const reading *r) {
  if (r->parser->decl->has_data_dependent_result)
    return og_read_error_token(&r->parser->reader, r->name,
                               "a result's size depends on values, so that "
                               "parts of it cannot be joined");
  OG_TRY(arguments_check(r));
  return outputs_check(r);
}

// --- The string --------------------------------------------------------------

static og_status read_dim(og_parser *parser, og_cut *cut) {
  og_decl *decl = parser->decl;
  const og_token name = parser->reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "the name of a dim");
  const int32_t dim = og_find_dim(parser, name);
  if (dim < 0) return og_parse_unknown(parser, name, "dim", OG_NAMES_DIMS);
  if (decl->dims[dim].kind != OG_DIM_SIZE &&
      decl->dims[dim].kind != OG_DIM_PACK)
    return og_read_error_token(&parser->reader, name,
                               "%s has a size of its own in each call; "
                               "expected a dim such as D or a pack",
                               decl->dims[dim].name);
  for (const og_cut *c = decl->cuts; c <= cut; ++c)
    for (int32_t i = 0; i < c->dim_count; ++i)
      if (c->dims[i] == dim)
        return og_read_error_token(&parser->reader, name, "%s is cut twice",
                                   decl->dims[dim].name);
  if (cut->dim_count == OG_CUT_DIMS_MAX)
    return og_read_error_token(&parser->reader, name,
                               "more than %d dims are cut together",
                               OG_CUT_DIMS_MAX);
  cut->dims[cut->dim_count++] = dim;
  og_reader_advance(&parser->reader);
  return OG_OK;
}

static og_status read_block(og_parser *parser, og_cut *cut) {
  enum { BLOCK_MAX = 1 << 20 };
  og_reader *reader = &parser->reader;
  if (!og_reader_take(reader, '/')) return OG_OK;
  if (reader->token.kind != OG_TOKEN_INT || reader->token.value < 1 ||
      reader->token.value > BLOCK_MAX)
    return og_read_wanted(reader, "a number from 1 to %d", BLOCK_MAX);
  cut->block = (int32_t)reader->token.value;
  og_reader_advance(reader);
  return OG_OK;
}

// D, D / 16, or D + E; checked once the whole entry is read.
static og_status read_group(og_parser *parser, og_token *out_name) {
  og_decl *decl = parser->decl;
  *out_name = parser->reader.token;
  if (decl->cut_count == CUTS_MAX)
    return og_read_error_token(&parser->reader, *out_name, "more than %d cuts",
                               CUTS_MAX);
  og_cut *cut = &decl->cuts[decl->cut_count];
  *cut = (og_cut){.block = 1, .unless_attr = -1};
  do OG_TRY(read_dim(parser, cut));
  while (og_reader_take(&parser->reader, '+'));
  OG_TRY(read_block(parser, cut));
  ++decl->cut_count;
  return OG_OK;
}

static og_status read_once(og_parser *parser, og_cut *out) {
  if (out->join != OG_JOIN_SUM || !og_reader_take(&parser->reader, '('))
    return OG_OK;
  do {
    int32_t tensor;
    OG_TRY(og_parse_tensor(parser, &tensor));
    out->once |= (uint64_t)1 << tensor;
  } while (og_reader_take(&parser->reader, ','));
  return og_reader_expect(&parser->reader, ')', "',' or ')'");
}

static og_status read_join(og_parser *parser, og_cut *out) {
  for (int32_t j = OG_JOIN_SAME; j < JOIN_COUNT; ++j) {
    if (!og_reader_take_word(&parser->reader, words[j])) continue;
    out->join = (og_parts_join)j;
    return read_once(parser, out);
  }
  return og_read_wanted(&parser->reader, "same, sum, prod, max or min");
}

// unless NAME == "VALUE"
static og_status read_unless(og_parser *parser, og_cut *out) {
  og_reader *reader = &parser->reader;
  if (!og_reader_take_word(reader, "unless")) return OG_OK;
  const int32_t param = og_find_param(parser, reader->token);
  if (param < 0 || parser->decl->params[param].type != OG_TYPE_STR ||
      parser->decl->params[param].is_list)
    return og_read_wanted(reader, "the name of a str argument");
  out->unless_attr = parser->decl->params[param].index;
  og_reader_advance(reader);
  OG_TRY(og_reader_expect(reader, OG_MARK_EQ, "'=='"));
  if (reader->token.kind != OG_TOKEN_STRING)
    return og_read_wanted(reader, "a text in quotes");
  const og_token text = {.begin = reader->token.begin + 1,
                         .end = reader->token.end - 1};
  out->unless_text = og_token_copy(parser, text);
  if (out->unless_text == NULL) return og_read_memory(reader);
  og_reader_advance(reader);
  return OG_OK;
}

static og_status read_entry(og_parser *parser) {
  og_decl *decl = parser->decl;
  og_token names[CUTS_MAX];
  og_cut rest = {.unless_attr = -1};
  const int32_t begin = decl->cut_count;
  do OG_TRY(read_group(parser, &names[decl->cut_count % CUTS_MAX]));
  while (og_reader_take(&parser->reader, ','));
  if (og_reader_take(&parser->reader, ':')) OG_TRY(read_join(parser, &rest));
  OG_TRY(read_unless(parser, &rest));
  for (int32_t i = begin; i < decl->cut_count; ++i) {
    og_cut *cut = &decl->cuts[i];
    cut->join = rest.join;
    cut->once = rest.once;
    cut->unless_attr = rest.unless_attr;
    cut->unless_text = rest.unless_text;
    OG_TRY(cut_check(&(reading){parser, cut, names[i]}));
  }
  return OG_OK;
}

// --- A word alone ------------------------------------------------------------

static bool is_word_alone(const og_parser *parser) {
  if (og_reader_peek(&parser->reader).kind != OG_TOKEN_END) return false;
  for (int32_t j = OG_JOIN_SAME; j < JOIN_COUNT; ++j)
    if (og_reader_at_word(&parser->reader, words[j])) return true;
  return false;
}

// Whether arguments have it as a dim of one place, and no output has it.
static bool is_summed(const og_decl *decl, int32_t dim) {
  bool is_found = false;
  int32_t item;
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const og_pattern *pattern = &decl->patterns[p];
    const int32_t held =
        og_items_hold(pattern->items, pattern->item_count, dim, &item);
    if (held == OG_HELD_NOT) continue;
    if (held != OG_HELD_ONCE || pattern->is_list ||
        pattern->items[item].kind != OG_ITEM_DIM)
      return false;
    is_found = true;
  }
  for (int32_t i = 0; i < decl->mutated_count + decl->fresh_count; ++i) {
    const og_items of = og_output_items(decl, i);
    if (og_items_hold(of.items, of.count, dim, &item) != OG_HELD_NOT)
      return false;
  }
  return is_found;
}

static og_status read_alone(og_parser *parser) {
  og_decl *decl = parser->decl;
  og_cut rest = {.join = OG_JOIN_NONE};
  const og_token name = parser->reader.token;
  OG_TRY(read_join(parser, &rest));
  for (int32_t d = 0; d < decl->dim_count && decl->cut_count < CUTS_MAX; ++d) {
    if (!is_summed(decl, d)) continue;
    og_cut *cut = &decl->cuts[decl->cut_count++];
    *cut = (og_cut){.dims = {d},
                    .dim_count = 1,
                    .block = 1,
                    .join = rest.join,
                    .unless_attr = -1};
    OG_TRY(cut_check(&(reading){parser, cut, name}));
  }
  if (decl->cut_count > 0) return OG_OK;
  return og_read_error_token(&parser->reader, name,
                             "each dim of an argument is a result's too; "
                             "expected \"D: %s\"",
                             og_join_word(rest.join));
}

og_status og_parse_reduce(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  if (decl->record->reduce == NULL) return OG_OK;
  OG_TRY(og_parser_init(&parser, decl, "reduce", decl->record->reduce, error));
  decl->cuts = og_arena_array(&decl->arena, CUTS_MAX, sizeof(og_cut));
  if (decl->cuts == NULL) return og_read_memory(&parser.reader);
  if (is_word_alone(&parser)) return read_alone(&parser);
  do OG_TRY(read_entry(&parser));
  while (og_reader_take(&parser.reader, ';'));
  return og_reader_expect_end(&parser.reader, "',', ';' or the end");
}

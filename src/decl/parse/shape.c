// SPDX-License-Identifier: Apache-2.0
// The shape string: x[*N, I], weight[O, I], bias?[O] -> [*N, O].
//
// Invariants that the matcher relies on: a pattern has at most one pack whose
// length is not known when its turn comes (or D@dim between two packs); what a
// computed pack needs is bound before; a name that a result uses is bound by
// an argument that is always given.

#include "decl/parse/parser.h"

#include <string.h>

#include "decl/parse/expr.h"
#include "decl/parse/names.h"

typedef struct shape_parser {
  og_parser p;
  og_decl *decl;
  og_pattern patterns[OPGRAFT_ARG_MAX];
  uint64_t binds[OPGRAFT_ARG_MAX];  // dims that a pattern's items bind
  uint64_t needs[OPGRAFT_ARG_MAX];  // packs that its computed items read
  uint64_t kind_known;              // dims that an item has bound so far
  uint64_t always;                  // dims that are always bound
  og_item items[OG_ITEMS_MAX];
  int32_t item_count;
  og_dim_use uses[OG_USES_MAX];
} shape_parser;

static uint64_t bit(int32_t dim) { return (uint64_t)1 << dim; }

static og_status add_use(shape_parser *s, og_token name, int32_t dim,
                         int32_t wants) {
  if (s->p.use_count == OG_USES_MAX)
    return og_read_error_token(&s->p.reader, name, "expected a shorter rule");
  s->uses[s->p.use_count++] = (og_dim_use){.dim = dim,
                                           .wants = wants,
                                           .pattern = s->p.pattern,
                                           .begin = name.begin,
                                           .end = name.end};
  return OG_OK;
}

static og_status bind_dim(shape_parser *s, og_token name, og_dim_kind kind,
                          int32_t *out_dim) {
  static const char *const forms[] = {"one dim, %s", "a pack, *%s",
                                      "a varying dim, %s~",
                                      "a dim that the kernel finds, %s"};
  OG_TRY(og_dim_intern(&s->p, name, out_dim));
  og_dim *dim = &s->decl->dims[*out_dim];
  if (!(s->kind_known & bit(*out_dim))) {
    s->kind_known |= bit(*out_dim);
    dim->kind = kind;
  } else if (dim->kind != kind) {
    const char *form = forms[dim->kind];
    const int length = (int)(strchr(form, ',') - form);
    return og_read_error_token(&s->p.reader, name,
                               "%s was %.*s before; expected the same here",
                               dim->name, length, form);
  }
  s->binds[s->p.pattern] |= bit(*out_dim);
  return OG_OK;
}

static const og_param *find_param(const og_parser *p, og_token name) {
  const int32_t i = og_find_param(p, name);
  return i < 0 ? NULL : &p->decl->params[i];
}

static bool is_attr_name(const og_parser *p, og_token name) {
  const og_param *param = find_param(p, name);
  return param != NULL && param->type != OG_TYPE_TENSOR;
}

static bool is_int_list(const og_param *param) {
  return param != NULL && param->is_list && og_is_int_type(param->type);
}

// --- Packs -------------------------------------------------------------------

// The name of a pack that is read, not bound.
static og_status parse_pack_name(shape_parser *s, int32_t *out_dim) {
  const og_token name = s->p.reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&s->p.reader, "a pack's name");
  OG_TRY(og_dim_intern(&s->p, name, out_dim));
  if (s->p.pattern >= 0) s->needs[s->p.pattern] |= bit(*out_dim);
  OG_TRY(add_use(s, name, *out_dim, OG_USE_PACK));
  og_reader_advance(&s->p.reader);
  return OG_OK;
}

static og_status parse_dims_attr(shape_parser *s, bool is_permute,
                                 int32_t *out_attr) {
  const og_param *param = find_param(&s->p, s->p.reader.token);
  const bool is_int =
      param != NULL && !param->is_list &&
      (param->type == OG_TYPE_INT || param->type == OG_TYPE_SYM_INT);
  if (!is_int_list(param) && (is_permute || !is_int))
    return og_read_wanted(&s->p.reader, "the name of an int[]%s argument",
                          is_permute ? "" : " or int");
  *out_attr = param->index;
  og_reader_advance(&s->p.reader);
  return OG_OK;
}

static og_status parse_broadcast(shape_parser *s, og_item *item) {
  const int32_t limit = (int32_t)(sizeof item->packs / sizeof *item->packs);
  item->kind = OG_ITEM_BROADCAST;
  do {
    if (item->pack_count == limit)
      return og_read_wanted(&s->p.reader, "%d packs or fewer", (int)limit);
    OG_TRY(parse_pack_name(s, &item->packs[item->pack_count]));
    ++item->pack_count;
  } while (og_reader_take(&s->p.reader, ','));
  return og_reader_expect(&s->p.reader, ')', "',' or ')'");
}

static og_status parse_int_attr(shape_parser *s, int32_t *out_attr) {
  const og_param *param = find_param(&s->p, s->p.reader.token);
  if (param == NULL || param->is_list || param->is_optional ||
      (param->type != OG_TYPE_INT && param->type != OG_TYPE_SYM_INT))
    return og_read_wanted(&s->p.reader, "the name of an int argument");
  *out_attr = param->index;
  og_reader_advance(&s->p.reader);
  return OG_OK;
}

// In a pattern [*A, D@dim, *B] says the same, and binds D.
static og_status parse_insert(shape_parser *s, og_token name, og_item *item) {
  if (s->p.pattern >= 0)
    return og_read_error_token(&s->p.reader, name,
                               "insert stands only in a result; expected "
                               "[*A, D@dim, *B] here");
  item->kind = OG_ITEM_INSERT;
  item->pack_count = 1;
  OG_TRY(parse_pack_name(s, &item->packs[0]));
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and the new dim's place"));
  OG_TRY(parse_int_attr(s, &item->attr));
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and the new dim's size"));
  OG_TRY(og_parse_expr(&s->p, &item->expr));
  return og_reader_expect(&s->p.reader, ')', "')'");
}

static og_status parse_pack_function(shape_parser *s, og_item *item) {
  static const struct {
    const char *name;
    og_item_kind kind;
  } rows[] = {{"permute", OG_ITEM_PERMUTE},
              {"drop", OG_ITEM_DROP},
              {"keep", OG_ITEM_KEEP}};
  const og_token name = s->p.reader.token;
  og_reader_advance(&s->p.reader);
  og_reader_advance(&s->p.reader);  // the '(' that the caller saw
  if (og_token_is(&s->p.reader, name, "broadcast"))
    return parse_broadcast(s, item);
  if (og_token_is(&s->p.reader, name, "insert"))
    return parse_insert(s, name, item);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (!og_token_is(&s->p.reader, name, rows[i].name)) continue;
    item->kind = rows[i].kind;
    item->pack_count = 1;
    OG_TRY(parse_pack_name(s, &item->packs[0]));
    OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and the dims"));
    OG_TRY(parse_dims_attr(s, item->kind == OG_ITEM_PERMUTE, &item->attr));
    return og_reader_expect(&s->p.reader, ')', "')'");
  }
  return og_read_error_token(&s->p.reader, name,
                             "unknown function '%.*s' of packs; expected "
                             "broadcast, permute, drop, keep or insert",
                             (int)og_token_length(name),
                             og_token_text(&s->p.reader, name));
}

// [N*] and [N...], as other notations have it: the name is meant for a pack.
static og_status refuse_star_behind(const shape_parser *s) {
  const og_token name = s->p.reader.token;
  og_reader ahead = s->p.reader;
  int32_t end = name.end;
  if (name.kind != OG_TOKEN_NAME) return OG_OK;
  og_reader_advance(&ahead);
  while (og_reader_at(&ahead, '*') || og_reader_at(&ahead, '.')) {
    end = ahead.token.end;
    og_reader_advance(&ahead);
  }
  if (end == name.end ||
      (!og_reader_at(&ahead, ',') && !og_reader_at(&ahead, ']')))
    return OG_OK;
  const char *text = og_token_text(&s->p.reader, name);
  return og_read_error(&s->p.reader, name.begin, end,
                       "found '%.*s', expected *%.*s: the star of a pack "
                       "stands before its name",
                       (int)(end - name.begin), text,
                       (int)og_token_length(name), text);
}

// After '*': a pack to bind (in a pattern) or to read (in a result).
static og_status parse_pack(shape_parser *s, og_item *item) {
  const og_token name = s->p.reader.token;
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&s->p.reader,
                          "the name of a pack or of an int[] argument");
  if (og_reader_peek(&s->p.reader).mark == '(')
    return parse_pack_function(s, item);
  const og_param *param = find_param(&s->p, name);
  if (is_int_list(param)) {
    item->kind = OG_ITEM_ATTR_PACK;
    item->attr = param->index;
    og_reader_advance(&s->p.reader);
    return OG_OK;
  }
  item->kind = OG_ITEM_PACK;
  if (s->p.pattern >= 0) {
    OG_TRY(bind_dim(s, name, OG_DIM_PACK, &item->dim));
  } else {
    OG_TRY(og_dim_intern(&s->p, name, &item->dim));
    OG_TRY(add_use(s, name, item->dim, OG_USE_PACK));
  }
  og_reader_advance(&s->p.reader);
  return OG_OK;
}

// --- Items -------------------------------------------------------------------

static og_status parse_pick(shape_parser *s, og_item *item) {
  return og_reader_take(&s->p.reader, '@') ? parse_int_attr(s, &item->attr)
                                           : OG_OK;
}

// D, D@dim, D~, D~@dim; leaves *out_is_name false, and the parser where it was,
// for what is an expression.
static og_status parse_named_item(shape_parser *s, og_item *item,
                                  bool *out_is_name) {
  const og_token name = s->p.reader.token;
  *out_is_name = false;
  if (name.kind != OG_TOKEN_NAME || is_attr_name(&s->p, name)) return OG_OK;
  og_reader_advance(&s->p.reader);
  const bool varies = og_reader_take(&s->p.reader, '~');
  if (!og_reader_at(&s->p.reader, ',') && !og_reader_at(&s->p.reader, ']') &&
      !og_reader_at(&s->p.reader, '@')) {
    s->p.reader.token = name;
    return OG_OK;
  }
  *out_is_name = true;
  item->kind = OG_ITEM_DIM;
  if (varies && !s->patterns[s->p.pattern].is_list)
    return og_read_error_token(&s->p.reader, name,
                               "a varying dim stands only in the pattern of a "
                               "tensor list, xs[][...]");
  OG_TRY(bind_dim(s, name, varies ? OG_DIM_VARY : OG_DIM_SIZE, &item->dim));
  return parse_pick(s, item);
}

static og_status parse_expr_item(shape_parser *s, og_item *item) {
  const og_token begin = s->p.reader.token;
  if (begin.kind != OG_TOKEN_NAME && begin.kind != OG_TOKEN_INT &&
      !og_reader_at(&s->p.reader, '(') && !og_reader_at(&s->p.reader, '-'))
    return og_read_wanted(&s->p.reader, "a dim name, a number or *pack");
  item->kind = OG_ITEM_EXPR;
  return og_parse_expr(&s->p, &item->expr);
}

static og_status parse_pattern_item(shape_parser *s, og_item *item) {
  bool is_name;
  if (og_reader_take(&s->p.reader, '*')) return parse_pack(s, item);
  OG_TRY(refuse_star_behind(s));
  OG_TRY(parse_named_item(s, item, &is_name));
  return is_name ? OG_OK : parse_expr_item(s, item);
}

// K <= bound, or K again as the first dim of a further result.
static og_status parse_found(shape_parser *s, og_item *item, bool *out_is) {
  const og_token name = s->p.reader.token;
  const og_token next = og_reader_peek(&s->p.reader);
  int32_t dim = og_find_dim(&s->p, name);
  const bool is_known = dim >= 0 && s->decl->dims[dim].kind == OG_DIM_FOUND;
  const bool is_bound = next.mark == OG_MARK_LE;
  *out_is = name.kind == OG_TOKEN_NAME && !is_attr_name(&s->p, name) &&
            (is_bound || (is_known && (next.mark == ',' || next.mark == ']')));
  if (!*out_is) return OG_OK;
  item->kind = OG_ITEM_FOUND;
  if (dim >= 0 && is_bound)
    return og_read_wanted(&s->p.reader,
                          "a new name for a dim that the kernel finds; "
                          "%s has a size already",
                          s->decl->dims[dim].name);
  og_reader_advance(&s->p.reader);
  item->dim = dim;
  if (!is_bound) {
    // The bound stands where the name first did; every result carries it.
    for (int32_t i = 0; i < s->decl->fresh_count; ++i) {
      const og_shape_rule *rule = &s->decl->shapes[i];
      if (rule->item_count == 0 || rule->items[0].kind != OG_ITEM_FOUND ||
          rule->items[0].dim != dim)
        continue;
      item->expr = rule->items[0].expr;
      break;
    }
    return OG_OK;
  }
  s->p.is_open = true;
  OG_TRY(og_dim_intern(&s->p, name, &item->dim));
  s->p.is_open = false;
  s->decl->dims[item->dim].kind = OG_DIM_FOUND;
  s->decl->has_data_dependent_result = true;
  s->kind_known |= bit(item->dim);
  og_reader_advance(&s->p.reader);
  return og_parse_expr(&s->p, &item->expr);
}

static og_status parse_result_item(shape_parser *s, og_item *item) {
  const og_token name = s->p.reader.token;
  bool is_found = false;
  if (og_reader_take(&s->p.reader, '*')) return parse_pack(s, item);
  OG_TRY(refuse_star_behind(s));
  if (s->item_count == 0 && s->p.index_begin < 0)
    OG_TRY(parse_found(s, item, &is_found));
  if (is_found) return OG_OK;
  const og_token next = og_reader_peek(&s->p.reader);
  if (name.kind != OG_TOKEN_NAME || (next.mark != ',' && next.mark != ']'))
    return parse_expr_item(s, item);
  OG_TRY(parse_expr_item(s, item));
  // A name alone is the dim itself, which spares the evaluation.
  if (item->expr.count == 1 && item->expr.code[0].op == OG_CODE_DIM_) {
    item->kind = OG_ITEM_DIM;
    item->dim = item->expr.code[0].slot;
  }
  return OG_OK;
}

// [ items ] into the arena.
static og_status parse_items(shape_parser *s, bool is_result,
                             const og_item **out_items, int32_t *out_count) {
  OG_TRY(og_reader_expect(&s->p.reader, '[', "'[' and the dims"));
  s->item_count = 0;
  while (!og_reader_at(&s->p.reader, ']')) {
    if (s->item_count > 0)
      OG_TRY(og_reader_expect(&s->p.reader, ',', "',' or ']'"));
    if (s->item_count == OG_ITEMS_MAX)
      return og_read_wanted(&s->p.reader, "%d dims or fewer", OG_ITEMS_MAX);
    og_item *item = &s->items[s->item_count];
    memset(item, 0, sizeof *item);
    item->attr = -1;
    item->dim = -1;
    item->begin = s->p.reader.token.begin;
    OG_TRY(is_result ? parse_result_item(s, item)
                     : parse_pattern_item(s, item));
    item->end = s->p.reader.token.begin;
    ++s->item_count;
  }
  og_reader_advance(&s->p.reader);
  const size_t bytes = (size_t)s->item_count * sizeof(og_item);
  og_item *items = og_arena_alloc(&s->decl->arena, bytes);
  if (items == NULL) return og_read_memory(&s->p.reader);
  memcpy(items, s->items, bytes);
  *out_items = items;
  *out_count = s->item_count;
  return OG_OK;
}

// --- Argument patterns -------------------------------------------------------

static bool is_pack_item(const og_item *item) {
  return item->kind != OG_ITEM_DIM && item->kind != OG_ITEM_EXPR &&
         item->kind != OG_ITEM_FOUND;
}

// D@dim stands between exactly one pack and one other.
static og_status check_pick(const shape_parser *s, og_pattern *pattern,
                            int32_t at) {
  const og_item *items = pattern->items;
  if (pattern->item_count == 3 && at == 1 && items[0].kind == OG_ITEM_PACK &&
      items[2].kind == OG_ITEM_PACK && items[0].dim != items[2].dim) {
    pattern->pick = at;
    return OG_OK;
  }
  return og_read_error(&s->p.reader, items[at].begin, items[at].end,
                       "a dim that an argument picks stands between two "
                       "packs; expected [*A, D@dim, *B]");
}

static og_status finish_pattern(shape_parser *s, og_pattern *pattern) {
  bool has_computed = false;
  pattern->pick = -1;
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    pattern->has_exprs |= item->kind == OG_ITEM_EXPR;
    pattern->pack_count += is_pack_item(item);
    has_computed |= is_pack_item(item) && item->kind != OG_ITEM_PACK;
    if (item->kind == OG_ITEM_DIM && item->attr >= 0)
      OG_TRY(check_pick(s, pattern, i));
  }
  pattern->is_plain = !pattern->is_list && pattern->pick < 0 && !has_computed &&
                      pattern->pack_count <= 1;
  s->decl->has_expr_items |= pattern->has_exprs;
  return OG_OK;
}

// bias?, xs[], and whether they agree with the schema.
static og_status parse_pattern_head(shape_parser *s, og_pattern *pattern) {
  const og_token name = s->p.reader.token;
  OG_TRY(og_parse_tensor(&s->p, &pattern->tensor));
  const og_param *param = og_tensor_param(s->decl, pattern->tensor);
  for (int32_t i = 0; i < s->decl->pattern_count; ++i)
    if (s->patterns[i].tensor == pattern->tensor)
      return og_read_error_token(&s->p.reader, name, "%s has two patterns",
                                 param->name);
  const bool is_optional = og_reader_take(&s->p.reader, '?');
  if (is_optional != param->is_optional)
    return og_read_error_token(
        &s->p.reader, name,
        "%s is%s optional in the schema; expected %s%s[...]", param->name,
        param->is_optional ? "" : " not", param->name,
        param->is_optional ? "?" : "");
  if (og_reader_at(&s->p.reader, '[') &&
      og_reader_peek(&s->p.reader).mark == ']' && param->is_list) {
    og_reader_advance(&s->p.reader);
    og_reader_advance(&s->p.reader);
    pattern->is_list = true;
  }
  if (pattern->is_list != param->is_list)
    return og_read_error_token(&s->p.reader, name,
                               "%s is a list; expected %s[][...]", param->name,
                               param->name);
  return OG_OK;
}

static og_status parse_pattern(shape_parser *s) {
  og_pattern *pattern = &s->patterns[s->decl->pattern_count];
  memset(pattern, 0, sizeof *pattern);
  pattern->begin = s->p.reader.token.begin;
  OG_TRY(parse_pattern_head(s, pattern));
  s->p.pattern = s->decl->pattern_count++;
  OG_TRY(parse_items(s, false, &pattern->items, &pattern->item_count));
  pattern->end = s->p.reader.token.begin;
  s->p.pattern = -1;
  return finish_pattern(s, pattern);
}

static og_status parse_patterns(shape_parser *s) {
  if (s->p.reader.token.kind == OG_TOKEN_END ||
      og_reader_at(&s->p.reader, OG_MARK_ARROW))
    return OG_OK;
  do {
    OG_TRY(parse_pattern(s));
  } while (og_reader_take(&s->p.reader, ','));
  if (s->p.reader.token.kind == OG_TOKEN_END ||
      og_reader_at(&s->p.reader, OG_MARK_ARROW))
    return OG_OK;
  return og_read_wanted(&s->p.reader, "',' or '->'");
}

// --- The order of matching ---------------------------------------------------

static bool is_certain(const shape_parser *s, int32_t i) {
  const og_param *param = og_tensor_param(s->decl, s->patterns[i].tensor);
  return !param->is_optional && !param->is_element_optional;
}

static bool is_ready(const shape_parser *s, int32_t i, uint64_t known) {
  const og_pattern *pattern = &s->patterns[i];
  int32_t unknown = 0;
  if (s->needs[i] & ~known) return false;
  if (pattern->pick >= 0) return true;
  for (int32_t k = 0; k < pattern->item_count; ++k)
    unknown += pattern->items[k].kind == OG_ITEM_PACK &&
               !(known & bit(pattern->items[k].dim));
  return unknown <= 1;
}

static og_status order_patterns(shape_parser *s) {
  og_decl *decl = s->decl;
  uint32_t placed = 0;
  uint64_t known = 0;
  for (int32_t n = 0; n < decl->pattern_count; ++n) {
    int32_t next = 0;
    while (next < decl->pattern_count &&
           (placed >> next & 1u || !is_ready(s, next, known)))
      ++next;
    if (next == decl->pattern_count) {
      next = 0;
      while (placed >> next & 1u) ++next;
      return og_read_error(
          &s->p.reader, s->patterns[next].begin, s->patterns[next].end,
          "the lengths of its packs cannot be known; expected all but one of "
          "them in another argument's pattern, one that is always given");
    }
    placed |= 1u << next;
    if (is_certain(s, next)) known |= s->binds[next];
    decl->patterns[n] = s->patterns[next];
  }
  s->always = known;
  for (int32_t d = 0; d < decl->dim_count; ++d)
    decl->dims[d].is_always_bound =
        decl->dims[d].kind == OG_DIM_FOUND || known & bit(d);
  return OG_OK;
}

// Every name in an expression or a result is bound where it is needed.
static og_status check_use(const shape_parser *s, const og_dim_use *use) {
  const og_dim *dim = &s->decl->dims[use->dim];
  if (!(s->kind_known & bit(use->dim)))
    return og_read_error(&s->p.reader, use->begin, use->end,
                         "no pattern binds %s; expected it as an item of its "
                         "own, %s or *%s, in one of them",
                         dim->name, dim->name, dim->name);
  OG_TRY(og_dim_check_use(&s->p, use));
  uint64_t allowed = s->always;
  if (use->pattern >= 0) allowed |= s->binds[use->pattern];
  if (allowed & bit(use->dim)) return OG_OK;
  return og_read_error(&s->p.reader, use->begin, use->end,
                       "only an optional argument binds %s; expected a name "
                       "that an argument binds which is always given",
                       dim->name);
}

// --- Results -----------------------------------------------------------------

static og_status parse_like(shape_parser *s, og_shape_rule *rule) {
  const og_token name = s->p.reader.token;
  rule->kind = OG_SHAPE_LIKE;
  OG_TRY(og_parse_tensor(&s->p, &rule->like_tensor));
  const og_param *param = og_tensor_param(s->decl, rule->like_tensor);
  if (param->is_list || param->is_optional)
    return og_read_error_token(&s->p.reader, name,
                               "%s is %s; expected a tensor that is always "
                               "given",
                               param->name,
                               param->is_list ? "a list" : "optional");
  return OG_OK;
}

// {i < count: [items]}
static og_status parse_list_rule(shape_parser *s, og_shape_rule *rule) {
  const og_token name = s->p.reader.token;
  rule->kind = OG_SHAPE_LIST;
  if (name.kind != OG_TOKEN_NAME || og_find_param(&s->p, name) >= 0 ||
      og_find_dim(&s->p, name) >= 0)
    return og_read_wanted(&s->p.reader, "a new name for the index of the list");
  og_reader_advance(&s->p.reader);
  OG_TRY(og_reader_expect(&s->p.reader, '<', "'<' and the count"));
  OG_TRY(og_parse_expr(&s->p, &rule->list_count));
  OG_TRY(og_reader_expect(&s->p.reader, ':', "':' and the dims of entry i"));
  s->p.index_begin = name.begin;
  s->p.index_end = name.end;
  OG_TRY(parse_items(s, true, &rule->items, &rule->item_count));
  s->p.index_begin = -1;
  return og_reader_expect(&s->p.reader, '}', "'}'");
}

static og_status parse_rule(shape_parser *s, const og_result *result) {
  if (result->value_index >= 0) {
    OG_TRY(og_reader_expect(&s->p.reader, '=',
                            "'=' and the value of an int result"));
    return og_parse_expr(&s->p, &s->decl->values[result->value_index]);
  }
  og_shape_rule *rule = &s->decl->shapes[result->fresh_index];
  rule->begin = s->p.reader.token.begin;
  if (result->is_list) {
    OG_TRY(og_reader_expect(&s->p.reader, '{', "a list: {i < count: [...]}"));
    OG_TRY(parse_list_rule(s, rule));
  } else if (og_reader_take_word(&s->p.reader, "like")) {
    OG_TRY(parse_like(s, rule));
  } else if (og_reader_at(&s->p.reader, '[')) {
    rule->kind = OG_SHAPE_ITEMS;
    OG_TRY(parse_items(s, true, &rule->items, &rule->item_count));
  } else {
    return og_read_wanted(&s->p.reader,
                          "the dims of a result, [...] or 'like x'");
  }
  rule->end = s->p.reader.token.begin;
  return OG_OK;
}

static og_status parse_rules(shape_parser *s) {
  og_decl *decl = s->decl;
  bool first = true;
  if (og_reader_at(&s->p.reader, OG_MARK_ARROW) && decl->record->infer != NULL)
    return og_read_wanted(&s->p.reader,
                          "no results here, for the operator has an infer "
                          "callback; leave out one of them");
  if (decl->record->infer != NULL) return OG_OK;
  const int32_t count = decl->fresh_count + decl->value_count;
  if (!og_reader_take(&s->p.reader, OG_MARK_ARROW) && count > 0)
    return og_read_wanted(&s->p.reader, "'->' and the shapes of %d result%s",
                          (int)count, og_plural(count));
  for (int32_t i = 0; i < decl->result_count; ++i) {
    if (decl->results[i].alias_param >= 0) continue;
    if (!first)
      OG_TRY(og_reader_expect(&s->p.reader, ',',
                              "',' and a shape for each "
                              "fresh result"));
    OG_TRY(parse_rule(s, &decl->results[i]));
    first = false;
  }
  return og_reader_expect_end(&s->p.reader,
                              "the end: the schema has no more fresh "
                              "results");
}

// --- The whole ---------------------------------------------------------------

static og_status alloc_tables(og_decl *decl, opgraft_error *error) {
  og_arena *arena = &decl->arena;
  decl->dims = og_arena_array(arena, OPGRAFT_DIM_MAX, sizeof(og_dim));
  decl->shapes =
      og_arena_array(arena, (size_t)decl->fresh_count, sizeof(og_shape_rule));
  decl->values =
      og_arena_array(arena, (size_t)decl->value_count, sizeof(og_expr));
  decl->patterns =
      og_arena_array(arena, (size_t)decl->tensor_count, sizeof(og_pattern));
  if (decl->dims != NULL && decl->shapes != NULL && decl->values != NULL &&
      decl->patterns != NULL)
    return OG_OK;
  return og_error_set(error, OG_MEMORY, decl->name, "shape",
                      "%s: shape: out of memory while it was read", decl->name);
}

static og_status use_callback(og_decl *decl, opgraft_error *error) {
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    decl->shapes[i].kind = OG_SHAPE_CALLBACK;
    if (decl->results[decl->fresh_results[i]].is_list)
      return og_error_set(error, OG_INVALID, decl->name, "infer",
                          "%s: infer: an infer callback cannot size a list "
                          "result; write a shape rule",
                          decl->name);
  }
  if (decl->value_count == 0) return OG_OK;
  return og_error_set(error, OG_INVALID, decl->name, "infer",
                      "%s: infer: an infer callback cannot give an int result; "
                      "write a shape rule",
                      decl->name);
}

og_status og_parse_shape(og_decl *decl, opgraft_error *error) {
  OG_TRY(alloc_tables(decl, error));
  if (decl->record->infer != NULL) OG_TRY(use_callback(decl, error));
  if (decl->record->shape == NULL) {
    if (decl->fresh_count + decl->value_count == 0 ||
        decl->record->infer != NULL)
      return OG_OK;
    return og_error_set(error, OG_INVALID, decl->name, "shape",
                        "%s: shape: missing; the schema has %d fresh results, "
                        "so expected a rule, such as \"x[*N] -> [*N]\"",
                        decl->name,
                        (int)(decl->fresh_count + decl->value_count));
  }
  shape_parser s;
  memset(s.binds, 0, sizeof s.binds);
  memset(s.needs, 0, sizeof s.needs);
  s.decl = decl;
  s.kind_known = 0;
  s.always = 0;
  OG_TRY(og_parser_init(&s.p, decl, "shape", decl->record->shape, error));
  s.p.is_open = true;
  s.p.uses = s.uses;
  OG_TRY(parse_patterns(&s));
  s.p.is_open = false;
  OG_TRY(parse_rules(&s));
  OG_TRY(order_patterns(&s));
  for (int32_t i = 0; i < s.p.use_count; ++i) OG_TRY(check_use(&s, &s.uses[i]));
  return OG_OK;
}

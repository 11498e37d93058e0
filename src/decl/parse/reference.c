// SPDX-License-Identifier: Apache-2.0
// The reference string: one expression for each result, of the grammar of
// `row` and of reductions over dims: "sum(x * weight, I) + bias".
//
// Invariants: a reduction is a node of its own, behind those that it reads; a
// node's program loads tensors, nodes before it, and places along dims.

#include "decl/parse/parser.h"

#include <string.h>

#include "decl/parse/names.h"

// The expression that is being read.
typedef struct reading {
  og_parser *parser;
  og_reference_node *nodes;
  int32_t node_count;
  uint64_t free;  // dims that it depends on so far
} reading;

static const struct {
  const char *name;
  og_reduce reduce;
} reductions[] = {
    {"sum", OG_REDUCE_SUM},  {"mean", OG_REDUCE_MEAN}, {"prod", OG_REDUCE_PROD},
    {"amax", OG_REDUCE_MAX}, {"amin", OG_REDUCE_MIN},
};

// --- Names -------------------------------------------------------------------

// The dims of items that are names and nothing else.
static bool items_dims(const og_item *items, int32_t count, uint64_t *out) {
  *out = 0;
  for (int32_t i = 0; i < count; ++i) {
    const bool is_name = items[i].kind == OG_ITEM_PACK ||
                         (items[i].kind == OG_ITEM_DIM && items[i].attr < 0);
    if (!is_name) return false;
    *out |= (uint64_t)1 << items[i].dim;
  }
  return true;
}

static og_status tensor_find(reading *r, og_token name, const og_param *param,
                             og_scalar_instruction *out) {
  const og_pattern *pattern = og_pattern_of(r->parser->decl, param->index);
  uint64_t dims;
  if (pattern == NULL || pattern->is_list ||
      !items_dims(pattern->items, pattern->item_count, &dims))
    return og_read_error_token(
        &r->parser->reader, name,
        "%s has sizes that are not names of dims; expected an argument such as "
        "x[*N, D]",
        param->name);
  r->free |= dims;
  out->op = OG_SCALAR_load;
  out->slot = param->index;
  return OG_OK;
}

static og_status name_find(void *state, const og_reader *reader, og_token name,
                           og_scalar_instruction *out) {
  reading *r = state;
  const og_decl *decl = r->parser->decl;
  const int32_t i = og_find_param(r->parser, name);
  const int32_t d = og_find_dim(r->parser, name);
  if (i >= 0 && decl->params[i].type == OG_TYPE_TENSOR)
    return tensor_find(r, name, &decl->params[i], out);
  if (i >= 0) {
    if (!og_is_number_param(&decl->params[i]))
      return og_read_error_token(reader, name,
                                 "%s is not a number; expected a tensor, or an "
                                 "int, float, bool or Scalar that is not "
                                 "optional",
                                 decl->params[i].name);
    out->op = OG_SCALAR_number;
    out->slot = decl->params[i].index;
    return OG_OK;
  }
  if (d >= 0) {
    out->op = OG_SCALAR_number;
    out->slot = OG_REFERENCE_SIZES + d;
    return OG_OK;
  }
  if (og_scalar_constant(reader, name, &out->value)) return OG_OK;
  return og_parse_unknown(r->parser, name, "argument or dim",
                          OG_NAMES_PARAMS | OG_NAMES_DIMS);
}

// --- Reductions --------------------------------------------------------------

static og_status dim_read(reading *r, int32_t *out_dim) {
  og_reader *reader = &r->parser->reader;
  if (reader->token.kind != OG_TOKEN_NAME)
    return og_read_wanted(reader, "the name of a dim");
  *out_dim = og_find_dim(r->parser, reader->token);
  if (*out_dim < 0)
    return og_parse_unknown(r->parser, reader->token, "dim", OG_NAMES_DIMS);
  og_reader_advance(reader);
  return OG_OK;
}

// index(D): the place along D.
static og_status index_read(reading *r, og_scalar_instruction *out) {
  int32_t d;
  OG_TRY(dim_read(r, &d));
  if (r->parser->decl->dims[d].kind == OG_DIM_PACK)
    return og_read_wanted(&r->parser->reader, "a dim; %s is a pack of them",
                          r->parser->decl->dims[d].name);
  r->free |= (uint64_t)1 << d;
  out->op = OG_SCALAR_load;
  out->slot = OG_REFERENCE_PLACES + d;
  return og_reader_expect(&r->parser->reader, ')', "')'");
}

static og_status expression_read(reading *r, int32_t *out_node);

static og_status dims_read(reading *r, const og_reference_node *node,
                           uint64_t *out_over) {
  og_reader *reader = &r->parser->reader;
  *out_over = 0;
  OG_TRY(og_reader_expect(reader, ',', "',' and the dims to reduce over"));
  do {
    int32_t d;
    const og_token name = reader->token;
    OG_TRY(dim_read(r, &d));
    if (!(node->free >> d & 1))
      return og_read_error_token(reader, name,
                                 "what is reduced does not depend on %s",
                                 r->parser->decl->dims[d].name);
    *out_over |= (uint64_t)1 << d;
  } while (og_reader_take(reader, ','));
  return og_reader_expect(reader, ')', "',' or ')'");
}

static og_status reduction_read(reading *r, og_reduce reduce,
                                og_scalar_instruction *out) {
  const uint64_t outer = r->free;
  int32_t at;
  OG_TRY(expression_read(r, &at));
  og_reference_node *node = &r->nodes[at];
  node->reduce = reduce;
  OG_TRY(dims_read(r, node, &node->over));
  node->free &= ~node->over;
  r->free = outer | node->free;
  out->op = OG_SCALAR_load;
  out->slot = OG_REFERENCE_NODES + at;
  return OG_OK;
}

static og_status function_find(void *state, og_reader *reader, og_token name,
                               og_scalar_instruction *out, bool *out_is_known) {
  reading *r = state;
  *out_is_known = true;
  if (og_token_is(reader, name, "index")) {
    og_reader_advance(reader);
    return index_read(r, out);
  }
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; ++i)
    if (og_token_is(reader, name, reductions[i].name)) {
      og_reader_advance(reader);
      return reduction_read(r, reductions[i].reduce, out);
    }
  *out_is_known = false;
  return OG_OK;
}

// One expression, as a node that reduces nothing yet.
static og_status expression_read(reading *r, int32_t *out_node) {
  og_parser *p = r->parser;
  const og_scalar_names names = {name_find, r, function_find,
                                 "sum, mean, prod, amax, amin, index"};
  og_scalar_code found;
  r->free = 0;
  OG_TRY(og_scalar_parse(&p->reader, &names, OG_CLASSES_FLOAT, &found));
  if (r->node_count == OG_REFERENCE_NODE_MAX)
    return og_read_wanted(&p->reader, "at most %d reductions and results",
                          OG_REFERENCE_NODE_MAX);
  const size_t bytes = (size_t)found.count * sizeof *found.code;
  og_scalar_instruction *code = og_arena_alloc(&p->decl->arena, bytes);
  if (code == NULL) return og_read_memory(&p->reader);
  memcpy(code, found.code, bytes);
  *out_node = r->node_count++;
  r->nodes[*out_node] =
      (og_reference_node){.program = {code, found.count}, .free = r->free};
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static og_status check_operator(const og_parser *p) {
  const og_decl *decl = p->decl;
  if (decl->is_formula_derived)
    return og_refuse_operator(p, "the kernel is the formula itself",
                              "a kernel to compare with");
  if (decl->mutated_count > 0 || decl->has_lists || decl->fresh_count == 0)
    return og_refuse_operator(p, "the operator has mutated arguments or lists",
                              "plain tensors and fresh results");
  return OG_OK;
}

static int32_t count_bits(uint64_t bits) {
  int32_t count = 0;
  for (; bits != 0; bits &= bits - 1) ++count;
  return count;
}

// The result's dims must be names, and all that the expression depends on.
static og_status check_result(const og_parser *p, int32_t fresh,
                              const og_reference_node *node, og_token at) {
  const og_decl *decl = p->decl;
  const og_shape_rule *rule = &decl->shapes[fresh];
  const og_pattern *like = rule->kind == OG_SHAPE_LIKE
                               ? og_pattern_of(decl, rule->like_tensor)
                               : NULL;
  const og_item *items = like != NULL ? like->items : rule->items;
  const int32_t count = like != NULL ? like->item_count : rule->item_count;
  uint64_t dims = 0;
  if ((like == NULL && rule->kind != OG_SHAPE_ITEMS) ||
      !items_dims(items, count, &dims))
    return og_read_error_token(&p->reader, at,
                               "result %d has sizes that are not names of "
                               "dims; expected a result such as [*N, D]",
                               (int)fresh);
  if (count != count_bits(dims))
    return og_read_error_token(&p->reader, at,
                               "result %d names a dim twice; expected each of "
                               "its dims once",
                               (int)fresh);
  for (int32_t d = 0; d < decl->dim_count; ++d)
    if (node->free & ~dims & (uint64_t)1 << d)
      return og_read_error_token(&p->reader, at,
                                 "it depends on %s, which result %d does not "
                                 "have; reduce over it",
                                 decl->dims[d].name, (int)fresh);
  return OG_OK;
}

og_status og_parse_reference(og_decl *decl, opgraft_error *error) {
  og_parser p;
  if (decl->record->reference == NULL) return OG_OK;
  OG_TRY(og_parser_init(&p, decl, "reference", decl->record->reference, error));
  OG_TRY(check_operator(&p));
  reading r = {.parser = &p,
               .nodes = og_arena_array(&decl->arena, OG_REFERENCE_NODE_MAX,
                                       sizeof(og_reference_node))};
  og_reference *reference = og_arena_alloc(&decl->arena, sizeof *reference);
  int32_t *results =
      og_arena_array(&decl->arena, (size_t)decl->fresh_count, sizeof *results);
  if (r.nodes == NULL || reference == NULL || results == NULL)
    return og_read_memory(&p.reader);
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const og_token at = p.reader.token;
    if (i > 0)
      OG_TRY(og_reader_expect(&p.reader, ';', "';' and the next result"));
    OG_TRY(expression_read(&r, &results[i]));
    OG_TRY(check_result(&p, i, &r.nodes[results[i]], at));
  }
  OG_TRY(og_reader_expect_end(&p.reader, "an operator or the end"));
  *reference = (og_reference){
      .nodes = r.nodes, .node_count = r.node_count, .results = results};
  decl->reference = reference;
  return OG_OK;
}

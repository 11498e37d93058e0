// SPDX-License-Identifier: Apache-2.0
// The space of a formula: which dims it runs over, and how each operand lies
// in them.

#include <string.h>

#include "decl/formula.h"
#include "decl/parse/formula.h"
#include "decl/parse/names.h"
#include "decl/parse/reduce.h"

// --- Items -------------------------------------------------------------------

// A literal 1.
static bool is_one(const og_item *item) {
  return item->kind == OG_ITEM_EXPR && item->expr.count == 1 &&
         item->expr.code[0].op == OG_CODE_CONST_ &&
         item->expr.code[0].value == 1;
}

static bool is_dim(const og_item *item) {
  return item->kind == OG_ITEM_DIM && item->attr < 0;
}

static bool is_same(const og_decl *decl, const og_item *a, const og_item *b) {
  const char *text = decl->record->shape;
  if (a->kind != b->kind) return false;
  if (a->kind == OG_ITEM_PACK || is_dim(a))
    return a->dim == b->dim && a->attr < 0 && b->attr < 0;
  return a->kind == OG_ITEM_EXPR && a->end - a->begin == b->end - b->begin &&
         memcmp(text + a->begin, text + b->begin,
                (size_t)(a->end - a->begin)) == 0;
}

// --- Halves ------------------------------------------------------------------

static bool has_item(const og_decl *decl, const og_items *of,
                     const og_item *item) {
  for (int32_t k = 0; k + 1 < of->count; ++k)
    if (is_same(decl, &of->items[k], item)) return true;
  return false;
}

static const og_item *last_of(const og_items *of) {
  return of->count > 0 ? &of->items[of->count - 1] : NULL;
}

// The row's item where operands have two rows in their last dim: the last one
// of a result or argument that has not, and that is not another dim of these.
static const og_item *row_item_find(const og_decl *decl) {
  const struct og_formula *f = decl->formula;
  og_items wide = {NULL, 0};
  for (int32_t r = 0; r < f->result_count; ++r)
    if (f->wide_out >> r & 1) wide = og_output_items(decl, r);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (f->wide_in >> t & 1) wide = og_argument_items(decl, t);
  for (int32_t k = 0; k < f->result_count + decl->tensor_count; ++k) {
    const int32_t t = k - f->result_count;
    if ((t < 0 ? f->wide_out >> k : f->wide_in >> t) & 1) continue;
    const og_items own =
        t < 0 ? og_output_items(decl, k) : og_argument_items(decl, t);
    const og_item *last = last_of(&own);
    if (last != NULL && last->kind != OG_ITEM_PACK && !is_one(last) &&
        !has_item(decl, &wide, last))
      return last;
  }
  return last_of(&wide);
}

// The items with the row's in place of the last one.
static og_items halved(og_decl *decl, og_items own) {
  const og_item *row = row_item_find(decl);
  og_item *copy =
      og_arena_array(&decl->arena, (size_t)own.count + 1, sizeof *copy);
  if (copy == NULL || row == NULL || own.count == 0) return (og_items){NULL, 0};
  memcpy(copy, own.items, (size_t)own.count * sizeof *copy);
  copy[own.count - 1] = *row;
  return (og_items){copy, own.count};
}

// Of a table, whose first dim counts its rows.
static og_items row_of(const og_items *own) {
  const bool is_one_dim =
      own->count > 0 &&
      (own->items[0].kind == OG_ITEM_DIM || own->items[0].kind == OG_ITEM_EXPR);
  if (!is_one_dim) return (og_items){NULL, 0};
  return (og_items){own->items + 1, own->count - 1};
}

static og_items argument_space(og_decl *decl, int32_t t) {
  const og_items own = og_argument_items(decl, t);
  if (decl->formula->tables >> t & 1) return row_of(&own);
  return decl->formula->wide_in >> t & 1 ? halved(decl, own) : own;
}

static og_items result_space(og_decl *decl, int32_t r) {
  const og_items own = og_output_items(decl, r);
  if (decl->formula->added >> r & 1) return row_of(&own);
  return decl->formula->wide_out >> r & 1 ? halved(decl, own) : own;
}

// --- Places ------------------------------------------------------------------

// Whether an operand's items are some of the space's, in order.
static bool place_find(const og_decl *decl, const og_items *space,
                       const og_items *own, og_formula_place *out) {
  int32_t k = 0;
  *out = (og_formula_place){0};
  for (int32_t i = 0; i < own->count; ++i, ++k) {
    const og_item *item = &own->items[i];
    const bool is_repeated = is_one(item) && k < space->count &&
                             !is_same(decl, item, &space->items[k]);
    while (k < space->count && !is_repeated &&
           !is_same(decl, item, &space->items[k]))
      ++k;
    if (k == space->count ||
        (is_repeated && space->items[k].kind == OG_ITEM_PACK))
      return false;
    *(is_repeated ? &out->ones : &out->items) |= (uint64_t)1 << k;
  }
  return own->items != NULL;
}

// A result has all dims, or all but the row's; a sum over rows any.
static bool is_result(const struct og_formula *f, int32_t r,
                      int32_t item_count) {
  const og_formula_place *place = &f->out[r];
  const uint64_t all = ((uint64_t)1 << item_count) - 1;
  const uint64_t row = item_count > 0 ? (uint64_t)1 << (item_count - 1) : 0;
  return ((f->sums | f->added) >> r & 1) || place->items == all ||
         (place->items == (all & ~row) && !(place->ones & ~row));
}

static bool is_space(og_decl *decl, const og_items *space) {
  struct og_formula *f = decl->formula;
  int32_t packs = 0;
  if (space->items == NULL) return false;
  f->pack = -1;
  for (int32_t k = 0; k < space->count; ++k) {
    const og_item *item = &space->items[k];
    if (item->kind != OG_ITEM_PACK && item->kind != OG_ITEM_EXPR &&
        !is_dim(item))
      return false;
    if (item->kind == OG_ITEM_PACK) f->pack = k;
    packs += item->kind == OG_ITEM_PACK;
  }
  if (packs > 1 || space->count >= 63 ||
      (space->count == 0 && f->index_count > 0))
    return false;
  f->item_count = space->count;
  for (int32_t i = 0; i < f->input_count; ++i) {
    const int32_t t = f->inputs[i].index;
    const og_items own = argument_space(decl, t);
    if (f->inputs[i].is_tensor && !place_find(decl, space, &own, &f->in[t]))
      return false;
  }
  for (int32_t k = 0; k < f->index_count; ++k) {
    const int32_t t = f->indices[k];
    const og_items own = argument_space(decl, t);
    if (!place_find(decl, space, &own, &f->in[t]) ||
        (f->in[t].items >> (space->count - 1) & 1))
      return false;
  }
  for (int32_t r = 0; r < f->result_count; ++r) {
    const og_items own = result_space(decl, r);
    if (!place_find(decl, space, &own, &f->out[r]) ||
        !is_result(f, r, space->count))
      return false;
  }
  return true;
}

static bool space_find(og_decl *decl) {
  struct og_formula *f = decl->formula;
  const og_items first = result_space(decl, 0);
  f->space = -1;
  if (!((f->sums | f->added) & 1) && is_space(decl, &first)) return true;
  for (int32_t i = 0; i < f->input_count; ++i) {
    if (!f->inputs[i].is_tensor || f->inputs[i].row_by != 0 ||
        (f->optional >> i & 1))
      continue;
    f->space = f->inputs[i].index;
    const og_items own = argument_space(decl, f->space);
    if (is_space(decl, &own)) return true;
  }
  return false;
}

// --- Broadcasts --------------------------------------------------------------

static bool is_of_broadcast(const og_item *pack, const og_item *broadcast) {
  for (int32_t k = 0; k < broadcast->pack_count; ++k)
    if (pack->kind == OG_ITEM_PACK && pack->dim == broadcast->packs[k])
      return true;
  return false;
}

static bool ends_alike(const og_decl *decl, const og_items *a,
                       const og_items *b) {
  bool same = a->count == b->count;
  for (int32_t k = 1; same && k < a->count; ++k)
    same = is_dim(&a->items[k]) && is_same(decl, &a->items[k], &b->items[k]);
  return same;
}

static bool is_broadcast(const og_items *of) {
  return of->count > 0 && of->items[0].kind == OG_ITEM_BROADCAST;
}

// [*broadcast(A, B), D], or a part of it.
static bool is_in_broadcast(const og_decl *decl, const og_items *space,
                            const og_items *own, bool may_be_part) {
  return own->count > 0 && ends_alike(decl, space, own) &&
         (is_broadcast(own) ||
          (may_be_part && is_of_broadcast(&own->items[0], &space->items[0])));
}

// The first result, or an argument, that has the dims of all.
static og_items broadcast_space(const og_decl *decl, int32_t *out_tensor) {
  const struct og_formula *f = decl->formula;
  og_items space = og_output_items(decl, 0);
  *out_tensor = -1;
  for (int32_t i = 0; i < f->input_count && !is_broadcast(&space); ++i) {
    if (!f->inputs[i].is_tensor) continue;
    *out_tensor = f->inputs[i].index;
    space = og_argument_items(decl, *out_tensor);
  }
  return space;
}

// [*broadcast(A, B), D] of x[*A, D] and y[*B, D].
static bool broadcast_find(og_decl *decl) {
  struct og_formula *f = decl->formula;
  const og_items space = broadcast_space(decl, &f->space);
  if (!is_broadcast(&space) || (f->wide_in | f->wide_out) != 0 ||
      f->index_count > 0)
    return false;
  for (int32_t i = 0; i < f->input_count; ++i) {
    const og_items own = og_argument_items(decl, f->inputs[i].index);
    if (f->inputs[i].is_tensor && !is_in_broadcast(decl, &space, &own, true))
      return false;
  }
  const uint64_t all = ((uint64_t)1 << space.count) - 1;
  for (int32_t r = 0; r < f->result_count; ++r) {
    const og_items own = og_output_items(decl, r);
    if (!is_in_broadcast(decl, &space, &own, f->sums >> r & 1)) return false;
    f->out[r].items = all;
  }
  f->pack = 0;
  f->item_count = space.count;
  f->broadcasts = true;
  return true;
}

// --- One element a row -------------------------------------------------------

static bool has_row(const struct og_formula *f, const og_formula_place *place) {
  return f->broadcasts || f->item_count == 0 ||
         (place->items >> (f->item_count - 1) & 1) != 0;
}

static bool input_has_row(const struct og_formula *f,
                          const og_formula_input *input) {
  if (input->is_position) return input->index == OG_FORMULA_COLUMN;
  return input->is_tensor && has_row(f, &f->in[input->index]);
}

// Whether a statement's value has one element a row whatever the sizes are.
static bool is_row_value(const struct og_formula *f,
                         const og_formula_statement *statement,
                         const bool *is_row_name) {
  if (og_loop_reduces(statement->reduction)) return true;
  if (og_loop_is_running(statement->reduction)) return false;
  for (int32_t k = 0; k < statement->expression.count; ++k) {
    const og_scalar_instruction *code = &statement->expression.code[k];
    if (code->op != OG_SCALAR_load) continue;
    if (code->slot >= f->input_count ? !is_row_name[code->slot - f->input_count]
                                     : input_has_row(f, &f->inputs[code->slot]))
      return false;
  }
  return true;
}

// --- Parts -------------------------------------------------------------------

// Whether rows know their place along the item.
static bool is_counted(const struct og_formula *f, int32_t item) {
  for (int32_t i = 0; i < f->input_count; ++i)
    if (f->inputs[i].is_position &&
        (f->inputs[i].index == OG_FORMULA_COLUMN
             ? item == f->item_count - 1
             : item >= f->item_count - 2 || item == f->pack))
      return true;
  return false;
}

// How results join that lack the item: "", ": sum", or NULL where they do not.
static const char *join_of(const struct og_formula *f, int32_t item) {
  const char *join = "";
  for (int32_t r = 0; r < f->result_count; ++r) {
    if (f->out[r].items >> item & 1) continue;
    if (!((f->sums | f->added) >> r & 1)) return NULL;
    join = ": sum";
  }
  return join;
}

// Rows may be cut apart, and the row where nothing reduces it.
static og_status reduce_derive(og_parser *p) {
  og_decl *decl = p->decl;
  const struct og_formula *f = decl->formula;
  og_op *record = (og_op *)(uintptr_t)decl->record;  // our own copy
  const og_items space = f->space < 0 ? og_output_items(decl, 0)
                                      : og_argument_items(decl, f->space);
  og_text text = {0};
  if (record->reduce != NULL || f->broadcasts || !decl->is_formula_derived)
    return OG_OK;
  for (int32_t k = 0; k < space.count; ++k) {
    const char *join = join_of(f, k);
    const bool is_row = k == space.count - 1 && f->needs_rows;
    const bool is_plain =
        space.items[k].kind == OG_ITEM_PACK || is_dim(&space.items[k]);
    if (!is_plain || is_row || join == NULL || is_counted(f, k)) continue;
    og_text_addf(&text, "%s%s%s", text.length > 0 ? "; " : "",
                 decl->dims[space.items[k].dim].name, join);
  }
  if (text.length > 0)
    record->reduce = og_arena_strndup(&decl->arena, text.data, text.length);
  const bool failed =
      text.failed || (text.length > 0 && record->reduce == NULL);
  og_text_reset(&text);
  return failed ? og_read_memory(&p->reader) : OG_OK;
}

static og_status rows_check(const og_parser *p, bool ends_in_pack) {
  const struct og_formula *f = p->decl->formula;
  bool is_row_name[OG_LOOP_STATEMENTS_MAX];
  memset(is_row_name, true, sizeof is_row_name);
  for (int32_t s = 0; s < f->statement_count; ++s) {
    const og_formula_statement *statement = &f->statements[s];
    is_row_name[statement->name] &= is_row_value(f, statement, is_row_name);
    const int32_t r =
        statement->output < 0 ? -1 : f->outputs[statement->output].result;
    const bool is_free = (r < 0 || has_row(f, &f->out[r]) ||
                          (ends_in_pack && (f->sums >> r & 1))) &&
                         !statement->is_index;
    if (is_free || is_row_name[statement->name]) continue;
    return og_read_error(
        &p->reader, statement->token.begin, statement->token.end,
        "the value has one element for each element of a row, expected one "
        "for the row, as by row_sum");
  }
  return OG_OK;
}

og_status og_parse_formula_space(og_decl *decl, opgraft_error *error) {
  struct og_formula *f = decl->formula;
  og_parser p;
  if (f == NULL) return OG_OK;
  OG_TRY(og_parser_init(&p, decl, "row", decl->record->row, error));
  if (!broadcast_find(decl) && !space_find(decl))
    return og_error_at(
        error, OG_INVALID, decl->name, "shape", 0,
        (int32_t)strlen(decl->record->shape),
        "%s: shape: no tensor has all dims of a formula; expected a first "
        "result or an argument with at most one pack, in which each argument "
        "has some of the dims in their order, and each result all of them or "
        "all but the last, a sum_rows any",
        decl->name);
  const bool ends_in_pack = f->item_count > 0 && f->pack == f->item_count - 1;
  for (int32_t r = 0; r < f->result_count; ++r)
    f->needs_rows |=
        !has_row(f, &f->out[r]) && !((f->sums | f->added) >> r & 1);
  if (f->needs_rows && ends_in_pack)
    return og_error_at(error, OG_INVALID, decl->name, "shape", 0,
                       (int32_t)strlen(decl->record->shape),
                       "%s: shape: the row, the last dim, is one of a pack; "
                       "expected a dim of its own, as in x[*N, D]",
                       decl->name);
  OG_TRY(rows_check(&p, ends_in_pack));
  return reduce_derive(&p);
}

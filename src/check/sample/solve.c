// SPDX-License-Identifier: Apache-2.0
// Changes values of a random sample until its conditions hold.
//
// A local search: one condition that does not hold is chosen, and one of its
// names gets another value. Where a side of a comparison is a bare name, that
// name may get the other side's value, which also finds the edges. Source of
// the scheme: Selman, Kautz and Cohen, "Noise strategies for improving local
// search", 1994.

#include "check/sample/solve.h"

#include <math.h>
#include <string.h>

#include "check/sample/eval.h"
#include "check/sample/randomize.h"
#include "check/sample/sample.h"

enum { ROUNDS = 400, NAMES_MAX = 32 };

typedef enum name_kind { NAME_DIM, NAME_ATTR, NAME_LIST, NAME_COUNT } name_kind;

typedef struct name {
  name_kind kind;
  int32_t slot;
  double beside;  // of a float argument: what it is compared with
} name;

static bool holds(const og_sample *s, const og_expr *expr) {
  int64_t value;
  return og_sample_eval(s, expr, &value) && value != 0;
}

// Sizes of results must not be negative, nor fail.
static bool result_holds(const og_sample *s, const og_item *item) {
  int64_t value;
  if (item->kind != OG_ITEM_EXPR && item->kind != OG_ITEM_FOUND &&
      item->kind != OG_ITEM_INSERT)
    return true;
  return og_sample_eval(s, &item->expr, &value) && value >= 0;
}

// No value is in an empty range.
static bool range_holds(const og_sample *s, const og_value_range *range) {
  int64_t begin = 0, end;
  return !s->is_given[range->tensor] || range->is_offsets ||
         (og_sample_eval(s, &range->begin, &begin) &&
          og_sample_eval(s, &range->end, &end) && begin < end);
}

// The expressions that do not hold; at most `max`.
static int32_t broken(const og_sample *s, const og_expr **out, int32_t max) {
  const og_decl *decl = s->op->decl;
  int32_t count = 0;
  for (int32_t c = 0; c < decl->condition_count && count < max; ++c)
    if (!holds(s, &decl->conditions[c].expr))
      out[count++] = &decl->conditions[c].expr;
  for (int32_t r = 0; r < decl->range_count && count < max; ++r)
    if (!range_holds(s, &decl->ranges[r])) out[count++] = &decl->ranges[r].end;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    for (int32_t j = 0; j < decl->shapes[i].item_count && count < max; ++j)
      if (!result_holds(s, &decl->shapes[i].items[j]))
        out[count++] = &decl->shapes[i].items[j].expr;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    for (int32_t j = 0; j < decl->patterns[p].item_count && count < max; ++j)
      if (s->is_given[decl->patterns[p].tensor] &&
          !result_holds(s, &decl->patterns[p].items[j]))
        out[count++] = &decl->patterns[p].items[j].expr;
  return count;
}

static bool name_of(const og_instruction *in, name *out) {
  switch (in->op) {
    case OG_CODE_DIM_:
    case OG_CODE_PACK_RANK_:
    case OG_CODE_PACK_AT_:
    case OG_CODE_VARY_AT_:
      *out = (name){NAME_DIM, in->slot, 0};
      return true;
    case OG_CODE_ATTR_:
    case OG_CODE_GIVEN_ATTR_:
      *out = (name){NAME_ATTR, in->slot, 0};
      return true;
    case OG_CODE_FLOAT_SIGN_:
      *out = (name){NAME_ATTR, in->slot, 0};
      memcpy(&out->beside, &in->value, sizeof out->beside);
      return true;
    case OG_CODE_ATTR_AT_:
    case OG_CODE_ATTR_LEN_:
    case OG_CODE_ATTR_PROD_:
    case OG_CODE_ATTR_SUM_:
      *out = (name){NAME_LIST, in->slot, 0};
      return true;
    case OG_CODE_LIST_LEN_:
    case OG_CODE_GIVEN_TENSOR_:
      *out = (name){NAME_COUNT, in->slot, 0};
      return true;
    default:
      return false;
  }
}

static int32_t names_of(const og_expr *expr, name *out) {
  int32_t count = 0;
  for (int32_t i = 0; i < expr->count && count < NAMES_MAX; ++i)
    count += name_of(&expr->code[i], &out[count]);
  return count;
}

// --- Moves -------------------------------------------------------------------

// The list becomes the pack's dims, or as long as the pack.
static void list_from_pack(og_sample *s, int32_t k, const og_dims *pack,
                           og_random *r) {
  const bool takes_sizes = og_random_chance(r, 60);
  for (int32_t i = 0; takes_sizes && i < pack->rank; ++i)
    s->ints[k][i] = pack->size[i];
  for (int32_t i = 0; !takes_sizes && i < pack->rank; ++i)
    if (i >= s->attr[k].count) s->ints[k][i] = og_random_between(r, 0, 3);
  s->attr[k].count = pack->rank;
  if (!takes_sizes || pack->rank < 2 || og_random_chance(r, 60)) return;
  // The same elements in one dim fewer.
  s->ints[k][pack->rank - 2] *= s->ints[k][pack->rank - 1];
  --s->attr[k].count;
}

static void move_list(og_sample *s, int32_t k, og_profile profile,
                      og_random *r) {
  const og_decl *decl = s->op->decl;
  int64_t *ints = s->ints[k];
  const int64_t count = s->attr[k].count;
  if (s->attr[k].kind == OG_ATTR_NONE) return;
  const int64_t way = og_random_below(r, 4);
  if (way == 0 && decl->dim_count > 0) {
    const int64_t d = og_random_below(r, decl->dim_count);
    if (decl->dims[d].kind == OG_DIM_PACK) list_from_pack(s, k, &s->pack[d], r);
  } else if (way == 1) {
    s->attr[k].count = og_random_between(r, 0, 4);
    for (int64_t i = count; i < s->attr[k].count; ++i)
      ints[i] = og_random_between(r, 0, 3);
  } else if (count > 0) {
    const int64_t i = og_random_below(r, count);
    if (way == 2)
      ints[i] = og_random_chance(r, 50) ? og_sample_size(profile, r)
                                        : og_random_between(r, 0, 3);
    else
      ints[i] += og_random_chance(r, 50) ? 1 : -1;
  }
}

static void move_dim(og_sample *s, int32_t d, og_profile profile,
                     og_random *r) {
  const int64_t size = og_random_chance(r, 30)
                           ? s->dim[d] + og_random_between(r, -1, 1)
                           : og_sample_size(profile, r);
  if (size < 0) return;
  og_dims *pack = &s->pack[d];
  switch (s->op->decl->dims[d].kind) {
    case OG_DIM_PACK:
      if (og_random_chance(r, 50)) pack->rank = (int32_t)og_random_below(r, 5);
      for (int32_t i = 0; i < pack->rank; ++i)
        if (pack->size[i] == 0 || og_random_chance(r, 40))
          pack->size[i] = og_sample_size(profile, r);
      break;
    case OG_DIM_VARY:
      s->vary[d][og_random_below(r, OG_SAMPLE_LIST)] = size;
      break;
    default:
      s->dim[d] = size;
      break;
  }
}

static void move_attr(og_sample *s, int32_t k, double beside,
                      og_profile profile, og_random *r) {
  og_attr *a = &s->attr[k];
  // The number itself, and some beside it.
  if (a->kind == OG_ATTR_FLOAT)
    a->f = beside + (double)og_random_between(r, -1, 1) *
                        ldexp(1, (int)og_random_between(r, -10, 2));
  if (a->kind != OG_ATTR_INT && a->kind != OG_ATTR_BOOL) return;
  if (a->kind == OG_ATTR_BOOL)
    a->i = !a->i;
  else if (og_random_chance(r, 40))
    a->i += og_random_chance(r, 50) ? 1 : -1;
  else
    a->i = og_random_chance(r, 70) ? og_random_between(r, -2, 6)
                                   : og_sample_size(profile, r);
}

static void move_name(og_sample *s, name n, og_profile profile, og_random *r) {
  const og_decl *decl = s->op->decl;
  switch (n.kind) {
    case NAME_DIM:
      move_dim(s, n.slot, profile, r);
      break;
    case NAME_ATTR:
      move_attr(s, n.slot, n.beside, profile, r);
      break;
    case NAME_LIST:
      move_list(s, n.slot, profile, r);
      break;
    case NAME_COUNT: {
      const og_param *param = &decl->params[decl->tensor_params[n.slot]];
      if (param->is_list)
        s->list_count[n.slot] =
            (int32_t)og_random_between(r, 0, OG_SAMPLE_LIST);
      if (param->is_optional) s->is_given[n.slot] = og_random_chance(r, 50);
      break;
    }
  }
}

// --- Comparisons -------------------------------------------------------------

static int32_t operand_count(int32_t op) {
  switch (op) {
    case OG_CODE_ATTR_AT_:
    case OG_CODE_PACK_AT_:
    case OG_CODE_VARY_AT_:
    case OG_CODE_NEG_:
    case OG_CODE_NOT_:
      return 1;
    case OG_CODE_SELECT_:
      return 3;
    default:
      return op >= OG_CODE_ADD_ ? 2 : 0;
  }
}

// Where the expression that ends at `end` begins, both as positions in code.
static int32_t operand_begin(const og_expr *expr, int32_t end) {
  int32_t wanted = 1;
  for (int32_t i = end; i >= 0; --i) {
    wanted += operand_count(expr->code[i].op) - 1;
    if (wanted == 0) return i;
  }
  return 0;
}

static bool is_name(const og_expr *side) {
  return side->count == 1 && (side->code[0].op == OG_CODE_DIM_ ||
                              side->code[0].op == OG_CODE_ATTR_);
}

static void set_name(og_sample *s, const og_expr *side, int64_t value) {
  const int32_t slot = side->code[0].slot;
  if (value > 4096 || value < -4096) return;
  if (side->code[0].op == OG_CODE_ATTR_)
    s->attr[slot].i = value;
  else if (s->op->decl->dims[slot].kind == OG_DIM_SIZE && value >= 0)
    s->dim[slot] = value;
}

// By how much the left side is off the right one where the comparison only
// just holds.
static int64_t edge_of(int32_t op) {
  return op == OG_CODE_LT_ ? -1 : op == OG_CODE_GT_ ? 1 : 0;
}

// Gives a bare name in the comparison that ends at `at` the value that just
// makes it hold.
static void move_to_edge(og_sample *s, const og_expr *expr, int32_t at,
                         og_random *r) {
  const int32_t op = expr->code[at].op;
  if (op < OG_CODE_EQ_ || op > OG_CODE_GE_ || op == OG_CODE_NE_) return;
  const int32_t middle = operand_begin(expr, at - 1);
  const int32_t begin = operand_begin(expr, middle - 1);
  const og_expr left = {.code = &expr->code[begin], .count = middle - begin};
  const og_expr right = {.code = &expr->code[middle], .count = at - middle};
  const og_expr first = {.code = left.code, .count = 1};
  int64_t value;
  const bool prefers_left = og_random_chance(r, 50);
  if (is_name(&left) && (prefers_left || !is_name(&right))) {
    if (og_sample_eval(s, &right, &value))
      set_name(s, &left, value + edge_of(op));
  } else if (is_name(&right) && og_sample_eval(s, &left, &value)) {
    set_name(s, &right, value - edge_of(op));
  } else if (is_name(&first) && og_sample_eval(s, &first, &value)) {
    // D % g == 0, D * 2 <= K: the first name one step on.
    set_name(s, &first, value + 1);
  }
}

static void repair(og_sample *s, const og_expr *expr, og_profile profile,
                   og_random *r) {
  name names[NAMES_MAX];
  const int32_t count = names_of(expr, names);
  if (og_random_chance(r, 40))
    move_to_edge(s, expr, (int32_t)og_random_below(r, expr->count), r);
  else if (count > 0)
    move_name(s, names[og_random_below(r, count)], profile, r);
  og_sample_follow(s, r);
}

bool og_sample_solve(og_sample *sample, og_profile profile, og_random *random) {
  const og_decl *decl = sample->op->decl;
  const og_expr *wrong[NAMES_MAX];
  if (profile == OG_PROFILE_EDGE && decl->condition_count > 0) {
    const og_expr *expr =
        &decl->conditions[og_random_below(random, decl->condition_count)].expr;
    for (int32_t i = 0; i < expr->count; ++i)
      move_to_edge(sample, expr, i, random);
  }
  for (int32_t round = 0; round < ROUNDS; ++round) {
    const int32_t count = broken(sample, wrong, NAMES_MAX);
    if (count == 0) return true;
    const og_sample before = *sample;
    repair(sample, wrong[og_random_below(random, count)], profile, random);
    // A step that breaks more is taken only now and then.
    const og_expr *after[NAMES_MAX];
    if (broken(sample, after, NAMES_MAX) > count &&
        !og_random_chance(random, 15))
      *sample = before;
  }
  return broken(sample, wrong, NAMES_MAX) == 0;
}

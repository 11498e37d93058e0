// SPDX-License-Identifier: Apache-2.0
// Runs expressions on integers.
//
// Invariants: og_parse_expr bounded the stack and checked every slot. A value
// that could not be computed is marked in `poison`, a bit for each place of the
// stack, and spreads to what needs it.

#include "decl/infer/eval.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"

typedef struct machine {
  const og_scope *scope;
  int64_t index;
  const char *why;  // of the first poisoned value
  uint64_t poison;
  int32_t top;  // the stack's height
  int64_t stack[OG_EXPR_DEPTH_MAX];
} machine;

static const char too_large[] = "a value beyond 64 bits";
static const char by_zero[] = "a division by zero";
static const char out_of_range[] = "an index out of range";
static const char not_a_number[] = "an argument that is NaN";
static const char wrong_kind[] = "an argument of another kind than declared";

static void push(machine *m, int64_t value) { m->stack[m->top++] = value; }

// Marks the value on top.
static void poison(machine *m, const char *why) {
  m->poison |= (uint64_t)1 << (m->top - 1);
  if (m->why == NULL) m->why = why;
}

static void require(machine *m, bool is_done, const char *why) {
  if (OG_UNLIKELY(!is_done)) poison(m, why);
}

// --- Arguments ---------------------------------------------------------------

static const og_attr *int_list(const machine *m, int32_t slot) {
  const og_attr *attr = &m->scope->attr[slot];
  return attr->kind == OG_ATTR_INTS || attr->kind == OG_ATTR_BOOLS ? attr
                                                                   : NULL;
}

static void push_attr(machine *m, int32_t slot) {
  const og_attr *attr = &m->scope->attr[slot];
  const bool is_int = attr->kind == OG_ATTR_INT || attr->kind == OG_ATTR_BOOL;
  push(m, is_int ? attr->i : 0);
  require(m, is_int || attr->kind == OG_ATTR_NONE, wrong_kind);
}

// Of no number there is no sign; an absent argument counts 0.
static void push_float_sign(machine *m, const og_instruction *code) {
  const og_attr *attr = &m->scope->attr[code->slot];
  const double value = attr->kind == OG_ATTR_FLOAT ? attr->f : 0;
  double number;
  memcpy(&number, &code->value, sizeof number);
  push(m, (value > number) - (value < number));
  require(m, value == value, not_a_number);
}

static void push_attr_fold(machine *m, int32_t slot, bool is_product) {
  const og_attr *list = int_list(m, slot);
  int64_t value = is_product;
  bool fits = true;
  for (int64_t i = 0; list != NULL && i < list->count && fits; ++i)
    fits = is_product ? og_i64_mul(value, list->ints[i], &value)
                      : og_i64_add(value, list->ints[i], &value);
  push(m, value);
  require(m, fits, too_large);
  require(m, list != NULL || m->scope->attr[slot].kind == OG_ATTR_NONE,
          wrong_kind);
}

static const og_tensor *first_tensor(const og_scope *scope, int32_t t,
                                     bool is_list) {
  if (!is_list) return scope->in[t];
  return scope->in_list[t].count > 0 ? scope->in_list[t].tensors[0] : NULL;
}

// --- Indexing: the index is on top and its value replaces it -----------------

// The index from the start, or -1.
static int64_t place(int64_t index, int64_t count) {
  if (index < 0) index += count;
  return index >= 0 && index < count ? index : -1;
}

static void index_list(machine *m, const int64_t *values, int64_t count) {
  const int64_t at = place(m->stack[m->top - 1], count);
  m->stack[m->top - 1] = at >= 0 ? values[at] : 0;
  require(m, at >= 0, out_of_range);
}

static void index_attr(machine *m, int32_t slot) {
  const og_attr *list = int_list(m, slot);
  index_list(m, list != NULL ? list->ints : NULL,
             list != NULL ? list->count : 0);
}

static void index_pack(machine *m, int32_t slot) {
  const og_bound_dim *at = &m->scope->binding->at[slot];
  const bool is_bound = og_is_bound(m->scope->binding, slot);
  index_list(m, is_bound ? at->pack.dims : NULL, is_bound ? at->pack.rank : 0);
}

static void index_vary(machine *m, int32_t slot) {
  int64_t *value = &m->stack[m->top - 1];
  if (!og_is_bound(m->scope->binding, slot)) {
    *value = 0;
    poison(m, out_of_range);
    return;
  }
  const og_bound_dim *dim = &m->scope->binding->at[slot];
  const og_tensor_list *list = &m->scope->in_list[dim->vary.tensor];
  const int64_t at = place(*value, list->count);
  const og_tensor *entry = at >= 0 ? list->tensors[at] : NULL;
  *value = entry != NULL ? entry->shape[dim->vary.axis] : 0;
  require(m, entry != NULL, out_of_range);
}

// --- Arithmetic --------------------------------------------------------------

static bool compare(int32_t op, int64_t a, int64_t b) {
  switch (op) {
    case OG_CODE_EQ_:
      return a == b;
    case OG_CODE_NE_:
      return a != b;
    case OG_CODE_LT_:
      return a < b;
    case OG_CODE_LE_:
      return a <= b;
    case OG_CODE_GT_:
      return a > b;
    default:
      return a >= b;
  }
}

// Takes the top into the value below it; its poison goes along.
static void binary(machine *m, int32_t op) {
  const int64_t b = m->stack[--m->top];
  const int64_t a = m->stack[m->top - 1];
  int64_t *out = &m->stack[m->top - 1];
  if (OG_UNLIKELY(m->poison >> m->top & 1u))
    m->poison = (m->poison & ~((uint64_t)1 << m->top)) | (uint64_t)1
                                                             << (m->top - 1);
  switch (op) {
    case OG_CODE_ADD_:
      require(m, og_i64_add(a, b, out), too_large);
      break;
    case OG_CODE_SUB_:
      require(m, og_i64_sub(a, b, out), too_large);
      break;
    case OG_CODE_MUL_:
      require(m, og_i64_mul(a, b, out), too_large);
      break;
    case OG_CODE_FLOOR_DIV_:
      require(m, og_i64_floor_div(a, b, out), b == 0 ? by_zero : too_large);
      break;
    case OG_CODE_CEIL_DIV_:
      require(m, og_i64_ceil_div(a, b, out), b == 0 ? by_zero : too_large);
      break;
    case OG_CODE_MOD_:
      require(m, og_i64_floor_mod(a, b, out), by_zero);
      break;
    case OG_CODE_MIN_:
      *out = a < b ? a : b;
      break;
    case OG_CODE_MAX_:
      *out = a > b ? a : b;
      break;
    default:
      *out = compare(op, a, b);
  }
}

static bool is_poisoned(const machine *m, int32_t place_) {
  return m->poison >> place_ & 1u;
}

static void set_poison(machine *m, int32_t place_, bool is) {
  m->poison &= ~((uint64_t)1 << place_);
  m->poison |= (uint64_t)is << place_;
}

// The right side counts only where the left one leaves it open.
static void logical(machine *m, bool is_and) {
  const int32_t left = m->top - 2, right = m->top - 1;
  const bool a = m->stack[left] != 0, b = m->stack[right] != 0;
  const bool needs_right = a == is_and;
  const bool bad =
      is_poisoned(m, left) || (needs_right && is_poisoned(m, right));
  set_poison(m, right, false);
  set_poison(m, left, bad);
  m->stack[left] = needs_right ? b : a;
  --m->top;
}

static void select_one(machine *m) {
  const int32_t condition = m->top - 3;
  const int32_t chosen = m->stack[condition] != 0 ? m->top - 2 : m->top - 1;
  const bool bad = is_poisoned(m, condition) || is_poisoned(m, chosen);
  m->stack[condition] = m->stack[chosen];
  set_poison(m, m->top - 1, false);
  set_poison(m, m->top - 2, false);
  set_poison(m, condition, bad);
  m->top -= 2;
}

// --- The loop ----------------------------------------------------------------

static void push_argument(machine *m, int32_t op, int32_t slot) {
  const og_scope *scope = m->scope;
  switch (op) {
    case OG_CODE_ATTR_:
      push_attr(m, slot);
      break;
    case OG_CODE_ATTR_LEN_:
      push(m, scope->attr[slot].kind == OG_ATTR_NONE ? 0
                                                     : scope->attr[slot].count);
      break;
    case OG_CODE_ATTR_PROD_:
      push_attr_fold(m, slot, true);
      break;
    case OG_CODE_ATTR_SUM_:
      push_attr_fold(m, slot, false);
      break;
    case OG_CODE_LIST_LEN_:
      push(m, scope->in_list[slot].count);
      break;
    case OG_CODE_GIVEN_TENSOR_:
      push(m, scope->in[slot] != NULL);
      break;
    case OG_CODE_GIVEN_ATTR_:
      push(m, scope->attr[slot].kind != OG_ATTR_NONE);
      break;
    case OG_CODE_THREADS_:
      push(m, scope->threads);
      break;
    default:
      push(m, m->index);
  }
}

// itemsize(x): `value` says whether x is a list.
static void push_item_bytes(machine *m, const og_instruction *code) {
  const og_tensor *t = first_tensor(m->scope, code->slot, code->value != 0);
  push(m, t != NULL ? (int64_t)og_dtype_bytes(t->dtype) : 0);
}

static void step(machine *m, const og_instruction *code) {
  switch (code->op) {
    case OG_CODE_CONST_:
      push(m, code->value);
      break;
    case OG_CODE_DIM_:
      push(m, m->scope->dim[code->slot]);
      break;
    case OG_CODE_PACK_RANK_:
      push(m, og_pack_rank(m->scope->binding, code->slot));
      break;
    case OG_CODE_ATTR_AT_:
      index_attr(m, code->slot);
      break;
    case OG_CODE_PACK_AT_:
      index_pack(m, code->slot);
      break;
    case OG_CODE_VARY_AT_:
      index_vary(m, code->slot);
      break;
    case OG_CODE_ITEM_BYTES_:
      push_item_bytes(m, code);
      break;
    case OG_CODE_FLOAT_SIGN_:
      push_float_sign(m, code);
      break;
    case OG_CODE_NEG_:
      require(m, og_i64_sub(0, m->stack[m->top - 1], &m->stack[m->top - 1]),
              too_large);
      break;
    case OG_CODE_NOT_:
      m->stack[m->top - 1] = m->stack[m->top - 1] == 0;
      break;
    case OG_CODE_AND_:
    case OG_CODE_OR_:
      logical(m, code->op == OG_CODE_AND_);
      break;
    case OG_CODE_SELECT_:
      select_one(m);
      break;
    default:
      if (code->op >= OG_CODE_ADD_)
        binary(m, code->op);
      else
        push_argument(m, code->op, code->slot);
  }
}

bool og_eval(const og_expr *expr, const og_scope *scope, int64_t index,
             int64_t *out_value, const char **out_why) {
  machine m;
  m.scope = scope;
  m.index = index;
  m.why = NULL;
  m.poison = 0;
  m.top = 0;
  m.stack[0] = 0;
  for (int32_t i = 0; i < expr->count; ++i) step(&m, &expr->code[i]);
  *out_value = m.stack[0];
  *out_why = m.why;
  return (m.poison & 1u) == 0;
}

// --- Errors ------------------------------------------------------------------

// A name shows its value once.
static void add_text(char *buffer, size_t size, const char *text) {
  const size_t used = strlen(buffer);
  if (strstr(buffer, text) != NULL) return;
  snprintf(buffer + used, size - used, "%s%s", used > 0 ? ", " : "", text);
}

static void add_value(char *buffer, size_t size, const char *form,
                      const char *name, int64_t value) {
  char text[120];
  snprintf(text, sizeof text, form, name, (long long)value);
  add_text(buffer, size, text);
}

static void add_float(char *buffer, size_t size, const char *name,
                      const og_attr *attr) {
  char text[120];
  if (attr->kind != OG_ATTR_FLOAT) return;
  snprintf(text, sizeof text, "%s is %g", name, attr->f);
  add_text(buffer, size, text);
}

static void add_list(char *buffer, size_t size, const char *name,
                     const int64_t *values, int64_t count) {
  char dims[160], text[240];
  og_dims_text(values, count, dims, sizeof dims);
  snprintf(text, sizeof text, "%s is %s", name, dims);
  add_text(buffer, size, text);
}

static void add_instruction(const og_decl *decl, const og_instruction *code,
                            const og_scope *scope, char *buffer, size_t size) {
  const og_attr *attr = scope->attr;
  if (code->op >= OG_CODE_ATTR_ && code->op <= OG_CODE_ATTR_SUM_)
    attr += code->slot;
  switch (code->op) {
    case OG_CODE_DIM_: {
      const og_dim *dim = &decl->dims[code->slot];
      const char *const forms[] = {"%s is %lld", "prod(%s) is %lld",
                                   "sum(%s~) is %lld", "%s is %lld"};
      add_value(buffer, size, forms[dim->kind], dim->name,
                scope->dim[code->slot]);
      break;
    }
    case OG_CODE_PACK_RANK_:
      add_value(buffer, size, "rank(%s) is %lld", decl->dims[code->slot].name,
                og_pack_rank(scope->binding, code->slot));
      break;
    case OG_CODE_PACK_AT_:
      add_list(buffer, size, decl->dims[code->slot].name,
               scope->binding->at[code->slot].pack.dims,
               og_pack_rank(scope->binding, code->slot));
      break;
    case OG_CODE_ATTR_:
      if (attr->kind == OG_ATTR_INT || attr->kind == OG_ATTR_BOOL)
        add_value(buffer, size, "%s is %lld",
                  og_attr_param(decl, code->slot)->name, attr->i);
      break;
    case OG_CODE_FLOAT_SIGN_:
      add_float(buffer, size, og_attr_param(decl, code->slot)->name,
                &scope->attr[code->slot]);
      break;
    case OG_CODE_ATTR_AT_:
    case OG_CODE_ATTR_LEN_:
    case OG_CODE_ATTR_PROD_:
    case OG_CODE_ATTR_SUM_:
      if (attr->kind == OG_ATTR_INTS || attr->kind == OG_ATTR_BOOLS)
        add_list(buffer, size, og_attr_param(decl, code->slot)->name,
                 attr->ints, attr->count);
      break;
    case OG_CODE_LIST_LEN_:
      add_value(buffer, size, "len(%s) is %lld",
                og_tensor_param(decl, code->slot)->name,
                scope->in_list[code->slot].count);
      break;
    default:
      break;
  }
}

void og_expr_values(const og_decl *decl, const og_expr *expr,
                    const og_scope *scope, char *buffer, size_t size) {
  buffer[0] = '\0';
  for (int32_t i = 0; i < expr->count; ++i)
    add_instruction(decl, &expr->code[i], scope, buffer, size);
}

// The string that an expression stands in.
static const char *expr_field(const og_decl *decl, const og_expr *expr,
                              const char **out_text) {
  *out_text = decl->record->shape;
  if (expr == &decl->workspace) {
    *out_text = decl->record->workspace;
    return "workspace";
  }
  for (int32_t i = 0; i < decl->condition_count; ++i) {
    if (expr != &decl->conditions[i].expr) continue;
    *out_text = decl->record->where;
    return "where";
  }
  return "shape";
}

og_status og_eval_or_refuse(const og_decl *decl, const og_expr *expr,
                            const og_scope *scope, int64_t index,
                            int64_t *out_value, opgraft_error *error) {
  const char *why;
  if (OG_LIKELY(og_eval(expr, scope, index, out_value, &why))) return OG_OK;
  char values[300];
  const char *text;
  const char *field = expr_field(decl, expr, &text);
  og_expr_values(decl, expr, scope, values, sizeof values);
  return og_error_at(error, OG_SHAPE, decl->name, field, expr->begin, expr->end,
                     "%s: %s: %.*s has no value: %s%s%s%s", decl->name, field,
                     (int)(expr->end - expr->begin), text + expr->begin, why,
                     values[0] != '\0' ? " (" : "", values,
                     values[0] != '\0' ? ")" : "");
}

// SPDX-License-Identifier: Apache-2.0
// Expressions over a sample, before there are tensors to infer from.

#include "check/sample.h"

enum { STACK_MAX = 64 };

typedef struct machine {
  const og_sample *sample;
  int64_t stack[STACK_MAX];
  int32_t depth;
  bool has_failed;
} machine;

static void push(machine *m, int64_t value) {
  if (m->depth >= STACK_MAX) {
    m->has_failed = true;
    return;
  }
  m->stack[m->depth++] = value;
}

static int64_t pop(machine *m) {
  if (m->depth <= 0) {
    m->has_failed = true;
    return 0;
  }
  return m->stack[--m->depth];
}

static int64_t sizes_product(const int64_t *sizes, int64_t count, bool *ok) {
  int64_t product = 1;
  for (int64_t i = 0; i < count; ++i)
    *ok &= og_i64_mul(product, sizes[i], &product);
  return product;
}

static int64_t dim_value(machine *m, int32_t slot) {
  const og_sample *s = m->sample;
  bool ok = true;
  int64_t value = s->dim[slot];
  if (s->op->decl->dims[slot].kind == OG_DIM_PACK)
    value = sizes_product(s->pack[slot].size, s->pack[slot].rank, &ok);
  if (s->op->decl->dims[slot].kind == OG_DIM_VARY) {
    const og_decl *decl = s->op->decl;
    int32_t count = 0;
    for (int32_t t = 0; t < decl->tensor_count; ++t)
      if (decl->params[decl->tensor_params[t]].is_list &&
          s->list_count[t] > count)
        count = s->list_count[t];
    value = 0;
    for (int32_t i = 0; i < count; ++i) value += s->vary[slot][i];
  }
  if (!ok) m->has_failed = true;
  return value;
}

static int64_t pick(machine *m, const int64_t *values, int64_t count,
                    int64_t index) {
  if (index < 0) index += count;
  if (index < 0 || index >= count) {
    m->has_failed = true;
    return 0;
  }
  return values[index];
}

// Whether it was an instruction that loads a value.
static bool step_load(machine *m, const og_instruction *in) {
  const og_sample *s = m->sample;
  const int32_t slot = in->slot;
  bool ok = true;
  int64_t sum = 0;
  switch (in->op) {
    case OG_CODE_CONST_:
      push(m, in->value);
      break;
    case OG_CODE_DIM_:
      push(m, dim_value(m, slot));
      break;
    case OG_CODE_ATTR_:
      if (s->attr[slot].kind == OG_ATTR_NONE) m->has_failed = true;
      push(m, s->attr[slot].i);
      break;
    case OG_CODE_ATTR_AT_:
      push(m, pick(m, s->ints[slot], s->attr[slot].count, pop(m)));
      break;
    case OG_CODE_ATTR_LEN_:
      push(m, s->attr[slot].count);
      break;
    case OG_CODE_ATTR_PROD_:
      push(m, sizes_product(s->ints[slot], s->attr[slot].count, &ok));
      break;
    case OG_CODE_ATTR_SUM_:
      for (int64_t i = 0; i < s->attr[slot].count; ++i) sum += s->ints[slot][i];
      push(m, sum);
      break;
    case OG_CODE_LIST_LEN_:
      push(m, s->list_count[slot]);
      break;
    case OG_CODE_PACK_RANK_:
      push(m, s->pack[slot].rank);
      break;
    case OG_CODE_PACK_AT_:
      push(m, pick(m, s->pack[slot].size, s->pack[slot].rank, pop(m)));
      break;
    case OG_CODE_VARY_AT_:
      push(m, pick(m, s->vary[slot], OG_SAMPLE_LIST, pop(m)));
      break;
    case OG_CODE_GIVEN_TENSOR_:
      push(m, s->is_given[slot]);
      break;
    case OG_CODE_GIVEN_ATTR_:
      push(m, s->attr[slot].kind != OG_ATTR_NONE);
      break;
    case OG_CODE_INDEX_:
      push(m, 0);
      break;
    case OG_CODE_THREADS_:
      push(m, 1);
      break;
    case OG_CODE_ITEM_BYTES_:
      push(m, (int64_t)og_dtype_bytes(s->type[slot]));
      break;
    default:
      return false;
  }
  if (!ok) m->has_failed = true;
  return true;
}

static int64_t binary(machine *m, int32_t op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool ok = true;
  switch (op) {
    case OG_CODE_ADD_:
      ok = og_i64_add(a, b, &r);
      break;
    case OG_CODE_SUB_:
      ok = og_i64_sub(a, b, &r);
      break;
    case OG_CODE_MUL_:
      ok = og_i64_mul(a, b, &r);
      break;
    case OG_CODE_FLOOR_DIV_:
      ok = og_i64_floor_div(a, b, &r);
      break;
    case OG_CODE_CEIL_DIV_:
      ok = og_i64_ceil_div(a, b, &r);
      break;
    case OG_CODE_MOD_:
      ok = og_i64_floor_mod(a, b, &r);
      break;
    case OG_CODE_MIN_:
      r = a < b ? a : b;
      break;
    case OG_CODE_MAX_:
      r = a > b ? a : b;
      break;
    case OG_CODE_EQ_:
      r = a == b;
      break;
    case OG_CODE_NE_:
      r = a != b;
      break;
    case OG_CODE_LT_:
      r = a < b;
      break;
    case OG_CODE_LE_:
      r = a <= b;
      break;
    case OG_CODE_GT_:
      r = a > b;
      break;
    case OG_CODE_GE_:
      r = a >= b;
      break;
    case OG_CODE_AND_:
      r = a != 0 && b != 0;
      break;
    case OG_CODE_OR_:
      r = a != 0 || b != 0;
      break;
    default:
      ok = false;
      break;
  }
  if (!ok) m->has_failed = true;
  return r;
}

static void step(machine *m, const og_instruction *in) {
  if (step_load(m, in)) return;
  const int64_t b = pop(m);
  if (in->op == OG_CODE_NEG_) {
    if (b == INT64_MIN) m->has_failed = true;
    push(m, b == INT64_MIN ? 0 : -b);
    return;
  }
  if (in->op == OG_CODE_NOT_) {
    push(m, b == 0);
    return;
  }
  const int64_t a = pop(m);
  if (in->op == OG_CODE_SELECT_) {
    const int64_t condition = pop(m);
    push(m, condition != 0 ? a : b);
    return;
  }
  push(m, binary(m, in->op, a, b));
}

bool og_sample_eval(const og_sample *sample, const og_expr *expr,
                    int64_t *out_value) {
  machine m = {.sample = sample};
  for (int32_t i = 0; i < expr->count && !m.has_failed; ++i)
    step(&m, &expr->code[i]);
  *out_value = pop(&m);
  return !m.has_failed;
}

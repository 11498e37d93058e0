// SPDX-License-Identifier: Apache-2.0
// Values of formulas, each once, and the algebra that makes derivatives short.
//
// The rules keep what real numbers would give, but not the rounding, so they
// are for derived values alone. Minus signs and factors of a whole row move
// outward, where they meet and cancel: of softmax the derivative is
// y * (g - row_sum(g * y)).

#include "decl/formula_dag.h"

#include <math.h>
#include <string.h>

static bool is_op(const og_dag *d, int32_t node, int32_t op) {
  return node >= 0 && d->nodes[node].op == op;
}

bool og_dag_is_const(const og_dag *d, int32_t node, double value) {
  return is_op(d, node, OG_SCALAR_const) && d->nodes[node].value == value;
}

int32_t og_dag_arity(const og_dag_node *node) {
  if (node->op < OG_SCALAR_COUNT) return og_scalar_arity(node->op);
  return node->op == OG_DAG_CHOICE ? 2 : 1;
}

bool og_dag_is_row_place(const struct og_formula *f,
                         const og_formula_place *place) {
  return !f->broadcasts && f->item_count > 0 && f->pack != f->item_count - 1 &&
         !(place->items >> (f->item_count - 1) & 1);
}

// --- Each value once ---------------------------------------------------------

static uint32_t bucket_of(const og_dag_node *n) {
  uint64_t bits;
  memcpy(&bits, &n->value, sizeof bits);
  uint64_t h = bits ^ (uint64_t)n->op * 0x9E3779B97F4A7C15u;
  h = (h ^ (uint64_t)(uint32_t)n->slot) * 0x9E3779B97F4A7C15u;
  for (int32_t k = 0; k < 3; ++k)
    h = (h ^ (h >> 29) ^ (uint64_t)(uint32_t)n->in[k]) * 0xBF58476D1CE4E5B9u;
  return (uint32_t)(h >> 40) % OG_DAG_BUCKETS;
}

static bool is_same(const og_dag_node *a, const og_dag_node *b) {
  return a->op == b->op && a->slot == b->slot &&
         memcmp(a->in, b->in, sizeof a->in) == 0 &&
         memcmp(&a->value, &b->value, sizeof a->value) == 0;
}

static int32_t find(const og_dag *d, const og_dag_node *node) {
  int32_t n = d->buckets[bucket_of(node)];
  while (n >= 0 && !is_same(&d->nodes[n], node)) n = d->nodes[n].next;
  return n;
}

static int32_t intern(og_dag *d, og_dag_node node) {
  int32_t n = find(d, &node);
  if (n >= 0) return n;
  if (d->count == OG_DAG_NODES_MAX) {
    d->failed = true;
    return 0;
  }
  int32_t *bucket = &d->buckets[bucket_of(&node)];
  n = d->count++;
  node.next = *bucket;
  *bucket = n;
  d->nodes[n] = node;
  return n;
}

int32_t og_dag_const(og_dag *d, double value) {
  return intern(d, (og_dag_node){.op = OG_SCALAR_const,
                                 .is_row = true,
                                 .value = value,
                                 .in = {-1, -1, -1}});
}

int32_t og_dag_load(og_dag *d, int32_t slot, bool is_row, uint32_t needs) {
  return intern(d, (og_dag_node){.op = OG_SCALAR_load,
                                 .is_row = is_row,
                                 .needs = needs,
                                 .slot = slot,
                                 .in = {-1, -1, -1}});
}

// A type's precision needs its argument.
static int32_t number(og_dag *d, int32_t slot) {
  const int32_t input = slot - OG_FORMULA_TYPE;
  const bool is_type = input >= 0 && input < OG_LOOP_INPUTS_MAX;
  return intern(
      d, (og_dag_node){.op = OG_SCALAR_number,
                       .is_row = true,
                       .needs = is_type ? d->f->optional & 1u << input : 0,
                       .slot = slot,
                       .in = {-1, -1, -1}});
}

static og_dag_node operation(const og_dag *d, int32_t op, int32_t a, int32_t b,
                             int32_t c) {
  og_dag_node node = {.op = op, .is_row = true, .in = {a, b, c}};
  for (int32_t k = 0; k < 3; ++k) {
    if (node.in[k] < 0) continue;
    node.is_row &= d->nodes[node.in[k]].is_row;
    node.needs |= d->nodes[node.in[k]].needs;
  }
  return node;
}

// --- Algebra -----------------------------------------------------------------

static int32_t add(og_dag *d, int32_t op, int32_t a, int32_t b) {
  return og_dag_add(d, op, a, b, -1);
}

static int32_t negative(og_dag *d, int32_t a) {
  return og_dag_add(d, OG_SCALAR_neg, a, -1, -1);
}

static int32_t operand(const og_dag *d, int32_t node, int32_t k) {
  return d->nodes[node].in[k];
}

static int32_t neg_simple(og_dag *d, int32_t a) {
  if (is_op(d, a, OG_SCALAR_neg)) return operand(d, a, 0);
  if (is_op(d, a, OG_SCALAR_const)) return og_dag_const(d, -d->nodes[a].value);
  if (is_op(d, a, OG_SCALAR_sub))
    return add(d, OG_SCALAR_sub, operand(d, a, 1), operand(d, a, 0));
  return -1;
}

static bool is_masked(const og_dag *d, int32_t node) {
  return is_op(d, node, OG_SCALAR_select) &&
         og_dag_is_const(d, operand(d, node, 2), 0);
}

// select(c, a, 0) * b is select(c, a * b, 0): where c is not, b may be
// infinite.
static int32_t within_mask(og_dag *d, int32_t op, int32_t mask, int32_t b) {
  return og_dag_add(d, OG_SCALAR_select, operand(d, mask, 0),
                    add(d, op, operand(d, mask, 1), b), operand(d, mask, 2));
}

// a + b or a - b.
static int32_t sum_simple(og_dag *d, int32_t op, int32_t a, int32_t b) {
  const int32_t other = op == OG_SCALAR_add ? OG_SCALAR_sub : OG_SCALAR_add;
  if (og_dag_is_const(d, b, 0)) return a;
  if (og_dag_is_const(d, a, 0)) return op == OG_SCALAR_add ? b : negative(d, b);
  if (op == OG_SCALAR_sub && a == b) return og_dag_const(d, 0);
  if (is_op(d, b, OG_SCALAR_neg)) return add(d, other, a, operand(d, b, 0));
  if (is_op(d, a, OG_SCALAR_neg))
    return op == OG_SCALAR_add
               ? add(d, OG_SCALAR_sub, b, operand(d, a, 0))
               : negative(d, add(d, OG_SCALAR_add, operand(d, a, 0), b));
  if (is_masked(d, a) && is_masked(d, b) &&
      operand(d, a, 0) == operand(d, b, 0))
    return og_dag_add(d, OG_SCALAR_select, operand(d, a, 0),
                      add(d, op, operand(d, a, 1), operand(d, b, 1)),
                      operand(d, a, 2));
  // p / s + q / s
  if (is_op(d, a, OG_SCALAR_div) && is_op(d, b, OG_SCALAR_div) &&
      operand(d, a, 1) == operand(d, b, 1))
    return add(d, OG_SCALAR_div, add(d, op, operand(d, a, 0), operand(d, b, 0)),
               operand(d, a, 1));
  return -1;
}

static int32_t commutative(og_dag *d, int32_t op, int32_t a, int32_t b) {
  // The same value may stand there the other way round.
  const og_dag_node given = operation(d, op, a, b, -1);
  return b < a && find(d, &given) < 0 ? intern(d, operation(d, op, b, a, -1))
                                      : intern(d, given);
}

// (q / s) * e, where e / s is a value of the formula.
static int32_t quotient_swap(og_dag *d, int32_t quotient, int32_t e) {
  if (quotient < d->own_count || !is_op(d, quotient, OG_SCALAR_div)) return -1;
  const og_dag_node known =
      operation(d, OG_SCALAR_div, e, operand(d, quotient, 1), -1);
  const int32_t there = find(d, &known);
  if (there < 0 || there >= d->own_count) return -1;
  return commutative(d, OG_SCALAR_mul, operand(d, quotient, 0), there);
}

static int32_t product_simple(og_dag *d, int32_t a, int32_t b) {
  if (og_dag_is_const(d, a, 1)) return b;
  if (og_dag_is_const(d, b, 1)) return a;
  if (og_dag_is_const(d, a, -1)) return negative(d, b);
  if (og_dag_is_const(d, b, -1)) return negative(d, a);
  if (is_op(d, a, OG_SCALAR_neg))
    return negative(d, add(d, OG_SCALAR_mul, operand(d, a, 0), b));
  if (is_op(d, b, OG_SCALAR_neg))
    return negative(d, add(d, OG_SCALAR_mul, a, operand(d, b, 0)));
  if (is_masked(d, a)) return within_mask(d, OG_SCALAR_mul, a, b);
  if (is_masked(d, b)) return within_mask(d, OG_SCALAR_mul, b, a);
  const int32_t swapped = quotient_swap(d, a, b);
  return swapped >= 0 ? swapped : quotient_swap(d, b, a);
}

// A product without one of its factors; -1 where it has it not.
static int32_t without_factor(og_dag *d, int32_t product, int32_t factor) {
  for (int32_t k = 0; k < 2 && is_op(d, product, OG_SCALAR_mul); ++k) {
    const int32_t own = operand(d, product, k);
    const int32_t other = operand(d, product, 1 - k);
    if (own == factor) return other;
    const int32_t rest = without_factor(d, own, factor);
    if (rest >= 0) return add(d, OG_SCALAR_mul, rest, other);
  }
  return -1;
}

static int32_t quotient_simple(og_dag *d, int32_t a, int32_t b) {
  if (og_dag_is_const(d, b, 1)) return a;
  if (a == b) return og_dag_const(d, 1);
  if (is_op(d, a, OG_SCALAR_neg))
    return negative(d, add(d, OG_SCALAR_div, operand(d, a, 0), b));
  if (is_op(d, b, OG_SCALAR_neg))
    return negative(d, add(d, OG_SCALAR_div, a, operand(d, b, 0)));
  if (is_masked(d, a)) return within_mask(d, OG_SCALAR_div, a, b);
  return without_factor(d, a, b);
}

static int32_t select_simple(og_dag *d, int32_t c, int32_t a, int32_t b) {
  if (a == b) return a;
  if (og_dag_is_const(d, b, 0) && is_op(d, a, OG_SCALAR_neg))
    return negative(d, og_dag_add(d, OG_SCALAR_select, c, operand(d, a, 0), b));
  if (og_dag_is_const(d, a, 0) && is_op(d, b, OG_SCALAR_neg))
    return negative(d, og_dag_add(d, OG_SCALAR_select, c, a, operand(d, b, 0)));
  if (is_op(d, a, OG_SCALAR_select) && operand(d, a, 0) == c)
    return og_dag_add(d, OG_SCALAR_select, c, operand(d, a, 1), b);
  return -1;
}

// Of two constants.
static int32_t fold(og_dag *d, int32_t op, int32_t a, int32_t b) {
  if (!is_op(d, a, OG_SCALAR_const) || !is_op(d, b, OG_SCALAR_const)) return -1;
  const double x = d->nodes[a].value, y = d->nodes[b].value;
  return op == OG_SCALAR_add   ? og_dag_const(d, x + y)
         : op == OG_SCALAR_sub ? og_dag_const(d, x - y)
         : op == OG_SCALAR_mul ? og_dag_const(d, x * y)
                               : -1;
}

int32_t og_dag_add(og_dag *d, int32_t op, int32_t a, int32_t b, int32_t c) {
  if (d->failed) return 0;
  if (!d->simplifies) return intern(d, operation(d, op, a, b, c));
  int32_t simple = fold(d, op, a, b);
  if (simple >= 0) return simple;
  if (op == OG_SCALAR_neg)
    simple = neg_simple(d, a);
  else if (op == OG_SCALAR_add || op == OG_SCALAR_sub)
    simple = sum_simple(d, op, a, b);
  else if (op == OG_SCALAR_mul)
    simple = product_simple(d, a, b);
  else if (op == OG_SCALAR_div)
    simple = quotient_simple(d, a, b);
  else if (op == OG_SCALAR_select)
    simple = select_simple(d, a, b, c);
  if (simple >= 0) return simple;
  if (op == OG_SCALAR_add || op == OG_SCALAR_mul)
    return commutative(d, op, a, b);
  return intern(d, operation(d, op, a, b, c));
}

int32_t og_dag_reduce(og_dag *d, og_loop_reduction reduction, int32_t a) {
  og_dag_node node =
      operation(d, OG_DAG_REDUCE + (int32_t)reduction, a, -1, -1);
  node.is_row = og_loop_reduces(reduction);
  if (!d->simplifies || reduction != OG_LOOP_SUM) return intern(d, node);
  if (d->nodes[a].is_row)
    return add(d, OG_SCALAR_mul, a, number(d, OG_LOOP_WIDTH_SLOT));
  if (is_op(d, a, OG_SCALAR_neg))
    return negative(d, og_dag_reduce(d, reduction, operand(d, a, 0)));
  const bool is_product = is_op(d, a, OG_SCALAR_mul);
  if (!is_product && !is_op(d, a, OG_SCALAR_div)) return intern(d, node);
  for (int32_t k = is_product ? 0 : 1; k < 2; ++k) {
    const int32_t factor = operand(d, a, k), rest = operand(d, a, 1 - k);
    if (d->nodes[factor].is_row)
      return add(d, d->nodes[a].op, og_dag_reduce(d, reduction, rest), factor);
  }
  return intern(d, node);
}

int32_t og_dag_choice(og_dag *d, uint32_t given, int32_t a, int32_t b) {
  if (given == 0 || a == b) return a;
  og_dag_node node = operation(d, OG_DAG_CHOICE, a, b, -1);
  node.slot = (int32_t)given;
  node.needs = b >= 0 ? d->nodes[b].needs : d->nodes[a].needs | given;
  // Where b has a value all of them are given.
  return b >= 0 && (given & ~node.needs) == 0 ? a : intern(d, node);
}

// --- A formula's values ------------------------------------------------------

static int32_t leaf(og_dag *d, const og_scalar_instruction *code) {
  const struct og_formula *f = d->f;
  if (code->op == OG_SCALAR_const) return og_dag_const(d, code->value);
  if (code->op == OG_SCALAR_number) return number(d, code->slot);
  if (code->slot >= f->input_count)
    return d->current[code->slot - f->input_count];
  const og_formula_input *input = &f->inputs[code->slot];
  const bool is_row =
      input->is_position
          ? input->index == OG_FORMULA_ROW
          : !input->is_tensor || og_dag_is_row_place(f, &f->in[input->index]);
  return og_dag_load(d, code->slot, is_row, f->optional & 1u << code->slot);
}

static int32_t expression(og_dag *d, const og_scalar_program *program) {
  int32_t stack[OG_SCALAR_DEPTH_MAX + 1], depth = 0;
  for (int32_t k = 0; k < program->count; ++k) {
    const og_scalar_instruction *code = &program->code[k];
    const int32_t arity = og_scalar_arity(code->op);
    int32_t in[3] = {-1, -1, -1};
    depth -= arity;
    for (int32_t n = 0; n < arity; ++n) in[n] = stack[depth + n];
    stack[depth++] = arity == 0 ? leaf(d, code)
                                : og_dag_add(d, code->op, in[0], in[1], in[2]);
  }
  return stack[0];
}

static void statement_add(og_dag *d, const og_formula_statement *statement) {
  const int32_t o = statement->output;
  const int32_t r = o < 0 ? -1 : d->f->outputs[o].result;
  int32_t *current = &d->current[statement->name];
  // What is checked has no derivative.
  if (statement->is_index || (o >= 0 && r < 0)) return;
  if (r >= 0 && *current < 0) *current = d->outputs[o];
  int32_t value = expression(d, &statement->expression);
  if (statement->reduction != OG_LOOP_NO_REDUCTION)
    value = og_dag_reduce(d, statement->reduction, value);
  if (*current >= 0)
    value = og_dag_choice(d, statement->needs, value, *current);
  *current = value;
  if (r >= 0) d->outputs[o] = value;
}

bool og_dag_init(og_dag *d, const og_decl *decl) {
  memset(d, 0, sizeof *d);
  d->decl = decl;
  d->f = decl->formula;
  d->nodes = og_alloc_zeroed(OG_DAG_NODES_MAX, sizeof *d->nodes);
  memset(d->buckets, 0xFF, sizeof d->buckets);
  memset(d->current, 0xFF, sizeof d->current);
  memset(d->outputs, 0xFF, sizeof d->outputs);
  if (d->nodes == NULL) return false;
  og_dag_const(d, 0);
  for (int32_t s = 0; s < d->f->statement_count; ++s)
    statement_add(d, &d->f->statements[s]);
  d->own_count = d->count;
  d->simplifies = true;
  return true;
}

void og_dag_reset(og_dag *d) { og_free(d->nodes); }

// SPDX-License-Identifier: Apache-2.0
// Derivatives of formulas, as values (the texts are formula_differentiate.c's).
//
// Reverse mode goes through the formula's own values from its results to its
// arguments. A value that has one element for the row collects sums over the
// row. Values that depend on an optional argument are absent where it is: they
// carry what they need (formula_dag.h).

#include "decl/formula_grad.h"

#include <string.h>

#include "base/reader.h"
#include "decl/formula_deriver.h"
#include "decl/types.h"

// --- Rules -------------------------------------------------------------------

static const char *const rules[OG_SCALAR_COUNT][3] = {
#define OG_DERIVATIVE(id, a, b, c) [OG_SCALAR_##id] = {a, b, c},
#include "decl/formula_grad.def"
#undef OG_DERIVATIVE
};

// Computed from numbers alone.
static bool is_number(const og_dag *dag, int32_t node) {
  const og_dag_node *n = &dag->nodes[node];
  bool is = n->op < OG_SCALAR_COUNT &&
            (n->op != OG_SCALAR_load || (n->slot < dag->f->input_count &&
                                         !dag->f->inputs[n->slot].is_tensor &&
                                         !dag->f->inputs[n->slot].is_position));
  for (int32_t k = 0; k < og_dag_arity(n) && is; ++k)
    is = is_number(dag, n->in[k]);
  return is;
}

// min and max with a number are torch.relu and, from 2.14 on, torch.clamp: none
// of the gradient passes at the border.
static const char *clamp_rule(const og_dag *dag, const og_dag_node *node,
                              int32_t k) {
  if (!is_number(dag, node->in[1 - k])) return NULL;
  const bool is_max = node->op == OG_SCALAR_max;
  if (k == 0) return is_max ? "select(a > b, g, 0)" : "select(a < b, g, 0)";
  return is_max ? "select(b > a, g, 0)" : "select(b < a, g, 0)";
}

// The rule of operand k; NULL where the derivative is zero.
static const char *rule_of(const og_dag *dag, const og_dag_node *node,
                           int32_t k) {
  const char *rule = NULL;
  if (node->op >= OG_SCALAR_COUNT) return NULL;
  if (node->op == OG_SCALAR_min || node->op == OG_SCALAR_max)
    rule = clamp_rule(dag, node, k);
  if (rule == NULL) rule = rules[node->op][k];
  return rule == NULL || rule[0] == '\0' ? NULL : rule;
}

static og_status rule_name(void *state, const og_reader *reader, og_token name,
                           og_scalar_instruction *out) {
  static const char names[] = "abcyg";
  (void)state;
  const char *at = strchr(names, *og_token_text(reader, name));
  if (og_token_length(name) == 1 && at != NULL) {
    out->op = OG_SCALAR_load;
    out->slot = (int32_t)(at - names);
    return OG_OK;
  }
  return og_scalar_constant(reader, name, &out->value)
             ? OG_OK
             : og_read_wanted(reader, "a rule's name");
}

static int32_t rule_apply(og_dag *dag, const char *text, int32_t node,
                          int32_t g) {
  const og_scalar_names names = {.find = rule_name};
  const og_dag_node *n = &dag->nodes[node];
  const int32_t values[] = {n->in[0], n->in[1], n->in[2], node, g};
  int32_t stack[OG_SCALAR_DEPTH_MAX + 1], depth = 0;
  opgraft_error error;
  og_reader reader;
  og_scalar_code code;
  if (og_reader_init(&reader, NULL, "rule", text, &error) != OG_OK ||
      og_scalar_parse(&reader, &names, 0, &code) != OG_OK) {
    dag->failed = true;
    return 0;
  }
  for (int32_t k = 0; k < code.count; ++k) {
    const og_scalar_instruction *i = &code.code[k];
    const int32_t arity = og_scalar_arity(i->op);
    int32_t in[3] = {-1, -1, -1};
    depth -= arity;
    for (int32_t n_in = 0; n_in < arity; ++n_in) in[n_in] = stack[depth + n_in];
    stack[depth++] = i->op == OG_SCALAR_load ? values[i->slot]
                     : i->op == OG_SCALAR_const
                         ? og_dag_const(dag, i->value)
                         : og_dag_add(dag, i->op, in[0], in[1], in[2]);
  }
  return stack[0];
}

static int32_t binary(og_dag *dag, int32_t op, int32_t a, int32_t b) {
  return og_dag_add(dag, op, a, b, -1);
}

static og_loop_reduction reduction_of(const og_dag_node *node) {
  return node->op >= OG_DAG_REDUCE && node->op < OG_DAG_CHOICE
             ? (og_loop_reduction)(node->op - OG_DAG_REDUCE)
             : OG_LOOP_NO_REDUCTION;
}

// g where an element is the row's extreme, in equal shares; `sums` says whether
// the shares are added.
static int32_t shares(og_dag *dag, int32_t node, int32_t g, bool sums) {
  const int32_t a = dag->nodes[node].in[0];
  const int32_t is_it = binary(dag, OG_SCALAR_eq, a, node);
  const int32_t zero = og_dag_const(dag, 0);
  int32_t share = og_dag_add(dag, OG_SCALAR_select, is_it, g, zero);
  if (sums) share = og_dag_reduce(dag, OG_LOOP_SUM, share);
  const int32_t count = og_dag_reduce(dag, OG_LOOP_SUM, is_it);
  // As it stands: in a row whose extreme is a NaN, all of it are NaNs.
  dag->simplifies = false;
  share = binary(dag, OG_SCALAR_div, share, count);
  dag->simplifies = true;
  return share;
}

// --- What depends on what ----------------------------------------------------

static bool is_smooth_load(const og_deriver *d, const og_dag_node *node) {
  return node->op == OG_SCALAR_load && node->slot < d->dag.f->input_count &&
         (d->smooth_inputs >> node->slot & 1);
}

static void active_find(og_deriver *d) {
  for (int32_t n = 0; n < d->dag.own_count; ++n) {
    const og_dag_node *node = &d->dag.nodes[n];
    bool is_active = is_smooth_load(d, node);
    if (d->is_still[n]) continue;
    for (int32_t k = 0; k < og_dag_arity(node); ++k)
      is_active |=
          node->in[k] >= 0 && d->is_active[node->in[k]] &&
          (node->op >= OG_SCALAR_COUNT || rule_of(&d->dag, node, k) != NULL);
    d->is_active[n] = is_active;
  }
}

// --- Forward mode ------------------------------------------------------------

static int32_t sum_of(og_dag *dag, int32_t a, int32_t b) {
  return a < 0 ? b : b < 0 ? a : binary(dag, OG_SCALAR_add, a, b);
}

static int32_t tangent_of(og_deriver *d, int32_t n, const int32_t *tangent) {
  og_dag *dag = &d->dag;
  const og_dag_node node = dag->nodes[n];
  const og_loop_reduction reduction = reduction_of(&node);
  const int32_t arity = og_dag_arity(&node);
  int32_t sum = -1;
  bool any = false;
  for (int32_t k = 0; k < arity; ++k)
    any |= node.in[k] >= 0 && tangent[node.in[k]] >= 0;
  if (!any) return -1;
  if (node.op == OG_DAG_CHOICE) {
    const int32_t zero = og_dag_const(dag, 0);
    const int32_t a = tangent[node.in[0]];
    const int32_t b = node.in[1] < 0 ? -1 : tangent[node.in[1]];
    return og_dag_choice(dag, (uint32_t)node.slot, a < 0 ? zero : a,
                         node.in[1] < 0 ? -1
                         : b < 0        ? zero
                                        : b);
  }
  if (reduction == OG_LOOP_SUM || og_loop_is_running(reduction))
    return og_dag_reduce(dag, reduction, tangent[node.in[0]]);
  if (reduction != OG_LOOP_NO_REDUCTION)
    return shares(dag, n, tangent[node.in[0]], true);
  for (int32_t k = 0; k < arity; ++k) {
    const char *rule = rule_of(dag, &node, k);
    if (rule != NULL && tangent[node.in[k]] >= 0)
      sum = sum_of(dag, sum, rule_apply(dag, rule, n, tangent[node.in[k]]));
  }
  return sum;
}

// The tangents of all values, where some have theirs already. A zero is -1.
static void tangents_find(og_deriver *d, int32_t from, int32_t *tangent) {
  for (int32_t n = from; n < d->dag.own_count && !d->dag.failed; ++n) {
    if (tangent[n] < 0) tangent[n] = tangent_of(d, n, tangent);
    if (tangent[n] >= 0 && og_dag_is_const(&d->dag, tangent[n], 0))
      tangent[n] = -1;
  }
}

// A row's extreme on which no result depends is only there against overflow, as
// in softmax: it has no part in derivatives.
static void stabilizers_find(og_deriver *d) {
  for (int32_t n = 0; n < d->dag.own_count; ++n) {
    const og_loop_reduction reduction = reduction_of(&d->dag.nodes[n]);
    if (reduction != OG_LOOP_MAX && reduction != OG_LOOP_MIN) continue;
    for (int32_t k = 0; k < d->dag.own_count; ++k) d->bar[k] = -1;
    d->bar[n] = og_dag_const(&d->dag, 1);
    tangents_find(d, n + 1, d->bar);
    bool matters = d->dag.failed;
    for (int32_t o = 0; o < d->dag.f->output_count; ++o)
      matters |= d->dag.outputs[o] >= 0 && d->bar[d->dag.outputs[o]] >= 0;
    d->is_still[n] = !matters;
  }
  for (int32_t n = 0; n < d->dag.own_count; ++n) d->bar[n] = -1;
}

void og_deriver_tangents(og_deriver *d) {
  for (int32_t n = 0; n < d->dag.own_count; ++n) {
    const og_dag_node node = d->dag.nodes[n];
    if (is_smooth_load(d, &node))
      d->bar[n] = og_dag_load(&d->dag, d->dag.f->input_count + node.slot,
                              node.is_row, node.needs);
  }
  // Where nothing is active there is no tangent, either.
  for (int32_t n = 0; n < d->dag.own_count && !d->dag.failed; ++n) {
    if (d->bar[n] < 0 && d->is_active[n]) d->bar[n] = tangent_of(d, n, d->bar);
  }
  for (int32_t o = 0; o < d->dag.f->output_count; ++o) {
    if (d->dag.outputs[o] < 0) continue;  // a check
    const int32_t t = d->bar[d->dag.outputs[o]];
    d->values[o] = t < 0 ? og_dag_const(&d->dag, 0) : t;
  }
}

// --- Reverse mode ------------------------------------------------------------

// a + b, where each may be absent.
static int32_t present_sum(og_dag *dag, int32_t a, int32_t b) {
  const uint32_t needs_a = dag->nodes[a].needs, needs_b = dag->nodes[b].needs;
  if (needs_a == needs_b) return binary(dag, OG_SCALAR_add, a, b);
  if ((needs_b & ~needs_a) == 0)
    return og_dag_choice(dag, needs_a, binary(dag, OG_SCALAR_add, a, b), b);
  if ((needs_a & ~needs_b) == 0)
    return og_dag_choice(dag, needs_b, binary(dag, OG_SCALAR_add, a, b), a);
  const int32_t zero = og_dag_const(dag, 0);
  return binary(dag, OG_SCALAR_add, og_dag_choice(dag, needs_a, a, zero),
                og_dag_choice(dag, needs_b, b, zero));
}

static void collect(og_deriver *d, int32_t node, int32_t g) {
  og_dag *dag = &d->dag;
  if (node < 0 || dag->failed || !d->is_active[node]) return;
  if (dag->nodes[node].is_row && !dag->nodes[g].is_row)
    g = og_dag_reduce(dag, OG_LOOP_SUM, g);
  d->bar[node] = d->bar[node] < 0 ? g : present_sum(dag, d->bar[node], g);
}

static void node_reverse(og_deriver *d, int32_t n) {
  og_dag *dag = &d->dag;
  const og_dag_node node = dag->nodes[n];
  const og_loop_reduction reduction = reduction_of(&node);
  const int32_t g = d->bar[n];
  if (node.op == OG_DAG_CHOICE) {
    const uint32_t given = (uint32_t)node.slot;
    collect(d, node.in[0], og_dag_choice(dag, given, g, -1));
    collect(d, node.in[1], og_dag_choice(dag, given, og_dag_const(dag, 0), g));
  } else if (reduction == OG_LOOP_SUM) {
    const bool is_row = dag->nodes[node.in[0]].is_row;
    collect(d, node.in[0], is_row ? og_dag_reduce(dag, OG_LOOP_SUM, g) : g);
  } else if (og_loop_is_running(reduction)) {
    collect(d, node.in[0],
            og_dag_reduce(dag,
                          reduction == OG_LOOP_CUMSUM ? OG_LOOP_CUMSUM_REVERSED
                                                      : OG_LOOP_CUMSUM,
                          g));
  } else if (reduction != OG_LOOP_NO_REDUCTION) {
    collect(d, node.in[0],
            dag->nodes[node.in[0]].is_row ? g : shares(dag, n, g, false));
  }
  for (int32_t k = 0; node.op < OG_SCALAR_COUNT && k < og_dag_arity(&node);
       ++k) {
    const char *rule = rule_of(dag, &node, k);
    if (rule != NULL && d->is_active[node.in[k]])
      collect(d, node.in[k], rule_apply(dag, rule, n, g));
  }
}

void og_deriver_gradients(og_deriver *d) {
  og_dag *dag = &d->dag;
  const struct og_formula *f = dag->f;
  for (int32_t o = 0; o < f->output_count; ++o) {
    const int32_t r = f->outputs[o].result;
    if (r >= 0 && (d->smooth_outputs >> r & 1) && dag->outputs[o] >= 0)
      collect(d, dag->outputs[o],
              og_dag_load(dag, f->input_count + o,
                          og_dag_is_row_place(f, &f->out[r]), 0));
  }
  for (int32_t n = d->dag.own_count - 1; n >= 0 && !dag->failed; --n)
    if (d->bar[n] >= 0) node_reverse(d, n);
  for (int32_t n = 0; n < d->dag.own_count; ++n) {
    const og_dag_node *node = &dag->nodes[n];
    if (!is_smooth_load(d, node) || d->bar[n] < 0) continue;
    d->values[node->slot] = og_dag_choice(dag, dag->nodes[d->bar[n]].needs,
                                          d->bar[n], og_dag_const(dag, 0));
  }
}

// --- The whole ---------------------------------------------------------------

static bool is_floating(const og_decl *decl, int32_t tensor) {
  return (decl->types[tensor].set & og_types_floating) != 0;
}

static bool is_smooth_result(const og_decl *decl, int32_t fresh) {
  const og_out_type *type = &decl->out_types[fresh];
  if (type->kind == OG_OUT_TYPE_FIXED)
    return type->dtype.code == OG_CODE_FLOAT ||
           type->dtype.code == OG_CODE_BFLOAT;
  return type->kind != OG_OUT_TYPE_SAME || is_floating(decl, type->tensor);
}

bool og_deriver_init(og_deriver *d, const og_decl *decl) {
  const struct og_formula *f = decl->formula;
  memset(d, 0, sizeof *d);
  for (int32_t k = 0; k < OG_LOOP_INPUTS_MAX; ++k) d->values[k] = -1;
  if (!og_dag_init(&d->dag, decl)) return false;
  d->bar = og_alloc((size_t)d->dag.own_count * sizeof *d->bar);
  d->is_active = og_alloc_zeroed((size_t)d->dag.own_count, 1);
  d->is_still = og_alloc_zeroed((size_t)d->dag.own_count, 1);
  if (d->bar == NULL || d->is_active == NULL || d->is_still == NULL ||
      d->dag.failed)
    return false;
  for (int32_t i = 0; i < f->input_count; ++i)
    if (f->inputs[i].is_tensor && is_floating(decl, f->inputs[i].index))
      d->smooth_inputs |= 1u << i;
  for (int32_t r = 0; r < f->result_count; ++r)
    if (is_smooth_result(decl, r)) d->smooth_outputs |= 1u << r;
  stabilizers_find(d);
  active_find(d);
  return !d->dag.failed;
}

void og_deriver_reset(og_deriver *d) {
  og_dag_reset(&d->dag);
  og_free(d->bar);
  og_free(d->is_active);
  og_free(d->is_still);
}

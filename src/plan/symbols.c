// SPDX-License-Identifier: Apache-2.0
// The values of a graph's symbols, from its inputs.

#include <string.h>

#include "plan/plan.h"

// s + 3, s*2 and s // 2 tell s only in the first two forms.
static void bind_solved(const og_sizes *sizes, opgraft_size size, int64_t found,
                        int64_t *symbols, bool *is_bound) {
  const og_size_expr *expr = &sizes->exprs[size];
  int64_t number;
  for (;;) {
    if (expr->op == OG_SIZE_SYMBOL) {
      if (is_bound[expr->value]) return;
      symbols[expr->value] = found;
      is_bound[expr->value] = true;
      return;
    }
    const bool has_operator = expr->op == OG_SIZE_ADD ||
                              expr->op == OG_SIZE_SUB ||
                              expr->op == OG_SIZE_MUL;
    if (!has_operator || !og_size_get(sizes, expr->b, &number)) return;
    if (expr->op == OG_SIZE_MUL) {
      if (number <= 0 || found % number != 0) return;
      found /= number;
    } else if (!(expr->op == OG_SIZE_ADD ? og_i64_sub(found, number, &found)
                                         : og_i64_add(found, number, &found))) {
      return;
    }
    expr = &sizes->exprs[expr->a];
  }
}

typedef void (*dim_fn)(const og_sizes *sizes, opgraft_size size, int64_t found,
                       int64_t *symbols, bool *is_bound);

static void bind_plain(const og_sizes *sizes, opgraft_size size, int64_t found,
                       int64_t *symbols, bool *is_bound) {
  const og_size_expr *expr = &sizes->exprs[size];
  if (expr->op != OG_SIZE_SYMBOL || is_bound[expr->value]) return;
  symbols[expr->value] = found;
  is_bound[expr->value] = true;
}

static void bind_inputs(const opgraft_graph *graph, const og_tensor *const *in,
                        const int64_t *ints, int64_t *symbols, bool *is_bound,
                        dim_fn bind) {
  for (int32_t i = 0; i < graph->input_count; ++i) {
    const og_input *input = &graph->inputs[i];
    if (input->value < 0) {
      bind(&graph->sizes, input->size, ints[i], symbols, is_bound);
      continue;
    }
    const og_value *value = &graph->values[input->value];
    for (int32_t d = 0; d < value->ndim; ++d)
      bind(&graph->sizes, value->shape[d], in[i]->shape[d], symbols, is_bound);
    for (int32_t d = 0; in[i]->strides != NULL && d < value->ndim; ++d)
      if (in[i]->shape[d] > 1)
        bind(&graph->sizes, value->strides[d], in[i]->strides[d], symbols,
             is_bound);
  }
}

og_status og_symbols_bind(const opgraft_graph *graph,
                          const og_tensor *const *in, const int64_t *ints,
                          int64_t *out_symbols, opgraft_error *error) {
  const int32_t count = graph->sizes.symbol_count;
  if (count == 0) return OG_OK;
  bool *is_bound = og_alloc_zeroed((size_t)count, sizeof *is_bound);
  if (is_bound == NULL) return og_graph_no_memory(error);
  memset(out_symbols, 0, (size_t)count * sizeof *out_symbols);
  // Plain symbols first, then what has one symbol and numbers.
  bind_inputs(graph, in, ints, out_symbols, is_bound, bind_plain);
  bind_inputs(graph, in, ints, out_symbols, is_bound, bind_solved);
  og_status status = OG_OK;
  for (int32_t s = 0; s < count && status == OG_OK; ++s)
    if (!is_bound[s])
      status = og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                            "graph %s: no input has the size %s; its value "
                            "depends on data, which a plan cannot know",
                            graph->name, graph->sizes.symbols[s]);
  og_free(is_bound);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// The values of a graph's symbols, from its inputs or from names.

#include <opgraft/graph_file.h>
#include <stdio.h>
#include <string.h>

#include "plan/layout.h"
#include "plan/plan.h"

// --- What holds for every size -----------------------------------------------

static const char *name_of(const opgraft_graph *graph, int32_t index) {
  const char *name = graph->inputs[index].name;
  return name != NULL ? name : "unnamed";
}

og_status og_input_wrong(const opgraft_graph *graph, int32_t index,
                         og_status code, const char *what, int64_t found,
                         int64_t wanted, opgraft_error *error) {
  return og_error_set(error, code, NULL, graph->inputs[index].name,
                      "graph %s: input %d (%s): its %s is %lld here, expected "
                      "%lld",
                      graph->name, (int)index, name_of(graph, index), what,
                      (long long)found, (long long)wanted);
}

static og_status device_wrong(const opgraft_graph *graph, int32_t index,
                              og_device found, og_device wanted,
                              opgraft_error *error) {
  char here[OG_DEVICE_TEXT];
  return og_error_set(error, OG_DEVICE, NULL, graph->inputs[index].name,
                      "graph %s: input %d (%s) is on %s:%d, expected %s:%d",
                      graph->name, (int)index, name_of(graph, index),
                      og_device_text(found.type, here), (int)found.id,
                      og_device_name(wanted.type), (int)wanted.id);
}

static og_status dtype_wrong(const opgraft_graph *graph, int32_t index,
                             og_dtype found, og_dtype wanted,
                             opgraft_error *error) {
  return og_error_set(error, OG_DTYPE, NULL, graph->inputs[index].name,
                      "graph %s: input %d (%s) is %s, expected %s", graph->name,
                      (int)index, name_of(graph, index), og_dtype_name(found),
                      og_dtype_name(wanted));
}

og_status og_inputs_check(const opgraft_graph *graph,
                          const og_tensor *const *in, const int64_t *ints,
                          int32_t count, opgraft_error *error) {
  if (count != graph->input_count)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s: %d input%s here, expected %d", graph->name,
                        (int)count, og_plural(count), (int)graph->input_count);
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_value id = graph->inputs[i].value;
    if ((id < 0) != (in[i] == NULL) || (id < 0 && ints == NULL))
      return og_error_set(error, OG_INVALID, NULL, graph->inputs[i].name,
                          "graph %s: input %d (%s) is %s, expected %s",
                          graph->name, (int)i, name_of(graph, i),
                          in[i] ? "a tensor" : "none or an integer",
                          id < 0 ? "an integer" : "a tensor");
    if (id < 0) continue;
    const og_value *value = &graph->values[id];
    if (OG_UNLIKELY(!og_device_equal(in[i]->device, value->device)))
      return device_wrong(graph, i, in[i]->device, value->device, error);
    if (OG_UNLIKELY(!og_dtype_equal(in[i]->dtype, value->dtype)))
      return dtype_wrong(graph, i, in[i]->dtype, value->dtype, error);
    if (OG_UNLIKELY(in[i]->ndim != value->ndim))
      return og_input_wrong(graph, i, OG_SHAPE, "rank", in[i]->ndim,
                            value->ndim, error);
  }
  return OG_OK;
}

// --- Symbols -----------------------------------------------------------------

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

static og_status refuse_name(const opgraft_graph *graph, const char *name,
                             opgraft_error *error) {
  const og_sizes *sizes = &graph->sizes;
  char known[300] = "none";
  size_t used = 0;
  for (int32_t s = 0; s < sizes->symbol_count && used < sizeof known; ++s)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                             s > 0 ? ", " : "", sizes->symbols[s]);
  return og_error_set(error, OG_INVALID, NULL, name,
                      "graph %s has no size %s; known: %s", graph->name, name,
                      known);
}

static og_status name_bind(const opgraft_graph *graph, const char *name,
                           int64_t value, int64_t *symbols, bool *is_bound,
                           opgraft_error *error) {
  const og_sizes *sizes = &graph->sizes;
  int32_t s = 0;
  while (s < sizes->symbol_count && strcmp(name, sizes->symbols[s]) != 0) ++s;
  if (s == sizes->symbol_count) return refuse_name(graph, name, error);
  if (is_bound[s])
    return og_error_set(error, OG_INVALID, NULL, name,
                        "graph %s: the size %s is given twice", graph->name,
                        name);
  symbols[s] = value;
  is_bound[s] = true;
  return OG_OK;
}

og_status og_symbols_bind_named(const opgraft_graph *graph,
                                const char *const *names, const int64_t *values,
                                int32_t count, int64_t *out_symbols,
                                opgraft_error *error) {
  const og_sizes *sizes = &graph->sizes;
  bool *is_bound =
      og_alloc_zeroed((size_t)sizes->symbol_count + 1, sizeof *is_bound);
  if (is_bound == NULL) return og_graph_no_memory(error);
  og_status status = OG_OK;
  for (int32_t i = 0; i < count && status == OG_OK; ++i)
    status =
        name_bind(graph, names[i], values[i], out_symbols, is_bound, error);
  for (int32_t s = 0; s < sizes->symbol_count && status == OG_OK; ++s)
    if (!is_bound[s])
      status = og_error_set(error, OG_INVALID, NULL, sizes->symbols[s],
                            "graph %s: no value is given for the size %s; "
                            "expected one, as in %s=8",
                            graph->name, sizes->symbols[s], sizes->symbols[s]);
  og_free(is_bound);
  return status;
}

// Whoever makes an input of these strides needs memory that begins with it.
static og_status strides_give(const opgraft_graph *graph,
                              const og_tensor *const *in, const int64_t *sizes,
                              int64_t *const *out_strides,
                              opgraft_error *error) {
  for (int32_t i = 0; i < graph->input_count; ++i) {
    if (graph->inputs[i].value < 0) continue;
    const og_value *value = &graph->values[graph->inputs[i].value];
    for (int32_t d = 0; d < value->ndim; ++d)
      out_strides[i][d] = sizes[value->strides[d]];
    og_tensor tensor = *in[i];
    int64_t low, high;
    tensor.strides = out_strides[i];
    const bool fits = og_layout_extent(&tensor, 0, &low, &high);
    if (!fits || low < 0)
      return og_error_set(
          error, OG_SHAPE, NULL, graph->inputs[i].name,
          "graph %s: input %d (%s): its strides %s", graph->name, (int)i,
          graph->inputs[i].name ? graph->inputs[i].name : "unnamed",
          fits ? "go backwards, in front of its first element; "
                 "expected strides that are not negative"
               : "reach further than memory can");
  }
  return OG_OK;
}

og_status opgraft_graph_input_strides(const opgraft_graph *graph,
                                      const og_tensor *const *in,
                                      const int64_t *ints, int32_t count,
                                      int64_t *const *out_strides,
                                      opgraft_error *error) {
  OG_TRY(og_inputs_check(graph, in, ints, count, error));
  const size_t symbols = (size_t)graph->sizes.symbol_count;
  const size_t inputs = (size_t)count;
  int64_t *numbers =
      og_alloc_zeroed(symbols + (size_t)graph->sizes.count, sizeof *numbers);
  // Shapes alone: the strides that the tensors happen to have say nothing.
  og_tensor *shapes = og_alloc_zeroed(inputs + 1, sizeof *shapes);
  const og_tensor **pointers = og_alloc_zeroed(inputs + 1, sizeof *pointers);
  og_status status = OG_OK;
  if (numbers == NULL || shapes == NULL || pointers == NULL)
    status = og_graph_no_memory(error);
  for (size_t i = 0; status == OG_OK && i < inputs; ++i) {
    if (in[i] == NULL) continue;
    shapes[i] = *in[i];
    shapes[i].strides = NULL;
    pointers[i] = &shapes[i];
  }
  if (status == OG_OK)
    status = og_symbols_bind(graph, pointers, ints, numbers, error);
  if (status == OG_OK)
    status = og_sizes_eval(&graph->sizes, numbers, numbers + symbols, error);
  if (status == OG_OK)
    status = strides_give(graph, in, numbers + symbols, out_strides, error);
  og_free(numbers);
  og_free(shapes);
  og_free(pointers);
  return status;
}

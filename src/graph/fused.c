// SPDX-License-Identifier: Apache-2.0
// What a node `fused` means.

#include "graph/fused.h"

#include "graph/op.h"

static og_status wrong(opgraft_error *error, const char *whose, int32_t index,
                       const char *what) {
  return og_error_set(error, OG_INVALID, "fused", NULL, "%s %d %s", whose,
                      (int)index, what);
}

// --- The shape ---------------------------------------------------------------

// Widens the shape so that the value broadcasts to it; false if it cannot.
static bool shape_join(og_fused *f, const og_value *value) {
  const int32_t shift = f->ndim - value->ndim;
  for (int32_t d = 0; d < value->ndim; ++d) {
    opgraft_size *wanted = &f->shape[shift + d];
    if (*wanted == OG_SIZE_ONE)
      *wanted = value->shape[d];
    else if (value->shape[d] != OG_SIZE_ONE && value->shape[d] != *wanted)
      return false;
  }
  return true;
}

static og_status shape_find(const opgraft_graph *graph, const og_node *node,
                            og_fused *f, opgraft_error *error) {
  const og_value *values = graph->values;
  f->ndim = 0;
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0 || values[node->in[i]].kind == OG_VALUE_LITERAL)
      return wrong(error, "operand", i, "is not a tensor");
    if (values[node->in[i]].ndim > f->ndim) f->ndim = values[node->in[i]].ndim;
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) return wrong(error, "result", r, "is missing");
    if (values[node->out[r]].ndim > f->ndim)
      f->ndim = values[node->out[r]].ndim;
  }
  for (int32_t d = 0; d < f->ndim; ++d) f->shape[d] = OG_SIZE_ONE;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (!shape_join(f, &values[node->in[i]]))
      return wrong(error, "operand", i, "does not broadcast to the others");
  // A result of fewer dims leaves out the row's.
  for (int32_t r = 0; r < node->out_count; ++r)
    if (values[node->out[r]].ndim == f->ndim &&
        !shape_join(f, &values[node->out[r]]))
      return wrong(error, "result", r, "does not fit the operands");
  return OG_OK;
}

static bool is_whole(const og_fused *f, const og_value *value) {
  bool same = value->ndim == f->ndim;
  for (int32_t d = 0; same && d < f->ndim; ++d)
    same = value->shape[d] == f->shape[d];
  return same;
}

// [.., 1] or [..].
static bool is_row(const og_fused *f, const og_value *value) {
  bool same = f->ndim > 0 && value->ndim >= f->ndim - 1;
  for (int32_t d = 0; same && d + 1 < f->ndim; ++d)
    same = value->shape[d] == f->shape[d];
  return same &&
         (value->ndim < f->ndim || value->shape[f->ndim - 1] == OG_SIZE_ONE);
}

// --- The program -------------------------------------------------------------

static bool reads_width(const og_scalar_program *expression) {
  for (int32_t i = 0; i < expression->count; ++i)
    if (expression->code[i].op == OG_SCALAR_number) return true;
  return false;
}

static og_status results_check(const opgraft_graph *graph, const og_node *node,
                               og_fused *f, opgraft_error *error) {
  const bool is_narrow = f->ndim == 0 || f->shape[f->ndim - 1] == OG_SIZE_ONE;
  for (int32_t s = 0; s < f->program.statement_count; ++s) {
    const og_loop_statement *statement = &f->program.statements[s];
    const int32_t r = statement->output;
    f->needs_rows |= statement->reduction != OG_LOOP_NO_REDUCTION ||
                     reads_width(&statement->expression);
    if (r < 0) continue;
    const og_value *value = &graph->values[node->out[r]];
    f->is_row_result[r] = !is_whole(f, value);
    if (!f->is_row_result[r]) continue;
    f->needs_rows = true;
    if (!is_row(f, value))
      return wrong(error, "result", r, "has another shape than the rows");
    if (!statement->is_row && !is_narrow)
      return wrong(error, "result", r,
                   "has one element a row, its value has more");
  }
  return OG_OK;
}

og_status og_fused_read(const opgraft_graph *graph, const og_node *node,
                        og_arena *arena, og_fused *out, opgraft_error *error) {
  const opgraft_arg *text = og_node_attr(node, 0);
  const opgraft_arg *needs = og_node_attr(node, 1);
  if (text->kind != OPGRAFT_ARG_STR)
    return og_error_set(error, OG_INVALID, "fused", NULL,
                        "attribute program is missing");
  if (node->in_count > OG_LOOP_INPUTS_MAX ||
      node->out_count > OG_LOOP_OUTPUTS_MAX)
    return og_error_set(error, OG_INVALID, "fused", NULL,
                        "%d operand%s and %d result%s, expected at most "
                        "%d and %d",
                        (int)node->in_count, og_plural(node->in_count),
                        (int)node->out_count, og_plural(node->out_count),
                        OG_LOOP_INPUTS_MAX, OG_LOOP_OUTPUTS_MAX);
  OG_TRY(shape_find(graph, node, out, error));
  const bool is_narrow =
      out->ndim == 0 || out->shape[out->ndim - 1] == OG_SIZE_ONE;
  for (int32_t i = 0; i < node->in_count; ++i) {
    const og_value *value = &graph->values[node->in[i]];
    out->is_row_input[i] =
        !is_narrow &&
        (value->ndim == 0 || value->shape[value->ndim - 1] == OG_SIZE_ONE);
  }
  out->needs_rows = false;
  out->needs_elements = needs->kind != OPGRAFT_ARG_NONE && needs->i != 0;
  OG_TRY(og_loop_parse(text->s, out->is_row_input, node->in_count,
                       node->out_count, arena, &out->program, error));
  return results_check(graph, node, out, error);
}

og_status og_fused_check(const opgraft_graph *graph, const og_node *node,
                         bool *out_is_elementwise, opgraft_error *error) {
  og_arena memory = {0};
  og_fused meaning;
  const og_status status = og_fused_read(graph, node, &memory, &meaning, error);
  *out_is_elementwise = status == OG_OK && !meaning.needs_rows;
  og_arena_destroy(&memory);
  return status;
}

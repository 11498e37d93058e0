// SPDX-License-Identifier: Apache-2.0
// A graph as text (docs/ir.md) and as a picture for Graphviz.

#include "graph/print.h"

#include <inttypes.h>
#include <opgraft/graph_file.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/size_print.h"
#include "scalar/element.h"

typedef struct printer {
  const opgraft_graph *graph;
  og_text *out;
  int32_t *number;         // by value: what an unnamed one is called
  const int64_t *offsets;  // by value: where a constant is kept; may be NULL
} printer;

// Numbers in the order of definition, so that text read back prints the same.
int32_t *og_graph_numbers(const opgraft_graph *graph) {
  int32_t *number =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *number);
  if (number == NULL) return NULL;
  int32_t next = 0;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    const opgraft_value value = graph->inputs[i].value;
    if (value >= 0 && graph->values[value].name == NULL) number[value] = next++;
  }
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (graph->values[v].kind == OG_VALUE_CONSTANT &&
        graph->values[v].name == NULL)
      number[v] = next++;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0 && graph->values[node->out[r]].name == NULL)
        number[node->out[r]] = next++;
  }
  return number;
}

static void print_literal(const og_value *value, og_text *out) {
  if (value->dtype.code == OG_CODE_FLOAT)
    og_text_add_double(out, value->number.f);
  else if (value->dtype.code == OG_CODE_BOOL)
    og_text_add(out, value->number.i ? "true" : "false");
  else
    og_text_addf(out, "%" PRId64, value->number.i);
}

void og_graph_print_value(const opgraft_graph *graph, const int32_t *numbers,
                          opgraft_value id, og_text *out) {
  if (id < 0) {
    og_text_add(out, "none");
    return;
  }
  const og_value *value = &graph->values[id];
  if (value->kind == OG_VALUE_LITERAL)
    print_literal(value, out);
  else if (value->name != NULL)
    og_text_addf(out, "%%%s", value->name);
  else
    og_text_addf(out, "%%%d", (int)numbers[id]);
}

static void print_value(const printer *p, opgraft_value id) {
  og_graph_print_value(p->graph, p->number, id, p->out);
}

static void print_sizes(const og_sizes *sizes, const opgraft_size *list,
                        int32_t count, og_text *out) {
  for (int32_t i = 0; i < count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    og_size_print(sizes, list[i], out);
  }
}

// The strides are said only where they are not what the shape gives. Whether
// they are is asked of the text, which needs no new expressions.
static bool strides_are_plain(const opgraft_graph *graph,
                              const og_value *value) {
  return og_value_is_dense((opgraft_graph *)(uintptr_t)graph, value);
}

static void type_print(const opgraft_graph *graph, const og_value *value,
                       og_text *out) {
  og_text_addf(out, "%s[", og_dtype_name(value->dtype));
  print_sizes(&graph->sizes, value->shape, value->ndim, out);
  og_text_add(out, "]");
  if (!strides_are_plain(graph, value)) {
    og_text_add(out, "{");
    print_sizes(&graph->sizes, value->strides, value->ndim, out);
    og_text_add(out, "}");
  }
  if (value->offset != OG_SIZE_ZERO) {
    og_text_add(out, "+(");
    og_size_print(&graph->sizes, value->offset, out);
    og_text_add(out, ")");
  }
  if (!og_device_equal(value->device, og_cpu))
    og_text_addf(out, " on %s:%d", og_device_name(value->device.type),
                 (int)value->device.id);
}

static void print_quoted(const char *string, og_text *out) {
  og_text_add(out, "\"");
  for (const char *at = string; *at != '\0'; ++at) {
    const unsigned char c = (unsigned char)*at;
    if (c == '"' || c == '\\')
      og_text_addf(out, "\\%c", c);
    else if (c < 32)
      og_text_addf(out, "\\x%02x", c);
    else
      og_text_add_n(out, at, 1);
  }
  og_text_add(out, "\"");
}

static void print_arg(const printer *p, const og_node *node,
                      const opgraft_arg *arg) {
  og_text *out = p->out;
  if (arg->name != NULL) og_text_addf(out, "%s=", arg->name);
  switch (arg->kind) {
    case OPGRAFT_ARG_VALUE:
      print_value(p, node->in[arg->value]);
      break;
    case OPGRAFT_ARG_INT:
      og_text_addf(out, "%" PRId64, arg->i);
      break;
    case OPGRAFT_ARG_SIZE:
      og_size_print(&p->graph->sizes, arg->size, out);
      break;
    case OPGRAFT_ARG_FLOAT:
      og_text_add_double(out, arg->f);
      break;
    case OPGRAFT_ARG_BOOL:
      og_text_add(out, arg->i ? "true" : "false");
      break;
    case OPGRAFT_ARG_STR:
      print_quoted(arg->s, out);
      break;
    case OPGRAFT_ARG_OTHER:
      og_text_add(out, "other ");
      print_quoted(arg->s, out);
      break;
    case OPGRAFT_ARG_DTYPE:
      og_text_addf(out, "dtype %s", og_dtype_name(arg->dtype));
      break;
    case OPGRAFT_ARG_DEVICE:
      og_text_addf(out, "device %d:%d", (int)arg->device.type,
                   (int)arg->device.id);
      break;
    case OPGRAFT_ARG_LIST:
      og_text_add(out, "[");
      for (int32_t i = 0; i < arg->count; ++i) {
        if (i > 0) og_text_add(out, ", ");
        print_arg(p, node, &arg->list[i]);
      }
      og_text_add(out, "]");
      break;
    default:
      og_text_add(out, "none");
  }
}

static int32_t values_count(const opgraft_arg *args, int32_t count) {
  int32_t values = 0;
  for (int32_t i = 0; i < count; ++i)
    values += args[i].kind == OPGRAFT_ARG_LIST
                  ? values_count(args[i].list, args[i].count)
                  : args[i].kind == OPGRAFT_ARG_VALUE;
  return values;
}

static void print_foreign(const printer *p, const og_node *node) {
  const og_origin *origin = node->origin;
  og_text *out = p->out;
  og_text_add(out, "foreign ");
  print_quoted(origin->name, out);
  og_text_add(out, "(");
  for (int32_t i = 0; i < origin->arg_count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    print_arg(p, node, &origin->args[i]);
  }
  og_text_add(out, ")");
  // What parts of are written: operands that no argument names.
  const int32_t named = values_count(origin->args, origin->arg_count);
  for (int32_t i = named; i < node->in_count; ++i) {
    og_text_add(out, i == named ? " of " : ", ");
    print_value(p, node->in[i]);
  }
  og_text_addf(out, " {node %d", (int)origin->host_node);
  if (node->flags & OG_OP_RANDOM) og_text_add(out, ", random");
  if (node->flags & OG_OP_EFFECT) og_text_add(out, ", effect");
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] > 0)
      og_text_addf(out, ", update %d:%d", (int)r, (int)node->update[r] - 1);
  if (origin->reason != NULL) {
    og_text_add(out, ", why ");
    print_quoted(origin->reason, out);
  }
  og_text_add(out, "}");
}

static void print_operation(const printer *p, const og_node *node) {
  og_text *out = p->out;
  if (og_op_is(node, OG_OP_FOREIGN)) {
    print_foreign(p, node);
    return;
  }
  og_text_addf(out, "%s(", og_ops[node->op].name);
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    print_value(p, node->in[i]);
  }
  const char *separator = "; ", *name;
  size_t length;
  for (int32_t a = 0; node->attrs != NULL &&
                      (name = og_op_attr_name(node->op, a, &length)) != NULL;
       ++a) {
    if (node->attrs[a].kind == OPGRAFT_ARG_NONE) continue;
    og_text_addf(out, "%s%.*s=", separator, (int)length, name);
    print_arg(p, node, &node->attrs[a]);
    separator = ", ";
  }
  og_text_add(out, ")");
}

static void print_node(const printer *p, const og_node *node) {
  og_text *out = p->out;
  og_text_add(out, "  ");
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (r > 0) og_text_add(out, ", ");
    print_value(p, node->out[r]);
    if (node->out[r] < 0) continue;
    const og_value *value = &p->graph->values[node->out[r]];
    og_text_add(out, ": ");
    type_print(p->graph, value, out);
    if (value->root != node->out[r] && !og_op_is(node, OG_OP_VIEW)) {
      og_text_add(out, " in ");
      print_value(p, value->root);
    }
  }
  if (node->out_count > 0) og_text_add(out, " = ");
  print_operation(p, node);
  if (node->file != NULL)
    og_text_addf(out, " @ %s:%d", node->file, (int)node->line);
  og_text_add(out, "\n");
}

// Where a constant lies in the graph's file; false: it is the graph's own.
static bool constant_offset(const printer *p, opgraft_value id,
                            int64_t *out_offset) {
  const opgraft_graph *graph = p->graph;
  const char *at = graph->values[id].data;
  if (p->offsets != NULL) {
    *out_offset = p->offsets[id];
    return true;
  }
  const uintptr_t distance = (uintptr_t)at - (uintptr_t)graph->data;
  *out_offset = (int64_t)distance;
  return graph->data != NULL && distance <= graph->data_bytes;
}

static void print_constant(const printer *p, opgraft_value id) {
  const og_value *value = &p->graph->values[id];
  og_text_add(p->out, "  constant ");
  print_value(p, id);
  og_text_add(p->out, ": ");
  type_print(p->graph, value, p->out);
  int64_t offset;
  if (constant_offset(p, id, &offset)) {
    og_text_addf(p->out, " = data %" PRId64 "\n", offset);
    return;
  }
  og_text_add(p->out, " = [");
  const size_t element = og_dtype_bytes(value->dtype);
  const size_t count = element > 0 ? value->data_bytes / element : 0;
  for (size_t i = 0; i < count; ++i) {
    const char *at = (const char *)value->data + i * element;
    if (i > 0) og_text_add(p->out, ", ");
    if (og_dtype_class(value->dtype) == OG_CLASS_I64)
      og_text_addf(p->out, "%" PRId64, og_element_int(value->dtype, at));
    else
      og_text_add_double(p->out, og_element_double(value->dtype, at));
  }
  og_text_add(p->out, "]\n");
}

static void print_input(const printer *p, const og_input *input) {
  const opgraft_graph *graph = p->graph;
  if (input->value < 0) {
    og_text_addf(p->out, "size %s = ", input->name ? input->name : "_");
    og_size_print(&graph->sizes, input->size, p->out);
    return;
  }
  const og_value *value = &graph->values[input->value];
  print_value(p, input->value);
  og_text_add(p->out, ": ");
  type_print(graph, value, p->out);
  if (value->flags & OPGRAFT_INPUT_STATIC) og_text_add(p->out, " static");
  const char *precision = og_precision_name(value->flags);
  if (precision != NULL) og_text_addf(p->out, " %s", precision);
}

static void print_header(const printer *p) {
  og_text_addf(p->out, "graph %s(", p->graph->name);
  for (int32_t i = 0; i < p->graph->input_count; ++i) {
    if (i > 0) og_text_add(p->out, ", ");
    print_input(p, &p->graph->inputs[i]);
  }
  og_text_add(p->out, ") {\n");
}

static void print_return(const printer *p) {
  og_text_add(p->out, "  return");
  for (int32_t i = 0; i < p->graph->output_count; ++i) {
    const og_output *output = &p->graph->outputs[i];
    og_text_add(p->out, i > 0 ? ", " : " ");
    if (output->size >= 0) {
      og_text_add(p->out, "size ");
      og_size_print(&p->graph->sizes, output->size, p->out);
    } else {
      print_value(p, output->value);
    }
  }
  og_text_add(p->out, "\n}\n");
}

void og_graph_print(const opgraft_graph *graph, og_text *out) {
  og_graph_print_data(graph, NULL, out);
}

void og_graph_print_data(const opgraft_graph *graph, const int64_t *offsets,
                         og_text *out) {
  const printer p = {graph, out, og_graph_numbers(graph), offsets};
  if (p.number == NULL) {
    out->failed = true;
    return;
  }
  print_header(&p);
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (graph->values[v].kind == OG_VALUE_CONSTANT) print_constant(&p, v);
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (!graph->nodes[n].is_removed) print_node(&p, &graph->nodes[n]);
  print_return(&p);
  og_free(p.number);
}

size_t opgraft_graph_print(const opgraft_graph *graph, char *buffer,
                           size_t size) {
  og_text text = {0};
  og_graph_print(graph, &text);
  return og_text_give(&text, buffer, size);
}

size_t opgraft_graph_print_input(const opgraft_graph *graph, int32_t index,
                                 char *buffer, size_t size) {
  og_text text = {0};
  const printer p = {graph, &text, og_graph_numbers(graph), NULL};
  if (p.number == NULL) return 0;
  print_input(&p, &graph->inputs[index]);
  og_free(p.number);
  return og_text_give(&text, buffer, size);
}

// --- Graphviz ----------------------------------------------------------------

static void dot_edges(const printer *p, const og_node *node, int32_t n) {
  for (int32_t i = 0; i < node->in_count; ++i) {
    const opgraft_value id = node->in[i];
    if (id < 0 || p->graph->values[id].kind == OG_VALUE_LITERAL) continue;
    const og_value *value = &p->graph->values[id];
    if (value->node >= 0)
      og_text_addf(p->out, "  n%d -> n%d [label=\"", (int)value->node, (int)n);
    else
      og_text_addf(p->out, "  v%d -> n%d [label=\"", (int)id, (int)n);
    type_print(p->graph, value, p->out);
    og_text_add(p->out, "\"]\n");
  }
}

static void dot_body(const printer *p) {
  const opgraft_graph *graph = p->graph;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value_kind kind = graph->values[v].kind;
    if (kind != OG_VALUE_INPUT && kind != OG_VALUE_CONSTANT) continue;
    og_text_addf(p->out, "  v%d [shape=ellipse, label=\"", (int)v);
    print_value(p, v);
    og_text_add(p->out, "\"]\n");
  }
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    og_text_addf(p->out, "  n%d [label=", (int)n);
    print_quoted(og_op_is(node, OG_OP_FOREIGN) ? node->origin->name
                                               : og_ops[node->op].name,
                 p->out);
    og_text_add(p->out,
                og_op_is(node, OG_OP_VIEW) ? ", style=dashed]\n" : "]\n");
    dot_edges(p, node, n);
  }
  for (int32_t i = 0; i < graph->output_count; ++i) {
    const opgraft_value id = graph->outputs[i].value;
    if (id < 0 || graph->values[id].kind == OG_VALUE_LITERAL) continue;
    const bool is_result = graph->values[id].node >= 0;
    og_text_addf(p->out, "  o%d [shape=ellipse, label=\"output %d\"]\n", (int)i,
                 (int)i);
    og_text_addf(p->out, "  %c%d -> o%d\n", is_result ? 'n' : 'v',
                 (int)(is_result ? graph->values[id].node : id), (int)i);
  }
}

size_t opgraft_graph_print_dot(const opgraft_graph *graph, char *buffer,
                               size_t size) {
  og_text text = {0};
  const printer p = {graph, &text, og_graph_numbers(graph), NULL};
  if (p.number == NULL) return 0;
  og_text_addf(&text, "digraph \"%s\" {\n  node [shape=box]\n", graph->name);
  dot_body(&p);
  og_text_add(&text, "}\n");
  og_free(p.number);
  return og_text_give(&text, buffer, size);
}

// SPDX-License-Identifier: Apache-2.0
// Builds graphs: values, nodes, inputs, outputs.

#include "graph/graph.h"
#include "base/isa_check.h"
#include "graph/size_parse.h"

#include <string.h>

#include "base/sized.h"
#include "call/call.h"
#include "graph/op.h"
#include "scalar/element.h"

og_status og_graph_no_memory(opgraft_error *error) {
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "not enough memory for a graph");
}

og_status opgraft_graph_create(const char *name, opgraft_graph **out_graph,
                               opgraft_error *error) {
  *out_graph = NULL;
  OG_TRY(og_isa_check(error));
  opgraft_graph *graph = og_alloc_zeroed(1, sizeof *graph);
  if (graph == NULL) return og_graph_no_memory(error);
  graph->references = 1;
  og_status status = og_sizes_init(&graph->sizes, error);
  if (status == OG_OK) {
    graph->name = og_graph_string(graph, name != NULL ? name : "graph");
    if (graph->name == NULL) status = og_graph_no_memory(error);
  }
  if (status != OG_OK)
    opgraft_graph_release(graph);
  else
    *out_graph = graph;
  return status;
}

void opgraft_graph_retain(opgraft_graph *graph) {
  __atomic_fetch_add(&graph->references, 1, __ATOMIC_RELAXED);
}

void opgraft_graph_release(opgraft_graph *graph) {
  if (graph == NULL ||
      __atomic_sub_fetch(&graph->references, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  for (int32_t i = 0; i < graph->module_count; ++i)
    opgraft_module_release(graph->modules[i]);
  og_sizes_reset(&graph->sizes);
  og_free(graph->modules);
  og_free(graph->values);
  og_free(graph->nodes);
  og_free(graph->inputs);
  og_free(graph->outputs);
  og_arena_destroy(&graph->arena);
  og_file_unmap(&graph->file);
  og_free(graph);
}

og_status opgraft_graph_size(opgraft_graph *graph, int64_t value,
                             opgraft_size *out_size, opgraft_error *error) {
  return og_size_const(&graph->sizes, value, out_size, error);
}

og_status opgraft_graph_size_parse(opgraft_graph *graph, const char *text,
                                   opgraft_size *out_size,
                                   opgraft_error *error) {
  size_t used;
  const size_t length = strlen(text);
  OG_TRY(og_size_read(&graph->sizes, text, length, &used, out_size, error));
  if (used == length) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "size expression \"%s\": \"%s\" follows its end", text,
                      text + used);
}

const char *og_graph_string(opgraft_graph *graph, const char *text) {
  return og_arena_strndup(&graph->arena, text, strlen(text));
}

// --- Values ------------------------------------------------------------------

og_status og_graph_strides(opgraft_graph *graph, const opgraft_size *shape,
                           int32_t ndim, opgraft_size *out_strides,
                           opgraft_error *error) {
  opgraft_size stride = OG_SIZE_ONE;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    out_strides[i] = stride;
    // As PyTorch's: an empty or unit dim counts as 1.
    opgraft_size size = shape[i];
    if (size == OG_SIZE_ZERO) size = OG_SIZE_ONE;
    OG_TRY(
        og_size_make(&graph->sizes, OG_SIZE_MUL, stride, size, &stride, error));
  }
  return OG_OK;
}

// A count of elements is not a float.
static og_status size_check(const opgraft_graph *graph, opgraft_size size,
                            opgraft_error *error) {
  if (!og_size_is_float(&graph->sizes, size)) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "graph %s: a size is a float, expected an integer",
                      graph->name);
}

og_status og_graph_add_value(opgraft_graph *graph, og_value_kind kind,
                             og_dtype dtype, og_device device, int32_t ndim,
                             const opgraft_size *shape,
                             const opgraft_size *strides,
                             opgraft_value *out_value, opgraft_error *error) {
  if (ndim < 0 || ndim > OPGRAFT_RANK_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "a value has %d dims, at most %d are possible",
                        (int)ndim, (int)OPGRAFT_RANK_MAX);
  const size_t rank = (size_t)ndim;
  opgraft_size *dims = NULL;
  for (int32_t d = 0; d < ndim; ++d) {
    OG_TRY(size_check(graph, shape[d], error));
    if (strides != NULL) OG_TRY(size_check(graph, strides[d], error));
  }
  if (rank > 0) {
    dims = og_arena_array(&graph->arena, 2 * rank, sizeof *dims);
    if (dims == NULL) return og_graph_no_memory(error);
    memcpy(dims, shape, rank * sizeof *dims);
    if (strides != NULL)
      memcpy(dims + rank, strides, rank * sizeof *dims);
    else
      OG_TRY(og_graph_strides(graph, dims, ndim, dims + rank, error));
  }
  if (!og_array_reserve((void **)&graph->values, graph->value_count + 1,
                        &graph->value_capacity, sizeof *graph->values))
    return og_graph_no_memory(error);
  *out_value = graph->value_count++;
  graph->values[*out_value] = (og_value){.kind = kind,
                                         .dtype = dtype,
                                         .device = device,
                                         .ndim = ndim,
                                         .shape = dims,
                                         .strides = dims + rank,
                                         .root = *out_value,
                                         .node = -1};
  return OG_OK;
}

// Literals are few, so equal ones are found by walking their chain.
static og_status literal_add(opgraft_graph *graph, og_dtype dtype, int64_t bits,
                             opgraft_value *out_value, opgraft_error *error) {
  for (int32_t i = graph->literal_head - 1; i >= 0;
       i = graph->values[i].result - 1) {
    const og_value *value = &graph->values[i];
    if (value->number.i == bits && og_dtype_equal(value->dtype, dtype)) {
      *out_value = i;
      return OG_OK;
    }
  }
  OG_TRY(og_graph_add_value(graph, OG_VALUE_LITERAL, dtype, og_cpu, 0, NULL,
                            NULL, out_value, error));
  graph->values[*out_value].number.i = bits;
  graph->values[*out_value].result = graph->literal_head;
  graph->literal_head = *out_value + 1;
  return OG_OK;
}

og_status og_graph_literal_int(opgraft_graph *graph, int64_t number,
                               opgraft_value *out_value, opgraft_error *error) {
  return literal_add(graph, (og_dtype){OG_CODE_INT, 64, 1}, number, out_value,
                     error);
}

og_status og_graph_literal_bool(opgraft_graph *graph, bool number,
                                opgraft_value *out_value,
                                opgraft_error *error) {
  return literal_add(graph, (og_dtype){OG_CODE_BOOL, 8, 1}, number, out_value,
                     error);
}

og_status og_graph_literal_float(opgraft_graph *graph, double number,
                                 opgraft_value *out_value,
                                 opgraft_error *error) {
  int64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return literal_add(graph, (og_dtype){OG_CODE_FLOAT, 64, 1}, bits, out_value,
                     error);
}

og_status og_graph_literal_as(opgraft_graph *graph, opgraft_value literal,
                              og_dtype dtype, opgraft_value *out,
                              opgraft_error *error) {
  const og_value *value = &graph->values[literal];
  char element[8] = {0};
  if (value->dtype.code == OG_CODE_FLOAT)
    og_element_set_double(dtype, element, value->number.f);
  else
    og_element_set_int(dtype, element, value->number.i);
  if (og_dtype_class(dtype) != OG_CLASS_I64)
    return og_graph_literal_float(graph, og_element_double(dtype, element), out,
                                  error);
  if (dtype.code == OG_CODE_BOOL)
    return og_graph_literal_bool(graph, element[0] != 0, out, error);
  return og_graph_literal_int(graph, og_element_int(dtype, element), out,
                              error);
}

bool og_value_same_shape(const og_value *a, const og_value *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t i = 0; same && i < a->ndim; ++i)
    same = a->shape[i] == b->shape[i];
  return same;
}

bool og_value_same_place(const og_value *a, const og_value *b) {
  bool same = og_value_same_shape(a, b) && a->offset == b->offset &&
              og_dtype_equal(a->dtype, b->dtype) &&
              og_device_equal(a->device, b->device);
  for (int32_t i = 0; same && i < a->ndim; ++i)
    same = a->strides[i] == b->strides[i] || a->shape[i] == OG_SIZE_ONE;
  return same;
}

bool og_value_is_dense(opgraft_graph *graph, const og_value *value) {
  opgraft_size strides[OPGRAFT_RANK_MAX];
  if (og_graph_strides(graph, value->shape, value->ndim, strides, NULL) !=
      OG_OK)
    return false;
  for (int32_t i = 0; i < value->ndim; ++i)
    if (value->strides[i] != strides[i] && value->shape[i] != OG_SIZE_ONE)
      return false;
  return true;
}

// --- Inputs and outputs ------------------------------------------------------

static bool is_name(const char *name) {
  if (name == NULL) return false;
  const char first = name[0];
  if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') ||
        first == '_'))
    return false;
  return strspn(name,
                "abcdefghijklmnopqrstuvwxyz_0123456789"
                "ABCDEFGHIJKLMNOPQRSTUVWXYZ.") == strlen(name);
}

const og_precision og_precisions[OG_PRECISIONS] = {
    {OPGRAFT_OPTION_PRECISION_BF16, "bf16"},
#define WEIGHTS(flag, name) \
  {flag | OPGRAFT_OPTION_ACTIVATIONS_INT8, name "-dynamic"}, { flag, name }
    WEIGHTS(OPGRAFT_OPTION_PRECISION_INT8, "int8"),
    WEIGHTS(OPGRAFT_OPTION_PRECISION_INT4_64, "int4/64"),
    WEIGHTS(OPGRAFT_OPTION_PRECISION_INT4_32, "int4/32"),
    WEIGHTS(OPGRAFT_OPTION_PRECISION_INT4, "int4"),
#undef WEIGHTS
};

const og_precision *og_precision_find(uint32_t flags) {
  for (int i = 0; i < OG_PRECISIONS; ++i)
    if ((flags & og_precisions[i].flag) == og_precisions[i].flag)
      return &og_precisions[i];
  return NULL;
}

const char *og_precision_name(uint32_t flags) {
  const og_precision *found = og_precision_find(flags);
  return found != NULL ? found->name : NULL;
}

uint32_t og_precision_of(const opgraft_graph *graph, const og_node *node) {
  const uint32_t all = graph->option_flags & OG_PRECISION_FLAGS;
  if (!og_has_tiles(node)) return all;
  const opgraft_value weight =
      node->in[og_is_contraction(node) ? node->in_count - 1 : 1];
  const uint32_t own =
      graph->values[graph->values[weight].root].flags & OG_PRECISION_FLAGS;
  return own != 0 ? own : all;
}

// The host's name if text can hold it; NULL for none.
static og_status name_copy(opgraft_graph *graph, const char *name,
                           const char **out_name, opgraft_error *error) {
  *out_name = NULL;
  if (!is_name(name)) return OG_OK;
  *out_name = og_graph_string(graph, name);
  return *out_name != NULL ? OG_OK : og_graph_no_memory(error);
}

static og_status building(const opgraft_graph *graph, opgraft_error *error) {
  if (!graph->is_finished) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "graph %s is finished; nothing can be added to it",
                      graph->name);
}

og_status og_graph_hold(opgraft_graph *graph, opgraft_module *module,
                        opgraft_error *error) {
  OG_TRY(building(graph, error));
  for (int32_t i = 0; i < graph->module_count; ++i)
    if (graph->modules[i] == module) return OG_OK;
  if (!og_array_reserve((void **)&graph->modules, graph->module_count + 1,
                        &graph->module_capacity, sizeof *graph->modules))
    return og_graph_no_memory(error);
  opgraft_module_retain(module);
  graph->modules[graph->module_count++] = module;
  return OG_OK;
}

static og_status input_add(opgraft_graph *graph, const char *name,
                           opgraft_value value, opgraft_size size,
                           opgraft_error *error) {
  og_input input = {.value = value, .size = size};
  OG_TRY(name_copy(graph, name, &input.name, error));
  if (!og_array_reserve((void **)&graph->inputs, graph->input_count + 1,
                        &graph->input_capacity, sizeof *graph->inputs))
    return og_graph_no_memory(error);
  graph->inputs[graph->input_count++] = input;
  return OG_OK;
}

og_status og_value_info_copy(const opgraft_value_info *from,
                             opgraft_value_info *out, opgraft_error *error) {
  static const char name[] = "opgraft_value_info";
  OG_TRY(og_copy_sized(name, from, out, sizeof *out, error));
  OG_TRY(og_flags_check(name, out->flags,
                        OPGRAFT_INPUT_STATIC | OG_PRECISION_FLAGS, error));
  if (out->device.type == 0) out->device = og_cpu;
  if (og_device_name(out->device.type) == NULL)
    return og_error_set(error, OG_DEVICE, NULL, name,
                        "opgraft_value_info.device has type %d, expected "
                        "OG_CPU, OG_CUDA, OG_ROCM or OG_EXT_DEV",
                        (int)out->device.type);
  if (out->ndim <= 0 || out->shape != NULL) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, name,
                      "opgraft_value_info.shape is NULL, expected %d size%s",
                      (int)out->ndim, og_plural(out->ndim));
}

og_status opgraft_graph_add_input(opgraft_graph *graph, const char *name,
                                  const opgraft_value_info *info,
                                  opgraft_value *out_value,
                                  opgraft_error *error) {
  opgraft_value_info own;
  OG_TRY(building(graph, error));
  OG_TRY(og_value_info_copy(info, &own, error));
  OG_TRY(og_graph_add_value(graph, OG_VALUE_INPUT, own.dtype, own.device,
                            own.ndim, own.shape, own.strides, out_value,
                            error));
  og_value *value = &graph->values[*out_value];
  value->flags = own.flags;
  value->host_offset = own.offset;
  value->result = graph->input_count;
  OG_TRY(input_add(graph, name, *out_value, -1, error));
  value->name = graph->inputs[graph->input_count - 1].name;
  return OG_OK;
}

og_status opgraft_graph_add_size_input(opgraft_graph *graph, const char *name,
                                       opgraft_size size,
                                       opgraft_error *error) {
  OG_TRY(building(graph, error));
  OG_TRY(size_check(graph, size, error));
  return input_add(graph, name, -1, size, error);
}

og_status opgraft_graph_add_constant(opgraft_graph *graph, const char *name,
                                     const og_tensor *data,
                                     opgraft_value *out_value,
                                     opgraft_error *error) {
  OG_TRY(building(graph, error));
  opgraft_size shape[OPGRAFT_RANK_MAX];
  if (data->ndim < 0 || data->ndim > OPGRAFT_RANK_MAX)
    return og_error_set(error, OG_INVALID, NULL, name,
                        "a constant has %d dims, at most %d are possible",
                        (int)data->ndim, (int)OPGRAFT_RANK_MAX);
  if (data->device.type != OG_CPU)
    return og_error_set(error, OG_DEVICE, NULL, name,
                        "a constant is on device %d, expected the CPU: its "
                        "bytes are copied",
                        (int)data->device.type);
  size_t bytes = og_dtype_bytes(data->dtype);
  for (int32_t i = 0; i < data->ndim; ++i) {
    OG_TRY(og_size_const(&graph->sizes, data->shape[i], &shape[i], error));
    if (!og_size_mul(bytes, (size_t)data->shape[i], &bytes))
      return og_graph_no_memory(error);
  }
  OG_TRY(og_graph_add_value(graph, OG_VALUE_CONSTANT, data->dtype, og_cpu,
                            data->ndim, shape, NULL, out_value, error));
  og_value *value = &graph->values[*out_value];
  OG_TRY(name_copy(graph, name, &value->name, error));
  // Room to align: kernels of any instruction set read constants.
  char *copy = og_arena_alloc(&graph->arena, bytes + 64);
  if (copy == NULL) return og_graph_no_memory(error);
  copy += 64 - (uintptr_t)copy % 64;
  int64_t strides[OPGRAFT_RANK_MAX];
  og_tensor to = *data;
  to.data = copy;
  to.byte_offset = 0;
  to.strides = strides;
  og_row_major(data->shape, data->ndim, strides);
  og_tensor_copy(&to, data);
  value->data = copy;
  value->data_bytes = bytes;
  return OG_OK;
}

static og_status output_add(opgraft_graph *graph, og_output output,
                            opgraft_error *error) {
  OG_TRY(building(graph, error));
  if (!og_array_reserve((void **)&graph->outputs, graph->output_count + 1,
                        &graph->output_capacity, sizeof *graph->outputs))
    return og_graph_no_memory(error);
  graph->outputs[graph->output_count++] = output;
  return OG_OK;
}

og_status opgraft_graph_add_output(opgraft_graph *graph, opgraft_value value,
                                   opgraft_error *error) {
  if (value < -1 || value >= graph->value_count)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "output %d: the graph has no value %d",
                        (int)graph->output_count, (int)value);
  return output_add(graph, (og_output){.value = value, .size = -1}, error);
}

og_status opgraft_graph_add_size_output(opgraft_graph *graph, opgraft_size size,
                                        opgraft_error *error) {
  OG_TRY(size_check(graph, size, error));
  return output_add(graph, (og_output){.value = -1, .size = size}, error);
}

og_status opgraft_graph_name_output(opgraft_graph *graph, int32_t index,
                                    const char *name, opgraft_error *error) {
  OG_TRY(building(graph, error));
  if (index < 0 || index >= graph->output_count)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s has %d output%s; there is no output %d",
                        graph->name, (int)graph->output_count,
                        og_plural(graph->output_count), (int)index);
  const opgraft_value value = graph->outputs[index].value;
  if (value < 0 || graph->values[value].name != NULL) return OG_OK;
  return name_copy(graph, name, &graph->values[value].name, error);
}

// --- Nodes -------------------------------------------------------------------

static og_status args_copy(opgraft_graph *graph, const opgraft_arg *args,
                           int32_t count, const opgraft_arg **out_args,
                           opgraft_error *error);

static og_status arg_copy(opgraft_graph *graph, const opgraft_arg *from,
                          opgraft_arg *to, opgraft_error *error) {
  *to = *from;
  if (from->name != NULL) {
    to->name = og_graph_string(graph, from->name);
    if (to->name == NULL) return og_graph_no_memory(error);
  }
  if (from->kind == OPGRAFT_ARG_STR || from->kind == OPGRAFT_ARG_OTHER) {
    to->s = og_graph_string(graph, from->s);
    if (to->s == NULL) return og_graph_no_memory(error);
  }
  if (from->kind == OPGRAFT_ARG_LIST)
    return args_copy(graph, from->list, from->count, &to->list, error);
  return OG_OK;
}

// Copies an argument tree into the graph's arena.
static og_status args_copy(opgraft_graph *graph, const opgraft_arg *args,
                           int32_t count, const opgraft_arg **out_args,
                           opgraft_error *error) {
  *out_args = NULL;
  if (count == 0) return OG_OK;
  opgraft_arg *copy =
      og_arena_array(&graph->arena, (size_t)count, sizeof *copy);
  if (copy == NULL) return og_graph_no_memory(error);
  for (int32_t i = 0; i < count; ++i)
    OG_TRY(arg_copy(graph, &args[i], &copy[i], error));
  *out_args = copy;
  return OG_OK;
}

og_status og_graph_append(opgraft_graph *graph, int32_t op,
                          const opgraft_value *in, int32_t in_count,
                          const opgraft_value *out, int32_t out_count,
                          const opgraft_arg *attrs, int32_t *out_node,
                          opgraft_error *error) {
  if (!og_array_reserve((void **)&graph->nodes, graph->node_count + 1,
                        &graph->node_capacity, sizeof *graph->nodes))
    return og_graph_no_memory(error);
  og_node node = {.op = op, .in_count = in_count, .out_count = out_count};
  const size_t ids = (size_t)(in_count + out_count);
  node.in = og_arena_array(&graph->arena, ids + 1, sizeof *node.in);
  if (node.in == NULL) return og_graph_no_memory(error);
  node.out = node.in + in_count;
  if (in_count > 0) memcpy(node.in, in, (size_t)in_count * sizeof *in);
  if (out_count > 0) memcpy(node.out, out, (size_t)out_count * sizeof *out);
  if (attrs != NULL && og_ops[op].attrs[0] != '\0')
    OG_TRY(args_copy(graph, attrs, og_op_attr_count(op), &node.attrs, error));
  if ((og_ops[op].flags & OG_OP_UPDATE) != 0) {
    int32_t *update =
        og_arena_array(&graph->arena, (size_t)out_count, sizeof *update);
    if (update == NULL) return og_graph_no_memory(error);
    update[0] = 1;
    node.update = update;
  }
  *out_node = graph->node_count++;
  graph->nodes[*out_node] = node;
  for (int32_t r = 0; r < out_count; ++r) {
    if (out[r] < 0) continue;
    graph->values[out[r]].node = *out_node;
    graph->values[out[r]].result = r;
  }
  return OG_OK;
}

const opgraft_arg *og_origin_arg(const og_origin *origin, const char *name,
                                 int32_t position) {
  for (int32_t i = 0; i < origin->arg_count; ++i) {
    const opgraft_arg *arg = &origin->args[i];
    if (arg->name != NULL ? strcmp(arg->name, name) == 0 : i == position)
      return arg;
  }
  return NULL;
}

const char *og_node_source(const og_node *node, og_source *out) {
  out->text[0] = '\0';
  if (node == NULL || node->file == NULL) return out->text;
  if (node->line > 0)
    snprintf(out->text, sizeof out->text, " (%s:%d)", node->file,
             (int)node->line);
  else
    snprintf(out->text, sizeof out->text, " (%s)", node->file);
  return out->text;
}

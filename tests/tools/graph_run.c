// SPDX-License-Identifier: Apache-2.0
// graph_run [OPTION...]: reads a graph and runs it on inputs that the text
// gives after it, then prints the outputs.
//
//   graph f(...) {...}
//   run 2 | [1, 2, 3] | 5
//
// A line `run` starts a call: values of the inputs in order, a tensor's as
// "sizes: numbers" ("2x3: 1 2 3 4 5 6"; one number fills it), an integer's
// plainly. Options: --print (the graph after its passes), --disable=PASSES,
// --clone-error, --fallback-error, --max-autotune, --apart (why nodes are in no
// row program), --stats, --lanes=N (wherever the graph allows them; they are
// printed, by the nodes' results), --plain (as the text says, opgraft/plain.h;
// nothing of a plan goes with it). Foreign operators
// named test.* are run here: test.double(x) and test.add_to(x, y), which adds y
// to the copy of x that its result starts as.

#include <inttypes.h>
#include <opgraft/plain.h>
#include <string.h>

#include "base/text.h"
#include "graph/graph.h"
#include "plan/lanes.h"
#include "scalar/element.h"
#include "tools/tool.h"

typedef struct options {
  bool print, apart, stats, plain;
  const char *disable;
  uint32_t flags;
  int32_t lanes;
} options;

// --- Tensors of the test -----------------------------------------------------

typedef struct owned {
  og_tensor tensor;
  int64_t shape[8], strides[8];
  void *data;
  size_t size_bytes;
} owned;

static size_t element_at(const og_tensor *tensor, int64_t index) {
  int64_t at = 0;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    at += index % tensor->shape[d] * tensor->strides[d];
    index /= tensor->shape[d];
  }
  return (size_t)at * og_dtype_bytes(tensor->dtype);
}

static void element_set(og_tensor *tensor, int64_t index, const char *text) {
  char *at = (char *)tensor->data + element_at(tensor, index);
  if (strpbrk(text, ".enf") != NULL)
    og_element_set_double(tensor->dtype, at, strtod(text, NULL));
  else
    og_element_set_int(tensor->dtype, at, strtoll(text, NULL, 10));
}

static void tensor_print(const og_tensor *tensor) {
  const char *base = (const char *)tensor->data + tensor->byte_offset;
  printf("%s[", og_dtype_name(tensor->dtype));
  for (int32_t d = 0; d < tensor->ndim; ++d)
    printf("%s%" PRId64, d > 0 ? ", " : "", tensor->shape[d]);
  printf("]");
  const int64_t count = og_numel(tensor);
  for (int64_t i = 0; i < count; ++i) {
    const char *at = base + element_at(tensor, i);
    if (og_dtype_class(tensor->dtype) == OG_CLASS_I64)
      printf(" %" PRId64, og_element_int(tensor->dtype, at));
    else
      printf(" %.5g", og_element_double(tensor->dtype, at));
  }
  printf("\n");
}

// The bytes that a tensor with these strides spans.
static size_t tensor_span(const og_tensor *tensor) {
  int64_t last = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (tensor->shape[d] == 0) return 0;
    last += (tensor->shape[d] - 1) * tensor->strides[d];
  }
  return (size_t)(last + 1) * og_dtype_bytes(tensor->dtype);
}

// --- Foreign operators of the test -------------------------------------------

static og_status host_prepare(void *context, const opgraft_node_call *node,
                              void **out_state, uint32_t *out_flags,
                              opgraft_error *error) {
  (void)context;
  (void)out_flags;
  (void)error;
  *out_state = NULL;
  return strncmp(node->name, "test.", 5) == 0 ? OG_OK : OG_UNSUPPORTED;
}

static void tensor_add(const og_tensor *to, const og_tensor *from) {
  for (int64_t i = 0; i < og_numel(to); ++i) {
    char *at = (char *)to->data + element_at(to, i);
    const char *add = (const char *)from->data + element_at(from, i);
    og_element_set_double(
        to->dtype, at,
        og_element_double(to->dtype, at) + og_element_double(from->dtype, add));
  }
}

static og_status host_run(void *context, void *state,
                          const opgraft_node_call *node, opgraft_error *error) {
  (void)context;
  (void)state;
  const bool adds = strcmp(node->name, "test.add_to") == 0;
  if (strcmp(node->name, "test.fail") == 0)
    return og_error_set(error, OG_KERNEL, NULL, NULL, "it was asked to fail");
  if (strcmp(node->name, "test.add_both") == 0) {
    for (int32_t k = 0; k < 2; ++k) tensor_add(node->in[k], node->in[2]);
    return OG_OK;
  }
  og_tensor *out = node->out[0];
  const og_tensor *in = adds ? node->in[1] : node->in[0];
  for (int64_t i = 0; i < og_numel(out); ++i) {
    char *to = (char *)out->data + element_at(out, i);
    const char *from = (const char *)in->data + element_at(in, i);
    const double x = og_element_double(in->dtype, from);
    const double y = adds ? og_element_double(out->dtype, to) : x;
    og_element_set_double(out->dtype, to, x + y);
  }
  return OG_OK;
}

// --- Inputs ------------------------------------------------------------------

static char *next_field(char **at) {
  char *field = *at;
  if (field == NULL) return NULL;
  char *end = strchr(field, '|');
  *at = end != NULL ? end + 1 : NULL;
  if (end != NULL) *end = '\0';
  return field;
}

static bool read_shape(char **at, og_tensor *tensor, int32_t rank) {
  char *colon = strchr(*at, ':');
  if (rank == 0) {
    if (colon != NULL) *at = colon + 1;
    return true;
  }
  if (colon == NULL) return false;
  for (int32_t d = 0; d < rank; ++d) {
    tensor->shape[d] = strtoll(*at, at, 10);
    if (**at == 'x') ++*at;
  }
  *at = colon + 1;
  return true;
}

static bool read_tensor(char *text, const opgraft_graph *graph,
                        opgraft_value id, owned *out) {
  const og_value *value = &graph->values[id];
  int64_t *all = calloc((size_t)graph->sizes.count + 1, sizeof *all);
  og_tensor *tensor = &out->tensor;
  *tensor = (og_tensor){.device = {OG_CPU, 0},
                        .ndim = value->ndim,
                        .dtype = value->dtype,
                        .shape = out->shape,
                        .strides = out->strides};
  if (all == NULL || value->ndim > 8 ||
      !read_shape(&text, tensor, value->ndim)) {
    free(all);
    return false;
  }
  free(all);
  int64_t dense = 1;
  for (int32_t d = value->ndim - 1; d >= 0; --d) {
    if (!og_size_get(&graph->sizes, value->strides[d], &tensor->strides[d]))
      tensor->strides[d] = dense;
    dense *= tensor->shape[d];
  }
  out->size_bytes = tensor_span(tensor);
  tensor->data = out->data = calloc(1, out->size_bytes + 64);
  if (out->data == NULL) return false;
  const char *number = strtok(text, " ");
  for (int64_t i = 0; i < og_numel(tensor) && number != NULL; ++i) {
    element_set(tensor, i, number);
    const char *next = strtok(NULL, " ");
    if (next != NULL) number = next;
  }
  return true;
}

typedef struct inputs {
  owned tensors[32];
  const og_tensor *in[32];
  int64_t ints[32];
} inputs;

static bool read_inputs(char *line, const opgraft_graph *graph, inputs *out) {
  char *rest = line;
  memset(out, 0, sizeof *out);
  if (graph->input_count > 32) return false;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    char *field = next_field(&rest);
    if (field == NULL) return false;
    if (graph->inputs[i].value < 0) {
      out->ints[i] = strtoll(field, NULL, 10);
      continue;
    }
    if (!read_tensor(field, graph, graph->inputs[i].value, &out->tensors[i]))
      return false;
    out->in[i] = &out->tensors[i].tensor;
  }
  return true;
}

// --- Running -----------------------------------------------------------------

static void output_print(const opgraft_output *output, const inputs *given,
                         void *const *storages) {
  og_tensor tensor = output->tensor;
  switch (output->kind) {
    case OPGRAFT_OUTPUT_SIZE:
      printf("size %" PRId64 "\n", output->size);
      return;
    case OPGRAFT_OUTPUT_STORAGE:
      tensor.data = storages[output->index];
      break;
    case OPGRAFT_OUTPUT_INPUT:
      printf("(input %d) ", output->index);
      tensor.data = given->tensors[output->index].data;
      break;
    case OPGRAFT_OUTPUT_CONSTANT:
      break;
    default:
      printf("none\n");
      return;
  }
  tensor_print(&tensor);
}

static og_status run_call(opgraft_call *call, const inputs *given,
                          opgraft_error *error) {
  void *storages[32] = {NULL};
  og_status status = call->storage_count > 32 ? OG_UNSUPPORTED : OG_OK;
  for (int32_t i = 0; status == OG_OK && i < call->storage_count; ++i) {
    storages[i] = malloc(call->storages[i].size_bytes + 64);
    if (storages[i] == NULL)
      status = OG_MEMORY;
    else
      memset(storages[i], 0xa5, call->storages[i].size_bytes);
  }
  if (status == OG_OK) status = opgraft_call_run(call, storages, error);
  for (int32_t i = 0; status == OG_OK && i < call->output_count; ++i)
    output_print(&call->outputs[i], given, storages);
  for (int32_t i = 0; i < call->storage_count && i < 32; ++i) free(storages[i]);
  return status;
}

// A written input is shown, so that its new values can be checked.
static bool is_written(const opgraft_graph *graph, int32_t input) {
  const opgraft_value id = graph->inputs[input].value;
  for (int32_t n = 0; id >= 0 && n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || og_op_is(node, OG_OP_VIEW)) continue;
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0 && graph->values[node->out[r]].root == id)
        return true;
  }
  return false;
}

static void plain_print(const opgraft_graph *graph,
                        const opgraft_plain *plain) {
  og_tensor tensor;
  int64_t size;
  for (int32_t i = 0; i < graph->output_count; ++i) {
    const int32_t kind = opgraft_plain_output(plain, i, &tensor, &size);
    if (kind == OPGRAFT_OUTPUT_STORAGE)
      tensor_print(&tensor);
    else if (kind == OPGRAFT_OUTPUT_SIZE)
      printf("size %" PRId64 "\n", size);
    else
      printf("none\n");
  }
  for (int32_t i = 0; i < graph->input_count; ++i) {
    if (!is_written(graph, i) || !opgraft_plain_input(plain, i, &tensor))
      continue;
    printf("input %d now ", (int)i);
    tensor_print(&tensor);
  }
}

static int plain_line(const opgraft_graph *graph, const inputs *given) {
  opgraft_error error = {0};
  opgraft_plain *plain;
  const og_status status = opgraft_plain_run(
      graph, NULL, given->in, given->ints, graph->input_count, &plain, &error);
  if (status == OG_OK)
    plain_print(graph, plain);
  else
    printf("error: %s\n", error.text);
  opgraft_plain_destroy(plain);
  return status != OG_OK;
}

static int planned_line(opgraft_executable *executable,
                        const opgraft_graph *graph, const inputs *given) {
  opgraft_error error = {0};
  opgraft_call call = {.struct_size = sizeof call};
  og_status status = opgraft_executable_begin(
      executable, given->in, given->ints, graph->input_count, &call, &error);
  if (status == OG_OK) {
    status = run_call(&call, given, &error);
    opgraft_call_end(&call);
  }
  if (status != OG_OK) printf("error: %s\n", error.text);
  for (int32_t i = 0; status == OG_OK && i < graph->input_count; ++i) {
    if (!is_written(graph, i)) continue;
    printf("input %d now ", (int)i);
    tensor_print(&given->tensors[i].tensor);
  }
  return status != OG_OK;
}

// Without an executable, plainly.
static int run_line(opgraft_executable *executable, const opgraft_graph *graph,
                    char *line) {
  static inputs given;
  int result = 1;
  if (!read_inputs(line, graph, &given))
    printf("error: the inputs of the run line do not fit the graph\n");
  else if (executable == NULL)
    result = plain_line(graph, &given);
  else
    result = planned_line(executable, graph, &given);
  for (int32_t i = 0; i < graph->input_count; ++i) free(given.tensors[i].data);
  return result;
}

static int run_lines(opgraft_executable *executable, const opgraft_graph *graph,
                     char *lines) {
  int result = 0;
  while (lines != NULL && result == 0) {
    char *end = strchr(lines, '\n');
    if (end != NULL) *end = '\0';
    if (strncmp(lines, "run", 3) == 0)
      result = run_line(executable, graph, lines + 3);
    lines = end != NULL ? end + 1 : NULL;
  }
  return result;
}

static void stats_print(const opgraft_executable *executable) {
  opgraft_stats stats = {.struct_size = sizeof stats};
  opgraft_executable_stats(executable, &stats, NULL);
  printf("nodes %d, views %d, native %d, fallbacks %d, clones %d (%" PRId64
         " bytes), plans %d, replays %" PRId64 ", replans %" PRId64
         ", arena %" PRId64 " of %" PRId64 "\n",
         stats.nodes, stats.views, stats.native, stats.fallbacks, stats.clones,
         stats.clone_bytes, stats.plans, stats.replays, stats.replans_shape,
         stats.arena_bytes, stats.lower_bound_bytes);
}

static void node_print(const opgraft_graph *graph, int32_t node) {
  const opgraft_value id =
      graph->nodes[node].out_count > 0 ? graph->nodes[node].out[0] : -1;
  printf(" %%%s", id >= 0 && graph->values[id].name != NULL
                      ? graph->values[id].name
                      : "");
}

static void apart_print(const opgraft_graph *graph) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || node->unfused_reason == NULL) continue;
    printf("unfused:");
    node_print(graph, n);
    printf(" = %s: %s\n", og_node_name(node), node->unfused_reason);
  }
}

// One line for what runs one after the other, and one for each lane.
static bool lanes_print(const opgraft_graph *graph, int32_t lanes) {
  opgraft_error error;
  og_arena memory = {0};
  og_lanes found;
  const size_t nodes = (size_t)graph->node_count + 1;
  int64_t *cost_ns = calloc(nodes, sizeof *cost_ns);
  uint8_t *flags = calloc(nodes, 1);
  for (int32_t n = 0; cost_ns && flags && n < graph->node_count; ++n) {
    cost_ns[n] = 1000;
    flags[n] = graph->nodes[n].is_as_recorded ? OG_STEP_PINNED : 0;
  }
  const og_lane_request request = {
      .cost_ns = cost_ns, .flags = flags, .lanes = lanes};
  const bool is_found =
      cost_ns != NULL && flags != NULL &&
      og_lanes_find(graph, &request, &memory, &found, &error) == OG_OK;
  for (int32_t s = 0, at = 0; is_found && s <= found.section_count; ++s) {
    const bool is_last = s == found.section_count;
    const int32_t end = is_last ? found.count : found.sections[s].first;
    if (at < end) {
      printf("serial:");
      for (; at < end; ++at) node_print(graph, found.order[at]);
      printf("\n");
    }
    for (int32_t l = 0; !is_last && l < found.sections[s].lane_count; ++l) {
      printf("lane %d:", (int)l);
      for (; at < found.sections[s].end[l]; ++at)
        node_print(graph, found.order[at]);
      printf("\n");
    }
  }
  free(cost_ns);
  free(flags);
  og_arena_destroy(&memory);
  return is_found;
}

static int run_all(opgraft_graph *graph, char *lines, const options *wanted) {
  opgraft_error error = {0};
  opgraft_executable *executable;
  const bool has_lanes = wanted->lanes > 1;
  const opgraft_host host = {.struct_size = sizeof host,
                             .flags = has_lanes ? OPGRAFT_HOST_LANES_NOW : 0,
                             .prepare = host_prepare,
                             .run = host_run,
                             .threads = has_lanes ? wanted->lanes : 1};
  if (has_lanes && !lanes_print(graph, wanted->lanes)) return 1;
  if (opgraft_executable_create(graph, &host, &executable, &error) != OG_OK) {
    printf("error: %s\n", error.text);
    return 1;
  }
  const int result = run_lines(executable, graph, lines);
  if (wanted->stats) stats_print(executable);
  opgraft_executable_release(executable);
  return result;
}

static int finish(opgraft_graph *graph, char *lines, const options *wanted) {
  opgraft_error error = {0};
  const opgraft_options given = {.struct_size = sizeof given,
                                 .flags = wanted->flags,
                                 .disable = wanted->disable};
  if (opgraft_graph_finish(graph, &given, &error) != OG_OK) {
    printf("error: %s\n", error.text);
    return 1;
  }
  if (wanted->print) {
    const size_t length = opgraft_graph_print(graph, NULL, 0);
    char *text = malloc(length + 1);
    if (text == NULL || opgraft_graph_print(graph, text, length + 1) == 0) {
      free(text);
      return 1;
    }
    fputs(text, stdout);
    free(text);
  }
  if (wanted->apart) apart_print(graph);
  return run_all(graph, lines, wanted);
}

static int work(const options *wanted) {
  opgraft_error error = {0};
  opgraft_graph *graph;
  char *input = tool_read_input(NULL);
  if (input == NULL) return 1;
  char *lines = strstr(input, "\nrun");
  if (lines != NULL) *lines++ = '\0';
  int result = 1;
  if (opgraft_graph_parse(input, strlen(input), &graph, &error) != OG_OK) {
    printf("error: %s\n", error.text);
  } else {
    result = wanted->plain ? run_lines(NULL, graph, lines)
                           : finish(graph, lines, wanted);
    opgraft_graph_release(graph);
  }
  free(input);
  return result;
}

int main(int argc, char **argv) {
  options wanted = {0};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--print") == 0) wanted.print = true;
    if (strcmp(argv[i], "--apart") == 0) wanted.apart = true;
    if (strcmp(argv[i], "--stats") == 0) wanted.stats = true;
    if (strcmp(argv[i], "--plain") == 0) wanted.plain = true;
    if (strncmp(argv[i], "--disable=", 10) == 0) wanted.disable = argv[i] + 10;
    if (strncmp(argv[i], "--lanes=", 8) == 0)
      wanted.lanes = (int32_t)strtol(argv[i] + 8, NULL, 10);
    if (strcmp(argv[i], "--clone-error") == 0)
      wanted.flags |= OPGRAFT_OPTION_CLONE_ERROR;
    if (strcmp(argv[i], "--fallback-error") == 0)
      wanted.flags |= OPGRAFT_OPTION_FALLBACK_ERROR;
    if (strcmp(argv[i], "--max-autotune") == 0)
      wanted.flags |= OPGRAFT_OPTION_MAX_AUTOTUNE;
  }
  tool_begin();
  return tool_end(work(&wanted));
}

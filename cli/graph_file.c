// SPDX-License-Identifier: Apache-2.0
// Graph files on the command line: opened, given inputs, run once.

#define _POSIX_C_SOURCE 200809L
#include "graph_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// --- Graphs ------------------------------------------------------------------

bool cli_is_graph(const char *path) {
  const size_t length = strlen(path);
  return length > 3 && strcmp(path + length - 3, ".og") == 0;
}

static bool module_link(opgraft_graph *graph, const char *path) {
  cli_module module;
  opgraft_error error;
  if (!cli_module_open(path, &module)) return false;
  // The graph keeps what it needs of the module.
  const og_status status =
      opgraft_graph_add_module(graph, module.module, &error);
  cli_module_close(&module);
  if (status != OG_OK) cli_library_error(&error);
  return status == OG_OK;
}

opgraft_graph *cli_graph_open(const char *path, const cli_args *args) {
  opgraft_graph *graph;
  opgraft_error error;
  if (opgraft_graph_open(path, &graph, &error) != OG_OK) {
    cli_library_error(&error);
    return NULL;
  }
  for (int i = 0; i < args->given_count; ++i) {
    if (strcmp(args->given[i].option->name, "module") != 0) continue;
    if (module_link(graph, args->given[i].value)) continue;
    opgraft_graph_release(graph);
    return NULL;
  }
  return graph;
}

// "aten.foo.default (model.py:3), norms.bar.default (model.py:9)"
static void fallbacks_print(const cli_node *list) {
  enum { SHOWN = 12 };
  char *text = cli_format("%s", "");
  int count = 0;
  for (const cli_node *n = list->first; n != NULL; n = n->next, ++count) {
    if (count >= SHOWN) continue;
    char *longer = cli_format(
        "%s\n  %s (%s:%lld): %s", text, cli_node_text(n, "operator"),
        cli_node_text(n, "file"), (long long)cli_node_int(n, "line", 0),
        cli_node_text(n, "reason"));
    free(text);
    text = longer;
  }
  cli_error(
      "run: %d operator%s of this graph need%s a host such as PyTorch, or its "
      "module (--module FILE):%s%s",
      count, cli_plural(count), count == 1 ? "s" : "", text,
      count > SHOWN ? "\n  ..." : "");
  free(text);
}

cli_node *cli_described(const opgraft_executable *executable) {
  const size_t length = opgraft_executable_describe(executable, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  opgraft_executable_describe(executable, text, length + 1);
  size_t offset;
  cli_node *tree = cli_json_parse(text, length, &offset);
  free(text);
  return tree;
}

static bool can_run_alone(const opgraft_executable *executable) {
  cli_node *tree = cli_described(executable);
  const cli_node *list = cli_node_get(tree, "fallbacks");
  const bool is_alone = list != NULL && list->count == 0;
  if (list != NULL && !is_alone) fallbacks_print(list);
  cli_node_destroy(tree);
  return is_alone;
}

opgraft_executable *cli_executable_create(opgraft_graph *graph,
                                          const opgraft_options *options,
                                          const opgraft_host *host) {
  opgraft_error error;
  opgraft_executable *executable;
  if (opgraft_graph_finish(graph, options, &error) != OG_OK ||
      opgraft_executable_create(graph, host, &executable, &error) != OG_OK) {
    cli_library_error(&error);
    return NULL;
  }
  if (can_run_alone(executable)) return executable;
  opgraft_executable_release(executable);
  return NULL;
}

char *cli_rules_text(const opgraft_executable *executable) {
  const size_t length = opgraft_executable_rules(executable, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  opgraft_executable_rules(executable, text, length + 1);
  return text;
}

static bool size_read(const cli_args *args, const char *word, cli_sizes *s) {
  const char *equals = strchr(word, '=');
  char *end = NULL;
  errno = 0;
  const long long number = equals != NULL ? strtoll(equals + 1, &end, 10) : 0;
  if (equals == NULL || equals == word || errno != 0 || end == equals + 1 ||
      *end != '\0' || number < 0) {
    cli_error("%s: found '%s', expected a size of the graph, such as s0=128",
              args->command->name, word);
    return false;
  }
  s->names[s->count] = cli_format("%.*s", (int)(equals - word), word);
  s->values[s->count++] = number;
  return true;
}

bool cli_sizes_read(const cli_args *args, cli_sizes *out) {
  const size_t most = (size_t)args->operand_count;
  *out = (cli_sizes){.names = cli_alloc(most, sizeof *out->names),
                     .values = cli_alloc(most, sizeof *out->values)};
  for (int32_t i = 1; i < args->operand_count; ++i)
    if (!size_read(args, args->operands[i], out)) return false;
  return true;
}

void cli_sizes_reset(cli_sizes *sizes) {
  for (int32_t i = 0; i < sizes->count; ++i)
    free((char *)(uintptr_t)sizes->names[i]);
  free(sizes->names);
  free(sizes->values);
}

static const struct {
  const char *name;
  uint32_t flag;
} precisions[] = {{"f32", 0},
                  {"bf16", OPGRAFT_OPTION_PRECISION_BF16},
                  {"int8", OPGRAFT_OPTION_PRECISION_INT8},
                  {"int4", OPGRAFT_OPTION_PRECISION_INT4},
                  {"int4/64", OPGRAFT_OPTION_PRECISION_INT4_64},
                  {"int4/32", OPGRAFT_OPTION_PRECISION_INT4_32}};

// Whether `given` is `name`, or with int8 or int4 "NAME-dynamic".
static bool precision_is(const char *given, const char *name, bool *dynamic) {
  const size_t length = strlen(name);
  *dynamic = false;
  if (strncmp(given, name, length) != 0) return false;
  *dynamic =
      strncmp(name, "int", 3) == 0 && strcmp(given + length, "-dynamic") == 0;
  return *dynamic || given[length] == '\0';
}

static bool precision_read(const cli_args *args, const char *mode,
                           uint32_t *flags) {
  enum { COUNT = sizeof precisions / sizeof *precisions };
  const char *given = cli_value_of(args, "precision");
  bool dynamic = false;
  int i = 0;
  while (given != NULL && i < COUNT &&
         !precision_is(given, precisions[i].name, &dynamic))
    ++i;
  if (i == COUNT) {
    cli_error(
        "%s: --precision is '%s', expected f32, bf16, int8, int4, int4/64 or "
        "int4/32; of int8 and int4 also with -dynamic",
        args->command->name, given);
    return false;
  }
  if (precisions[i].flag != 0 && *flags == 0) {
    cli_error(
        "%s: --precision is '%s' in mode %s, expected --mode max-autotune",
        args->command->name, given, mode);
    return false;
  }
  *flags |= precisions[i].flag |
            (dynamic ? (uint32_t)OPGRAFT_OPTION_ACTIVATIONS_INT8 : 0);
  return true;
}

bool cli_mode_read(const cli_args *args, const char *otherwise,
                   uint32_t *out_flags) {
  const char *given = cli_value_of(args, "mode");
  const char *mode = given != NULL ? given : otherwise;
  const bool is_max = strcmp(mode, "max-autotune") == 0;
  *out_flags = is_max ? OPGRAFT_OPTION_MAX_AUTOTUNE : 0;
  if (is_max || strcmp(mode, "reduce-overhead") == 0)
    return precision_read(args, mode, out_flags);
  cli_error("%s: --mode is '%s', expected reduce-overhead or max-autotune",
            args->command->name, mode);
  return false;
}

void cli_say(void *context, const char *text, int32_t is_progress) {
  (void)context;
  if (!is_progress) cli_note("%s", text);
}

// --- Tensors -----------------------------------------------------------------

static size_t item_bytes(const og_tensor *tensor) {
  return ((size_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
}

// Elements from the first to behind the last that the strides reach.
static int64_t reach(const og_tensor *tensor) {
  int64_t last = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (tensor->shape[d] == 0) return 0;
    last += (tensor->shape[d] - 1) * tensor->strides[d];
  }
  return last + 1;
}

static int64_t element_at(const og_tensor *tensor, int64_t index) {
  int64_t at = 0;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    at += index % tensor->shape[d] * tensor->strides[d];
    index /= tensor->shape[d];
  }
  return at;
}

static bool same_strides(const og_tensor *a, const og_tensor *b) {
  for (int32_t d = 0; d < a->ndim; ++d)
    if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) return false;
  return true;
}

void cli_tensor_copy(const og_tensor *from, const int64_t *strides,
                     cli_tensor *out) {
  const size_t item = item_bytes(from);
  int64_t dense = 1;
  out->tensor = *from;
  out->tensor.byte_offset = 0;
  out->tensor.shape = out->shape;
  out->tensor.strides = out->strides;
  for (int32_t d = from->ndim - 1; d >= 0; --d) {
    out->shape[d] = from->shape[d];
    out->strides[d] = strides != NULL ? strides[d] : dense;
    dense *= from->shape[d];
  }
  const size_t bytes = (size_t)reach(&out->tensor) * item;
  out->memory = aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (out->memory == NULL) cli_alloc(SIZE_MAX, 1);  // says so and ends
  memset(out->memory, 0, bytes);
  out->tensor.data = out->memory;
  const char *base = (const char *)from->data + from->byte_offset;
  const int64_t count = og_numel(from);
  if (same_strides(from, &out->tensor) && (size_t)reach(from) * item == bytes) {
    memcpy(out->memory, base, bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    memcpy((char *)out->memory + (size_t)element_at(&out->tensor, i) * item,
           base + element_at(from, i) * (int64_t)item, item);
}

// --- Inputs ------------------------------------------------------------------

static char *input_text(const opgraft_graph *graph, int32_t index) {
  const size_t length = opgraft_graph_print_input(graph, index, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  opgraft_graph_print_input(graph, index, text, length + 1);
  return text;
}

// Cannot fail: the index is an input's.
static opgraft_value_info input_info(const opgraft_graph *graph,
                                     int32_t index) {
  opgraft_value_info info = {.struct_size = sizeof info};
  opgraft_graph_input(graph, index, &info, NULL);
  return info;
}

// The input that "NAME=..." names, with what follows; -1 if there is none.
static int32_t input_named(const opgraft_graph *graph, const char *text,
                           const char **out_rest) {
  const char *equals = strchr(text, '=');
  const int32_t count = opgraft_graph_input_count(graph);
  for (int32_t i = 0; equals != NULL && i < count; ++i) {
    const char *name = opgraft_graph_input_name(graph, i);
    if (name == NULL || strlen(name) != (size_t)(equals - text) ||
        memcmp(name, text, strlen(name)) != 0)
      continue;
    *out_rest = equals + 1;
    return i;
  }
  return -1;
}

static bool int_read(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return errno == 0 && end != text && *end == '\0';
}

static bool dtype_equal(og_dtype a, og_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// A file or number for input `index`.
static bool input_set(const opgraft_graph *graph, int32_t index,
                      const char *value, cli_inputs *inputs, bool *is_set) {
  const opgraft_value_info info = input_info(graph, index);
  opgraft_error error;
  char *wanted = input_text(graph, index);
  bool fits = false;
  if (is_set[index]) {
    cli_error("run: input %d (%s) is given twice", (int)index, wanted);
  } else if (info.ndim < 0) {
    fits = int_read(value, &inputs->ints[index]);
    if (!fits)
      cli_error("run: input %d is '%s', expected a whole number for %s",
                (int)index, value, wanted);
  } else if (opgraft_npy_read(value, &inputs->files[index], &error) != OG_OK) {
    cli_library_error(&error);
  } else if (!dtype_equal(inputs->files[index]->dtype, info.dtype) ||
             inputs->files[index]->ndim != info.ndim) {
    cli_error("run: %s holds %s with %d dim%s, expected %s for input %d", value,
              cli_dtype_name(inputs->files[index]->dtype),
              (int)inputs->files[index]->ndim,
              cli_plural(inputs->files[index]->ndim), wanted, (int)index);
  } else {
    fits = true;
  }
  is_set[index] = fits;
  free(wanted);
  return fits;
}

static bool inputs_missing(const opgraft_graph *graph, const bool *is_set,
                           int32_t count) {
  char *text = NULL;
  for (int32_t i = 0; i < count; ++i) {
    if (is_set[i]) continue;
    char *one = input_text(graph, i);
    char *longer =
        cli_format("%s%s%s", text ? text : "", text ? ", " : "", one);
    free(text);
    free(one);
    text = longer;
  }
  if (text == NULL) return false;
  cli_error(
      "run: no value is given for %s; --in FILE.npy gives the next input, "
      "--in NAME=FILE.npy or NAME=NUMBER the one of that name",
      text);
  free(text);
  return true;
}

static bool name_refused(const opgraft_graph *graph, const char *text) {
  char *known = NULL;
  for (int32_t i = 0; i < opgraft_graph_input_count(graph); ++i) {
    const char *name = opgraft_graph_input_name(graph, i);
    char *longer = cli_format("%s%s%s", known != NULL ? known : "",
                              known != NULL ? ", " : "",
                              name != NULL ? name : "(no name)");
    free(known);
    known = longer;
  }
  cli_error("run: the graph has no input %.*s; known: %s",
            (int)strcspn(text, "="), text, known != NULL ? known : "none");
  free(known);
  return false;
}

static bool given_set(const opgraft_graph *graph, const char *text,
                      cli_inputs *inputs, bool *is_set) {
  const char *value = text;
  int32_t index = input_named(graph, text, &value);
  struct stat info;
  if (index < 0 && strchr(text, '=') != NULL && stat(text, &info) != 0)
    return name_refused(graph, text);
  if (index < 0) {
    index = 0;
    while (index < inputs->count && is_set[index]) ++index;
  }
  if (index < inputs->count)
    return input_set(graph, index, value, inputs, is_set);
  cli_error("run: --in %s is one too many: the graph has %d input%s", text,
            (int)inputs->count, cli_plural(inputs->count));
  return false;
}

bool cli_inputs_read(const opgraft_graph *graph, const cli_args *args,
                     cli_inputs *out) {
  const int32_t count = opgraft_graph_input_count(graph);
  const size_t n = (size_t)count;
  *out = (cli_inputs){.count = count,
                      .files = cli_alloc(n, sizeof *out->files),
                      .ints = cli_alloc(n, sizeof *out->ints),
                      .tensors = cli_alloc(n, sizeof *out->tensors),
                      .in = cli_alloc(n, sizeof *out->in)};
  bool *is_set = cli_alloc(n, sizeof *is_set);
  bool is_right = true;
  for (int i = 0; is_right && i < args->given_count; ++i)
    if (strcmp(args->given[i].option->name, "in") == 0)
      is_right = given_set(graph, args->given[i].value, out, is_set);
  is_right = is_right && !inputs_missing(graph, is_set, count);
  free(is_set);
  if (!is_right) cli_inputs_reset(out);
  return is_right;
}

static void tensors_drop(cli_inputs *inputs) {
  for (int32_t i = 0; i < inputs->count; ++i) {
    free(inputs->tensors[i].memory);
    inputs->tensors[i].memory = NULL;
  }
}

// Memory is taken for all copies or for none.
static bool copies_fit(const cli_inputs *inputs, int64_t *const *strides) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < inputs->count; ++i) {
    if (inputs->files[i] == NULL) continue;
    og_tensor copy = *inputs->files[i];
    copy.strides = strides[i];
    bytes += (uint64_t)reach(&copy) * item_bytes(&copy);
    if (inputs->max_bytes == 0 || bytes <= (uint64_t)inputs->max_bytes)
      continue;
    cli_error(
        "run: inputs up to the %dth need %llu bytes with the strides "
        "that the graph gives them, the limit is %lld; --max-bytes sets "
        "another",
        (int)i + 1, (unsigned long long)bytes, (long long)inputs->max_bytes);
    return false;
  }
  return true;
}

bool cli_inputs_fresh(const opgraft_graph *graph, cli_inputs *inputs) {
  opgraft_error error;
  const size_t n = (size_t)inputs->count;
  int64_t(*sizes)[OPGRAFT_RANK_MAX] = cli_alloc(n, sizeof *sizes);
  int64_t **strides = cli_alloc(n, sizeof *strides);
  for (size_t i = 0; i < n; ++i) strides[i] = sizes[i];
  tensors_drop(inputs);
  bool fits = opgraft_graph_input_strides(
                  graph, (const og_tensor *const *)inputs->files, inputs->ints,
                  inputs->count, strides, &error) == OG_OK;
  if (!fits) cli_library_error(&error);
  fits = fits && copies_fit(inputs, strides);
  for (size_t i = 0; fits && i < n; ++i) {
    inputs->in[i] = NULL;
    if (inputs->files[i] == NULL) continue;
    cli_tensor_copy(inputs->files[i], sizes[i], &inputs->tensors[i]);
    inputs->in[i] = &inputs->tensors[i].tensor;
  }
  free(strides);
  free(sizes);
  return fits;
}

void cli_inputs_reset(cli_inputs *inputs) {
  tensors_drop(inputs);
  for (int32_t i = 0; i < inputs->count; ++i)
    opgraft_npy_release(inputs->files[i]);
  free(inputs->files);
  free(inputs->ints);
  free(inputs->tensors);
  free(inputs->in);
  *inputs = (cli_inputs){0};
}

// --- A call ------------------------------------------------------------------

bool cli_replay_begin(opgraft_executable *executable, const cli_inputs *inputs,
                      cli_replay *out) {
  opgraft_error error;
  *out = (cli_replay){.call = {.struct_size = sizeof out->call}};
  if (opgraft_executable_begin(executable, inputs->in, inputs->ints,
                               inputs->count, &out->call, &error) != OG_OK) {
    cli_library_error(&error);
    return false;
  }
  const int32_t count = out->call.storage_count;
  out->storages = cli_alloc((size_t)count, sizeof *out->storages);
  for (int32_t i = 0; i < count; ++i) {
    const size_t bytes = out->call.storages[i].size_bytes;
    out->storages[i] = aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (out->storages[i] == NULL) cli_alloc(SIZE_MAX, 1);
  }
  return true;
}

void cli_replay_end(cli_replay *run) {
  for (int32_t i = 0; i < run->call.storage_count; ++i) free(run->storages[i]);
  free(run->storages);
  opgraft_call_end(&run->call);
}

bool cli_replay_output(const cli_replay *run, const cli_inputs *inputs,
                       int32_t index, int64_t *number, og_tensor *out) {
  const opgraft_output *output = &run->call.outputs[index];
  *out = output->tensor;
  switch (output->kind) {
    case OPGRAFT_OUTPUT_STORAGE:
      out->data = run->storages[output->index];
      return true;
    case OPGRAFT_OUTPUT_INPUT:
      out->data = inputs->in[output->index]->data;
      return true;
    case OPGRAFT_OUTPUT_CONSTANT:
      return true;
    case OPGRAFT_OUTPUT_SIZE:
      *number = output->size;
      *out = (og_tensor){
          .data = number, .device = {OG_CPU, 0}, .dtype = {OG_CODE_INT, 64, 1}};
      return true;
    default:
      return false;
  }
}

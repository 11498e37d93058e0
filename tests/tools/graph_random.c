// SPDX-License-Identifier: Apache-2.0
// graph_random [--count=N] [--seed=N] [--print] [--fuse] [--device=FILE]:
// random graphs from the IR's operators, shapes and types. Each runs without
// passes, without sharing memory and on one thread; what it gives then must be,
// bit for bit, what it gives with random passes, with shared memory, with
// threads and with lanes, twice, and with all of them. A graph that differs is
// printed with its seed.
//
// --fuse: of whole numbers, with pass fuse. Nothing is rounded then, so results
// are equal in row programs too, but for the sign of a zero.
//
// --device=FILE: each graph also with all its values on the device of this
// driver, which is the simulated NPU's, with delays and the race detector; what
// it reports is a failure.

#include <inttypes.h>
#include <opgraft/driver.h>
#include <opgraft/graph_file.h>
#include <string.h>

#include "exec/step/exec.h"
#include "tools/graph_make.h"
#include "tools/tool.h"

enum { MEMORY_BYTES = 4096 };

// --- Running -----------------------------------------------------------------

typedef struct outcome {
  og_status status;
  opgraft_error error;
  og_text bytes;  // of outputs and inputs, one after the other
} outcome;

typedef struct tensor_memory {
  og_tensor tensor;
  int64_t shape[RANK_MAX], strides[RANK_MAX];
  char *bytes;
} tensor_memory;

// Numbers that stay small, with the odd zero, one and infinity.
static void element_fill(maker *m, og_dtype dtype, void *at) {
  static const double special[] = {0, 1, -1, 0.5, 1e30, -0.0};
  if (dtype.code == OG_CODE_BOOL)
    og_element_set_int(dtype, at, below(m, 2));
  else if (!is_float(dtype) && m->is_exact)
    og_element_set_int(dtype, at, below(m, INPUT_BOUND + 1));
  else if (!is_float(dtype))
    og_element_set_int(dtype, at, below(m, 20) - 5);
  else if (m->is_exact)
    og_element_set_double(
        dtype, at, (double)(below(m, 2 * INPUT_BOUND + 1) - INPUT_BOUND));
  else if (chance(m, 6))
    og_element_set_double(dtype, at, special[below(m, 6)]);
  else
    og_element_set_double(dtype, at, (double)below(m, 4001) / 1000 - 2);
}

static void inputs_fill(maker *m, tensor_memory *inputs) {
  for (int32_t i = 0; i < m->input_count; ++i) {
    const made_value *v = &m->values[m->inputs[i]];
    tensor_memory *to = &inputs[i];
    int64_t count = 1;
    for (int32_t d = 0; d < v->ndim; ++d) {
      to->shape[d] = v->shape[d].number;
      to->strides[d] = v->strides[d];
      count *= to->shape[d];
    }
    for (int64_t e = 0; e < count; ++e)
      element_fill(m, v->dtype,
                   to->bytes + (size_t)e * og_dtype_bytes(v->dtype));
    to->tensor = (og_tensor){.data = to->bytes,
                             .device = {OG_CPU, 0},
                             .ndim = v->ndim,
                             .dtype = v->dtype,
                             .shape = to->shape,
                             .strides = to->strides};
  }
}

// What a call has freed is kept aside until its results are recorded, and
// overwritten.
typedef struct holding {
  const opgraft_call *call;
  tensor_memory *inputs;
  void **storages;
  char let_go[INPUTS_MAX][MEMORY_BYTES];
  bool is_gone[INPUTS_MAX];
} holding;

static void *storage_make(const opgraft_call *call, int32_t index) {
  const size_t bytes = call->storages[index].size_bytes + 64;
  void *memory = malloc(bytes);
  if (memory == NULL) abort();
  return memset(memory, 0xa5, bytes);
}

static og_status hold(void *call_context, const int32_t *inputs,
                      int32_t input_count, const int32_t *storages,
                      int32_t storage_count, void **out_data,
                      opgraft_error *error) {
  holding *held = call_context;
  (void)error;
  for (int32_t i = 0; i < input_count; ++i) {
    char *bytes = held->inputs[inputs[i]].bytes;
    memcpy(held->let_go[inputs[i]], bytes, MEMORY_BYTES);
    memset(bytes, 0x5a, MEMORY_BYTES);
    held->is_gone[inputs[i]] = true;
  }
  for (int32_t k = 0; k < storage_count; ++k)
    out_data[k] = held->storages[storages[k]] =
        storage_make(held->call, storages[k]);
  return OG_OK;
}

// Element by element, a NaN as one pattern: which NaN an operation gives is
// not said.
static void tensor_record(const og_tensor *tensor, bool is_exact,
                          og_text *out) {
  const size_t item = og_dtype_bytes(tensor->dtype);
  const char *base = (const char *)tensor->data + tensor->byte_offset;
  for (int64_t i = 0; i < og_numel(tensor); ++i) {
    int64_t at = 0, rest = i;
    for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
      at += rest % tensor->shape[d] * tensor->strides[d];
      rest /= tensor->shape[d];
    }
    const char *element = base + at * (int64_t)item;
    const double number = og_element_double(tensor->dtype, element);
    if (number != number)
      og_text_add_n(out, "nan.....", item);
    else if (is_exact && number == 0)
      og_text_add_n(out, "zero....", item);
    else
      og_text_add_n(out, element, item);
  }
}

static void results_record(const opgraft_call *call, void *const *storages,
                           const maker *m, const tensor_memory *inputs,
                           og_text *out) {
  for (int32_t i = 0; i < call->output_count; ++i) {
    og_tensor tensor = call->outputs[i].tensor;
    const int32_t kind = call->outputs[i].kind;
    if (kind == OPGRAFT_OUTPUT_STORAGE)
      tensor.data = storages[call->outputs[i].index];
    else if (kind == OPGRAFT_OUTPUT_INPUT)
      tensor.data = inputs[call->outputs[i].index].bytes;
    else if (kind != OPGRAFT_OUTPUT_CONSTANT)
      continue;
    tensor_record(&tensor, m->is_exact, out);
  }
  for (int32_t i = 0; i < m->input_count; ++i)
    tensor_record(&inputs[i].tensor, m->is_exact, out);
}

static og_status call_once(opgraft_executable *executable, maker *m,
                           uint64_t seed, outcome *out) {
  tensor_memory inputs[INPUTS_MAX];
  const og_tensor *in[INPUTS_MAX];
  void *storages[OUTPUTS_MAX + 1] = {NULL};
  static holding held;
  static char memory[INPUTS_MAX][MEMORY_BYTES];
  opgraft_call call = {.struct_size = sizeof call};
  m->state = seed + 99;
  for (int32_t i = 0; i < m->input_count; ++i) {
    inputs[i].bytes = memory[i];
    in[i] = &inputs[i].tensor;
  }
  inputs_fill(m, inputs);
  og_status status = opgraft_executable_begin(
      executable, in, NULL, m->input_count, &call, &out->error);
  if (status != OG_OK) return status;
  for (int32_t i = 0; i < call.storage_count; ++i)
    if (!call.donated[i].is_late) storages[i] = storage_make(&call, i);
  memset(&held, 0, sizeof held);
  held.call = &call;
  held.inputs = inputs;
  held.storages = storages;
  call.context = &held;
  status = opgraft_call_run(&call, storages, &out->error);
  for (int32_t i = 0; i < m->input_count; ++i)
    if (held.is_gone[i]) memcpy(inputs[i].bytes, held.let_go[i], MEMORY_BYTES);
  if (status == OG_OK) results_record(&call, storages, m, inputs, &out->bytes);
  for (int32_t i = 0; i < call.storage_count; ++i) free(storages[i]);
  opgraft_call_end(&call);
  return status;
}

// The second call, with other numbers, finds the memory as the first left it.
static void graph_run(maker *m, uint64_t seed, const char *disable,
                      uint32_t flags, int32_t threads, outcome *out) {
  opgraft_graph *graph;
  opgraft_executable *executable = NULL;
  const opgraft_options options = {
      .struct_size = sizeof options,
      .flags = m->is_exact ? OPGRAFT_OPTION_MAX_AUTOTUNE : 0,
      .disable = disable};
  const opgraft_host host = {
      .struct_size = sizeof host,
      .flags = flags & ~(uint32_t)OG_HOST_ANY_SIZE,
      .threads = threads,
      .memory_event = (flags & OG_HOST_ANY_SIZE) != 0 ? hold : NULL};
  *out = (outcome){0};
  out->status =
      opgraft_graph_parse(m->text.data, m->text.length, &graph, &out->error);
  if (out->status != OG_OK) return;
  out->status = opgraft_graph_finish(graph, &options, &out->error);
  if (out->status == OG_OK)
    out->status =
        opgraft_executable_create(graph, &host, &executable, &out->error);
  if (out->status == OG_OK) executable->host.flags = flags;
  for (uint64_t call = 0; call < 2 && out->status == OG_OK; ++call)
    out->status = call_once(executable, m, seed + call * 7919, out);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
}

// --- On a device -------------------------------------------------------------

// The graph's text with " on ext:0" behind each value's type.
static void text_on_device(const og_text *from, og_text *out) {
  for (const char *at = from->data; *at != '\0'; ++at) {
    og_text_add_n(out, at, 1);
    if (at[0] != ':' || at[1] != ' ') continue;
    const size_t type = strcspn(at, "]") + 1;
    og_text_add_n(out, at + 1, type - 1);
    at += type;
    if (*at == '{') {
      const size_t strides = strcspn(at, "}") + 1;
      og_text_add_n(out, at, strides);
      at += strides;
    }
    if (at[0] == '+' && at[1] == '(') {
      const size_t offset = strcspn(at, ")") + 1;
      og_text_add_n(out, at, offset);
      at += offset;
    }
    og_text_add(out, " on ext:0");
    --at;
  }
}

typedef struct device {
  opgraft_driver *driver;
  void *stream;
  int64_t reports;
} device;

static void device_report(void *user, og_status code, const char *text) {
  device *d = user;
  (void)code;
  ++d->reports;
  printf("the driver reports: %s\n", text);
}

static bool device_open(device *d, const char *path, uint64_t seed) {
  char options[64];
  opgraft_error error;
  *d = (device){0};
  snprintf(options, sizeof options, "seed=%" PRIu64 ",delay_us=%d,races=1",
           seed, (int)(seed % 3) * 20);
  if (opgraft_driver_load(path, options, &d->driver, &error) != OG_OK) {
    printf("%s\n", error.text);
    return false;
  }
  opgraft_driver_on_report(d->driver, device_report, d);
  d->stream = opgraft_driver_default_stream(d->driver, 0);
  return true;
}

// Memory of the device with these bytes.
static void *device_put(const device *d, const void *bytes, size_t size) {
  opgraft_error error;
  void *address = NULL;
  if (opgraft_driver_allocate(d->driver, 0, size, NULL, &address, &error) !=
          OG_OK ||
      opgraft_driver_copy(d->driver, d->stream, OPGRAFT_COPY_TO_DEVICE, address,
                          bytes, size, &error) != OG_OK ||
      opgraft_driver_stream_synchronize(d->driver, d->stream, -1, &error) !=
          OG_OK) {
    printf("%s\n", error.text);
    abort();
  }
  return address;
}

// Brings the bytes back, once its work is done, and frees the device's.
static og_status device_take(const device *d, void *address, void *bytes,
                             size_t size, opgraft_error *error) {
  og_status status = opgraft_driver_copy(
      d->driver, d->stream, OPGRAFT_COPY_TO_HOST, bytes, address, size, error);
  if (status == OG_OK)
    status = opgraft_driver_stream_synchronize(d->driver, d->stream, -1, error);
  const og_status freed = opgraft_driver_free(d->driver, 0, address,
                                              status == OG_OK ? error : NULL);
  return status != OG_OK ? status : freed;
}

static og_status device_call(const device *d, opgraft_executable *executable,
                             maker *m, uint64_t seed, outcome *out) {
  tensor_memory inputs[INPUTS_MAX];
  const og_tensor *in[INPUTS_MAX];
  void *storages[OUTPUTS_MAX + 1] = {NULL}, *there[OUTPUTS_MAX + 1] = {NULL};
  static char memory[INPUTS_MAX][MEMORY_BYTES];
  opgraft_call call = {.struct_size = sizeof call};
  m->state = seed + 99;
  for (int32_t i = 0; i < m->input_count; ++i) {
    inputs[i].bytes = memory[i];
    in[i] = &inputs[i].tensor;
  }
  inputs_fill(m, inputs);
  for (int32_t i = 0; i < m->input_count; ++i) {
    inputs[i].tensor.device = (og_device){OG_EXT_DEV, 0};
    inputs[i].tensor.data = device_put(d, memory[i], MEMORY_BYTES);
  }
  og_status status = opgraft_executable_begin(
      executable, in, NULL, m->input_count, &call, &out->error);
  if (status == OG_OK) {
    for (int32_t i = 0; i < call.storage_count; ++i) {
      storages[i] = storage_make(&call, i);
      there[i] = device_put(d, storages[i], call.storages[i].size_bytes + 64);
    }
    status = opgraft_call_run(&call, there, &out->error);
  }
  for (int32_t i = 0; i < m->input_count; ++i) {
    const og_status taken = device_take(d, inputs[i].tensor.data, memory[i],
                                        MEMORY_BYTES, &out->error);
    if (status == OG_OK) status = taken;
    inputs[i].tensor.data = memory[i];
  }
  for (int32_t i = 0; there[i] != NULL; ++i) {
    const og_status taken =
        device_take(d, there[i], storages[i], call.storages[i].size_bytes + 64,
                    &out->error);
    if (status == OG_OK) status = taken;
  }
  if (status == OG_OK) results_record(&call, storages, m, inputs, &out->bytes);
  for (int32_t i = 0; i < OUTPUTS_MAX; ++i) free(storages[i]);
  if (call.instance != NULL) opgraft_call_end(&call);
  return status;
}

// Two calls, each with numbers and memory of its own: captured, then told.
static void device_run(maker *m, uint64_t seed, const char *path,
                       uint32_t flags, outcome *out) {
  opgraft_graph *graph = NULL;
  opgraft_executable *executable = NULL;
  device d;
  og_text text = {0};
  const opgraft_options options = {
      .struct_size = sizeof options,
      .flags = m->is_exact ? OPGRAFT_OPTION_MAX_AUTOTUNE : 0};
  const opgraft_host host = {
      .struct_size = sizeof host, .flags = flags, .threads = 2};
  *out = (outcome){.status = OG_INTERNAL};
  text_on_device(&m->text, &text);
  if (!device_open(&d, path, seed)) return;
  out->status =
      opgraft_graph_parse(text.data, text.length, &graph, &out->error);
  if (out->status == OG_OK)
    out->status = opgraft_graph_finish(graph, &options, &out->error);
  if (out->status == OG_OK)
    out->status =
        opgraft_executable_create(graph, &host, &executable, &out->error);
  for (uint64_t call = 0; call < 2 && out->status == OG_OK; ++call)
    out->status = device_call(&d, executable, m, seed + call * 7919, out);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  opgraft_driver_destroy(d.driver);
  if (d.reports > 0) out->status = OG_INTERNAL;
  og_text_reset(&text);
}

// --- Comparing ---------------------------------------------------------------

static bool same(const outcome *a, const outcome *b) {
  return a->status == b->status && a->bytes.length == b->bytes.length &&
         (a->bytes.length == 0 ||
          memcmp(a->bytes.data, b->bytes.data, a->bytes.length) == 0);
}

// --- One graph ---------------------------------------------------------------

typedef struct tally {
  int64_t right, wrong, refused;
} tally;

static void passes_without(maker *m, og_text *out) {
  for (int32_t i = 0; opgraft_pass_name(i) != NULL; ++i)
    if (chance(m, 2)) og_text_addf(out, "%s ", opgraft_pass_name(i));
}

enum { FORMS = 7 };  // in which a graph is run; the last is on the device

typedef struct task {
  int64_t count;
  uint64_t seed;
  bool fuses, prints;
  const char *driver;  // NULL: nothing runs on a device
} task;

static void graph_try(const task *t, uint64_t seed, tally *count) {
  const int forms = t->driver != NULL ? FORMS : FORMS - 1;
  static maker m;
  og_text all = {0}, some = {0};
  outcome wanted, found[FORMS];
  memset(&m, 0, sizeof m);
  m.is_exact = t->fuses;
  graph_make(&m, seed);
  if (m.text.failed) {
    og_text_reset(&m.text);
    ++count->wrong;
    return;
  }
  if (t->prints) fputs(m.text.data, stdout);
  for (int32_t i = 0; opgraft_pass_name(i) != NULL; ++i)
    og_text_addf(&all, "%s ", opgraft_pass_name(i));
  passes_without(&m, &some);
  og_text_add(&some, "");
  graph_run(&m, seed, all.data, OPGRAFT_HOST_UNSHARED, 1, &wanted);
  graph_run(&m, seed, "", 0, 1, &found[0]);
  graph_run(&m, seed, some.data, 0, 2, &found[1]);
  graph_run(&m, seed, "", 0, 2, &found[2]);
  graph_run(&m, seed, some.data, OPGRAFT_HOST_LANES_NOW, 3, &found[3]);
  graph_run(&m, seed, "", OG_HOST_ANY_SIZE, 1, &found[4]);
  graph_run(&m, seed, some.data, OG_HOST_ANY_SIZE | OPGRAFT_HOST_LANES_NOW, 3,
            &found[5]);
  if (t->driver != NULL) device_run(&m, seed, t->driver, 0, &found[6]);
  bool is_right = true;
  for (int i = 0; i < forms; ++i) {
    // What the passes remove cannot fail any more.
    const bool fits = wanted.status != OG_OK || same(&wanted, &found[i]);
    if (!fits)
      printf("seed %" PRIu64 ", %s: differs (%s)\n%s", seed,
             i == 0              ? "all passes"
             : i == 2            ? "threads"
             : i == 3            ? "lanes"
             : i == 4            ? "let go"
             : i == 5            ? "let go, lanes"
             : i == 6            ? "the device"
             : some.data != NULL ? some.data
                                 : "",
             found[i].status != OG_OK ? found[i].error.text : "numbers",
             m.text.data);
    is_right &= fits;
    og_text_reset(&found[i].bytes);
  }
  if (wanted.status == OG_INVALID || wanted.status == OG_INTERNAL) {
    printf("seed %" PRIu64 ": %s\n%s", seed, wanted.error.text, m.text.data);
    is_right = false;
  } else if (wanted.status != OG_OK) {
    ++count->refused;
    if (t->prints) printf("refused: %s\n", wanted.error.text);
  }
  ++*(is_right ? &count->right : &count->wrong);
  og_text_reset(&wanted.bytes);
  og_text_reset(&all);
  og_text_reset(&some);
  og_text_reset(&m.text);
}

static int work(const task *t) {
  tally total = {0};
  for (int64_t i = 0; i < t->count && total.wrong < 5; ++i)
    graph_try(t, t->seed + (uint64_t)i, &total);
  const bool are_tried = total.refused * 20 <= total.right + total.wrong;
  if (!are_tried) printf("too many graphs are refused\n");
  printf("%" PRId64 " refused; %" PRId64 " passed, %" PRId64 " failed\n",
         total.refused, total.right, total.wrong + !are_tried);
  return total.wrong > 0 || !are_tried;
}

int main(int argc, char **argv) {
  task t = {.count = 200, .seed = 1};
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--count=", 8) == 0)
      t.count = strtoll(argv[i] + 8, NULL, 10);
    if (strncmp(argv[i], "--seed=", 7) == 0)
      t.seed = (uint64_t)strtoll(argv[i] + 7, NULL, 10);
    if (strncmp(argv[i], "--device=", 9) == 0) t.driver = argv[i] + 9;
    if (strcmp(argv[i], "--fuse") == 0) t.fuses = true;
    if (strcmp(argv[i], "--print") == 0) t.prints = true;
  }
  tool_begin();
  return tool_end(work(&t));
}

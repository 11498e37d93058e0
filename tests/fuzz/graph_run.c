// SPDX-License-Identifier: Apache-2.0
// Graphs that run: any bytes that read as a graph, text or file, are run as
// planned and as their text says (opgraft/plain.h), and give the same outputs
// and leave the same in their inputs. What the plan takes, the plain run takes.
//
// Mutations keep most of a text's structure; a file's header, with its sizes
// and checksum, is made right. Graphs that read, plan and run are accepted.

#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <opgraft/graph_file.h>
#include <opgraft/plain.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/step/exec.h"
#include "fuzz/graph_mutate.h"
#include "fuzz/graph_seal.h"
#include "kernel/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed);

enum { INPUTS_LIMIT = 16, SYMBOLS_LIMIT = 8, FILLINGS = 3 };
enum { BYTES_LIMIT = 1 << 20, WORK_LIMIT = 1 << 20 };

// --- Files -------------------------------------------------------------------

// The packed form of a first constant of two dims, all zeros: results are only
// compared where no fast kernel runs.
static size_t table_make(const edit *e, char *out, size_t room,
                         size_t *out_packed_bytes) {
  const char *at = strstr(e->text, ": f32[");
  const char *end = at != NULL ? strstr(at, "] = data 0\n") : NULL;
  int k = 0, n = 0, used = 0;
  *out_packed_bytes = 0;
  if (end == NULL || sscanf(at, ": f32[%d, %d]%n", &k, &n, &used) != 2 ||
      at + used != end + 1 || k < 1 || n < 1 || k > 16 || n > 16)
    return 0;
  *out_packed_bytes = og_packed_bytes(n, k, OG_F32);
  return (size_t)snprintf(
      out, room,
      "# packed f32-panels16 of 0: %d x %d, strides 1 %d, %zu bytes\n", n, k, n,
      *out_packed_bytes);
}

// A file of this text and data, and perhaps of packed weights; 0 where there is
// no room.
static size_t file_make(edit *e, const char *data, size_t data_bytes, char *out,
                        size_t room) {
  char header[OG_FILE_HEADER_BYTES + 1], table[128] = "";
  size_t packed_bytes = 0;
  const size_t table_bytes =
      any(e, 2) == 0 ? table_make(e, table, sizeof table, &packed_bytes) : 0;
  og_file_header head = {.text_bytes = e->length,
                         .table_bytes = table_bytes,
                         .data_bytes = data_bytes,
                         .packed_bytes = packed_bytes};
  const size_t text_end = OG_FILE_HEADER_BYTES + e->length + table_bytes;
  head.data_offset =
      (text_end + 8 * (size_t)og_file_blocks(&head) + 63) / 64 * 64;
  const size_t size = (size_t)og_file_bytes(&head);
  if (size > room) return 0;
  memset(out, 0, size);
  og_file_header_print(&head, header);
  memcpy(out, header, OG_FILE_HEADER_BYTES);
  memcpy(out + OG_FILE_HEADER_BYTES, e->text, e->length);
  memcpy(out + OG_FILE_HEADER_BYTES + e->length, table, table_bytes);
  memcpy(out + head.data_offset, data, data_bytes);
  seal(out, size);
  return size;
}

// A constant's numbers become a file's data.
static void constant_move(edit *e) {
  const char *at = strstr(e->text, "constant ");
  const char *numbers = at != NULL ? strstr(at, "= [") : NULL;
  const char *end = numbers != NULL ? strchr(numbers + 3, ']') : NULL;
  if (end != NULL)
    put(e, (size_t)(numbers - e->text) + 2, (size_t)(end - numbers) - 1,
        "data 0");
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed) {
  static edit e;
  static char made[1 << 14], constants[512];
  size_t constant_bytes = 0, text_at = 0, text_bytes = size;
  e.chance.state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (int i = 0; i < 4; ++i) next(&e.chance);
  bool makes_file = is_file(data, size);
  if (makes_file) {
    const char *bytes = (const char *)data;
    const size_t left = size - OG_FILE_HEADER_BYTES;
    const uint64_t begin = seal_number(bytes, SEAL_DATA_AT);
    text_bytes = seal_number(bytes, SEAL_TEXT_AT);
    text_at = OG_FILE_HEADER_BYTES;
    if (text_bytes > left) text_bytes = left;
    constant_bytes = seal_number(bytes, SEAL_DATA_BYTES_AT);
    if (begin > size || constant_bytes > size - begin) constant_bytes = 0;
    if (constant_bytes > sizeof constants) constant_bytes = sizeof constants;
    if (constant_bytes > 0) memcpy(constants, data + begin, constant_bytes);
  }
  e.length = text_bytes < TEXT_MAX ? text_bytes : TEXT_MAX;
  if (e.length > 0) memcpy(e.text, data + text_at, e.length);
  e.text[e.length] = '\0';
  if (any(&e, 3) == 0) text_fresh(&e, (uint64_t)seed);
  if (any(&e, 4) > 0) text_mutate(&e);
  if (!makes_file && any(&e, 8) == 0) {
    makes_file = true;
    constant_move(&e);
    constant_bytes = 256;
    for (size_t i = 0; i < constant_bytes; ++i)
      constants[i] = (char)(any(&e, 4) > 0 ? 0 : any(&e, 256));
  }
  if (makes_file && constant_bytes > 0 && any(&e, 3) == 0)
    constants[any(&e, constant_bytes)] = (char)any(&e, 256);
  if (max_size > sizeof made) max_size = sizeof made;
  size_t used = e.length < max_size ? e.length : max_size;
  if (makes_file)
    used = file_make(&e, constants, constant_bytes, made, max_size);
  if (used == 0) return size;
  memcpy(data, makes_file ? made : e.text, used);
  return used;
}

// --- Inputs ------------------------------------------------------------------

typedef struct fed {
  int32_t count;
  og_tensor tensors[INPUTS_LIMIT];
  int64_t sizes[INPUTS_LIMIT][2 * OPGRAFT_RANK_MAX];
  const og_tensor *in[INPUTS_LIMIT];
  int64_t ints[INPUTS_LIMIT];
} fed;

static void fed_reset(fed *f) {
  for (int32_t i = 0; i < f->count; ++i) free(f->tensors[i].data);
}

static char *element_of(const og_tensor *tensor, int64_t index) {
  int64_t at = 0;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    at += index % tensor->shape[d] * tensor->strides[d];
    index /= tensor->shape[d];
  }
  return (char *)tensor->data + tensor->byte_offset +
         at * (int64_t)og_dtype_bytes(tensor->dtype);
}

// Numbers whose sums are exact, and indices that are in range. What lies
// between the elements is zeros, as for the plain run.
static void input_fill(maker *m, const og_tensor *tensor) {
  const size_t item = og_dtype_bytes(tensor->dtype);
  for (int64_t i = 0; i < og_numel(tensor); ++i) {
    char *to = element_of(tensor, i);
    if (og_dtype_class(tensor->dtype) == OG_CLASS_NONE)
      memset(to, (int)below(m, 256), item);
    else if (is_float(tensor->dtype))
      og_element_set_double(tensor->dtype, to, (double)below(m, 17) / 2 - 4);
    else
      og_element_set_int(tensor->dtype, to, below(m, 3));
  }
}

// Memory of exactly what the strides reach; false for what no caller could
// give.
static bool input_make(maker *m, const opgraft_graph *graph, int32_t index,
                       const int64_t *sizes, fed *out) {
  const og_input *input = &graph->inputs[index];
  og_tensor *tensor = &out->tensors[index];
  if (input->value < 0) {
    out->ints[index] = sizes[input->size];
    return true;
  }
  const og_value *value = &graph->values[input->value];
  int64_t count = 1, reach = 1;
  *tensor = (og_tensor){.device = {OG_CPU, 0},
                        .ndim = value->ndim,
                        .dtype = value->dtype,
                        .shape = out->sizes[index],
                        .strides = out->sizes[index] + value->ndim};
  for (int32_t d = 0; d < value->ndim; ++d) {
    const int64_t size = sizes[value->shape[d]];
    const int64_t stride = sizes[value->strides[d]];
    tensor->shape[d] = size;
    tensor->strides[d] = stride;
    if (size < 0 || size > 4096 || stride < -4096 || stride > 4096)
      return false;
    count *= size;
    if (size > 1 && stride < 0) return false;
    if (size > 1) reach += (size - 1) * stride;
    if (count > 65536 || reach > 65536) return false;
  }
  if (count == 0) reach = 0;
  tensor->data =
      calloc((size_t)(reach > 0 ? reach : 1), og_dtype_bytes(value->dtype));
  if (tensor->data == NULL) abort();
  input_fill(m, tensor);
  out->in[index] = tensor;
  return true;
}

static bool inputs_make(maker *m, const opgraft_graph *graph, fed *out) {
  int64_t symbols[SYMBOLS_LIMIT];
  memset(out, 0, sizeof *out);
  if (graph->input_count > INPUTS_LIMIT ||
      graph->sizes.symbol_count > SYMBOLS_LIMIT)
    return false;
  int64_t *sizes = calloc((size_t)graph->sizes.count + 1, sizeof *sizes);
  if (sizes == NULL) abort();
  for (int i = 0; i < SYMBOLS_LIMIT; ++i) symbols[i] = 1 + below(m, 5);
  out->count = graph->input_count;
  bool fits = og_sizes_eval(&graph->sizes, symbols, sizes, NULL) == OG_OK;
  for (int32_t i = 0; fits && i < out->count; ++i)
    fits = input_make(m, graph, i, sizes, out);
  free(sizes);
  return fits;
}

// --- Two runs ----------------------------------------------------------------

typedef struct outcome {
  og_status status;
  opgraft_error error;
  og_tensor *tensors;  // of outputs, then of inputs; data NULL: none
  int64_t *numbers;    // by output
  // What they lie in.
  fed given;
  opgraft_plain *plain;
  opgraft_graph *graph;
  opgraft_executable *executable;
  opgraft_call call;
  void **storages;
  bool is_single;  // sums may be in single precision: kernels were not chosen
} outcome;

static opgraft_graph *graph_read(const char *bytes, size_t size) {
  opgraft_error error;
  opgraft_graph *graph;
  const og_status status = og_graph_read(bytes, size, "m.og", &graph, &error);
  if (status == OG_INTERNAL) abort();
  return graph;
}

static void outcome_reset(outcome *o) {
  for (int32_t i = 0; i < o->call.storage_count; ++i) free(o->storages[i]);
  opgraft_call_end(&o->call);
  opgraft_plain_destroy(o->plain);
  opgraft_executable_release(o->executable);
  opgraft_graph_release(o->graph);
  fed_reset(&o->given);
  free(o->storages);
  free(o->tensors);
  free(o->numbers);
}

static void results_alloc(outcome *o) {
  const size_t count = (size_t)(o->graph->output_count + o->given.count) + 1;
  o->tensors = calloc(count, sizeof *o->tensors);
  o->numbers = calloc(count, sizeof *o->numbers);
  if (o->tensors == NULL || o->numbers == NULL) abort();
}

static void plain_run(outcome *o) {
  const opgraft_host host = {.struct_size = sizeof host,
                             .max_bytes = 16 * BYTES_LIMIT,
                             .max_work = 64 * WORK_LIMIT};
  o->status = opgraft_plain_run(o->graph, &host, o->given.in, o->given.ints,
                                o->given.count, &o->plain, &o->error);
  if (o->status != OG_OK) return;
  results_alloc(o);
  const int32_t outputs = o->graph->output_count;
  for (int32_t i = 0; i < outputs; ++i)
    if (opgraft_plain_output(o->plain, i, &o->tensors[i], &o->numbers[i]) !=
        OPGRAFT_OUTPUT_STORAGE)
      o->tensors[i].data = NULL;
  for (int32_t i = 0; i < o->given.count; ++i)
    if (!opgraft_plain_input(o->plain, i, &o->tensors[outputs + i]))
      o->tensors[outputs + i].data = NULL;
}

// Kernels that sum in single precision lose more than the plain run does where
// sums cancel or leave its range.
static const char in_double[] =
    "matmul: plain\naddmm: plain\nattention: plain\n";

static void planned_begin(outcome *o, maker *m, bool has_passes) {
  static const char no_pass[] = "view fold noop cse dce reinplace fuse";
  static const uint32_t precisions[] = {
      0, OPGRAFT_OPTION_PRECISION_BF16, OPGRAFT_OPTION_PRECISION_INT8,
      OPGRAFT_OPTION_PRECISION_INT4, OPGRAFT_OPTION_PRECISION_INT4_32};
  const bool has_lanes = chance(m, 16);
  o->is_single = chance(m, 3);
  const bool is_max = o->is_single && chance(m, 2);
  const opgraft_options options = {
      .struct_size = sizeof options,
      .flags =
          is_max ? OPGRAFT_OPTION_MAX_AUTOTUNE | precisions[below(m, 5)] : 0,
      .disable = !has_passes    ? no_pass
                 : chance(m, 3) ? opgraft_pass_name((int32_t)below(m, 6))
                                : NULL};
  const bool takes_any_size = chance(m, 4);
  const opgraft_host host = {.struct_size = sizeof host,
                             .rules = o->is_single ? NULL : in_double,
                             .flags = has_lanes ? OPGRAFT_HOST_LANES_NOW : 0,
                             .threads = has_lanes ? 2 : 1,
                             .max_bytes = BYTES_LIMIT,
                             .max_work = WORK_LIMIT};
  o->status = opgraft_graph_finish(o->graph, &options, &o->error);
  if (o->status == OG_OK)
    o->status =
        opgraft_executable_create(o->graph, &host, &o->executable, &o->error);
  if (o->status == OG_OK && takes_any_size)
    o->executable->host.flags |= OG_HOST_ANY_SIZE;
  o->call.struct_size = sizeof o->call;
  if (o->status == OG_OK)
    o->status =
        opgraft_executable_begin(o->executable, o->given.in, o->given.ints,
                                 o->given.count, &o->call, &o->error);
}

static void planned_run(outcome *o, maker *m, bool has_passes) {
  planned_begin(o, m, has_passes);
  if (o->status != OG_OK) return;
  o->storages = calloc((size_t)o->call.storage_count + 1, sizeof *o->storages);
  if (o->storages == NULL) abort();
  for (int32_t i = 0; i < o->call.storage_count; ++i) {
    const size_t bytes = o->call.storages[i].size_bytes;
    o->storages[i] = malloc(bytes + (bytes == 0));
    if (o->storages[i] == NULL) abort();
    memset(o->storages[i], 0xa5, bytes);
  }
  o->status = opgraft_call_run(&o->call, o->storages, &o->error);
  if (o->status != OG_OK) return;
  results_alloc(o);
  for (int32_t i = 0; i < o->call.output_count; ++i) {
    const opgraft_output *from = &o->call.outputs[i];
    o->tensors[i] = from->tensor;
    o->numbers[i] = from->size;
    if (from->kind == OPGRAFT_OUTPUT_STORAGE)
      o->tensors[i].data = o->storages[from->index];
    if (from->kind == OPGRAFT_OUTPUT_INPUT)
      o->tensors[i].data = o->given.tensors[from->index].data;
  }
  for (int32_t i = 0; i < o->given.count; ++i)
    o->tensors[o->call.output_count + i] = o->given.tensors[i];
}

// --- Comparing ---------------------------------------------------------------

// Kernels add in the order of memory, so the last bits may differ.
static bool near(og_dtype dtype, const char *a, const char *b) {
  const size_t item = og_dtype_bytes(dtype);
  if (memcmp(a, b, item) == 0) return true;
  if (!is_float(dtype) || og_dtype_class(dtype) == OG_CLASS_NONE) return false;
  const double x = og_element_double(dtype, a), y = og_element_double(dtype, b);
  const double part = dtype.bits == 16 ? 0.03 : dtype.bits == 32 ? 1e-4 : 1e-7;
  if (x == y || (isnan(x) && isnan(y))) return true;
  return fabs(x - y) <= part * fmax(1, fmin(fabs(x), fabs(y)));
}

static bool tensors_same(const og_tensor *a, const og_tensor *b) {
  if (a->data == NULL || b->data == NULL)
    return (a->data == NULL) == (b->data == NULL);
  bool same = a->ndim == b->ndim && og_dtype_equal(a->dtype, b->dtype);
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d];
  const int64_t count = same ? og_numel(a) : 0;
  for (int64_t i = 0; same && i < count; ++i)
    same = near(a->dtype, element_of(a, i), element_of(b, i));
  return same;
}

// The first result that differs; -1 where none does.
static int32_t difference(const outcome *a, const outcome *b) {
  const int32_t outputs = a->graph->output_count;
  if (outputs != b->graph->output_count || a->given.count != b->given.count)
    return 0;
  for (int32_t i = 0; i < outputs + a->given.count; ++i)
    if (!tensors_same(&a->tensors[i], &b->tensors[i]) ||
        a->numbers[i] != b->numbers[i])
      return i;
  return -1;
}

// --- One graph ---------------------------------------------------------------

typedef struct subject {
  const char *bytes;
  size_t size;
  uint64_t seed;
} subject;

static void chance_begin(maker *m, uint64_t seed) {
  m->state = seed * 0x9e3779b97f4a7c15ULL + 77;
  for (int i = 0; i < 4; ++i) next(m);
}

static void wrong(const subject *s, const char *what, const outcome *planned,
                  const outcome *plain) {
  const bool has_header = is_file((const uint8_t *)s->bytes, s->size);
  const size_t skipped = has_header ? OG_FILE_HEADER_BYTES : 0;
  fprintf(stderr, "%s\nplanned: %s\nplain: %s\n%.*s\n", what,
          planned->status != OG_OK ? planned->error.text : "runs",
          plain->status != OG_OK ? plain->error.text : "runs",
          (int)(s->size - skipped), s->bytes + skipped);
  abort();
}

static void result_print(const char *who, const outcome *o, int32_t index) {
  const og_tensor *tensor = &o->tensors[index];
  fprintf(stderr, "%s, result %d: %lld", who, (int)index,
          (long long)o->numbers[index]);
  for (int64_t i = 0; tensor->data && i < og_numel(tensor) && i < 40; ++i)
    fprintf(stderr, " %g",
            og_element_double(tensor->dtype, element_of(tensor, i)));
  fputc('\n', stderr);
}

static bool pair_begin(const subject *s, maker *m, outcome *planned,
                       outcome *plain) {
  memset(planned, 0, sizeof *planned);
  memset(plain, 0, sizeof *plain);
  planned->graph = graph_read(s->bytes, s->size);
  plain->graph = graph_read(s->bytes, s->size);
  if (planned->graph == NULL || plain->graph == NULL) return false;
  chance_begin(m, s->seed);
  if (!inputs_make(m, plain->graph, &plain->given)) return false;
  chance_begin(m, s->seed);
  return inputs_make(m, planned->graph, &planned->given);
}

// Without passes the plan refuses what the plain run does: passes may take
// away what is wrong with a graph.
static void refusal_check(const subject *s) {
  static outcome planned, plain;
  static maker m;
  if (pair_begin(s, &m, &planned, &plain)) {
    planned_run(&planned, &m, false);
    plain_run(&plain);
    if (planned.status == OG_OK)
      wrong(s, "the plan runs what the plain run refuses", &planned, &plain);
  }
  outcome_reset(&planned);
  outcome_reset(&plain);
}

// True if both ran; *out_differs says whether they gave something else.
static bool subject_run(const subject *s, bool has_passes, bool *out_differs) {
  static outcome planned, plain;
  static maker m;
  int32_t result = -1;
  bool runs = pair_begin(s, &m, &planned, &plain);
  if (runs) {
    planned_run(&planned, &m, has_passes);
    if (planned.status == OG_INTERNAL)
      wrong(s, "an internal error", &planned, &plain);
    if (planned.status == OG_OK) plain_run(&plain);
    runs = planned.status == OG_OK && plain.status == OG_OK;
    if (planned.status == OG_OK && !runs && plain.status != OG_MEMORY &&
        plain.status != OG_UNSUPPORTED)
      refusal_check(s);
    if (runs && !planned.is_single) result = difference(&planned, &plain);
  }
  *out_differs = result >= 0;
  if (result >= 0) {
    result_print("planned", &planned, result);
    result_print("plain", &plain, result);
  }
  outcome_reset(&planned);
  outcome_reset(&plain);
  return runs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 1099511628211ULL;
  // A mapping begins at a page, so constants are aligned.
  char *bytes = aligned_alloc(64, (size / 64 + 1) * 64);
  if (bytes == NULL) abort();
  if (size > 0) memcpy(bytes, data, size);
  if (is_file(data, size)) seal(bytes, size);
  subject s = {bytes, size, hash};
  bool differs = false;
  const bool has_passes = hash % 4 > 0;
  const bool runs = subject_run(&s, has_passes, &differs);
  // A last bit may turn a comparison; that it does for every input is not
  // chance.
  for (int i = 1; differs && i < FILLINGS; ++i) {
    s.seed = hash + (uint64_t)i;
    differs = subject_run(&s, has_passes, &differs) && differs;
  }
  if (differs) {
    static const outcome none;
    wrong(&s, "the results differ", &none, &none);
  }
  free(bytes);
  return runs ? 0 : -1;
}

// SPDX-License-Identifier: Apache-2.0
// A runtime that holds the module as a domain of custom operators: any node
// (attributes of any kind and length, inputs, sizes that are numbers or names)
// is made, inferred and run, or refused with a text; each status and object is
// released. Once as the oldest runtime, once as one that lends shapes.

#include <stdbool.h>
#include <stdio.h>

#include "fuzz/host.h"
#include "onnxruntime/abi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *RegisterCustomOps(void *options, const ort_api_base *base);

enum { SLOTS = 415, OPS = 64, INPUTS = 6, ATTRS = 8, BYTES_MAX = 1 << 16 };

typedef struct value {
  int type;
  size_t rank;
  int64_t dims[RANK_MAX];
  const char *names[RANK_MAX];
  void *data;
} value;

typedef struct attr {
  const char *name;
  int kind;     // ORT_ATTR_*
  size_t size;  // bytes
  char *data;
} attr;

// What a node has; it is the kernel info and both contexts too.
static struct {
  bytes *in;
  attr attrs[ATTRS];
  int attr_count;
  value inputs[INPUTS];
  size_t input_count;
  int is_given[INPUTS];
} node;

static ort_function tables[2][SLOTS];
static const ort_custom_op *ops[2][OPS];
static int op_count;
static int table;  // that registers, or that the input is for
static int alive;  // statuses and objects

// --- Statuses ----------------------------------------------------------------

static void *create_status(int code, const char *text) {
  (void)code;
  text_require(text);
  ++alive;
  return malloc(1);
}

static void *refused(void) { return create_status(1, "the fuzzer refuses"); }

static void *release_status(void *status) {
  if (status == NULL) abort();
  free(status);
  --alive;
  return NULL;
}

// --- The domain --------------------------------------------------------------

static void *create_domain(const char *name, void **out_domain) {
  static int domain;
  text_require(name);
  *out_domain = &domain;
  return NULL;
}

static void *domain_add(void *domain, const ort_custom_op *op) {
  (void)domain;
  if (op_count == OPS) abort();
  ops[table][op_count++] = op;
  return NULL;
}

static void *add_domain(void *options, void *domain) {
  return options == domain ? refused() : NULL;
}

// --- Attributes --------------------------------------------------------------

static const attr *attr_find(const char *name) {
  for (int i = 0; i < node.attr_count; ++i)
    if (strcmp(node.attrs[i].name, name) == 0) return &node.attrs[i];
  return NULL;
}

static void *attr_get(const char *name, int kind, void *out, size_t size) {
  const attr *found = attr_find(name);
  if (found == NULL || found->kind != kind) return refused();
  memcpy(out, found->data, size);
  return NULL;
}

static void *attr_float(const void *info, const char *name, float *out) {
  (void)info;
  return attr_get(name, ORT_ATTR_FLOAT, out, sizeof *out);
}

static void *attr_int(const void *info, const char *name, int64_t *out) {
  (void)info;
  return attr_get(name, ORT_ATTR_INT, out, sizeof *out);
}

// *size counts entries of `item` bytes; the runtime's own rule.
static void *attr_many(const char *name, int kind, void *out, size_t *size,
                       size_t item) {
  const attr *found = attr_find(name);
  if (found == NULL || found->kind != kind) return refused();
  const size_t count = found->size / item, room = *size;
  *size = count;
  if (out == NULL) return NULL;
  if (room < count) return refused();
  memcpy(out, found->data, found->size);
  return NULL;
}

static void *attr_text(const void *info, const char *name, char *out,
                       size_t *size) {
  (void)info;
  return attr_many(name, ORT_ATTR_STRING, out, size, 1);
}

static void *attr_floats(const void *info, const char *name, float *out,
                         size_t *size) {
  (void)info;
  return attr_many(name, ORT_ATTR_FLOATS, out, size, sizeof *out);
}

static void *attr_ints(const void *info, const char *name, int64_t *out,
                       size_t *size) {
  (void)info;
  return attr_many(name, ORT_ATTR_INTS, out, size, sizeof *out);
}

static void *infer_attr(const void *context, const char *name,
                        const void **out) {
  (void)context;
  *out = attr_find(name);
  return *out == NULL ? refused() : NULL;
}

// A text's NUL is not counted here.
static void *attr_read(const void *address, int kind, void *out, size_t size,
                       size_t *out_size) {
  const attr *found = address;
  const size_t own = found->size - (kind == ORT_ATTR_STRING);
  if (found->kind != kind) return refused();
  *out_size = own;
  if (size < own) return refused();
  if (own > 0) memcpy(out, found->data, own);
  return NULL;
}

// --- Values ------------------------------------------------------------------

static void *input_count(const void *context, size_t *out) {
  (void)context;
  *out = node.input_count;
  return NULL;
}

static void *input(const void *context, size_t index, void **out) {
  (void)context;
  if (index >= node.input_count) abort();
  *out = node.is_given[index] ? &node.inputs[index] : NULL;
  return NULL;
}

static size_t type_bytes(int type) {
  static const size_t sizes[ORT_TYPES] = {
#define ENTRY(code, kind, bits) [code] = bits / 8,
      ORT_TYPE_LIST(ENTRY)
#undef ENTRY
  };
  return type >= 0 && type < ORT_TYPES && sizes[type] > 0 ? sizes[type] : 8;
}

static void *output(void *context, size_t index, const int64_t *dims,
                    size_t rank, void **out_value) {
  (void)context;
  (void)index;
  size_t size = 8;
  for (size_t i = 0; i < rank; ++i)
    if (dims[i] < 0 || dims[i] > BYTES_MAX ||
        (size *= (size_t)dims[i]) > BYTES_MAX)
      return refused();
  *out_value = NULL;  // an output without a name
  if (take(node.in, 32) == 31) return NULL;
  value *made = hold(sizeof *made);
  made->data = hold(size);
  *out_value = made;
  return NULL;
}

static void *tensor_data(void *address, void **out) {
  *out = ((value *)address)->data;
  return NULL;
}

// An info is a copy, so that one too many or too few shows.
static void *get_info(const void *address, void **out) {
  value *made = malloc(sizeof *made);
  if (made == NULL) abort();
  *made = *(const value *)address;
  ++alive;
  *out = made;
  return NULL;
}

static void *create_info(void **out) {
  static const value none;
  return get_info(&none, out);
}

static void *release_info(void *info) {
  free(info);
  --alive;
  return NULL;
}

static void *infer_input(const void *context, size_t index, void **out) {
  return input(context, index, out);
}

static void *get_type(const void *info, int *out) {
  *out = ((const value *)info)->type;
  return NULL;
}

static void *get_rank(const void *info, size_t *out) {
  *out = ((const value *)info)->rank;
  return NULL;
}

static void *get_dims(const void *info, int64_t *dims, size_t rank) {
  const value *own = info;
  if (rank != own->rank) abort();
  memcpy(dims, own->dims, rank * sizeof *dims);
  return NULL;
}

static void *get_symbols(const void *info, const char **names, size_t rank) {
  const value *own = info;
  if (rank != own->rank) abort();
  for (size_t i = 0; i < rank; ++i) names[i] = own->names[i];
  return NULL;
}

static void *get_shape(const void *address, int *out_type,
                       const int64_t **out_dims, size_t *out_rank) {
  const value *own = address;
  *out_type = own->type;
  *out_dims = own->rank > 0 ? own->dims : NULL;
  *out_rank = own->rank;
  return NULL;
}

static void *set_type(void *info, int type) {
  ((value *)info)->type = type;
  return NULL;
}

static void *set_dims(void *info, const int64_t *dims, size_t rank) {
  ((value *)info)->rank = rank;
  for (size_t i = 0; i < rank; ++i)
    if (dims[i] < -1) abort();
  return NULL;
}

static void *set_symbols(void *info, const char **names, size_t rank) {
  if (((value *)info)->rank != rank) abort();
  for (size_t i = 0; i < rank; ++i)
    if (strlen(names[i]) > 64) abort();
  return NULL;
}

static void *infer_output(const void *context, size_t index, void *info) {
  (void)context;
  (void)index;
  return ((value *)info)->type == 0 ? refused() : NULL;
}

static void *parallel_for(const void *context, void (*fn)(void *, size_t),
                          size_t total, size_t batches, void *state) {
  (void)context;
  (void)batches;
  for (size_t i = total; i-- > 0;) fn(state, i);
  return NULL;
}

static void *release_domain(void *domain) {
  (void)domain;
  return NULL;
}

// --- The runtime -------------------------------------------------------------

static void absent(void) { abort(); }

#define infer_count input_count
static void tables_fill(void) {
  for (int t = 0; t < 2; ++t)
    for (int i = 0; i < SLOTS; ++i) tables[t][i] = absent;
#define SET(name, number, parameters)             \
  do {                                            \
    const ort_fn_##name own = name;               \
    memcpy(&tables[0][number], &own, sizeof own); \
    memcpy(&tables[1][number], &own, sizeof own); \
  } while (0);
  ORT_SLOT_LIST(SET)
#undef SET
  tables[0][ORT_SLOT_get_shape] = absent;
}

static ort_api get_api(uint32_t version) {
  return version <= (table == 0 ? ORT_LEVEL_LEAST : ORT_LEVEL_SHAPE)
             ? tables[table]
             : NULL;
}

static const char *get_version(void) {
  return table == 0 ? "1.16.3" : "1.24.0";
}

static void registered(void) {
  static const ort_api_base base = {get_api, get_version};
  if (op_count > 0) return;
  tables_fill();
  for (table = 0; table < 2; ++table) {
    op_count = 0;
    if (RegisterCustomOps(NULL, &base) != NULL || op_count == 0) abort();
  }
}

// --- A node ------------------------------------------------------------------

static const char *dim_name(bytes *in) {
  static const char *const names[] = {"B", "T", ""};
  return names[take(in, 3)];
}

// Where shapes are inferred, sizes may be unknown: -1, and a name or none.
static void value_take(bytes *in, value *out, int type, int is_inferred) {
  *out = (value){.type = take(in, 16) == 0 ? (int)take(in, 20) : type};
  out->rank = (size_t)dims_take(in, out->dims);
  size_t size = type_bytes(out->type);
  for (size_t i = 0; i < out->rank; ++i) {
    size *= (size_t)out->dims[i];
    out->names[i] = "";
    if (!is_inferred || take(in, 2) == 0) continue;
    out->dims[i] = -1;
    out->names[i] = dim_name(in);
  }
  out->data = hold(size);
  memset(out->data, (int)take(in, 256), size);
}

static void attr_take(bytes *in, const og_own_op *op, attr *out) {
  static const size_t items[] = {0, 8, 8, 4, 4, 1};
  static const char *const texts[] = {"f32", "i64", "none", ""};
  *out = (attr){.name = name_take(in, op), .kind = 1 + (int)take(in, 5)};
  const int is_many =
      out->kind == ORT_ATTR_INTS || out->kind == ORT_ATTR_FLOATS;
  out->size = items[out->kind] * (is_many ? take(in, 6) : 1);
  if (out->kind == ORT_ATTR_STRING) {
    const char *text = texts[take(in, 4)];
    out->size = strlen(text) + 1;
    out->data = hold(out->size);
    memcpy(out->data, text, out->size);
    return;
  }
  out->data = hold_bytes(in, out->size);
  if (out->kind == ORT_ATTR_INT || out->kind == ORT_ATTR_INTS)
    for (size_t i = 0; i < out->size / 8; ++i) {
      const int64_t small =
          take(in, 4) != 0 ? (int64_t)take(in, 4) : take_int(in);
      memcpy(out->data + 8 * i, &small, sizeof small);
    }
}

static void node_take(bytes *in, const ort_custom_op *custom,
                      const og_own_op *op, int is_inferred) {
  memset(&node, 0, sizeof node);
  node.in = in;
  node.attr_count = (int)take(in, ATTRS + 1);
  for (int i = 0; i < node.attr_count; ++i) attr_take(in, op, &node.attrs[i]);
  // The runtime counts inputs; a list takes what is left.
  const size_t least = custom->input_count(custom);
  const int is_list = custom->input_form(custom, least - 1) == ORT_VARIADIC;
  node.input_count = is_list ? least - 1 + take(in, INPUTS - 2) : least;
  if (node.input_count > INPUTS) abort();
  for (size_t i = 0; i < node.input_count; ++i) {
    const size_t own = i < least ? i : least - 1;
    value_take(in, &node.inputs[i], custom->input_type(custom, own),
               is_inferred);
    node.is_given[i] =
        custom->input_form(custom, own) != ORT_OPTIONAL || take(in, 2) == 0;
  }
}

static const og_own_op *own_find(const char *name) {
  const og_own *own = og_own_get();
  for (int32_t i = 0; i < own->op_count; ++i)
    if (strcmp(own->ops[i].info.name, name) == 0) return &own->ops[i];
  abort();
}

static void node_run(const ort_custom_op *op) {
  void *kernel = NULL;
  void *status = op->kernel_create(op, tables[table], &node, &kernel);
  if (status != NULL) {
    release_status(status);
    return;
  }
  // As it is, then with one input changed.
  for (uint32_t times = 1 + take(node.in, 3); times > 0; --times) {
    status = op->kernel_compute(kernel, &node);
    if (status != NULL) release_status(status);
    if (times != 2 || node.input_count == 0) continue;
    value *changed = &node.inputs[take(node.in, (uint32_t)node.input_count)];
    value_take(node.in, changed, changed->type, 0);
  }
  op->kernel_destroy(kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  registered();
  table = (int)take(&in, 2);
  const ort_custom_op *op = ops[table][take(&in, (uint32_t)op_count)];
  const int is_inferred = op->infer != NULL && take(&in, 2) == 0;
  node_take(&in, op, own_find(op->name(op)), is_inferred);
  if (!is_inferred)
    node_run(op);
  else if (op->infer(op, &node) != NULL)
    abort();
  if (alive != 0) abort();
  held_free();
  return 0;
}

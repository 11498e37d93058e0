// SPDX-License-Identifier: Apache-2.0
// A runtime with TensorFlow's C operator API: operators are registered, kernels
// are made of any attributes and called with any tensors and any expected
// outputs, as a graph of somebody else may hold them. A call gives each output
// or an error, and every status, tensor and builder is released.

#include <opgraft/op.h>

#include "fuzz/host.h"
#include "tensorflow/abi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int32_t opgraft_tensorflow_register(int32_t op, const char *name, char *text,
                                    size_t size);
const char *opgraft_limit_tensorflow(int32_t op);
int64_t opgraft_tensorflow_infer(int32_t op, const int64_t *words,
                                 int64_t count, int64_t *out, int64_t out_size,
                                 char *text, size_t size);

#define DECLARE(name, result, parameters) OG_EXPORT result TF_##name parameters;
TF_FUNCTION_LIST(DECLARE)
#undef DECLARE

enum {
  INPUTS = 8,
  OUTPUTS = 8,
  WORDS = 256,
  NAME_BYTES = 300,
  BYTES_MAX = 1 << 16,
};

typedef struct memory {
  int32_t references;
  char *data;
} memory;

typedef struct tensor {
  int type;
  int rank;
  int64_t dims[RANK_MAX];
  memory *memory;
} tensor;

typedef struct status {
  int code;
  char text[TEXT_BYTES];
} status;

// What a kernel is made of.
static struct {
  char op[NAME_BYTES];
  int32_t op_bytes;
  int64_t words[WORDS];
  int32_t word_count;
  int is_missing[2];  // the attributes op and call
  int is_failed;
} node;

// One call.
static struct {
  tensor inputs[INPUTS];
  int is_held[INPUTS];  // someone else has the memory too
  int input_count;
  tensor outputs[OUTPUTS];
  int types[OUTPUTS];
  int output_count;
  int refusal;  // the call of ours that is refused; 0: none
  int is_failed;
} run;

static int alive;    // statuses, tensors, memories, builders
static int refusal;  // of a registration: 1 the definition, 2 the kernel
static tf_create kernel_create;
static tf_compute kernel_compute;
static tf_delete kernel_delete;
static tf_infer shapes_infer;

static void *make(size_t size) {
  void *made = calloc(1, size);
  if (made == NULL) abort();
  ++alive;
  return made;
}

static void drop(void *made) {
  if (made == NULL) abort();
  free(made);
  --alive;
}

// --- Statuses ----------------------------------------------------------------

void *TF_NewStatus(void) { return make(sizeof(status)); }

void TF_DeleteStatus(void *made) { drop(made); }

void TF_SetStatus(void *made, int code, const char *text) {
  status *own = made;
  own->code = code;
  if (code == TF_CODE_OK) abort();
  text_require(text);
  memcpy(own->text, text, strlen(text) + 1);
}

int TF_GetCode(const void *made) { return ((const status *)made)->code; }

const char *TF_Message(const void *made) {
  return ((const status *)made)->text;
}

static void refuse(void *made) { TF_SetStatus(made, 5, "the fuzzer refuses"); }

// --- Registration ------------------------------------------------------------

void *TF_NewOpDefinitionBuilder(const char *name) {
  text_require(name);
  return make(1);
}

void TF_OpDefinitionBuilderAddInput(void *builder, const char *text) {
  if (builder == NULL) abort();
  text_require(text);
}

void TF_OpDefinitionBuilderAddOutput(void *builder, const char *text) {
  TF_OpDefinitionBuilderAddInput(builder, text);
}

void TF_OpDefinitionBuilderAddAttr(void *builder, const char *text) {
  TF_OpDefinitionBuilderAddInput(builder, text);
}

void TF_OpDefinitionBuilderSetIsStateful(void *builder, _Bool is_stateful) {
  if (builder == NULL || !is_stateful) abort();
}

void TF_OpDefinitionBuilderSetShapeInferenceFunction(void *builder,
                                                     tf_infer infer) {
  if (builder == NULL) abort();
  shapes_infer = infer;
}

void TF_RegisterOpDefinition(void *builder, void *made) {
  drop(builder);
  if (refusal == 1) refuse(made);
}

void TF_ShapeInferenceContextSetUnknownShape(void *context, void *made) {
  if (context == NULL || made == NULL) abort();
}

void *TF_NewKernelBuilder(const char *op, const char *device, tf_create create,
                          tf_compute compute, tf_delete delete) {
  text_require(op);
  text_require(device);
  kernel_create = create;
  kernel_compute = compute;
  kernel_delete = delete;
  return make(1);
}

void TF_RegisterKernelBuilder(const char *name, void *builder, void *made) {
  text_require(name);
  drop(builder);
  if (refusal == 2) refuse(made);
}

// --- Making a kernel ---------------------------------------------------------

static int is_op(const char *name) {
  if (strcmp(name, "op") != 0 && strcmp(name, "call") != 0) abort();
  return name[0] == 'o';
}

void TF_OpKernelConstruction_GetAttrSize(void *made, const char *name,
                                         int32_t *count, int32_t *bytes_count,
                                         void *out_status) {
  if (made != &node) abort();
  if (node.is_missing[is_op(name)]) {
    refuse(out_status);
    return;
  }
  *count = is_op(name) ? -1 : node.word_count;
  *bytes_count = is_op(name) ? node.op_bytes : -1;
}

// As much as there is room for, without a NUL.
void TF_OpKernelConstruction_GetAttrString(void *made, const char *name,
                                           char *text, size_t size,
                                           void *out_status) {
  if (made != &node || !is_op(name) || out_status == NULL) abort();
  const size_t own = (size_t)node.op_bytes;
  memcpy(text, node.op, own < size ? own : size);
}

void TF_OpKernelConstruction_GetAttrInt64List(void *made, const char *name,
                                              int64_t *words, int size,
                                              void *out_status) {
  if (made != &node || is_op(name) || out_status == NULL) abort();
  const int count = node.word_count < size ? node.word_count : size;
  memcpy(words, node.words, (size_t)count * sizeof *words);
}

void TF_OpKernelConstruction_Failure(void *made, void *why) {
  if (made != &node || TF_GetCode(why) == TF_CODE_OK) abort();
  node.is_failed = 1;
}

// --- Tensors -----------------------------------------------------------------

static size_t type_bytes(int type) {
  static const size_t sizes[TF_DTYPES] = {
#define ENTRY(number, code, bits) [number] = bits / 8,
      TF_DTYPE_LIST(ENTRY)
#undef ENTRY
  };
  return type > 0 && type < TF_DTYPES && sizes[type] > 0 ? sizes[type] : 8;
}

// 0 where that is more than the runtime has.
static int memory_make(tensor *out, int type, const int64_t *dims, int rank) {
  size_t size = type_bytes(type);
  if (rank < 0 || rank > RANK_MAX) abort();
  for (int i = 0; i < rank; ++i)
    if (dims[i] < 0 || dims[i] > BYTES_MAX ||
        (size *= (size_t)dims[i]) > BYTES_MAX)
      return 0;
  *out = (tensor){.type = type, .rank = rank, .memory = make(sizeof(memory))};
  if (rank > 0) memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
  out->memory->references = 1;
  out->memory->data = malloc(size);
  if (out->memory->data == NULL) abort();
  return 1;
}

static void memory_release(memory *own) {
  if (--own->references > 0) return;
  free(own->data);
  drop(own);
}

static tensor *handle_make(const tensor *own) {
  tensor *made = make(sizeof *made);
  *made = *own;
  ++made->memory->references;
  return made;
}

int TF_TensorType(const void *made) { return ((const tensor *)made)->type; }

int TF_NumDims(const void *made) { return ((const tensor *)made)->rank; }

int64_t TF_Dim(const void *made, int index) {
  if (index < 0 || index >= TF_NumDims(made)) abort();
  return ((const tensor *)made)->dims[index];
}

void *TF_TensorData(const void *made) {
  return ((const tensor *)made)->memory->data;
}

void TF_DeleteTensor(void *made) {
  memory_release(((tensor *)made)->memory);
  drop(made);
}

// --- A call ------------------------------------------------------------------

void TF_OpKernelContext_Failure(void *context, void *why) {
  if (context != &run || TF_GetCode(why) == TF_CODE_OK) abort();
  run.is_failed = 1;
}

int TF_NumInputs(void *context) {
  if (context != &run) abort();
  return run.input_count;
}

int TF_NumOutputs(void *context) {
  if (context != &run) abort();
  return run.output_count;
}

int TF_ExpectedOutputDataType(void *context, int index) {
  if (index < 0 || index >= TF_NumOutputs(context)) abort();
  return run.types[index];
}

static int is_refused(void) { return run.refusal > 0 && --run.refusal == 0; }

void TF_GetInput(void *context, int index, void **out_tensor,
                 void *out_status) {
  if (index < 0 || index >= TF_NumInputs(context)) abort();
  if (run.inputs[index].memory == NULL) abort();  // it was given up
  if (is_refused())
    refuse(out_status);
  else
    *out_tensor = handle_make(&run.inputs[index]);
}

static void *output_set(int index, const int64_t *dims, int rank,
                        void *out_status) {
  if (run.outputs[index].memory != NULL) abort();
  if (is_refused() ||
      !memory_make(&run.outputs[index], run.types[index], dims, rank)) {
    refuse(out_status);
    return NULL;
  }
  return handle_make(&run.outputs[index]);
}

void *TF_AllocateOutput(void *context, int index, int type, const int64_t *dims,
                        int rank, size_t size, void *out_status) {
  if (TF_ExpectedOutputDataType(context, index) != type) abort();
  void *made = output_set(index, dims, rank, out_status);
  size_t wanted = type_bytes(type);
  for (int i = 0; i < rank; ++i) wanted *= (size_t)dims[i];
  if (made != NULL && size != wanted) abort();
  return made;
}

// Forwards memory of the expected type and size that no one else holds.
void *TF_ForwardInputOrAllocateOutput(void *context, const int *inputs,
                                      int count, int index, const int64_t *dims,
                                      int rank, int *out_input,
                                      void *out_status) {
  if (count != 1 || inputs[0] < 0 || inputs[0] >= TF_NumInputs(context))
    abort();
  tensor *own = &run.inputs[inputs[0]];
  const int is_free = own->memory != NULL && own->memory->references == 1 &&
                      !run.is_held[inputs[0]] && own->rank == rank &&
                      own->type == TF_ExpectedOutputDataType(context, index) &&
                      memcmp(own->dims, dims, (size_t)rank * sizeof *dims) == 0;
  *out_input = -1;
  if (!is_free) return output_set(index, dims, rank, out_status);
  if (run.outputs[index].memory != NULL) abort();
  run.outputs[index] = *own;
  own->memory = NULL;
  *out_input = inputs[0];
  return handle_make(&run.outputs[index]);
}

// --- Inputs ------------------------------------------------------------------

// Usually float32, which most operators take.
static int type_take(bytes *in) {
  return take(in, 4) != 0 ? 1 : (int)take(in, TF_DTYPES + 1);
}

static void run_take(bytes *in, const og_own_op *op, int input_count) {
  memset(&run, 0, sizeof run);
  run.input_count = take(in, 16) == 15     ? (int)take(in, INPUTS + 1)
                    : input_count < INPUTS ? input_count
                                           : INPUTS;
  const int type = type_take(in);
  for (int i = 0; i < run.input_count; ++i) {
    int64_t dims[RANK_MAX];
    const int rank = dims_take(in, dims);
    const int own = take(in, 16) == 15 ? type_take(in) : type;
    if (!memory_make(&run.inputs[i], own, dims, rank)) abort();
    size_t size = type_bytes(own);
    for (int k = 0; k < rank; ++k) size *= (size_t)dims[k];
    memset(run.inputs[i].memory->data, (int)take(in, 256), size);
    run.is_held[i] = take(in, 4) == 3;
  }
  const int wanted = op->info.fresh_count + op->info.mutated_count;
  run.output_count = take(in, 8) == 7 ? (int)take(in, OUTPUTS + 1) : wanted;
  for (int i = 0; i < run.output_count; ++i)
    run.types[i] = take(in, 16) == 15 ? type_take(in) : type;
  if (take(in, 16) == 15) run.refusal = 1 + (int)take(in, 8);
}

static void run_end(void) {
  for (int i = 0; i < run.input_count; ++i)
    if (run.inputs[i].memory != NULL) memory_release(run.inputs[i].memory);
  for (int i = 0; i < run.output_count; ++i) {
    if (run.outputs[i].memory != NULL)
      memory_release(run.outputs[i].memory);
    else if (!run.is_failed)
      abort();
  }
}

// --- Attributes --------------------------------------------------------------

static void put(int64_t word) {
  if (node.word_count < WORDS) node.words[node.word_count++] = word;
}

// Returns how many inputs the words give.
static int tensor_take(bytes *in, const opgraft_param_info *param) {
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) {
    const int is_absent =
        (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0 && take(in, 2) == 1;
    put(!is_absent);
    return !is_absent;
  }
  const int count = (int)take(in, 4);
  int given = 0;
  put(count);
  for (int i = 0; i < count; ++i) {
    const int is_given = take(in, 8) != 7;
    put(is_given);
    given += is_given;
  }
  return given;
}

static void text_put(bytes *in) {
  static const char *const texts[] = {"", "ab", "f32", "a longer text"};
  const char *text = texts[take(in, 4)];
  const size_t length = strlen(text);
  int64_t words[2] = {0};
  memcpy(words, text, length);
  put((int64_t)length);
  for (size_t i = 0; i < length / 8 + 1; ++i) put(words[i]);
}

static void double_put(bytes *in) {
  const double value = (double)take_int(in) / 2;
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put(bits);
}

static void dtype_put(bytes *in) {
  static const uint8_t usual[][2] = {{2, 32}, {2, 64}, {0, 64}, {6, 8}};
  const uint32_t which = take(in, 8);
  put(which < 4 ? usual[which][0] : take(in, 256));
  put(which < 4 ? usual[which][1] : take(in, 256));
}

static void list_put(bytes *in, int32_t kind) {
  const int count = (int)take(in, 5);
  put(count);
  for (int i = 0; i < count; ++i) {
    if (kind == OG_ATTR_STRS)
      text_put(in);
    else if (kind == OG_ATTR_FLOATS)
      double_put(in);
    else
      put(take(in, 8) != 7 ? (int64_t)take(in, 4) : take_int(in));
  }
}

static void value_put(bytes *in, int32_t kind) {
  put(kind);
  switch (kind) {
    case OG_ATTR_INT:
    case OG_ATTR_BOOL:
      put(take(in, 4) != 3 ? (int64_t)take(in, 4) : take_int(in));
      return;
    case OG_ATTR_COMPLEX:
      double_put(in);
      double_put(in);
      return;
    case OG_ATTR_FLOAT:
      double_put(in);
      return;
    case OG_ATTR_DTYPE:
      dtype_put(in);
      return;
    case OG_ATTR_STR:
      text_put(in);
      return;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
    case OG_ATTR_FLOATS:
    case OG_ATTR_STRS:
      list_put(in, kind);
      return;
    default:
      return;
  }
}

static int32_t kind_take(bytes *in, const opgraft_param_info *param) {
  const int is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  if (take(in, 16) == 15) return (int32_t)take(in, 16);
  if ((param->flags & OPGRAFT_PARAM_OPTIONAL) != 0 && take(in, 2) == 1)
    return OG_ATTR_NONE;
  switch (param->type) {
    case OPGRAFT_TYPE_FLOAT:
      return is_list ? OG_ATTR_FLOATS : OG_ATTR_FLOAT;
    case OPGRAFT_TYPE_BOOL:
      return is_list ? OG_ATTR_BOOLS : OG_ATTR_BOOL;
    case OPGRAFT_TYPE_STR:
      return is_list ? OG_ATTR_STRS : OG_ATTR_STR;
    case OPGRAFT_TYPE_SCALAR_TYPE:
      return OG_ATTR_DTYPE;
    case OPGRAFT_TYPE_SCALAR:
      return take(in, 2) != 0 ? OG_ATTR_FLOAT : OG_ATTR_INT;
    default:
      return is_list ? OG_ATTR_INTS : OG_ATTR_INT;
  }
}

// Words of a call of `op`, one of them wrong now and then, or some too few.
// Returns the inputs that they give.
static int words_take(bytes *in, const og_own_op *op) {
  int inputs = 0;
  node.word_count = 0;
  for (int32_t t = 0; t < op->info.tensor_count; ++t)
    inputs += tensor_take(in, op->tensor_params[t]);
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    value_put(in, kind_take(in, op->attr_params[a]));
  const uint32_t wrong = take(in, 16);
  if (wrong == 15 && node.word_count > 0)
    node.words[take(in, (uint32_t)node.word_count)] = take_int(in);
  if (wrong == 14) node.word_count = (int32_t)take(in, WORDS);
  return inputs;
}

// --- What the runtime does ---------------------------------------------------

static void name_set(bytes *in, const og_own_op *op) {
  const uint32_t which = take(in, 32);
  node.op_bytes = (int32_t)strlen(op->info.name);
  memset(node.op, 'x', sizeof node.op);
  memcpy(node.op, op->info.name, (size_t)node.op_bytes);
  if (which == 31) node.op_bytes = (int32_t)take_bits(in, 2) % NAME_BYTES;
  if (which == 30) node.op[0] = (char)take(in, 256);
  node.is_missing[0] = which == 29;
  node.is_missing[1] = which == 28;
}

static void compute(bytes *in, const og_own_op *op) {
  memset(&node, 0, sizeof node);
  name_set(in, op);
  const int inputs = words_take(in, op);
  void *kernel = kernel_create(&node);
  if ((kernel == NULL) != (node.is_failed != 0)) abort();
  if (kernel == NULL) return;
  for (uint32_t calls = 1 + take(in, 2); calls > 0; --calls) {
    run_take(in, op, inputs);
    kernel_compute(kernel, &run);
    run_end();
  }
  kernel_delete(kernel);
}

static void infer(bytes *in, const og_own_op *op, int32_t index) {
  char text[TEXT_BYTES];
  int64_t out[8];
  for (int inputs = words_take(in, op); inputs > 0; --inputs) {
    int64_t dims[RANK_MAX];
    dtype_put(in);
    const int rank = dims_take(in, dims);
    put(take(in, 16) != 15 ? rank : take_int(in));
    for (int i = 0; i < rank; ++i)
      put(take(in, 16) != 15 ? dims[i] : take_int(in));
  }
  int64_t *words = hold((size_t)node.word_count * sizeof *words);
  memcpy(words, node.words, (size_t)node.word_count * sizeof *words);
  const int64_t used = opgraft_tensorflow_infer(index, words, node.word_count,
                                                out, 8, text, sizeof text);
  if (used < 0) text_require(text);
}

static void registration(bytes *in) {
  const int32_t op =
      (int32_t)take(in, (uint32_t)og_own_get()->op_count + 2) - 1;
  const size_t size = 1 + take(in, 255);
  char *text = hold(size);
  refusal = (int)take(in, 3);
  if (opgraft_tensorflow_register(op, "Operator", text, size) != 0) {
    if (memchr(text, '\0', size) == NULL) abort();
  } else if (refusal != 0 || opgraft_limit_tensorflow(op) != NULL) {
    abort();
  }
  refusal = 0;
}

static void registered(void) {
  char text[TEXT_BYTES];
  if (kernel_create == NULL &&
      opgraft_tensorflow_register(0, "First", text, sizeof text) != 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  registered();
  const int32_t index = (int32_t)take(&in, (uint32_t)og_own_get()->op_count);
  const og_own_op *op = &og_own_get()->ops[index];
  const uint32_t kind = take(&in, 16);
  if (kind == 15) {
    registration(&in);
    shapes_infer(&run, &node);
  } else if (kind >= 12) {
    infer(&in, op, index);
  } else {
    compute(&in, op);
  }
  if (alive != 0) abort();
  held_free();
  return 0;
}

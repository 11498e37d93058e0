// SPDX-License-Identifier: Apache-2.0
// Code of AOTInductor in a process with libtorch's C shim: any tensors and any
// other arguments give results or an error. The error passes through the
// adapter's frames, as a C++ exception does, and nothing is left behind.

#include <setjmp.h>
#include <stdbool.h>

#include "aoti/call.h"
#include "fuzz/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *opgraft_limit_aoti(int32_t op);
size_t opgraft_names_aoti(char *text, size_t size);
size_t opgraft_aoti_declaration(int32_t op, char *text, size_t size);
size_t opgraft_aoti_into(int32_t op, char *text, size_t size);

#define DECLARE(name, result, parameters) \
  OG_EXPORT result aoti_torch_##name parameters;
AOTI_FUNCTION_LIST(DECLARE)
#undef DECLARE

enum { WORDS = 64, TENSORS = 32, DIMS = 80, CPU = 3, DTYPE_FIRST = 40 };

typedef struct tensor {
  int64_t rank;
  int64_t sizes[DIMS];
  int64_t strides[DIMS];
  int32_t dtype;
  int32_t device;
  void *data;
} tensor;

static tensor *tensors[TENSORS];  // of the input, so that some come twice
static int tensor_count;
static int alive;    // results
static int refusal;  // the call of ours that fails; 0: none
static int is_thrown;
static int is_raised;
static jmp_buf caller;

// --- libtorch ----------------------------------------------------------------

#define NUMBER(name, long_name, code, bits) AOTI_NUMBER_##long_name,
enum { NUMBER_BEFORE = DTYPE_FIRST - 1, OG_DTYPE_LIST(NUMBER) NUMBER_END };
#undef NUMBER
#define ENTRY(name, long_name, code, bits)              \
  OG_EXPORT int32_t aoti_torch_dtype_##long_name(void); \
  int32_t aoti_torch_dtype_##long_name(void) { return AOTI_NUMBER_##long_name; }
OG_DTYPE_LIST(ENTRY)
#undef ENTRY

// Of a type that no declaration has, 8.
static size_t type_bytes(int32_t dtype) {
  static const size_t sizes[] = {
#define ENTRY(name, long_name, code, bits) bits / 8,
      OG_DTYPE_LIST(ENTRY)
#undef ENTRY
  };
  return dtype < DTYPE_FIRST || dtype >= NUMBER_END
             ? 8
             : sizes[dtype - DTYPE_FIRST];
}

static int is_refused(void) { return refusal > 0 && --refusal == 0; }

int32_t aoti_torch_get_data_ptr(aoti_tensor own, void **out) {
  *out = ((tensor *)own)->data;
  return is_refused();
}

int32_t aoti_torch_get_dim(aoti_tensor own, int64_t *out) {
  *out = ((tensor *)own)->rank;
  return is_refused();
}

int32_t aoti_torch_get_sizes(aoti_tensor own, int64_t **out) {
  *out = ((tensor *)own)->sizes;
  return is_refused();
}

int32_t aoti_torch_get_strides(aoti_tensor own, int64_t **out) {
  *out = ((tensor *)own)->strides;
  return is_refused();
}

int32_t aoti_torch_get_dtype(aoti_tensor own, int32_t *out) {
  *out = ((tensor *)own)->dtype;
  return is_refused();
}

int32_t aoti_torch_get_device_type(aoti_tensor own, int32_t *out) {
  *out = ((tensor *)own)->device;
  return is_refused();
}

int32_t aoti_torch_empty_strided(int64_t rank, const int64_t *sizes,
                                 const int64_t *strides, int32_t dtype,
                                 int32_t device, int32_t index,
                                 aoti_tensor *out) {
  if (rank < 0 || rank > DIMS || device != CPU || index != 0) abort();
  if (is_refused()) return 1;
  size_t bytes_count = type_bytes(dtype);
  tensor *made = malloc(sizeof *made);
  if (made == NULL) abort();
  *made = (tensor){.rank = rank, .dtype = dtype, .device = device};
  for (int64_t i = rank; i-- > 0;) {
    made->sizes[i] = sizes[i];
    made->strides[i] = strides[i];
    bytes_count *= (size_t)sizes[i];
  }
  made->data = malloc(bytes_count);
  if (made->data == NULL) abort();
  ++alive;
  *out = made;
  return 0;
}

int32_t aoti_torch_delete_tensor_object(aoti_tensor own) {
  free(((tensor *)own)->data);
  free(own);
  --alive;
  return 0;
}

int32_t aoti_torch_device_type_cpu(void) { return CPU; }

void aoti_torch_check(bool holds, const char *function, const char *file,
                      uint32_t line, const char *text) {
  if (holds || function[0] == '\0' || file[0] == '\0' || line == 0) abort();
  text_require(text);
  is_raised = 1;
  if (is_thrown) longjmp(caller, 1);
}

// --- Tensors -----------------------------------------------------------------

static int32_t dtype_take(bytes *in) {
  if (take(in, 4) != 0) return AOTI_NUMBER_float32;
  return DTYPE_FIRST + (int32_t)take(in, NUMBER_END - DTYPE_FIRST + 1);
}

// Row-major with gaps, reversed, or one row many times.
static void strides_take(bytes *in, tensor *out) {
  const uint32_t kind = take(in, 8);
  int64_t step = kind == 1 ? 2 : 1;
  for (int64_t i = 0; i < out->rank; ++i) {
    const int64_t at = kind == 2 ? i : out->rank - 1 - i;
    out->strides[at] = step;
    step *= out->sizes[at] > 1 ? out->sizes[at] : 1;
  }
  if (kind == 3 && out->rank > 0) out->strides[0] = 0;
  if (kind == 4 && out->rank > 0 && out->sizes[0] < 2)
    out->strides[0] = take_int(in);  // moves nothing
}

static size_t span_bytes(const tensor *own) {
  int64_t last = 0;
  for (int64_t i = 0; i < own->rank; ++i) {
    if (own->sizes[i] == 0) return 0;
    if (own->sizes[i] > 1) last += (own->sizes[i] - 1) * own->strides[i];
  }
  return ((size_t)last + 1) * type_bytes(own->dtype);
}

static tensor *tensor_take(bytes *in) {
  const uint32_t kind = take(in, 16);
  if (tensor_count == TENSORS || (kind == 15 && tensor_count > 0))
    return tensors[take(in, 16) % (uint32_t)tensor_count];
  tensor *made = hold(sizeof *made);
  *made = (tensor){.dtype = dtype_take(in), .device = kind == 14 ? 1 : CPU};
  made->rank = dims_take(in, made->sizes);
  if (kind == 13) {  // more dims than a declaration can have
    made->rank = 60 + (int64_t)take(in, 16);
    for (int64_t i = 0; i < made->rank; ++i) made->sizes[i] = 1;
  }
  strides_take(in, made);
  const size_t size = span_bytes(made);
  made->data = hold(size);
  memset(made->data, (int)take(in, 256), size);
  tensors[tensor_count++] = made;
  return made;
}

// What a result is written into: usually as the first argument is.
static tensor *into_take(bytes *in) {
  if (tensor_count == 0 || take(in, 4) == 3) return tensor_take(in);
  tensor *made = hold(sizeof *made);
  *made = *tensors[0];
  strides_take(in, made);
  made->data = hold(span_bytes(made));
  return made;
}

// --- Words -------------------------------------------------------------------

typedef struct words {
  aoti_word words[WORDS];
  int count;
} words;

static void word_put(words *out, aoti_word word) {
  if (out->count == WORDS) abort();
  out->words[out->count++] = word;
}

// Now and then more than the adapter has room for, or a negative number.
static int64_t count_take(bytes *in) {
  const uint32_t kind = take(in, 32);
  return kind == 31   ? -1 - (int64_t)take(in, 100)
         : kind == 30 ? 70
                      : take(in, 5);
}

static size_t room(int64_t count, size_t item) {
  return count > 0 ? (size_t)count * item : 0;
}

static void tensors_put(bytes *in, words *out) {
  const int64_t count = count_take(in);
  tensor **list = hold(room(count, sizeof *list));
  for (int64_t i = 0; i < count; ++i) list[i] = tensor_take(in);
  word_put(out, (aoti_word){.p = list});
  word_put(out, (aoti_word){.i = count});
}

static void numbers_put(bytes *in, words *out, int32_t type) {
  const int64_t count = count_take(in);
  const size_t item = type == OPGRAFT_TYPE_BOOL ? sizeof(int32_t) : 8;
  char *list = hold(room(count, item));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number =
        take(in, 8) != 7 ? (int64_t)take(in, 4) : take_int(in);
    const double real = (double)number / 2;
    const int32_t narrow = (int32_t)number;
    const void *from = type == OPGRAFT_TYPE_BOOL    ? (const void *)&narrow
                       : type == OPGRAFT_TYPE_FLOAT ? (const void *)&real
                                                    : (const void *)&number;
    memcpy(list + (size_t)i * item, from, item);
  }
  word_put(out, (aoti_word){.p = list});
  word_put(out, (aoti_word){.i = count});
}

static aoti_word value_take(bytes *in, int32_t type) {
  static const char *const texts[] = {"", "ab", "f32", "a longer text"};
  aoti_word out = {.i = 0};
  if (type == OPGRAFT_TYPE_FLOAT)
    out.f = (double)take_int(in) / 2;
  else if (type == OPGRAFT_TYPE_STR)
    out.p = (void *)(uintptr_t)texts[take(in, 4)];
  else if (type == OPGRAFT_TYPE_SCALAR_TYPE)
    out.i = dtype_take(in);
  else
    out.i = take(in, 8) != 7 ? (int64_t)take(in, 4) : take_int(in);
  return out;
}

// An optional argument comes by its address, a bool and a type in 32 bits.
static aoti_word addressed(const opgraft_param_info *param, aoti_word value) {
  const bool is_narrow = param->type == OPGRAFT_TYPE_BOOL ||
                         param->type == OPGRAFT_TYPE_SCALAR_TYPE;
  const int32_t narrow = (int32_t)value.i;
  const size_t size = is_narrow ? sizeof narrow : sizeof value;
  void *held_value = hold(size);
  memcpy(held_value, is_narrow ? (const void *)&narrow : &value, size);
  return (aoti_word){.p = held_value};
}

static void param_put(bytes *in, words *out, const opgraft_param_info *param) {
  if ((param->flags & OPGRAFT_PARAM_LIST) != 0) {
    if (param->tensor >= 0)
      tensors_put(in, out);
    else
      numbers_put(in, out, param->type);
    return;
  }
  const int is_optional = (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0;
  if (is_optional && take(in, 2) == 1) {
    word_put(out, (aoti_word){.p = NULL});
    return;
  }
  const aoti_word value = param->tensor >= 0 ? (aoti_word){.p = tensor_take(in)}
                                             : value_take(in, param->type);
  word_put(out, is_optional ? addressed(param, value) : value);
}

// --- Calls -------------------------------------------------------------------

static int call(int32_t op, const words *args, tensor *into, void **results) {
  void **addresses[OPGRAFT_OUT_MAX + 1];
  for (int i = 0; i < OPGRAFT_OUT_MAX; ++i) addresses[i] = &results[i];
  if (setjmp(caller) != 0) return 1;
  return into != NULL ? opgraft_aoti_call_into(op, args->words, into)
                      : opgraft_aoti_call(op, args->words, addresses);
}

static void call_check(bytes *in, int32_t op, const og_own_op *own) {
  words args = {.count = 0};
  void *results[OPGRAFT_OUT_MAX] = {NULL};
  for (int32_t i = 0; i < own->info.param_count; ++i)
    param_put(in, &args, &own->params[i]);
  const int has_into = opgraft_aoti_into(op, NULL, 0) > 0 && take(in, 2) == 1;
  tensor *into = has_into ? into_take(in) : NULL;
  refusal = take(in, 16) == 15 ? 1 + (int)take(in, 30) : 0;
  is_thrown = (int)take(in, 2);
  is_raised = 0;
  if ((call(op, &args, into, results) != 0) != (is_raised != 0)) abort();
  const int wanted = is_raised || has_into ? 0 : own->info.fresh_count;
  for (int i = 0; i < OPGRAFT_OUT_MAX; ++i) {
    if ((results[i] != NULL) != (i < wanted)) abort();
    if (results[i] != NULL) aoti_torch_delete_tensor_object(results[i]);
  }
}

static size_t text_get(int32_t op, int which, char *text, size_t size) {
  return which == 0   ? opgraft_names_aoti(text, size)
         : which == 1 ? opgraft_aoti_declaration(op, text, size)
                      : opgraft_aoti_into(op, text, size);
}

// A text has one length in any room, and ends in it.
static void text_check(bytes *in, int32_t op) {
  const int which = (int)take(in, 3);
  const size_t length = text_get(op, which, NULL, 0);
  const size_t size = (size_t)take_bits(in, 2);
  char *text = hold(size);
  if (text_get(op, which, text, size) != length) abort();
  if (length > 0 && size > 0 && memchr(text, '\0', size) == NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  const og_own *own = og_own_get();
  const int32_t op = (int32_t)take(&in, (uint32_t)own->op_count);
  tensor_count = 0;
  if (opgraft_limit_aoti(op) != NULL || take(&in, 32) == 31)
    text_check(&in, op);
  else
    call_check(&in, op, &own->ops[op]);
  if (alive != 0) abort();
  held_free();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Adopted C symbols: called from C, by prototype, with no Python at a call.
//
// Where all arguments go by register (six integers or pointers, eight floats
// on the ABIs below) the call is made through few function types: integer and
// float registers are assigned apart, and a callee reads only its own. Other
// prototypes go through libffi.
//
// Invariants: an operator owns a reference to what keeps its symbol mapped;
// the call passes slot i's value for argument i, and slots
// that no argument has are zero.

#include "torch/adopt/adopt_c.h"

#include <string.h>

#include "torch/adopt/adopt_map.h"
#include "torch/adopt/adopt_share.h"
#include "torch/base/raised.h"
#include "torch/base/threads.h"
#ifdef OG_HAVE_FFI
#include <ffi.h>
#endif

#if defined(__x86_64__) && defined(__linux__)
enum { WORD_REGISTERS = 6, REAL_REGISTERS = 8 };
#elif defined(__aarch64__) && defined(__linux__)
enum { WORD_REGISTERS = 8, REAL_REGISTERS = 8 };
#else
enum { WORD_REGISTERS = -1, REAL_REGISTERS = -1 };
#endif

enum { RETURNS_IGNORED, RETURNS_STATUS, RETURNS_RESULT };

// What the values of a call are: by register the words' slots and then the
// reals', else one slot for each argument.
enum {
  WORD_SLOTS = 8,
  REAL_SLOTS = 8,
  SLOT_MAX = MAP_ARG_MAX,
};

typedef struct adopted_c {
  adopted base;
  void *function;
  int32_t arg_count;
  int32_t slot_count;
  bool by_register;
  bool has_reals;  // among the arguments
  bool is_each;    // one call for every element of the first result
  map_type result;
  int returns;
  int32_t result_out;  // with RETURNS_RESULT: its place in call->out
  int32_t slots[MAP_ARG_MAX];
  PyObject *holder;  // keeps the library mapped
  map_arg args[MAP_ARG_MAX];
#ifdef OG_HAVE_FFI
  ffi_cif cif;
  ffi_type *types[MAP_ARG_MAX];
#endif
} adopted_c;

// --- The call ----------------------------------------------------------------

// Two registers more than x86-64 has: there they are the stack's, unread.
#define WORDS int64_t, int64_t, int64_t, int64_t, int64_t, int64_t
#define REALS double, double, double, double, double, double, double, double
#if defined(__aarch64__)
#define MORE_WORDS , int64_t, int64_t
#define MORE_VALUES(v) , v[6].i, v[7].i
#else
#define MORE_WORDS
#define MORE_VALUES(v)
#endif
#define WORD_VALUES(v) \
  v[0].i, v[1].i, v[2].i, v[3].i, v[4].i, v[5].i MORE_VALUES(v)
// A float's bits are the lower half.
#define REAL_VALUES(v)                                                       \
  v[8].f64, v[9].f64, v[10].f64, v[11].f64, v[12].f64, v[13].f64, v[14].f64, \
      v[15].f64
typedef int64_t (*word_of_words)(WORDS MORE_WORDS);
typedef int64_t (*word_of_all)(WORDS MORE_WORDS, REALS);
typedef double (*real_of_words)(WORDS MORE_WORDS);
typedef double (*real_of_all)(WORDS MORE_WORDS, REALS);

static bool is_real(map_type type) {
  return type == MAP_TYPE_f32 || type == MAP_TYPE_f64;
}

#define CALL_AS(type, field, ...)                        \
  do {                                                   \
    type function;                                       \
    memcpy(&function, &self->function, sizeof function); \
    out.field = function(__VA_ARGS__);                   \
  } while (0)

static map_word register_call(const adopted_c *self, const map_word *values) {
  map_word out;
  if (is_real(self->result)) {
    if (self->has_reals)
      CALL_AS(real_of_all, f64, WORD_VALUES(values), REAL_VALUES(values));
    else
      CALL_AS(real_of_words, f64, WORD_VALUES(values));
  } else if (self->has_reals) {
    CALL_AS(word_of_all, i, WORD_VALUES(values), REAL_VALUES(values));
  } else {
    CALL_AS(word_of_words, i, WORD_VALUES(values));
  }
  return out;
}

static map_word function_call(const adopted_c *self, map_word *values) {
  if (LIKELY(self->by_register)) return register_call(self, values);
  map_word out = {0};
#ifdef OG_HAVE_FFI
  void *addresses[MAP_ARG_MAX];
  void (*function)(void);
  memcpy(&function, &self->function, sizeof function);
  for (int32_t i = 0; i < self->arg_count; ++i) addresses[i] = &values[i];
  // libffi takes what it only reads as not const.
  ffi_call((ffi_cif *)(uintptr_t)&self->cif, function, &out, addresses);
#endif
  return out;
}

// --- A call through a frame --------------------------------------------------

// Why a status that is not 0 is an error.
static const char *status_text(map_word word, char *text, size_t size) {
  PyOS_snprintf(text, size, "the C function returned %d, expected 0",
                (int)(int32_t)word.i);
  return text;
}

static og_status returned(const adopted_c *self, const og_call *call,
                          int64_t element, map_word word) {
  if (self->returns == RETURNS_RESULT) {
    const og_tensor *to = call->out[self->result_out];
    const og_status status = map_storable(call, to->dtype, self->result);
    if (UNLIKELY(status != OG_OK)) return status;
    char *at = (char *)og_data(to) + element * to->dtype.bits / 8;
    const char *why = map_store(at, to->dtype, self->result, word);
    return LIKELY(why == NULL) ? OG_OK : og_fail(call, OG_KERNEL, why);
  }
  if (self->returns == RETURNS_STATUS && (int32_t)word.i != 0) {
    char text[96];
    return og_fail(call, OG_KERNEL, status_text(word, text, sizeof text));
  }
  return OG_OK;
}

static og_status once(const adopted_c *self, const og_call *call) {
  map_word values[SLOT_MAX];
  og_tensor folded[MAP_ARG_MAX];
  memset(values, 0, (size_t)self->slot_count * sizeof *values);
  for (int32_t i = 0; i < self->arg_count; ++i) {
    const map_arg *arg = &self->args[i];
    map_word *value = &values[self->slots[i]];
    const og_status status = map_eval_typed(arg, i, call, 0, value);
    if (UNLIKELY(status != OG_OK)) return status;
    if (arg->steps[0].code == MAP_dl)
      value->p = (void *)(uintptr_t)map_fold(value->p, &folded[i]);
  }
  const map_word word = function_call(self, values);
  return self->returns == RETURNS_IGNORED ? OG_OK
                                          : returned(self, call, 0, word);
}

typedef struct each_state {
  const adopted_c *self;
  const og_call *call;
  og_status status;
} each_state;

static void each_range(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  each_state *each = state;
  const adopted_c *self = each->self;
  map_word values[SLOT_MAX];
  og_status status = OG_OK;
  (void)worker;
  memset(values, 0, (size_t)self->slot_count * sizeof *values);
  for (int64_t e = begin; e < end && status == OG_OK; ++e) {
    for (int32_t i = 0; i < self->arg_count && status == OG_OK; ++i)
      if (e == begin || self->args[i].is_element)
        status = map_eval_typed(&self->args[i], i, each->call, e,
                                &values[self->slots[i]]);
    if (status == OG_OK)
      status = returned(self, each->call, e, function_call(self, values));
  }
  // Every writer writes the same kind of thing: that it failed.
  if (status != OG_OK)
    __atomic_store_n(&each->status, status, __ATOMIC_RELAXED);
}

static og_status c_run(const og_call *call) {
  const adopted_c *self = call->derived;
  // A function pointer may be made of Python.
  if (UNLIKELY(stack_is_short())) return og_fail(call, OG_KERNEL, STACK_TEXT);
  if (LIKELY(!self->is_each)) return once(self, call);
  each_state state = {self, call, OG_OK};
  const og_status status =
      og_parallel_tasks(call, og_numel(call->out[self->result_out]),
                        GRAIN_CALLS, each_range, &state);
  return status != OG_OK ? status : state.status;
}

// --- A node of a plan --------------------------------------------------------

// All that a run reads of its own: values as the call passes them.
typedef struct ready_c {
  const adopted_c *self;
  void *result;  // with RETURNS_RESULT: where it goes
  og_dtype result_dtype;
  map_word values[];
} ready_c;

static og_status ready_prepare(const opgraft_prepare_call *prepare) {
  const og_call *call = prepare->call;
  const adopted_c *self = call->derived;
  ready_c *ready = prepare->state;
  og_status status = OG_OK;
  ready->self = self;
  for (int32_t i = 0; i < self->arg_count && status == OG_OK; ++i) {
    const map_arg *arg = &self->args[i];
    map_word *value = &ready->values[self->slots[i]];
    status = map_eval_typed(arg, i, call, 0, value);
    if (status == OG_OK && map_is_followed(arg, call))
      status =
          prepare->follow(prepare, &value->p, map_tensor(arg->steps, call));
  }
  if (status != OG_OK || self->returns != RETURNS_RESULT) return status;
  const og_tensor *to = call->out[self->result_out];
  ready->result_dtype = to->dtype;
  status = map_storable(call, to->dtype, self->result);
  return status == OG_OK ? prepare->follow(prepare, &ready->result, to)
                         : status;
}

static og_status ready_run(void *state, opgraft_error *error) {
  ready_c *ready = state;
  const adopted_c *self = ready->self;
  char text[96];
  const char *why = NULL;
  const map_word word = function_call(self, ready->values);
  if (self->returns == RETURNS_RESULT)
    why = map_store(ready->result, ready->result_dtype, self->result, word);
  else if (self->returns == RETURNS_STATUS && (int32_t)word.i != 0)
    why = status_text(word, text, sizeof text);
  if (LIKELY(why == NULL)) return OG_OK;
  return adopt_fail(&self->base, error, OG_KERNEL, why);
}

// --- Reading the payload -----------------------------------------------------

// Gives every argument its slot.
static void slots_set(adopted_c *self) {
  int32_t words = 0, reals = 0;
  for (int32_t i = 0; i < self->arg_count; ++i)
    is_real(self->args[i].type) ? ++reals : ++words;
  self->by_register = words <= WORD_REGISTERS && reals <= REAL_REGISTERS;
  self->has_reals = reals > 0;
  self->slot_count = !self->by_register ? self->arg_count
                     : self->has_reals  ? WORD_SLOTS + REAL_SLOTS
                                        : WORD_SLOTS;
  words = reals = 0;
  for (int32_t i = 0; i < self->arg_count; ++i)
    self->slots[i] = !self->by_register            ? i
                     : is_real(self->args[i].type) ? WORD_SLOTS + reals++
                                                   : words++;
}

static int interface_prepare(adopted_c *self) {
  slots_set(self);
  if (self->by_register) return 0;
#ifdef OG_HAVE_FFI
  ffi_type *const known[] = {
      &ffi_type_sint8, &ffi_type_sint16, &ffi_type_sint32,  &ffi_type_sint64,
      &ffi_type_uint8, &ffi_type_uint16, &ffi_type_uint32,  &ffi_type_uint64,
      &ffi_type_float, &ffi_type_double, &ffi_type_pointer, &ffi_type_void};
  for (int32_t i = 0; i < self->arg_count; ++i)
    self->types[i] = known[self->args[i].type];
  if (ffi_prep_cif(&self->cif, FFI_DEFAULT_ABI, (unsigned)self->arg_count,
                   known[self->result], self->types) == FFI_OK)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s: libffi refuses this prototype",
               self->base.name);
#else
  PyErr_Format(PyExc_RuntimeError,
               "%s: %d arguments are more than go by register, and this build "
               "has no libffi: install libffi-dev and build opgraft again",
               self->base.name, (int)self->arg_count);
#endif
  return -1;
}

// (holder, address, arguments, type of the result, returns, result's place in
// out, each)
static int c_read(adopted *base, PyObject *payload) {
  adopted_c *self = (adopted_c *)(void *)base;
  PyObject *holder, *args;
  unsigned long long address;
  const char *type;
  int is_each;
  if (!PyArg_ParseTuple(payload, "OKO!siip", &holder, &address, &PyList_Type,
                        &args, &type, &self->returns, &self->result_out,
                        &is_each))
    return -1;
  Py_INCREF(holder);
  self->holder = holder;
  self->is_each = is_each != 0;
  const uintptr_t where = (uintptr_t)address;
  memcpy(&self->function, &where, sizeof where);
  if (map_type_find(type, &self->result) != 0 ||
      map_read(args, self->args, &self->arg_count) != 0 ||
      interface_prepare(self) != 0)
    return -1;
  if (!self->is_each)
    self->base.prepared = (opgraft_prepared){
        .struct_size = sizeof self->base.prepared,
        .state_bytes =
            sizeof(ready_c) + (size_t)self->slot_count * sizeof(map_word),
        .prepare = ready_prepare,
        .run = ready_run,
    };
  return 0;
}

static void c_reset(adopted *base) {
  Py_CLEAR(((adopted_c *)(void *)base)->holder);
}

const adopt_kind adopt_c = {
    .name = "c",
    .size_bytes = sizeof(adopted_c),
    .read = c_read,
    .reset = c_reset,
    .run = c_run,
};

// What this build calls: HAS_FFI, and REGISTERS (words, floats).
int adopt_c_setup(PyObject *module) {
#ifdef OG_HAVE_FFI
  const bool has_ffi = true;
#else
  const bool has_ffi = false;
#endif
  PyObject *registers =
      Py_BuildValue("(ii)", (int)WORD_REGISTERS, (int)REAL_REGISTERS);
  const int status =
      registers == NULL ||
              PyModule_AddObjectRef(module, "REGISTERS", registers) != 0 ||
              PyModule_AddObjectRef(module, "HAS_FFI",
                                    has_ffi ? Py_True : Py_False) != 0
          ? -1
          : 0;
  Py_XDECREF(registers);
  return status;
}

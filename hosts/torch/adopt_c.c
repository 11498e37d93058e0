// SPDX-License-Identifier: Apache-2.0
// Adopted C symbols: called from C, by prototype, with no Python at a call.
//
// Where all arguments go by register (six integers or pointers, eight floats
// on the ABIs below) the call is made through one function type: integer and
// float registers are handed out apart, and a callee reads only its own. Other
// prototypes go through libffi.
//
// Invariant: an operator owns a reference to what keeps its symbol mapped.

#include <dlfcn.h>
#include <string.h>

#include "adopt_map.h"
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

typedef struct adopted_c {
  adopted base;
  PyObject *holder;  // keeps the library mapped
  void *function;
  map_arg args[MAP_ARG_MAX];
  int32_t arg_count;
  map_type result;
  int returns;
  int32_t result_out;  // with RETURNS_RESULT: its place in call->out
  bool is_each;        // one call for every element of the first result
  bool by_register;
#ifdef OG_HAVE_FFI
  ffi_cif cif;
  ffi_type *types[MAP_ARG_MAX];
#endif
} adopted_c;

// --- The call
// ------------------------------------------------------------------------------

// Two registers more than x86-64 has: there they are the stack's, unread.
#define WORDS int64_t, int64_t, int64_t, int64_t, int64_t, int64_t
#define REALS double, double, double, double, double, double, double, double
#if defined(__aarch64__)
#define MORE_WORDS , int64_t, int64_t
#define MORE_VALUES(w) , w[6], w[7]
#else
#define MORE_WORDS
#define MORE_VALUES(w)
#endif
typedef int64_t (*word_function)(WORDS MORE_WORDS, REALS);
typedef double (*real_function)(WORDS MORE_WORDS, REALS);

static bool is_real(map_type type) {
  return type == MAP_TYPE_f32 || type == MAP_TYPE_f64;
}

static map_word register_call(const adopted_c *self, const map_word *values) {
  int64_t w[8];
  double r[8];
  int32_t words = 0, reals = 0;
  map_word out;
  for (int32_t i = 0; i < self->arg_count; ++i)
    if (is_real(self->args[i].type))
      r[reals++] = values[i].f64;  // a float's bits are the lower half
    else
      w[words++] = values[i].i;
  // The other registers hold anything; a defined value keeps the compiler's
  // and the sanitizers' peace.
  while (words < 8) w[words++] = 0;
  while (reals < 8) r[reals++] = 0;
#define CALL(f)                                                                \
  f(w[0], w[1], w[2], w[3], w[4], w[5] MORE_VALUES(w), r[0], r[1], r[2], r[3], \
    r[4], r[5], r[6], r[7])
  if (is_real(self->result)) {
    real_function function;
    memcpy(&function, &self->function, sizeof function);
    out.f64 = CALL(function);
  } else {
    word_function function;
    memcpy(&function, &self->function, sizeof function);
    out.i = CALL(function);
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

static og_status returned(const adopted_c *self, const og_call *call,
                          int64_t element, map_word word) {
  if (self->returns == RETURNS_RESULT)
    return map_store(call, call->out[self->result_out], element, self->result,
                     word);
  if (self->returns == RETURNS_STATUS && (int32_t)word.i != 0) {
    char text[96];
    PyOS_snprintf(text, sizeof text, "the C function returned %d, wanted 0",
                  (int)(int32_t)word.i);
    return og_fail(call, OG_KERNEL, text);
  }
  return OG_OK;
}

static og_status once(const adopted_c *self, const og_call *call) {
  map_word values[MAP_ARG_MAX];
  og_tensor folded[MAP_ARG_MAX];
  for (int32_t i = 0; i < self->arg_count; ++i) {
    const map_arg *arg = &self->args[i];
    const og_status status = map_eval_typed(arg, i, call, 0, &values[i]);
    if (UNLIKELY(status != OG_OK)) return status;
    if (arg->steps[0].code == MAP_dl)
      values[i].p = (void *)(uintptr_t)map_fold(values[i].p, &folded[i]);
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
  map_word values[MAP_ARG_MAX];
  og_status status = OG_OK;
  (void)worker;
  for (int64_t e = begin; e < end && status == OG_OK; ++e) {
    for (int32_t i = 0; i < self->arg_count && status == OG_OK; ++i)
      if (e == begin || self->args[i].is_element)
        status = map_eval_typed(&self->args[i], i, each->call, e, &values[i]);
    if (status == OG_OK)
      status = returned(self, each->call, e, function_call(self, values));
  }
  // Every writer writes the same kind of thing: that it failed.
  if (status != OG_OK)
    __atomic_store_n(&each->status, status, __ATOMIC_RELAXED);
}

static og_status c_run(const og_call *call) {
  const adopted_c *self = call->derived;
  if (LIKELY(!self->is_each)) return once(self, call);
  each_state state = {self, call, OG_OK};
  const og_status status = og_parallel_tasks(
      call, og_numel(call->out[self->result_out]), 4096, each_range, &state);
  return status != OG_OK ? status : state.status;
}

// --- Reading the payload
// -------------------------------------------------------------------

static bool fits_registers(const adopted_c *self) {
  int words = 0, reals = 0;
  for (int32_t i = 0; i < self->arg_count; ++i)
    is_real(self->args[i].type) ? ++reals : ++words;
  return words <= WORD_REGISTERS && reals <= REAL_REGISTERS;
}

static int interface_prepare(adopted_c *self) {
  self->by_register = fits_registers(self);
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
      map_read(args, self->args, &self->arg_count) != 0)
    return -1;
  return interface_prepare(self);
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

// --- Libraries
// -----------------------------------------------------------------------------

static const char library_capsule[] = "opgraft.library";

static void library_end(PyObject *capsule) {
  dlclose(PyCapsule_GetPointer(capsule, library_capsule));
}

// library_open(path) -> a capsule that keeps it mapped
PyObject *library_open(PyObject *self, PyObject *argument) {
  (void)self;
  PyObject *path;
  if (!PyUnicode_FSConverter(argument, &path)) return NULL;
  void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (library == NULL) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  return PyCapsule_New(library, library_capsule, library_end);
}

// library_find(capsule, name) -> its address, or None
PyObject *library_find(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "Os", &capsule, &name)) return NULL;
  void *library = PyCapsule_GetPointer(capsule, library_capsule);
  if (library == NULL) return NULL;
  void *found = dlsym(library, name);
  if (found == NULL) Py_RETURN_NONE;
  return PyLong_FromVoidPtr(found);
}

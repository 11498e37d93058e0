// SPDX-License-Identifier: Apache-2.0
// Mapping programs: read once, evaluated at every call.
//
// Invariant: a program that was read leaves exactly one value and never goes
// below an empty stack, so evaluation checks only what a call decides.

#include "torch/adopt/adopt_map.h"
#include "torch/base/raised.h"

#include <string.h>

static const char *const step_names[] = {
#define X(name) #name,
    MAP_STEP_LIST(X)
#undef X
};

static const struct {
  const char *name;
  int bits;
  bool is_signed;
} types[] = {
#define X(name, bits, is_signed) {#name, bits, is_signed},
    MAP_TYPE_LIST(X)
#undef X
};

// --- Reading -----------------------------------------------------------------

int map_type_find(const char *name, map_type *out) {
  for (int t = 0; t < MAP_TYPE_COUNT; ++t)
    if (strcmp(types[t].name, name) == 0) {
      *out = (map_type)t;
      return 0;
    }
  PyErr_Format(PyExc_ValueError, "opgraft: no C type is named %s", name);
  return -1;
}

static int step_read(PyObject *tuple, map_step *out) {
  const char *name;
  int is_out, index;
  long long value;
  if (!PyArg_ParseTuple(tuple, "spiL", &name, &is_out, &index, &value))
    return -1;
  for (size_t s = 0; s < sizeof step_names / sizeof *step_names; ++s)
    if (strcmp(step_names[s], name) == 0) {
      *out = (map_step){(map_code)s, is_out != 0, index, value};
      return 0;
    }
  PyErr_Format(PyExc_ValueError, "opgraft: no step is named %s", name);
  return -1;
}

static int arg_read(PyObject *tuple, map_arg *out) {
  const char *type;
  PyObject *steps;
  int depth = 0;
  if (!PyArg_ParseTuple(tuple, "sO!", &type, &PyList_Type, &steps) ||
      map_type_find(type, &out->type) != 0)
    return -1;
  const Py_ssize_t count = PyList_Size(steps);
  if (count > MAP_STEP_MAX) {
    PyErr_Format(PyExc_ValueError,
                 "opgraft: an argument has %zd steps, at most %d are allowed",
                 count, MAP_STEP_MAX);
    return -1;
  }
  for (Py_ssize_t s = 0; s < count; ++s) {
    if (step_read(PyList_GetItem(steps, s), &out->steps[s]) != 0) return -1;
    out->is_element |= out->steps[s].code == MAP_element;
    depth += out->steps[s].code >= MAP_add ? -1 : 1;
    if (depth < 1) break;
  }
  out->step_count = (int32_t)count;
  if (depth == 1) return 0;
  PyErr_SetString(PyExc_ValueError, "opgraft: a program is not whole");
  return -1;
}

int map_read(PyObject *list, map_arg *args, int32_t *out_count) {
  const Py_ssize_t count = PyList_Size(list);
  if (count > MAP_ARG_MAX) {
    PyErr_Format(PyExc_ValueError,
                 "opgraft: %zd arguments, at most %d are allowed", count,
                 MAP_ARG_MAX);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    if (arg_read(PyList_GetItem(list, i), &args[i]) != 0) return -1;
  *out_count = (int32_t)count;
  return 0;
}

// --- Evaluation --------------------------------------------------------------

static og_status element_get(const og_call *call, const og_tensor *tensor,
                             int64_t at, map_value *out) {
  const char *from =
      (const char *)og_data(tensor) + at * tensor->dtype.bits / 8;
  const og_dtype type = tensor->dtype;
  out->kind = type.code == OG_CODE_FLOAT ? MAP_IS_REAL : MAP_IS_INT;
  map_word word = {0};
  memcpy(&word, from, type.bits / 8);
  if (type.code == OG_CODE_FLOAT && type.bits == 32)
    out->word.f64 = (double)word.f32;
  else if (type.code == OG_CODE_FLOAT && type.bits == 64)
    out->word.f64 = word.f64;
  else if (type.code == OG_CODE_INT)
    out->word.i = (int64_t)(word.u << (64 - type.bits)) >> (64 - type.bits);
  else if (type.code == OG_CODE_UINT || type.code == OG_CODE_BOOL)
    out->word.u = word.u;
  else
    return og_fail(call, OG_DTYPE, "elements of this type have no C number");
  return OG_OK;
}

static og_status tensor_step(const map_step *step, const og_call *call,
                             int64_t element, map_value *out) {
  const og_tensor *t = map_tensor(step, call);
  const bool is_pointer = step->code <= MAP_strides;
  out->kind = is_pointer ? MAP_IS_POINTER : MAP_IS_INT;
  out->word.i = 0;
  if (t == NULL) return OG_OK;
  const int64_t at = step->value < 0 ? step->value + t->ndim : step->value;
  switch (step->code) {
    case MAP_data:
      out->word.p = og_data(t);
      break;
    case MAP_dl:
      out->word.p = (void *)(uintptr_t)t;
      break;
    case MAP_shape:
      out->word.p = t->shape;
      break;
    case MAP_strides:
      out->word.p = t->strides;
      break;
    case MAP_numel:
      out->word.i = og_numel(t);
      break;
    case MAP_ndim:
      out->word.i = t->ndim;
      break;
    case MAP_itemsize:
      out->word.i = t->dtype.bits / 8;
      break;
    case MAP_element:
      return element_get(call, t, element, out);
    default:
      if (at < 0 || at >= t->ndim)
        return og_fail(call, OG_SHAPE,
                       "its call names a dim that an argument lacks");
      out->word.i = step->code == MAP_size_at ? t->shape[at] : t->strides[at];
  }
  return OG_OK;
}

static void attr_step(const map_step *step, const og_call *call,
                      map_value *out) {
  const og_attr *attr = &call->attr[step->index];
  out->kind = MAP_IS_INT;
  out->word.i = attr->count;
  if (step->code == MAP_attr_count) return;
  out->word.i = attr->i;
  if (step->code == MAP_attr_data || attr->kind == OG_ATTR_STR) {
    out->kind = MAP_IS_POINTER;
    out->word.p = (void *)(uintptr_t)attr->s;  // the union's pointers are one
    if (attr->kind == OG_ATTR_NONE) out->word.p = NULL;
  } else if (attr->kind == OG_ATTR_FLOAT) {
    out->kind = MAP_IS_REAL;
    out->word.f64 = attr->f;
  } else if (attr->kind == OG_ATTR_NONE) {
    out->word.i = 0;
  }
}

static void pointer_step(const map_step *step, const og_call *call,
                         map_value *out) {
  out->kind = MAP_IS_POINTER;
  out->word.p = NULL;
  if (step->code == MAP_stream) out->word.p = call->stream;
  if (step->code == MAP_address) out->word.p = (void *)(intptr_t)step->value;
}

static og_status binary_step(map_code code, const og_call *call, map_value *a,
                             const map_value *b) {
  const int64_t x = a->word.i, y = b->word.i;
  bool is_over = false;
  if (a->kind != MAP_IS_INT || b->kind != MAP_IS_INT)
    return og_fail(call, OG_INVALID,
                   "its call computes with a value that is not an int");
  if (code == MAP_add) is_over = __builtin_add_overflow(x, y, &a->word.i);
  if (code == MAP_sub) is_over = __builtin_sub_overflow(x, y, &a->word.i);
  if (code == MAP_mul) is_over = __builtin_mul_overflow(x, y, &a->word.i);
  if (code == MAP_div || code == MAP_mod) {
    if (y == 0 || (y == -1 && x == INT64_MIN))
      return og_fail(call, OG_INVALID, "its call divides by zero");
    const int64_t rest = x % y, shift = rest != 0 && (rest < 0) != (y < 0);
    a->word.i = code == MAP_div ? x / y - shift : rest + shift * y;
  }
  return is_over ? og_fail(call, OG_INVALID, "a number in its call overflows")
                 : OG_OK;
}

og_status map_eval(const map_arg *arg, const og_call *call, int64_t element,
                   map_value *out) {
  map_value stack[MAP_STEP_MAX];
  int32_t depth = 0;
  for (int32_t s = 0; s < arg->step_count; ++s) {
    const map_step *step = &arg->steps[s];
    og_status status = OG_OK;
    map_value *top = &stack[depth];
    if (step->code >= MAP_add) {
      --depth;
      status = binary_step(step->code, call, &stack[depth - 1], &stack[depth]);
    } else {
      ++depth;
      top->kind = MAP_IS_INT;
      if (step->code <= MAP_element)
        status = tensor_step(step, call, element, top);
      else if (step->code <= MAP_attr_count)
        attr_step(step, call, top);
      else if (step->code == MAP_dim)
        top->word.i = call->dim[step->index];
      else if (step->code == MAP_integer || step->code == MAP_real)
        top->word.i = step->value;
      else
        pointer_step(step, call, top);
      if (step->code == MAP_real) top->kind = MAP_IS_REAL;
    }
    if (UNLIKELY(status != OG_OK)) return status;
  }
  *out = stack[0];
  return OG_OK;
}

static og_status mismatch(const og_call *call, int32_t position,
                          const char *what) {
  char text[160];
  PyOS_snprintf(text, sizeof text, "argument %d of its call %s",
                (int)position + 1, what);
  return og_fail(call, OG_INVALID, text);
}

og_status map_eval_typed(const map_arg *arg, int32_t position,
                         const og_call *call, int64_t element, map_word *out) {
  map_value value;
  const og_status status = map_eval(arg, call, element, &value);
  if (UNLIKELY(status != OG_OK)) return status;
  if (arg->type == MAP_TYPE_ptr) {
    if (value.kind != MAP_IS_POINTER)
      return mismatch(call, position, "is a number, expected a pointer");
    *out = value.word;
    return OG_OK;
  }
  if (value.kind == MAP_IS_POINTER)
    return mismatch(call, position, "is a pointer, expected a number");
  if (arg->type == MAP_TYPE_f32 || arg->type == MAP_TYPE_f64) {
    const double real =
        value.kind == MAP_IS_REAL ? value.word.f64 : (double)value.word.i;
    out->u = 0;
    if (arg->type == MAP_TYPE_f64)
      out->f64 = real;
    else
      out->f32 = (float)real;
    return OG_OK;
  }
  if (value.kind == MAP_IS_REAL)
    return mismatch(call, position, "is a float, expected an int");
  const int bits = types[arg->type].bits;
  const int64_t i = value.word.i;
  const bool fits =
      bits == 64 ? types[arg->type].is_signed || i >= 0
      : types[arg->type].is_signed
          ? i >= -(INT64_C(1) << (bits - 1)) && i < INT64_C(1) << (bits - 1)
          : i >= 0 && i < INT64_C(1) << bits;
  if (UNLIKELY(!fits))
    return mismatch(call, position, "does not fit its C type");
  out->i = i;
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static bool is_real(map_type type) {
  return type == MAP_TYPE_f32 || type == MAP_TYPE_f64;
}

og_status map_storable(const og_call *call, og_dtype to, map_type type) {
  if (is_real(type) ? to.code == OG_CODE_FLOAT && to.bits >= 32
                    : to.code <= OG_CODE_UINT)
    return OG_OK;
  return og_fail(call, OG_DTYPE,
                 "the C function returns a value outside the result's "
                 "type; fix the dtype rule or the prototype");
}

// Of a number that its type holds, in 64 bits.
static bool is_narrow(uint64_t whole, bool is_signed, og_dtype to) {
  const int64_t number = (int64_t)whole;
  if (is_signed && number < 0)
    return to.code == OG_CODE_INT && number >= -(INT64_C(1) << (to.bits - 1));
  return whole >> (to.code == OG_CODE_INT ? to.bits - 1 : to.bits) == 0;
}

const char *map_store(void *at, og_dtype to, map_type type, map_word word) {
  const int bits = types[type].bits;
  if (to.code == OG_CODE_FLOAT) {
    const double real = type == MAP_TYPE_f32 ? (double)word.f32 : word.f64;
    const float narrow = (float)real;
    if (to.bits == 32)
      memcpy(at, &narrow, sizeof narrow);
    else
      memcpy(at, &real, sizeof real);
    return NULL;
  }
  // A register's upper bits are not the callee's to set.
  const int shift = 64 - bits;
  const uint64_t whole = types[type].is_signed
                             ? (uint64_t)((int64_t)(word.u << shift) >> shift)
                             : word.u << shift >> shift;
  if (to.bits < bits && !is_narrow(whole, types[type].is_signed, to))
    return "what the C function returned does not fit the result's type";
  memcpy(at, &whole, to.bits / 8);
  return NULL;
}

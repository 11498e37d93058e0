// SPDX-License-Identifier: Apache-2.0
// The operator author's whole world. An operator is declared once, as strings
// and function pointers (og_op), and everything that a framework wants beside
// its kernels is derived from that. A module is a shared object that exports
// opgraft_module, as OG_MODULE defines it. It links to libc only, so the same
// file loads in every host. Every struct is ABI: fields are appended, never
// changed, and read by the sizes that the module carries.
//
// Kernels of one operator run on several threads at once, each with an og_call
// of its own. Functions that take a call are for the thread that runs it.
// Errors: a kernel returns an og_status, with a reason by og_fail.

#ifndef OPGRAFT_OP_H
#define OPGRAFT_OP_H

#include <opgraft/dtype.h>
#include <opgraft/float8.h>
#include <opgraft/seal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OG_ABI_VERSION 1u

#define OG_EXPORT __attribute__((visibility("default")))

// What a fallible function returns. Codes are never renumbered.
typedef int32_t og_status;
#define OG_STATUS_LIST(X)                \
  X(OG_OK, 0, "ok")                      \
  X(OG_INVALID, 1, "invalid argument")   \
  X(OG_SHAPE, 2, "wrong shape")          \
  X(OG_DTYPE, 3, "wrong dtype")          \
  X(OG_DEVICE, 4, "wrong device")        \
  X(OG_UNSUPPORTED, 5, "unsupported")    \
  X(OG_MEMORY, 6, "out of memory")       \
  X(OG_BUSY, 7, "in use")                \
  X(OG_VERSION, 8, "wrong version")      \
  X(OG_IO, 9, "could not read or write") \
  X(OG_KERNEL, 10, "kernel failed")      \
  X(OG_INTERNAL, 11, "internal error")
#define OG_STATUS_ENUM(name, value, text) name = value,
enum { OG_STATUS_LIST(OG_STATUS_ENUM) };
#undef OG_STATUS_ENUM

// --- Tensors: DLPack's DLTensor, field by field ---------------------------

// Device types, DLPack's codes.
enum { OG_CPU = 1, OG_CUDA = 2, OG_ROCM = 10, OG_EXT_DEV = 12 };

typedef struct og_device {
  int32_t type;  // OG_CPU, ...
  int32_t id;
} og_device;

typedef struct og_tensor {
  void *data;
  og_device device;
  int32_t ndim;
  og_dtype dtype;
  int64_t *shape;
  int64_t *strides;  // in elements; never NULL inside a kernel
  uint64_t byte_offset;
} og_tensor;

// A Tensor[] argument or result. An absent entry of a Tensor?[] is NULL.
typedef struct og_tensor_list {
  int64_t count;
  og_tensor *const *tensors;
} og_tensor_list;

// --- Attributes: every argument that is not a tensor -----------------------

enum {
  OG_ATTR_NONE = 0,  // an optional that was not given
  OG_ATTR_INT,       // i (int, SymInt, bool: 0 or 1)
  OG_ATTR_FLOAT,     // f
  OG_ATTR_BOOL,      // i
  OG_ATTR_COMPLEX,   // f, imag (a Scalar only)
  OG_ATTR_STR,       // s, count bytes and a NUL
  OG_ATTR_DTYPE,     // dtype
  OG_ATTR_DEVICE,    // device
  OG_ATTR_INTS,      // ints, count
  OG_ATTR_FLOATS,    // floats, count
  OG_ATTR_BOOLS,     // ints, count (each 0 or 1)
  OG_ATTR_STRS,      // strs, count
};

typedef struct og_attr {
  int32_t kind;  // OG_ATTR_*; a Scalar arrives as INT, FLOAT, BOOL or COMPLEX
  int32_t reserved;
  int64_t count;
  union {
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    const double *floats;
    const char *const *strs;
    og_dtype dtype;
    og_device device;
  };
  double imag;
} og_attr;

// --- A call ----------------------------------------------------------------

typedef struct og_call og_call;

// One chunk [begin, end) of a parallel loop. `worker` is below call->threads
// and no two chunks that run at once have the same one.
typedef void (*og_task_fn)(void *state, int64_t begin, int64_t end,
                           int32_t worker);
typedef void (*og_range_fn)(const og_call *call, int64_t begin, int64_t end);

struct og_call {
  uint32_t struct_size;
  uint32_t flags;  // OG_CALL_*
  // Tensor arguments by position among the schema's tensor arguments, mutated
  // ones included; NULL for an absent optional and for a list.
  const og_tensor *const *in;
  // Mutated arguments in schema order, then fresh results; NULL for an absent
  // optional and for a list.
  og_tensor *const *out;
  // The lists, by the same positions; entries of plain tensors are unused.
  const og_tensor_list *in_list;
  const og_tensor_list *out_list;
  const og_attr *attr;  // the other arguments, in schema order
  // Named dims of the shape rule in order of first appearance. A pack's entry
  // is the product of its dims, a varying dim's (D~) the sum over the list; a
  // data-dependent dim's is its bound until the kernel sets it.
  int64_t *dim;
  void *workspace;  // 64-byte aligned, uninitialised; NULL without a rule
  size_t workspace_bytes;
  void *stream;     // the device's stream; NULL on a CPU
  int32_t threads;  // that parallel_for may use, >= 1
  int32_t reserved;
  og_status (*parallel_for)(const og_call *call, int64_t total, int64_t grain,
                            og_task_fn fn, void *state);
  og_status (*fail)(const og_call *call, og_status code, const char *text);
  void *host;  // the host's own
  // What the kernel was made from, where the library made it (`row`) or
  // the embedder (opgraft_module_make). NULL for a module's own.
  const void *derived;
};

// The caller asks for a result that does not depend on the thread count.
#define OG_CALL_DETERMINISTIC 1u

// --- Kernels and operators -------------------------------------------------

typedef struct og_kernel {
  int32_t device;  // OG_CPU, ...
  int32_t reserved;
  const char *dtypes;  // one entry per free type of the dtype rule, in order:
                       // "f32", "f32|f64", "f32, i64"; NULL: all
  // "avx2", "avx512", "avx512_bf16" or "amx_bf16"; NULL: any machine
  const char *isa;
  // 0 refuses this call, and the next kernel is asked; NULL accepts. Shapes,
  // strides, dims and attributes are set, data is not.
  int32_t (*supports)(const og_call *call);
  og_status (*run)(const og_call *call);
} og_kernel;

// For a rule that the shape language cannot say. `shape[i]` has room for 64
// dims of fresh result i; the callback writes the dims and ndim[i]. It reads no
// data: while a host traces there is none.
typedef struct og_infer_call {
  uint32_t struct_size;
  uint32_t reserved;
  const og_tensor *const *in;
  const og_tensor_list *in_list;
  const og_attr *attr;
  int64_t *const *shape;
  int32_t *ndim;
} og_infer_call;

// A call that check or bench makes up. `sample` shapes those that no random
// draw would meet: a plan that has to fit the sizes, offsets that have to fit
// each other. It is asked twice. First for sizes: dims and attributes are as
// the declaration allows them and may be set; tensors have a type only. Then
// for values: tensors have drawn elements, row-major, and may be written. It
// may allocate. A status other than OG_OK refuses the sizes, and others follow.
enum { OG_SAMPLE_SIZES = 0, OG_SAMPLE_VALUES = 1 };

typedef struct og_sample_call {
  uint32_t struct_size;
  int32_t step;   // OG_SAMPLE_SIZES, then OG_SAMPLE_VALUES
  uint64_t seed;  // of what `sample` chooses, the same in both steps
  int64_t *dim;   // as in a call; a pack's entry is its product and stays
  og_attr *attr;  // as in a call; what a new value points to is static
  og_tensor *const *in;  // as in a call, NULL for an absent one and for a list
  const og_tensor_list *in_list;
} og_sample_call;

// Flags. Zero is the safe answer to each.
#define OG_DETERMINISTIC 1u       // same inputs, same bits, any thread count
#define OG_RANDOM 2u              // ordered, never merged with an equal call
#define OG_SIDE_EFFECT 4u         // ordered, never removed
#define OG_CAPTURE_SAME_SHAPE 8u  // a replay needs the captured shapes
#define OG_CAPTURE_NEVER 16u      // never part of a captured graph
#define OG_BATCH_LOOP 32u         // vmap by a counted loop, not by the pack

typedef struct og_op {
  const char *schema;     // PyTorch's grammar
  const char *shape;      // "x[*N, I], weight[O, I] -> [*N, O]"
  const char *where;      // "D > 0, slots in [0, C)"; NULL: none
  const char *dtype;      // "x: f32|bf16, weight: x -> x"; NULL: one type
  const char *backward;   // "f_backward(grad, x) -> x", "none", or NULL
  const char *workspace;  // bytes, an expression of the shape language
  const char *strides;    // "contiguous" (NULL), "any", "last", "x: any, ..."
  const char *inplace;    // the argument that a derived in-place form writes
  const char *row;  // "s = row_sum(x * x); y = x / sqrt(s / width + eps)", or
                    // "a * x + y": may stand for shape, dtype and kernels
  const char *reduce;  // "O; I: sum(bias)": dims that may be cut into parts,
                       // and how the results of the parts join
  const char *doc;     // one or more plain sentences
  const og_kernel *kernels;
  uint32_t kernel_count;
  uint32_t kernel_size;  // sizeof(og_kernel) in the module
  uint32_t flags;        // OG_DETERMINISTIC, ...
  uint32_t reserved;
  og_status (*infer)(const og_infer_call *call);    // instead of `shape`
  og_status (*sample)(const og_sample_call *call);  // NULL: drawn at random
  // What `opgraft check` would find, and is meant: "unused: bias; nan: y". The
  // words are in docs/check.md; one that turns out untrue is found as well.
  const char *expect;
  // What the results are, for `opgraft check`, computed in double: "sum(x *
  // weight, I) + bias"; results apart by ';'. docs/check.md has the grammar.
  const char *reference;
} og_op;

typedef struct og_module {
  uint32_t struct_size;
  uint32_t abi_version;
  const char *name;
  const og_op *ops;
  uint32_t op_count;
  uint32_t op_size;  // sizeof(og_op) in the module
} og_module;

// .kernels = OG_KERNELS(array)
#define OG_KERNELS(array)                                               \
  (array), .kernel_count = (uint32_t)(sizeof(array) / sizeof *(array)), \
           .kernel_size = (uint32_t)sizeof(og_kernel)

// Ends an operator file. `ops` is an array of og_op, not a pointer.
#define OG_MODULE(module_name, ops_array)                      \
  OG_EXPORT const og_module *opgraft_module(uint32_t max_abi); \
  const og_module *opgraft_module(uint32_t max_abi) {          \
    OG_SEAL                                                    \
    static const og_module module = {                          \
        (uint32_t)sizeof(og_module),                           \
        OG_ABI_VERSION,                                        \
        #module_name,                                          \
        (ops_array),                                           \
        (uint32_t)(sizeof(ops_array) / sizeof *(ops_array)),   \
        (uint32_t)sizeof(og_op),                               \
    };                                                         \
    return max_abi >= OG_ABI_VERSION ? &module : NULL;         \
  }

// --- Accessors for kernels ---------------------------------------------------

// First element, `byte_offset` included. The typed forms do not check the
// type: the dtype rule already did.
static inline void *og_data(const og_tensor *t) {
  return (char *)t->data + t->byte_offset;
}

#define OG_ACCESSOR(name, type)                             \
  static inline const type *og_##name(const og_tensor *t) { \
    return (const type *)og_data(t);                        \
  }                                                         \
  static inline type *og_##name##_mut(og_tensor *t) {       \
    return (type *)og_data(t);                              \
  }
OG_ACCESSOR(f32, float)
OG_ACCESSOR(f64, double)
OG_ACCESSOR(f16, og_half)
OG_ACCESSOR(bf16, og_bfloat)
OG_ACCESSOR(i8, int8_t)
OG_ACCESSOR(i16, int16_t)
OG_ACCESSOR(i32, int32_t)
OG_ACCESSOR(i64, int64_t)
OG_ACCESSOR(u8, uint8_t)
OG_ACCESSOR(bool, uint8_t)
OG_ACCESSOR(f8e4m3, og_e4m3)
OG_ACCESSOR(f8e5m2, og_e5m2)
#undef OG_ACCESSOR

static inline int64_t og_numel(const og_tensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; ++i) n *= t->shape[i];
  return n;
}

// The dim of a tensor of `ndim` dims that an int argument picks (D@dim), where
// negative values count from the end: also of each entry of a list, as
// `list.tensors[k]->shape[og_axis(&call->attr[DIM], ndim)]`.
static inline int32_t og_axis(const og_attr *dim, int32_t ndim) {
  return (int32_t)(dim->i < 0 ? dim->i + ndim : dim->i);
}

static inline int og_is(const og_tensor *t, int code, int bits) {
  return t->dtype.code == code && t->dtype.bits == bits;
}

// --- What a kernel may ask of its call ---------------------------------------

// Returns from a kernel with a reason: return og_fail(call, OG_KERNEL, "...").
static inline og_status og_fail(const og_call *call, og_status code,
                                const char *text) {
  return call->fail ? call->fail(call, code, text) : code;
}

// The same with numbers, as printf takes them; at most 255 characters.
__attribute__((format(printf, 3, 4))) static inline og_status og_failf(
    const og_call *call, og_status code, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return og_fail(call, code, text);
}

// Sets a data-dependent dim, which its bound limits.
static inline void og_set_dim(const og_call *call, int index, int64_t size) {
  call->dim[index] = size;
}

// Calls fn on chunks of [0, total), at least `grain` long where there are
// several, on up to call->threads threads. Returns when all are done. Shares
// are disjoint, cover the range, and come in any order.
static inline og_status og_parallel_tasks(const og_call *call, int64_t total,
                                          int64_t grain, og_task_fn fn,
                                          void *state) {
  if (total <= 0) return OG_OK;
  if (!call->parallel_for) {
    fn(state, 0, total, 0);
    return OG_OK;
  }
  return call->parallel_for(call, total, grain, fn, state);
}

typedef struct og_range_state {
  const og_call *call;
  og_range_fn fn;
} og_range_state;

static inline void og_range_task(void *state, int64_t begin, int64_t end,
                                 int32_t worker) {
  const og_range_state *range = (const og_range_state *)state;
  (void)worker;
  range->fn(range->call, begin, end);
}

static inline og_status og_parallel_for(const og_call *call, int64_t total,
                                        int64_t grain, og_range_fn fn) {
  og_range_state state = {call, fn};
  return og_parallel_tasks(call, total, grain, og_range_task, &state);
}

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_OP_H

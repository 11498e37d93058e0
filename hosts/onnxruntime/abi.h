// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's C API, declared by hand: functions by their slot in OrtApi, a
// table that only grows, and OrtCustomOp's layout. The wheels hold no headers.
//
// Invariant: a function of a level is called only where that level was granted.

#ifndef OG_HOSTS_ONNXRUNTIME_ABI_H
#define OG_HOSTS_ONNXRUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void (*ort_function)(void);
typedef const ort_function *ort_api;

typedef struct ort_api_base {
  ort_api (*get_api)(uint32_t version);
  const char *(*get_version)(void);
} ort_api_base;

enum {
  ORT_LEVEL_LEAST = 16,    // kernels that return a status
  ORT_LEVEL_INFER = 17,    // shape inference
  ORT_LEVEL_THREADS = 17,  // loops over the session's threads
  ORT_LEVEL_INPLACE = 18,  // results in an input's memory
  ORT_LEVEL_MOST = 18,     // what an operator declares
  ORT_LEVEL_SHAPE = 24,    // a tensor's shape without a copy: functions only
};

// SLOT(name, number, parameters): ort_NAME calls it; each returns a status or,
// the releasing ones, nothing.
#define ORT_SLOT_LIST(SLOT)                                                    \
  SLOT(create_status, 0, (int code, const char *text))                         \
  SLOT(create_domain, 26, (const char *name, void **out_domain))               \
  SLOT(domain_add, 27, (void *domain, const struct ort_custom_op *op))         \
  SLOT(add_domain, 28, (void *options, void *domain))                          \
  SLOT(tensor_data, 51, (void *value, void **out_data))                        \
  SLOT(create_info, 57, (void **out_info))                                     \
  SLOT(set_type, 58, (void *info, int type))                                   \
  SLOT(set_dims, 59, (void *info, const int64_t *dims, size_t rank))           \
  SLOT(get_type, 60, (const void *info, int *out_type))                        \
  SLOT(get_rank, 61, (const void *info, size_t *out_rank))                     \
  SLOT(get_dims, 62, (const void *info, int64_t *dims, size_t rank))           \
  SLOT(get_symbols, 63, (const void *info, const char **names, size_t rank))   \
  SLOT(get_info, 65, (const void *value, void **out_info))                     \
  SLOT(attr_float, 85, (const void *info, const char *name, float *out))       \
  SLOT(attr_int, 86, (const void *info, const char *name, int64_t *out))       \
  SLOT(attr_text, 87,                                                          \
       (const void *info, const char *name, char *out, size_t *size))          \
  SLOT(input_count, 88, (const void *context, size_t *out_count))              \
  SLOT(input, 90, (const void *context, size_t index, void **out_value))       \
  SLOT(output, 91,                                                             \
       (void *context, size_t index, const int64_t *dims, size_t rank,         \
        void **out_value))                                                     \
  SLOT(release_status, 93, (void *status))                                     \
  SLOT(release_info, 99, (void *info))                                         \
  SLOT(release_domain, 101, (void *domain))                                    \
  SLOT(attr_floats, 162,                                                       \
       (const void *info, const char *name, float *out, size_t *size))         \
  SLOT(attr_ints, 163,                                                         \
       (const void *info, const char *name, int64_t *out, size_t *size))       \
  SLOT(infer_count, 267, (const void *context, size_t *out_count))             \
  SLOT(infer_input, 268, (const void *context, size_t index, void **out_info)) \
  SLOT(infer_attr, 269,                                                        \
       (const void *context, const char *name, const void **out_attr))         \
  SLOT(infer_output, 270, (const void *context, size_t index, void *info))     \
  SLOT(set_symbols, 271, (void *info, const char **names, size_t rank))        \
  SLOT(attr_read, 272,                                                         \
       (const void *attr, int kind, void *out, size_t size, size_t *out_size)) \
  SLOT(parallel_for, 274,                                                      \
       (const void *context, void (*fn)(void *, size_t), size_t total,         \
        size_t batches, void *state))                                          \
  SLOT(get_shape, 414,                                                         \
       (const void *value, int *out_type, const int64_t **out_dims,            \
        size_t *out_rank))

struct ort_custom_op;
#define ORT_SLOT_ENUM(name, number, parameters) ORT_SLOT_##name = number,
enum { ORT_SLOT_LIST(ORT_SLOT_ENUM) };
#undef ORT_SLOT_ENUM
#define ORT_SLOT_TYPE(name, number, parameters) \
  typedef void *(*ort_fn_##name)parameters;
ORT_SLOT_LIST(ORT_SLOT_TYPE)
#undef ORT_SLOT_TYPE
// The function of a table: ORT(api, get_rank)(info, &rank).
#define ORT(api, name) ((ort_fn_##name)(api)[ORT_SLOT_##name])

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
// How an input or output may be given.
enum { ORT_REQUIRED = 0, ORT_OPTIONAL = 1, ORT_VARIADIC = 2 };
// What attr_read reads.
enum {
  ORT_ATTR_INT = 1,
  ORT_ATTR_INTS = 2,
  ORT_ATTR_FLOAT = 3,
  ORT_ATTR_FLOATS = 4,
  ORT_ATTR_STRING = 5,
};

// Element types, by ONNX's code. The runtime has no complex numbers: a custom
// operator of such a type fails the registration of its domain.
#define ORT_TYPE_LIST(X)    \
  X(1, OG_CODE_FLOAT, 32)   \
  X(2, OG_CODE_UINT, 8)     \
  X(3, OG_CODE_INT, 8)      \
  X(4, OG_CODE_UINT, 16)    \
  X(5, OG_CODE_INT, 16)     \
  X(6, OG_CODE_INT, 32)     \
  X(7, OG_CODE_INT, 64)     \
  X(9, OG_CODE_BOOL, 8)     \
  X(10, OG_CODE_FLOAT, 16)  \
  X(11, OG_CODE_FLOAT, 64)  \
  X(12, OG_CODE_UINT, 32)   \
  X(13, OG_CODE_UINT, 64)   \
  X(16, OG_CODE_BFLOAT, 16) \
  X(17, OG_CODE_F8E4M3, 8)  \
  X(19, OG_CODE_F8E5M2, 8)
enum { ORT_TYPES = 20 };

typedef struct ort_custom_op ort_custom_op;
struct ort_custom_op {
  uint32_t version;
  void *create_kernel;
  const char *(*name)(const ort_custom_op *op);
  const char *(*provider)(const ort_custom_op *op);
  int (*input_type)(const ort_custom_op *op, size_t index);
  size_t (*input_count)(const ort_custom_op *op);
  int (*output_type)(const ort_custom_op *op, size_t index);
  size_t (*output_count)(const ort_custom_op *op);
  void *compute;
  void (*kernel_destroy)(void *kernel);
  int (*input_form)(const ort_custom_op *op, size_t index);
  int (*output_form)(const ort_custom_op *op, size_t index);
  int (*input_memory)(const ort_custom_op *op, size_t index);
  int (*variadic_input_least)(const ort_custom_op *op);
  int (*variadic_input_equal)(const ort_custom_op *op);
  int (*variadic_output_least)(const ort_custom_op *op);
  int (*variadic_output_equal)(const ort_custom_op *op);
  void *(*kernel_create)(const ort_custom_op *op, ort_api api, const void *info,
                         void **out_kernel);
  void *(*kernel_compute)(void *kernel, void *context);
  void *(*infer)(const ort_custom_op *op, void *context);
  int (*start_version)(const ort_custom_op *op);
  int (*end_version)(const ort_custom_op *op);
  size_t (*may_inplace)(int **out_inputs, int **out_outputs);
  void (*release_inplace)(int *inputs, int *outputs);
  void *alias_map;
  void *release_alias_map;
};

#endif  // OG_HOSTS_ONNXRUNTIME_ABI_H

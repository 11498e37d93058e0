// SPDX-License-Identifier: Apache-2.0
// XLA's FFI structs, declared by hand: jaxlib's header is not C, and no header
// of a host is included here. tests/conformance/abi_jax.cpp compares each
// offset with the wheel's own header.
//
// Invariant: only fields of version 0.1 are read, which every jaxlib since
// 0.8.1 accepts; a later minor only appends.

#ifndef OG_HOSTS_JAX_ABI_H
#define OG_HOSTS_JAX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_MAJOR = 0, XLA_MINOR = 1 };

typedef enum xla_stage { XLA_STAGE_EXECUTE = 3 } xla_stage;
typedef enum xla_extension_type {
  XLA_EXTENSION_METADATA = 1
} xla_extension_type;
typedef enum xla_attr_kind {
  XLA_ATTR_ARRAY = 1,
  XLA_ATTR_SCALAR = 3,
  XLA_ATTR_STRING = 4,
} xla_attr_kind;
typedef enum xla_error {
  XLA_INVALID_ARGUMENT = 3,
  XLA_RESOURCE_EXHAUSTED = 8,
  XLA_INTERNAL = 13
} xla_error;

// Element types, by XLA's code.
#define XLA_TYPE_LIST(X)      \
  X(1, OG_CODE_BOOL, 8)       \
  X(2, OG_CODE_INT, 8)        \
  X(3, OG_CODE_INT, 16)       \
  X(4, OG_CODE_INT, 32)       \
  X(5, OG_CODE_INT, 64)       \
  X(6, OG_CODE_UINT, 8)       \
  X(7, OG_CODE_UINT, 16)      \
  X(8, OG_CODE_UINT, 32)      \
  X(9, OG_CODE_UINT, 64)      \
  X(10, OG_CODE_FLOAT, 16)    \
  X(11, OG_CODE_FLOAT, 32)    \
  X(12, OG_CODE_FLOAT, 64)    \
  X(15, OG_CODE_COMPLEX, 64)  \
  X(16, OG_CODE_BFLOAT, 16)   \
  X(18, OG_CODE_COMPLEX, 128) \
  X(19, OG_CODE_F8E5M2, 8)    \
  X(20, OG_CODE_F8E4M3, 8)
enum { XLA_TYPE_BOOL = 1, XLA_TYPE_S64 = 5, XLA_TYPE_F64 = 12, XLA_TYPES = 21 };

typedef struct xla_extension {
  size_t struct_size;
  int32_t type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t struct_size;
  void *extension;
  int32_t major;
  int32_t minor;
} xla_version;

typedef struct xla_metadata {
  size_t struct_size;
  xla_version version;
  uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_error_args {
  size_t struct_size;
  void *extension;
  const char *message;
  int32_t code;
} xla_error_args;

typedef struct xla_api {
  size_t struct_size;
  void *extension;
  xla_version version;
  const void *internal;
  void *(*error_create)(xla_error_args *args);
} xla_api;

typedef struct xla_span {
  const char *text;  // without a NUL
  size_t length;
} xla_span;

typedef struct xla_buffer {
  size_t struct_size;
  void *extension;
  int32_t type;
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer;

typedef struct xla_buffers {
  size_t struct_size;
  void *extension;
  int64_t count;
  int32_t *types;
  xla_buffer **buffers;
} xla_buffers;

typedef struct xla_scalar {
  int32_t type;
  void *value;
} xla_scalar;

typedef struct xla_array {
  int32_t type;
  size_t count;
  void *values;
} xla_array;

typedef struct xla_attrs {
  size_t struct_size;
  void *extension;
  int64_t count;
  int32_t *kinds;
  xla_span **names;  // sorted
  void **values;
} xla_attrs;

typedef struct xla_frame {
  size_t struct_size;
  xla_extension *extension;
  const xla_api *api;
  void *context;
  int32_t stage;
  xla_buffers args;
  xla_buffers rets;
  xla_attrs attrs;
} xla_frame;

#endif  // OG_HOSTS_JAX_ABI_H

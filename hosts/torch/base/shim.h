// SPDX-License-Identifier: Apache-2.0
// libtorch's stable C ABI and DLPack's exchange API, declared by hand and found
// in the process.
//
// Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/
// shim.h, whose functions stay as they are for two years and more. The headers
// are C++, so nothing of theirs is included.

#ifndef OG_TORCH_SHIM_H
#define OG_TORCH_SHIM_H

#include <opgraft/opgraft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct at_tensor *tensor_handle;    // AtenTensorHandle: at::Tensor *
typedef struct at_library *library_handle;  // TorchLibraryHandle
typedef struct at_list *list_handle;        // StableListHandle
typedef struct at_string *string_handle;    // StringHandle
typedef uint64_t stable_value;              // StableIValue
typedef int32_t shim_status;                // AOTITorchError: 0 is ok

// The version whose behaviour of the stable values we rely on: 2.10.
#define SHIM_BUILD_VERSION (UINT64_C(2) << 56 | UINT64_C(10) << 48)

typedef void (*boxed_kernel)(stable_value *stack, uint64_t argument_count,
                             uint64_t result_count);

// X(result, name, parameters): needed.
#define SHIM_REQUIRED(X)                                                     \
  X(uint64_t, aoti_torch_abi_version, (void))                                \
  X(shim_status, aoti_torch_library_init_impl,                               \
    (const char *, const char *, const char *, uint32_t, library_handle *))  \
  X(shim_status, torch_library_impl,                                         \
    (library_handle, const char *, boxed_kernel, uint64_t))                  \
  X(shim_status, aoti_torch_delete_library_object, (library_handle))         \
  X(shim_status, aoti_torch_get_data_ptr, (tensor_handle, void **))          \
  X(shim_status, aoti_torch_get_dim, (tensor_handle, int64_t *))             \
  X(shim_status, aoti_torch_get_sizes, (tensor_handle, int64_t **))          \
  X(shim_status, aoti_torch_get_strides, (tensor_handle, int64_t **))        \
  X(shim_status, aoti_torch_get_dtype, (tensor_handle, int32_t *))           \
  X(shim_status, aoti_torch_get_device_type, (tensor_handle, int32_t *))     \
  X(shim_status, aoti_torch_get_device_index, (tensor_handle, int32_t *))    \
  X(shim_status, aoti_torch_get_layout, (tensor_handle, int32_t *))          \
  X(int32_t, aoti_torch_layout_strided, (void))                              \
  X(shim_status, aoti_torch_delete_tensor_object, (tensor_handle))           \
  X(shim_status, aoti_torch_new_tensor_handle,                               \
    (tensor_handle, tensor_handle *))                                        \
  X(shim_status, aoti_torch_get_storage_offset, (tensor_handle, int64_t *))  \
  X(shim_status, aoti_torch_create_tensor_from_blob_v2,                      \
    (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t,    \
     int32_t, int32_t, tensor_handle *, int32_t, const uint8_t *, int64_t))  \
  X(shim_status, aoti_torch__reinterpret_tensor,                             \
    (tensor_handle, int64_t, const int64_t *, const int64_t *, int64_t,      \
     tensor_handle *))                                                       \
  X(shim_status, aoti_torch_copy_, (tensor_handle, tensor_handle, int32_t))  \
  X(shim_status, aoti_torch_zero_, (tensor_handle))                          \
  X(shim_status, aoti_torch_is_defined, (tensor_handle, bool *))             \
  X(shim_status, aoti_torch_empty_strided,                                   \
    (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t,   \
     tensor_handle *))                                                       \
  X(shim_status, torch_call_dispatcher,                                      \
    (const char *, const char *, stable_value *, uint64_t))                  \
  X(int32_t, aoti_torch_device_type_cpu, (void))                             \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                           \
  X(void, aoti_torch_grad_mode_set_enabled, (bool))                          \
  X(void, aoti_torch_check,                                                  \
    (bool, const char *, const char *, uint32_t, const char *))              \
  X(shim_status, torch_new_list_reserve_size, (size_t, list_handle *))       \
  X(shim_status, torch_list_size, (list_handle, size_t *))                   \
  X(shim_status, torch_list_get_item, (list_handle, size_t, stable_value *)) \
  X(shim_status, torch_list_push_back, (list_handle, stable_value))          \
  X(shim_status, torch_delete_list, (list_handle))                           \
  X(shim_status, torch_string_length, (string_handle, size_t *))             \
  X(shim_status, torch_string_c_str, (string_handle, const char **))         \
  X(shim_status, torch_delete_string, (string_handle))                       \
  X(shim_status, torch_parallel_for,                                         \
    (int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *)) \
  X(shim_status, torch_get_num_threads, (uint32_t *))                        \
  X(shim_status, torch_get_thread_idx, (uint32_t *))                         \
  X(shim_status, torch_new_stable_ivalue, (stable_value **))                 \
  X(shim_status, torch_delete_stable_ivalue, (stable_value *))               \
  X(shim_status, torch_new_string_handle,                                    \
    (const char *, size_t, string_handle *))                                 \
  X(const char *, torch_exception_get_what_without_backtrace, (void))

// Used where they are there.
#define SHIM_OPTIONAL(X)                                                  \
  X(shim_status, aoti_torch_get_storage_size, (tensor_handle, int64_t *)) \
  X(int32_t, aoti_torch_device_type_cuda, (void))                         \
  X(int32_t, aoti_torch_memory_format_contiguous_format, (void))          \
  X(int32_t, aoti_torch_memory_format_preserve_format, (void))            \
  X(int32_t, aoti_torch_memory_format_channels_last, (void))              \
  X(int32_t, aoti_torch_memory_format_channels_last_3d, (void))           \
  X(shim_status, aoti_torch_cpu_mm_out,                                   \
    (tensor_handle, tensor_handle, tensor_handle))                        \
  X(shim_status, aoti_torch_cpu_bmm_out,                                  \
    (tensor_handle, tensor_handle, tensor_handle))                        \
  X(shim_status, aoti_torch_cpu_addmm_out,                                \
    (tensor_handle, tensor_handle, tensor_handle, tensor_handle, double,  \
     double))                                                             \
  X(shim_status, aoti_torch_cpu_baddbmm_out,                              \
    (tensor_handle, tensor_handle, tensor_handle, tensor_handle, double,  \
     double))                                                             \
  /* Of the OpenMP that torch is linked with. */                          \
  X(int, omp_get_max_threads, (void))                                     \
  X(int, omp_in_parallel, (void))                                         \
  X(void, omp_set_num_threads, (int))

// Not published: used only after the self-test in guard.c saw them work.
#define SHIM_UNPUBLISHED(X)                            \
  /* Moves the tensor out of the handle. */            \
  X(void *, wrap_tensor, (tensor_handle),              \
    "_Z16THPVariable_WrapON2at10TensorBaseE")          \
  X(int64_t, function_stack_length, (void),            \
    "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv") \
  X(void, bump_version, (const void *),                \
    "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE")

struct shim {
#define X(result, name, parameters) result(*name) parameters;
  SHIM_REQUIRED(X)
  SHIM_OPTIONAL(X)
#undef X
#define X(result, name, parameters, symbol) result(*name) parameters;
  SHIM_UNPUBLISHED(X)
#undef X
  const char *missing;  // the first required symbol that is not there
  void *c10;            // libc10's handle, or NULL
};

extern struct shim shim;

// Looks every symbol up once, in the libraries that torch has mapped. 0, or -1
// with shim.missing set.
int shim_open(void);

// The next names of the table, for `opgraft info`: name, and whether it was
// found. Returns 0 past the end.
int shim_symbol(int index, const char **out_name, bool *out_found,
                bool *out_published);

static inline tensor_handle value_tensor(stable_value value) {
  return (tensor_handle)(uintptr_t)value;
}
static inline stable_value tensor_value(tensor_handle tensor) {
  return (stable_value)(uintptr_t)tensor;
}

// --- DLPack's C exchange API (dlpack.h 1.2, by layout) -----------------------

typedef struct dl_managed {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_managed *);
  uint64_t flags;
  og_tensor tensor;
} dl_managed;

typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange *previous;
  int (*allocate)(og_tensor *prototype, dl_managed **out, void *error_context,
                  void (*set_error)(void *, const char *, const char *));
  int (*managed_from_object)(void *object, dl_managed **out);
  int (*managed_to_object)(dl_managed *tensor, void **out_object);
  int (*tensor_from_object)(void *object, og_tensor *out);
  int (*current_stream)(int device_type, int32_t device_id, void **out);
} dl_exchange;

// Set once, when torch is imported.
extern const dl_exchange *exchange;

#endif  // OG_TORCH_SHIM_H

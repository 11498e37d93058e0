// SPDX-License-Identifier: Apache-2.0
// Tensors as NumPy's .npy files, so that a graph's inputs and outputs can be
// made and looked at with what everybody has.
//
// Errors and threads are as in opgraft.h.

#ifndef OPGRAFT_NPY_H
#define OPGRAFT_NPY_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads versions 1 to 3, in C or Fortran order, little-endian. NumPy has no
// bfloat16: two bytes of its void type ("|V2") are read and written as that.
// The tensor and its memory, aligned to 64 bytes, are the caller's until
// opgraft_npy_release. Failure: OG_IO (with the system's reason), OG_INVALID
// for what is not such a file, OG_DTYPE for a type that a tensor cannot have,
// OG_MEMORY.
OPGRAFT_API og_status opgraft_npy_read(const char *path, og_tensor **out_tensor,
                                       opgraft_error *error);
OPGRAFT_API void opgraft_npy_release(og_tensor *tensor);

// Writes the elements row-major, whatever the strides; beside `path` first,
// then renamed, so that a reader never sees half a file. OG_DEVICE for a tensor
// that is not the CPU's.
OPGRAFT_API og_status opgraft_npy_write(const char *path,
                                        const og_tensor *tensor,
                                        opgraft_error *error);

// The same bytes, to whoever takes them.
OPGRAFT_API og_status opgraft_npy_print(const og_tensor *tensor,
                                        void (*write)(void *user,
                                                      const char *bytes,
                                                      size_t length),
                                        void *user, opgraft_error *error);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_NPY_H

// SPDX-License-Identifier: Apache-2.0
// What the adapter uses of the C operator API in TensorFlow's include folder
// tensorflow/c, which takes and gives opaque pointers.

#ifndef OG_HOSTS_TENSORFLOW_ABI_H
#define OG_HOSTS_TENSORFLOW_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void *(*tf_create)(void *construction);
typedef void (*tf_compute)(void *kernel, void *context);
typedef void (*tf_delete)(void *kernel);
typedef void (*tf_infer)(void *context, void *status);

enum {
  TF_CODE_OK = 0,
  TF_CODE_INVALID_ARGUMENT = 3,
  TF_CODE_EXHAUSTED = 8,
  TF_CODE_INTERNAL = 13,
};

// TensorFlow's number, DLPack's code and bits.
#define TF_DTYPE_LIST(X) \
  X(1, 2, 32)            \
  X(2, 2, 64)            \
  X(3, 0, 32)            \
  X(4, 1, 8)             \
  X(5, 0, 16)            \
  X(6, 0, 8)             \
  X(8, 5, 64)            \
  X(9, 0, 64)            \
  X(10, 6, 8)            \
  X(14, 4, 16)           \
  X(17, 1, 16)           \
  X(18, 5, 128)          \
  X(19, 2, 16)           \
  X(22, 1, 32)           \
  X(23, 1, 64)
enum { TF_DTYPES = 24 };

// Name behind TF_, result, parameters.
#define TF_FUNCTION_LIST(X)                                                    \
  X(NewStatus, void *, (void))                                                 \
  X(DeleteStatus, void, (void *))                                              \
  X(SetStatus, void, (void *, int code, const char *text))                     \
  X(GetCode, int, (const void *status))                                        \
  X(Message, const char *, (const void *status))                               \
  X(NewOpDefinitionBuilder, void *, (const char *name))                        \
  X(OpDefinitionBuilderAddInput, void, (void *, const char *))                 \
  X(OpDefinitionBuilderAddOutput, void, (void *, const char *))                \
  X(OpDefinitionBuilderAddAttr, void, (void *, const char *))                  \
  X(OpDefinitionBuilderSetIsStateful, void, (void *, _Bool))                   \
  X(OpDefinitionBuilderSetShapeInferenceFunction, void, (void *, tf_infer))    \
  X(RegisterOpDefinition, void, (void *, void *status))                        \
  X(ShapeInferenceContextSetUnknownShape, void, (void *, void *status))        \
  X(NewKernelBuilder, void *,                                                  \
    (const char *op, const char *device, tf_create, tf_compute, tf_delete))    \
  X(RegisterKernelBuilder, void, (const char *name, void *, void *status))     \
  X(OpKernelConstruction_GetAttrSize, void,                                    \
    (void *, const char *, int32_t *count, int32_t *bytes, void *status))      \
  X(OpKernelConstruction_GetAttrString, void,                                  \
    (void *, const char *, char *, size_t size, void *status))                 \
  X(OpKernelConstruction_GetAttrInt64List, void,                               \
    (void *, const char *, int64_t *, int size, void *status))                 \
  X(OpKernelConstruction_Failure, void, (void *, void *status))                \
  X(OpKernelContext_Failure, void, (void *, void *status))                     \
  X(NumInputs, int, (void *))                                                  \
  X(NumOutputs, int, (void *))                                                 \
  X(ExpectedOutputDataType, int, (void *, int index))                          \
  X(GetInput, void, (void *, int index, void **out_tensor, void *status))      \
  X(ForwardInputOrAllocateOutput, void *,                                      \
    (void *, const int *inputs, int count, int index, const int64_t *dims,     \
     int rank, int *out_input, void *status))                                  \
  X(AllocateOutput, void *,                                                    \
    (void *, int index, int type, const int64_t *dims, int rank, size_t bytes, \
     void *status))                                                            \
  X(TensorType, int, (const void *))                                           \
  X(NumDims, int, (const void *))                                              \
  X(Dim, int64_t, (const void *, int))                                         \
  X(TensorData, void *, (const void *))                                        \
  X(DeleteTensor, void, (void *))

#endif  // OG_HOSTS_TENSORFLOW_ABI_H

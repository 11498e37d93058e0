// SPDX-License-Identifier: Apache-2.0
// Our declaration of TVM-FFI's structs beside the wheel's own headers.
// It compiles, or a field has moved.

#include <stddef.h>
#include <tvm/ffi/c_api.h>

#include "tvm_ffi/abi.h"

#define SAME(ours, field, theirs, their_field)                              \
  _Static_assert(                                                           \
      offsetof(ours, field) == offsetof(theirs, their_field) &&             \
          sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field), \
      #theirs "." #their_field)
#define EQUAL(ours, theirs) _Static_assert((int)ours == (int)theirs, #theirs)

SAME(tvm_any, type, TVMFFIAny, type_index);
SAME(tvm_any, small_length, TVMFFIAny, small_str_len);
SAME(tvm_any, i, TVMFFIAny, v_int64);
SAME(tvm_any, f, TVMFFIAny, v_float64);
SAME(tvm_any, p, TVMFFIAny, v_ptr);
SAME(tvm_any, dtype, TVMFFIAny, v_dtype);
SAME(tvm_any, device, TVMFFIAny, v_device);
SAME(tvm_any, text, TVMFFIAny, v_bytes);
SAME(tvm_object, counts, TVMFFIObject, combined_ref_count);
SAME(tvm_object, type, TVMFFIObject, type_index);
SAME(tvm_object, deleter, TVMFFIObject, deleter);
SAME(tvm_bytes, data, TVMFFIByteArray, data);
SAME(tvm_bytes, size, TVMFFIByteArray, size);
SAME(tvm_sizes, data, TVMFFIShapeCell, data);
SAME(tvm_sizes, size, TVMFFIShapeCell, size);
SAME(tvm_version, major, TVMFFIVersion, major);
SAME(tvm_version, minor, TVMFFIVersion, minor);
SAME(tvm_version, patch, TVMFFIVersion, patch);
SAME(tvm_managed, context, DLManagedTensorVersioned, manager_ctx);
SAME(tvm_managed, deleter, DLManagedTensorVersioned, deleter);
SAME(tvm_managed, flags, DLManagedTensorVersioned, flags);
SAME(tvm_managed, tensor, DLManagedTensorVersioned, dl_tensor);
SAME(og_tensor, data, DLTensor, data);
SAME(og_tensor, device, DLTensor, device);
SAME(og_tensor, ndim, DLTensor, ndim);
SAME(og_tensor, dtype, DLTensor, dtype);
SAME(og_tensor, shape, DLTensor, shape);
SAME(og_tensor, strides, DLTensor, strides);
SAME(og_tensor, byte_offset, DLTensor, byte_offset);
_Static_assert(sizeof(tvm_any) == sizeof(TVMFFIAny), "TVMFFIAny");
_Static_assert(sizeof(tvm_object) == sizeof(TVMFFIObject), "TVMFFIObject");
_Static_assert(sizeof(tvm_managed) == sizeof(DLManagedTensorVersioned),
               "DLManagedTensorVersioned");

EQUAL(TVM_NONE, kTVMFFINone);
EQUAL(TVM_INT, kTVMFFIInt);
EQUAL(TVM_BOOL, kTVMFFIBool);
EQUAL(TVM_FLOAT, kTVMFFIFloat);
EQUAL(TVM_POINTER, kTVMFFIOpaquePtr);
EQUAL(TVM_DTYPE, kTVMFFIDataType);
EQUAL(TVM_DEVICE, kTVMFFIDevice);
EQUAL(TVM_DL_TENSOR, kTVMFFIDLTensorPtr);
EQUAL(TVM_RAW_STR, kTVMFFIRawStr);
EQUAL(TVM_MOVED, kTVMFFIObjectRValueRef);
EQUAL(TVM_SMALL_STR, kTVMFFISmallStr);
EQUAL(TVM_OBJECTS, kTVMFFIStaticObjectBegin);
EQUAL(TVM_STR, kTVMFFIStr);
EQUAL(TVM_ERROR, kTVMFFIError);
EQUAL(TVM_SHAPE, kTVMFFIShape);
EQUAL(TVM_TENSOR, kTVMFFITensor);
EQUAL(TVM_ARRAY, kTVMFFIArray);
EQUAL(TVM_LIST, kTVMFFIList);

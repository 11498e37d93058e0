// SPDX-License-Identifier: Apache-2.0
// Our declaration of XLA's structs beside the wheel's own header, which is C++.
// It compiles, or a field has moved.

#include <opgraft/op.h>

#include <cstddef>

#include "jax/abi.h"
#include "xla/ffi/api/c_api.h"

#define SAME(ours, field, theirs, their_field)                              \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&   \
                    sizeof(ours::field) == sizeof(theirs::their_field),     \
                #theirs "." #their_field)

SAME(xla_extension, type, XLA_FFI_Extension_Base, type);
SAME(xla_extension, next, XLA_FFI_Extension_Base, next);
SAME(xla_version, major, XLA_FFI_Api_Version, major_version);
SAME(xla_version, minor, XLA_FFI_Api_Version, minor_version);
SAME(xla_metadata, version, XLA_FFI_Metadata, api_version);
SAME(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(xla_error_args, message, XLA_FFI_Error_Create_Args, message);
SAME(xla_error_args, code, XLA_FFI_Error_Create_Args, errc);
SAME(xla_api, version, XLA_FFI_Api, api_version);
SAME(xla_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_span, text, XLA_FFI_ByteSpan, ptr);
SAME(xla_span, length, XLA_FFI_ByteSpan, len);
SAME(xla_buffer, type, XLA_FFI_Buffer, dtype);
SAME(xla_buffer, data, XLA_FFI_Buffer, data);
SAME(xla_buffer, rank, XLA_FFI_Buffer, rank);
SAME(xla_buffer, dims, XLA_FFI_Buffer, dims);
SAME(xla_buffers, count, XLA_FFI_Args, size);
SAME(xla_buffers, types, XLA_FFI_Args, types);
SAME(xla_buffers, buffers, XLA_FFI_Args, args);
SAME(xla_buffers, count, XLA_FFI_Rets, size);
SAME(xla_buffers, buffers, XLA_FFI_Rets, rets);
SAME(xla_scalar, type, XLA_FFI_Scalar, dtype);
SAME(xla_scalar, value, XLA_FFI_Scalar, value);
SAME(xla_array, type, XLA_FFI_Array, dtype);
SAME(xla_array, count, XLA_FFI_Array, size);
SAME(xla_array, values, XLA_FFI_Array, data);
SAME(xla_attrs, count, XLA_FFI_Attrs, size);
SAME(xla_attrs, kinds, XLA_FFI_Attrs, types);
SAME(xla_attrs, names, XLA_FFI_Attrs, names);
SAME(xla_attrs, values, XLA_FFI_Attrs, attrs);
SAME(xla_frame, extension, XLA_FFI_CallFrame, extension_start);
SAME(xla_frame, api, XLA_FFI_CallFrame, api);
SAME(xla_frame, context, XLA_FFI_CallFrame, ctx);
SAME(xla_frame, stage, XLA_FFI_CallFrame, stage);
SAME(xla_frame, args, XLA_FFI_CallFrame, args);
SAME(xla_frame, rets, XLA_FFI_CallFrame, rets);
SAME(xla_frame, attrs, XLA_FFI_CallFrame, attrs);

#define VALUE(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #theirs)
VALUE(XLA_MAJOR, XLA_FFI_API_MAJOR);
static_assert(XLA_MINOR <= XLA_FFI_API_MINOR, "the claimed minor version");
VALUE(XLA_STAGE_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE);
VALUE(XLA_EXTENSION_METADATA, XLA_FFI_Extension_Metadata);
VALUE(XLA_ATTR_ARRAY, XLA_FFI_AttrType_ARRAY);
VALUE(XLA_ATTR_SCALAR, XLA_FFI_AttrType_SCALAR);
VALUE(XLA_ATTR_STRING, XLA_FFI_AttrType_STRING);
VALUE(XLA_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT);
VALUE(XLA_INTERNAL, XLA_FFI_Error_Code_INTERNAL);

// A type's name in the header, by what it is for a declaration.
static constexpr int theirs(int code, int bits) {
  switch (code * 1000 + bits) {
    case OG_CODE_BOOL * 1000 + 8:
      return XLA_FFI_DataType_PRED;
    case OG_CODE_INT * 1000 + 8:
      return XLA_FFI_DataType_S8;
    case OG_CODE_INT * 1000 + 16:
      return XLA_FFI_DataType_S16;
    case OG_CODE_INT * 1000 + 32:
      return XLA_FFI_DataType_S32;
    case OG_CODE_INT * 1000 + 64:
      return XLA_FFI_DataType_S64;
    case OG_CODE_UINT * 1000 + 8:
      return XLA_FFI_DataType_U8;
    case OG_CODE_UINT * 1000 + 16:
      return XLA_FFI_DataType_U16;
    case OG_CODE_UINT * 1000 + 32:
      return XLA_FFI_DataType_U32;
    case OG_CODE_UINT * 1000 + 64:
      return XLA_FFI_DataType_U64;
    case OG_CODE_FLOAT * 1000 + 16:
      return XLA_FFI_DataType_F16;
    case OG_CODE_FLOAT * 1000 + 32:
      return XLA_FFI_DataType_F32;
    case OG_CODE_FLOAT * 1000 + 64:
      return XLA_FFI_DataType_F64;
    case OG_CODE_COMPLEX * 1000 + 64:
      return XLA_FFI_DataType_C64;
    case OG_CODE_COMPLEX * 1000 + 128:
      return XLA_FFI_DataType_C128;
    case OG_CODE_BFLOAT * 1000 + 16:
      return XLA_FFI_DataType_BF16;
    case OG_CODE_F8E4M3 * 1000 + 8:
      return XLA_FFI_DataType_F8E4M3FN;
    case OG_CODE_F8E5M2 * 1000 + 8:
      return XLA_FFI_DataType_F8E5M2;
    default:
      return -1;
  }
}
#define TYPE(code, kind, bits) VALUE(code, theirs(kind, bits));
XLA_TYPE_LIST(TYPE)

int main() { return 0; }

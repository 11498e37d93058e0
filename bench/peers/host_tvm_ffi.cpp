// SPDX-License-Identifier: Apache-2.0
// The rival of hosts/tvm_ffi: y = x * weight over the last axis, by TVM-FFI's
// own C++ binding.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>

namespace ffi = tvm::ffi;

static void Scale(ffi::TensorView x, ffi::TensorView weight,
                  ffi::TensorView y) {
  const DLDataType f32 = {kDLFloat, 32, 1};
  for (const ffi::TensorView *t : {&x, &weight, &y})
    if (t->dtype() != f32 || !t->IsContiguous())
      TVM_FFI_THROW(ValueError) << "expected dense float32";
  const int64_t width = x.size(x.ndim() - 1);
  const int64_t count = x.numel();
  if (weight.numel() != width || y.numel() != count)
    TVM_FFI_THROW(ValueError) << "the sizes disagree";
  const float *in = static_cast<const float *>(x.data_ptr());
  const float *by = static_cast<const float *>(weight.data_ptr());
  float *out = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] * by[i % width];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);

// SPDX-License-Identifier: Apache-2.0
// The rival of hosts/jax: y = x * weight over the last axis, by XLA's own C++
// binding.

#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> weight,
                        ffi::ResultBuffer<ffi::F32> y) {
  const int64_t width = x.dimensions().back();
  const int64_t count = static_cast<int64_t>(x.element_count());
  const float *in = x.typed_data(), *by = weight.typed_data();
  float *out = y->typed_data();
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] * by[i % width];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Handler, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

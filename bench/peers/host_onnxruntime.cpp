// SPDX-License-Identifier: Apache-2.0
// The rival of hosts/onnxruntime: y = x * weight over the last axis, as a
// custom operator by hand. It checks nothing. ONNX Runtime's wheel has no
// headers, so its API is called by the slots of hosts/onnxruntime/abi.h; what
// its C++ header adds (exceptions, owned values) costs nothing here.

#include <cstdint>
#include <vector>

#include "onnxruntime/abi.h"

namespace {

struct Kernel {
  ort_api api;
};

void *Compute(void *state, void *context) {
  const ort_api api = static_cast<Kernel *>(state)->api;
  void *x = nullptr, *weight = nullptr, *y = nullptr, *info = nullptr;
  void *in = nullptr, *by = nullptr, *out = nullptr;
  size_t rank = 0;
  if (void *status = ORT(api, input)(context, 0, &x)) return status;
  if (void *status = ORT(api, input)(context, 1, &weight)) return status;
  if (void *status = ORT(api, get_info)(x, &info)) return status;
  if (void *status = ORT(api, get_rank)(info, &rank)) return status;
  std::vector<int64_t> shape(rank);
  if (void *status = ORT(api, get_dims)(info, shape.data(), rank))
    return status;
  ORT(api, release_info)(info);
  if (void *status = ORT(api, output)(context, 0, shape.data(), rank, &y))
    return status;
  if (void *status = ORT(api, tensor_data)(x, &in)) return status;
  if (void *status = ORT(api, tensor_data)(weight, &by)) return status;
  if (void *status = ORT(api, tensor_data)(y, &out)) return status;
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  const int64_t width = shape.back();
  for (int64_t i = 0; i < count; ++i)
    static_cast<float *>(out)[i] =
        static_cast<float *>(in)[i] * static_cast<float *>(by)[i % width];
  return nullptr;
}

void *Create(const ort_custom_op *, ort_api api, const void *, void **out) {
  *out = new Kernel{api};
  return nullptr;
}

ort_custom_op Operator() {
  ort_custom_op op = {};
  op.version = ORT_LEVEL_LEAST;
  op.name = [](const ort_custom_op *) { return "scale"; };
  op.provider = [](const ort_custom_op *) -> const char * { return nullptr; };
  op.input_type = [](const ort_custom_op *, size_t) { return 1; };
  op.input_count = [](const ort_custom_op *) -> size_t { return 2; };
  op.output_type = [](const ort_custom_op *, size_t) { return 1; };
  op.output_count = [](const ort_custom_op *) -> size_t { return 1; };
  op.kernel_destroy = [](void *state) { delete static_cast<Kernel *>(state); };
  op.input_form = [](const ort_custom_op *, size_t) -> int {
    return ORT_REQUIRED;
  };
  op.output_form = [](const ort_custom_op *, size_t) -> int {
    return ORT_REQUIRED;
  };
  op.input_memory = [](const ort_custom_op *, size_t) { return 0; };
  op.kernel_create = Create;
  op.kernel_compute = Compute;
  return op;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void *RegisterCustomOps(
    void *options, const ort_api_base *base) {
  static const ort_custom_op op = Operator();
  const ort_api api = base->get_api(ORT_LEVEL_LEAST);
  void *domain = nullptr;
  if (void *status = ORT(api, create_domain)("peer", &domain)) return status;
  if (void *status = ORT(api, domain_add)(domain, &op)) return status;
  return ORT(api, add_domain)(options, domain);
}

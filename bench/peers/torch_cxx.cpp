// SPDX-License-Identifier: Apache-2.0
// The rivals in C++: a TORCH_LIBRARY operator, an autograd::Function, and a
// pybind11 function, all of x + a * y.

#include <torch/extension.h>
#include <torch/library.h>

static void check(const at::Tensor &x, const at::Tensor &y) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat &&
                  x.is_contiguous() && y.is_contiguous() &&
                  x.sizes() == y.sizes(),
              "scale_add wants two contiguous float32 tensors of one shape");
}

static void run(const at::Tensor &x, const at::Tensor &y, double a,
                at::Tensor &out) {
  const float *xs = x.const_data_ptr<float>();
  const float *ys = y.const_data_ptr<float>();
  float *outs = out.mutable_data_ptr<float>();
  const float scale = static_cast<float>(a);
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i) outs[i] = xs[i] + scale * ys[i];
}

static at::Tensor scale_add(const at::Tensor &x, const at::Tensor &y,
                            double a) {
  check(x, y);
  at::Tensor out = at::empty_like(x);
  run(x, y, a, out);
  return out;
}

static void scale_add_out(at::Tensor &out, const at::Tensor &x,
                          const at::Tensor &y, double a) {
  check(x, y);
  check(out, x);
  run(x, y, a, out);
}

struct ScaleAdd : torch::autograd::Function<ScaleAdd> {
  static at::Tensor forward(torch::autograd::AutogradContext *context,
                            const at::Tensor &x, const at::Tensor &y,
                            double a) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->saved_data["a"] = a;
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("og_bench_grad::scale_add", "")
                         .typed<at::Tensor(const at::Tensor &,
                                           const at::Tensor &, double)>();
    return op.call(x, y, a);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext *context,
      torch::autograd::variable_list grads) {
    const double a = context->saved_data["a"].toDouble();
    return {grads[0], grads[0] * a, at::Tensor()};
  }
};

static at::Tensor scale_add_grad(const at::Tensor &x, const at::Tensor &y,
                                 double a) {
  return ScaleAdd::apply(x, y, a);
}

TORCH_LIBRARY(og_bench_cxx, m) {
  m.def("scale_add(Tensor x, Tensor y, float a) -> Tensor");
}
TORCH_LIBRARY_IMPL(og_bench_cxx, CPU, m) { m.impl("scale_add", scale_add); }
TORCH_LIBRARY(og_bench_grad, m) {
  m.def("scale_add(Tensor x, Tensor y, float a) -> Tensor");
}
TORCH_LIBRARY_IMPL(og_bench_grad, CPU, m) { m.impl("scale_add", scale_add); }
TORCH_LIBRARY_IMPL(og_bench_grad, Autograd, m) {
  m.impl("scale_add", scale_add_grad);
}
PYBIND11_MODULE(og_bench_cxx, m) {
  m.def("scale_add", scale_add);
  m.def("scale_add_out", scale_add_out);
}

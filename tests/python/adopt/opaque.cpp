// SPDX-License-Identifier: Apache-2.0
// Kernels as their owners ship them: a pybind11 module that torch cannot see
// into. Tensors come as Python objects, whose memory the functions write raw.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

static float *data(const py::object &tensor) {
  return reinterpret_cast<float *>(
      tensor.attr("data_ptr")().cast<std::uintptr_t>());
}

static std::int64_t numel(const py::object &tensor) {
  return tensor.attr("numel")().cast<std::int64_t>();
}

static py::object empty_like(const py::object &tensor) {
  return py::module_::import("torch").attr("empty_like")(tensor);
}

// y = silu(x) * gate
static py::object silu_mul(const py::object &x, const py::object &gate) {
  py::object y = empty_like(x);
  const float *xs = data(x), *gs = data(gate);
  float *ys = data(y);
  for (std::int64_t i = 0, n = numel(x); i < n; ++i)
    ys[i] = xs[i] / (1 + std::exp(-xs[i])) * gs[i];
  return y;
}

// Default, keyword, list and optional arguments.
static py::object scale_add(const py::object &x,
                            const std::vector<double> &factors,
                            const std::optional<py::object> &bias, double eps,
                            const std::string &mode) {
  py::object y = empty_like(x);
  double factor = mode == "product" ? 1 : 0;
  for (const double f : factors)
    factor = mode == "product" ? factor * f : factor + f;
  const float *xs = data(x);
  const float *bs = bias ? data(*bias) : nullptr;
  float *ys = data(y);
  for (std::int64_t i = 0, n = numel(x); i < n; ++i)
    ys[i] = static_cast<float>(xs[i] * factor + eps + (bs ? bs[i] : 0));
  return y;
}

// Writes its first argument.
static void decay_(const py::object &x, double rate) {
  float *xs = data(x);
  for (std::int64_t i = 0, n = numel(x); i < n; ++i)
    xs[i] *= static_cast<float>(rate);
}

// Row sums and row maxima of a matrix.
static py::tuple sum_max(const py::object &x) {
  const py::object torch = py::module_::import("torch");
  const auto rows = x.attr("size")(0).cast<std::int64_t>();
  const auto width = x.attr("size")(1).cast<std::int64_t>();
  py::object sums = torch.attr("empty")(rows), most = torch.attr("empty")(rows);
  const float *xs = data(x);
  for (std::int64_t r = 0; r < rows; ++r) {
    float sum = 0, top = -INFINITY;
    for (std::int64_t i = 0; i < width; ++i) {
      sum += xs[r * width + i];
      top = std::fmax(top, xs[r * width + i]);
    }
    data(sums)[r] = sum;
    data(most)[r] = top;
  }
  return py::make_tuple(sums, most);
}

// Another shape: every row `times` times.
static py::object repeat_rows(const py::object &x, std::int64_t times) {
  const auto rows = x.attr("size")(0).cast<std::int64_t>();
  const auto width = x.attr("size")(1).cast<std::int64_t>();
  py::object y =
      py::module_::import("torch").attr("empty")(rows * times, width);
  for (std::int64_t r = 0; r < rows * times; ++r)
    for (std::int64_t i = 0; i < width; ++i)
      data(y)[r * width + i] = data(x)[r / times * width + i];
  return y;
}

// Writes results that the caller brings, as launchers do.
static void add_into(const py::object &out, const py::object &a,
                     const py::object &b) {
  for (std::int64_t i = 0, n = numel(out); i < n; ++i)
    data(out)[i] = data(a)[i] + data(b)[i];
}

// Lies: says that it returns, and clips its argument on the way.
static py::object sneaky_relu(const py::object &x) {
  py::object y = empty_like(x);
  for (std::int64_t i = 0, n = numel(x); i < n; ++i) {
    if (data(x)[i] < 0) data(x)[i] = 0;
    data(y)[i] = data(x)[i];
  }
  return y;
}

// Keeps state: each call adds one more.
static py::object counted(const py::object &x) {
  static int calls = 0;
  py::object y = empty_like(x);
  ++calls;
  for (std::int64_t i = 0, n = numel(x); i < n; ++i)
    data(y)[i] = data(x)[i] + static_cast<float>(calls);
  return y;
}

// Returns its argument.
static py::object passed_on(const py::object &x) { return x; }

static py::object refuses(const py::object &x) {
  if (numel(x) > 4) throw py::value_error("more than four elements");
  return silu_mul(x, x);
}

PYBIND11_MODULE(opaque, m) {
  m.def("silu_mul", &silu_mul, "silu(x) * gate");
  m.def("scale_add", &scale_add, py::arg("x"), py::arg("factors"),
        py::arg("bias") = py::none(), py::kw_only(), py::arg("eps") = 0.5,
        py::arg("mode") = "sum");
  m.def("decay_", &decay_, py::arg("x"), py::arg("rate") = 0.5);
  m.def("sum_max", &sum_max);
  m.def("repeat_rows", &repeat_rows);
  m.def("add_into", &add_into);
  m.def("sneaky_relu", &sneaky_relu);
  m.def("counted", &counted);
  m.def("passed_on", &passed_on);
  m.def("refuses", &refuses);
}

// SPDX-License-Identifier: Apache-2.0
// Operators without kernels: scalar expressions.

#include <opgraft/op.h>

static const og_op ops[] = {
    {
        .schema = "axpy(Tensor a, Tensor x, Tensor y) -> Tensor",
        .pointwise = "a * x + y",
    },
    {
        .schema = "swish(Tensor x) -> Tensor",
        .dtype = "x: f32|f64 -> x",
        .backward = "swish_backward(grad, x) -> x",
        .pointwise = "x * sigmoid(x)",
    },
    {
        .schema = "swish_backward(Tensor grad, Tensor x) -> Tensor",
        .dtype = "grad: f32|f64, x: grad -> grad",
        .pointwise = "grad * sigmoid(x) * (1 + x * (1 - sigmoid(x)))",
    },
    {
        .schema = "leaky(Tensor x, float slope=0.01) -> Tensor",
        .dtype = "x: f32|f64 -> x",
        .pointwise = "select(x > 0, x, slope * x)",
    },
};
OG_MODULE(pointwise, ops)

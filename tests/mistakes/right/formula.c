// SPDX-License-Identifier: Apache-2.0
// Operators without kernels: formulas.

#include "../../modules/operators.h"

MODULE(formula,
       {.schema = "axpy(Tensor a, Tensor x, Tensor y) -> Tensor",
        .row = "a * x + y"},
       {.schema = "swish(Tensor x) -> Tensor",
        .dtype = "x: f32|f64 -> x",
        .backward = "swish_backward(grad, x) -> x",
        .row = "x * sigmoid(x)"},
       {.schema = "swish_backward(Tensor grad, Tensor x) -> Tensor",
        .dtype = "grad: f32|f64, x: grad -> grad",
        .row = "grad * sigmoid(x) * (1 + x * (1 - sigmoid(x)))"},
       {.schema = "leaky(Tensor x, float slope=0.01) -> Tensor",
        .dtype = "x: f32|f64 -> x",
        .row = "select(x > 0, x, slope * x)"})

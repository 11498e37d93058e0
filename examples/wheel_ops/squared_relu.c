// SPDX-License-Identifier: Apache-2.0
// squared_relu: y = max(x, 0)^2, element by element.
// Source: So and others, "Primer: Searching for Efficient Transformers for
// Language Modeling", 2021.

#include <opgraft/op.h>

static const og_op ops[] = {
    {
        .schema = "squared_relu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: floating -> x",
        .backward = "squared_relu_backward(grad, x) -> x",
        .row = "max(x, 0) * max(x, 0)",
    },
    {
        .schema = "squared_relu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .dtype = "grad: floating, x: grad -> x",
        .row = "grad * 2 * max(x, 0)",
    },
};
OG_MODULE(squared_relu, ops)

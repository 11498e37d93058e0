# SPDX-License-Identifier: Apache-2.0
"""Broken operators that contradict what they declare: gradient, rule."""

from __future__ import annotations

DECLARED: dict[str, dict[str, str]] = {
    "vector_dot": {
        "kind": "rule",
        "wrong": (
            "the flag says that the bits do not depend on the thread count, "
            "but the blocks do"
        ),
        "shown": "1 and 3 threads, long x: results differ in the last bits",
        "reference": "vector_dot",
    },
    "silu": {
        "kind": "gradient",
        "wrong": "the second term of the derivative has the wrong sign",
        "shown": "x = 1: 0.53 instead of 0.93",
        "reference": "silu",
    },
    "standardize": {
        "kind": "gradient",
        "wrong": "the mean of the incoming gradient is not taken away",
        "shown": "grad all 1: the gradient of x is not 0",
        "reference": "standardize",
    },
    "bias_channels": {
        "kind": "gradient",
        "wrong": (
            "the gradient of bias is summed over the length, but batches "
            "replace each other"
        ),
        "shown": "N = 2: the gradient of bias is that of batch 1 alone",
        "reference": "bias_channels",
    },
    "soft_cap": {
        "kind": "gradient",
        "wrong": (
            "the derivative is taken as 1 - result^2, though the result is "
            "scaled by cap"
        ),
        "shown": "cap = 2, x = 1: 0.146 instead of 0.786",
        "reference": "soft_cap",
    },
    "square_error": {
        "kind": "gradient",
        "wrong": "both gradients lack the factor 2",
        "shown": "x - y = 1, D = 1: 1 instead of 2",
        "reference": "square_error",
    },
    "elu": {
        "kind": "gradient",
        "wrong": "below zero the derivative is e^x, without alpha",
        "shown": "alpha = 2, x = -1: 0.37 instead of 0.74",
        "reference": "elu",
    },
    "take_rows": {
        "kind": "gradient",
        "wrong": (
            "the gradient of a row that is taken twice is that of its last use"
        ),
        "shown": "index [0, 0]: row 0 gets grad[1], expected grad[0] + grad[1]",
        "reference": "take_rows",
    },
    "discounted_sum": {
        "kind": "gradient",
        "wrong": "the gradient runs forward in time like the sum itself",
        "shown": "x of two, grad [0, 1]: x[0] gets 0, expected decay",
        "reference": "discounted_sum",
    },
    "log_softmax": {
        "kind": "gradient",
        "wrong": (
            "softmax is multiplied by the element's own gradient, expected "
            "the sum of the row's"
        ),
        "shown": "grad [1, 0]: element 1 gets 0, expected -softmax[1]",
        "reference": "log_softmax",
    },
    "causal_conv": {
        "kind": "gradient",
        "wrong": "the gradient of weight is that of the first sequence alone",
        "shown": "N = 2: sequence 1 does not count in the gradient of weight",
        "reference": "causal_conv",
    },
    "unit_rows": {
        "kind": "gradient",
        "wrong": "the sum along the row is not divided by its width",
        "shown": "D = 4: the second term is four times too large",
        "reference": "unit_rows",
    },
    "prelu": {
        "kind": "gradient",
        "wrong": "the gradient of slope sums positive elements too",
        "shown": "x = 3: slope gets 3, expected 0",
        "reference": "prelu",
    },
    "reglu": {
        "kind": "gradient",
        "wrong": "the gradients of the two halves change places",
        "shown": "x = [1, 3], grad 1: [1, 3], expected [3, 1]",
        "reference": "reglu",
    },
    "attention_scores": {
        "kind": "gradient",
        "wrong": "the gradient of k lacks the scale",
        "shown": "scale 0.5: the gradient of k is twice as large as expected",
        "reference": "attention_scores",
    },
    "cubed_relu": {
        "kind": "gradient",
        "wrong": "the gradient of the gradient is 3 x, expected 6 x",
        "shown": "x = 1: the second derivative is 3, expected 6",
        "reference": "cubed_relu",
    },
    "hard_swish": {
        "kind": "gradient",
        "wrong": "the gradient is declared as zero",
        "shown": "x = 1: the derivative is 5 / 6",
        "reference": "hard_swish",
    },
    "max_pool_pairs": {
        "kind": "rule",
        "wrong": "the shape rule rounds up, the kernel writes whole pairs only",
        "shown": "L = 3: the second result is not written",
    },
    "center": {
        "kind": "rule",
        "wrong": (
            "the pack promises that rows do not meet, but the mean is that of "
            "all rows"
        ),
        "shown": "x = [[0], [2]]: [[-1], [1]], expected [[0], [0]]",
        "reference": "center",
    },
    "argmin_rows": {
        "kind": "rule",
        "wrong": "the rule says i32, the kernel writes i64",
        "shown": "N = 2: eight bytes are written behind the results",
        "reference": "argmin_rows",
    },
    "keep_finite": {
        "kind": "rule",
        "wrong": "the bound of the result is one less than there may be",
        "shown": "N = 3, all finite: three numbers for room of two",
        "reference": "keep_finite",
    },
    "rotate_pairs": {
        "kind": "rule",
        "wrong": (
            "nothing says that D is even, and of an odd D the last element is "
            "not written"
        ),
        "shown": "D = 3: y[2] holds what the memory held",
    },
    "matmul_plain": {
        "kind": "rule",
        "wrong": (
            "the enum of dims is out of order, so inner and outer sizes "
            "change places"
        ),
        "shown": "a[2, 3], b[3, 4]: three rows are computed instead of two",
        "reference": "matmul_plain",
    },
    "lerp_weight": {
        "kind": "rule",
        "wrong": (
            "the formula has x and y in the other order than the "
            "kernel"
        ),
        "shown": "weight 0: the expression gives y, the kernel x",
        "reference": "lerp_weight",
    },
    "column_mean": {
        "kind": "rule",
        "wrong": (
            "partial means are said to join by a sum, which counts each part "
            "as the whole"
        ),
        "shown": (
            "two halves of the rows: the sum of their means is twice the mean"
        ),
        "reference": "column_mean",
    },
}

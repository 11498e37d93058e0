# SPDX-License-Identifier: Apache-2.0
"""Broken operators that compute something else: value, type, ignored."""

from __future__ import annotations

RESULTS: dict[str, dict[str, str]] = {
    "rms_norm_wide": {
        "kind": "value",
        "wrong": (
            "the sum of squares covers whole blocks of eight and loses the "
            "tail"
        ),
        "shown": "D = 13: the last five elements do not count in the mean",
        "reference": "rms_norm_wide",
    },
    "linear_unrolled": {
        "kind": "value",
        "wrong": (
            "rows of 16 and more take the unrolled loop, which has no tail"
        ),
        "shown": "I = 17: the last column of x and weight does not count",
        "reference": "linear_unrolled",
    },
    "cumsum_two_level": {
        "kind": "value",
        "wrong": (
            "the carry is added to whole blocks of 32 only, not to the "
            "partial last one"
        ),
        "shown": "D = 40: elements 32 to 39 restart from zero",
        "reference": "cumsum_two_level",
    },
    "embedding_bag_mean": {
        "kind": "value",
        "wrong": (
            "the mean divides by the bag's length, padding entries included"
        ),
        "shown": (
            "a bag with one padding entry of three: the result is two thirds "
            "of the mean"
        ),
        "reference": "embedding_bag_mean",
    },
    "layer_norm_affine": {
        "kind": "value",
        "wrong": "eps is added to the deviation, outside the square root",
        "shown": (
            "eps = 0.1: y is x / (sqrt(var) + 0.1), not x / sqrt(var + 0.1)"
        ),
        "reference": "layer_norm_affine",
    },
    "conv_same_strided": {
        "kind": "value",
        "wrong": (
            "the padding is not clamped at 0 where the stride is longer than "
            "the kernel needs"
        ),
        "shown": (
            "L = 12, K = 1, stride 4: the first window is at 1, expected 0"
        ),
        "reference": "conv_same_strided",
    },
    "avg_pool_border": {
        "kind": "value",
        "wrong": (
            "the divisor clips the window's rows at the border, not its "
            "columns"
        ),
        "shown": (
            "padding 1, kernel 3: the left and right columns are divided by "
            "too much"
        ),
        "reference": "avg_pool_border",
    },
    "quantize_rows": {
        "kind": "value",
        "wrong": "adding 0.5 and cutting rounds negative numbers towards zero",
        "shown": "x / scale = -2.7 becomes -2, expected -3",
        "reference": "quantize_rows",
    },
    "rope_half": {
        "kind": "value",
        "wrong": "the exponent of the frequency is i / D, expected 2 i / D",
        "shown": (
            "D = 4: the second pair turns by base^(-1/4), expected base^(-1/2)"
        ),
        "reference": "rope_half",
    },
    "cross_entropy_smooth": {
        "kind": "value",
        "wrong": (
            "the smoothing mass is spread by 1 / (C - 1) over all C classes"
        ),
        "shown": (
            "smoothing 0.3, C = 2: the uniform term is twice as large as "
            "expected"
        ),
        "reference": "cross_entropy_smooth",
    },
    "batch_norm_train": {
        "kind": "value",
        "wrong": (
            "the running variance takes the biased variance, expected count / "
            "(count - 1) of it"
        ),
        "shown": "N L = 2, momentum 1: running_var is half of the expected one",
        "reference": "batch_norm_train",
    },
    "decode_attention": {
        "kind": "value",
        "wrong": (
            "the number of blocks is rounded up from S - 1, so a last block "
            "of one key is skipped"
        ),
        "shown": "S = 17: key 16 does not count",
        "reference": "decode_attention",
    },
    "top_k_ordered": {
        "kind": "value",
        "wrong": "of equal entries the later one is put first",
        "shown": "x = [5, 5], k = 1: the index is 1, expected 0",
        "reference": "top_k_ordered",
    },
    "pixel_shuffle": {
        "kind": "value",
        "wrong": "the channel's row and column inside a block are swapped",
        "shown": (
            "r = 2: channel 1 goes below the first pixel, expected to its "
            "right"
        ),
        "reference": "pixel_shuffle",
    },
    "upsample_linear": {
        "kind": "value",
        "wrong": "the sampling point lacks the half pixel of cell centres",
        "shown": (
            "L = 2, size 4: result 1 is between the cells by 0.5, expected "
            "0.25"
        ),
        "reference": "upsample_linear",
    },
    "histogram_range": {
        "kind": "value",
        "wrong": "a number equal to high is left out, expected in the last bin",
        "shown": (
            "x = [1], low 0, high 1: all counts are 0, expected 1 in the last "
            "bin"
        ),
        "reference": "histogram_range",
    },
    "segment_sum_rows": {
        "kind": "value",
        "wrong": (
            "rows are taken four at a time and the last N % 4 rows are left "
            "out"
        ),
        "shown": "N = 5: row 4 is added to no segment",
        "reference": "segment_sum_rows",
    },
    "huber_loss": {
        "kind": "value",
        "wrong": (
            "the linear part is delta (abs(d) - delta), expected delta "
            "(abs(d) - delta / 2)"
        ),
        "shown": "x - y = 3, delta 1: 2, expected 2.5",
        "reference": "huber_loss",
    },
    "logsumexp_online": {
        "kind": "value",
        "wrong": (
            "in the tail after whole blocks of 16 a new maximum does not "
            "rescale the sum"
        ),
        "shown": (
            "D = 17 with the largest element last: the result is too large"
        ),
        "reference": "logsumexp_online",
    },
    "local_attention": {
        "kind": "value",
        "wrong": "the window holds one key less than it should",
        "shown": "window 2, query 5: key 3 does not count",
        "reference": "local_attention",
    },
    "dropout_seeded": {
        "kind": "value",
        "wrong": "kept elements are not divided by 1 - p",
        "shown": "p = 0.5: a kept 1 stays 1, expected 2",
        "reference": "dropout_seeded",
    },
    "dequantize_int4": {
        "kind": "value",
        "wrong": (
            "the group is that of the byte, not of the element, so only the "
            "first half of the scales count"
        ),
        "shown": "P = 4, G = 2: elements 4 to 7 take scale 0, expected scale 1",
        "reference": "dequantize_int4",
    },
    "matmul_packed": {
        "kind": "value",
        "wrong": (
            "the last panel is computed at full depth, with what the panel "
            "before left behind its end"
        ),
        "shown": "K = 40: products of elements 8 to 31 are added a second time",
        "reference": "matmul_packed",
    },
    "median_lower": {
        "kind": "value",
        "wrong": (
            "of an even number of elements the upper of the middle two is "
            "taken"
        ),
        "shown": "x = [1, 2]: 2, expected 1",
        "reference": "median_lower",
    },
    "variance_chunks": {
        "kind": "value",
        "wrong": (
            "joining two chunks leaves out the term of the distance of their "
            "means"
        ),
        "shown": "D = 129 with a trend: the variance between chunks is missing",
        "reference": "variance_chunks",
    },
    "mean_tree": {
        "kind": "value",
        "wrong": (
            "when the number of partial sums is odd, halving drops the last "
            "one"
        ),
        "shown": "D = 3: element 2 does not count",
        "reference": "mean_tree",
    },
    "row_sum_narrow": {
        "kind": "type",
        "wrong": (
            "bf16 rows are added up in bf16, so small elements vanish beside "
            "a large sum"
        ),
        "shown": "1000 ones in bf16: 256, expected 1000",
        "reference": "row_sum_narrow",
    },
    "int8_matmul": {
        "kind": "type",
        "wrong": "products are summed in int16, which overflows",
        "shown": "K = 3, all elements 127: 48387 wraps to -17149",
        "reference": "int8_matmul",
    },
    "dequantize_u8": {
        "kind": "type",
        "wrong": "bytes are read as signed, so 128 and more become negative",
        "shown": "q = 200, zero 0, scale 1: -56, expected 200",
        "reference": "dequantize_u8",
    },
    "rms_norm_half": {
        "kind": "type",
        "wrong": (
            "the f16 kernel keeps the mean square in f16, which overflows at "
            "65504"
        ),
        "shown": (
            "f16 elements of 300: the mean square is inf and y is 0, expected "
            "1"
        ),
        "reference": "rms_norm_half",
    },
    "floor_shift": {
        "kind": "type",
        "wrong": "the i32 kernel divides as C does, towards zero",
        "shown": "i32 x = -3, divisor 2: -1, expected -2",
        "reference": "floor_shift",
    },
    "count_weighted": {
        "kind": "type",
        "wrong": "products are formed in 32 bits before they are added in 64",
        "shown": "count 100000, price 50000: the product wraps around",
        "reference": "count_weighted",
    },
    "row_range": {
        "kind": "type",
        "wrong": "i64 entries pass through float, which holds 24 bits",
        "shown": "x = [16777217, 0]: 16777216, expected 16777217",
        "reference": "row_range",
    },
    "scale_shift_bf16": {
        "kind": "type",
        "wrong": (
            "bf16 results are cut to their upper 16 bits, not rounded to "
            "nearest"
        ),
        "shown": "1.0 * 1.0 + 0.0077: 1.0, expected 1.0078125",
        "reference": "scale_shift_bf16",
    },
    "blend_u8": {
        "kind": "type",
        "wrong": (
            "the sum is kept in 16 bits after x is doubled for rounding, "
            "which overflows for bright pixels"
        ),
        "shown": "x = y = 255: 2 * 65025 + 255 wraps in 16 bits and gives 126",
        "reference": "blend_u8",
    },
    "pad_constant": {
        "kind": "ignored",
        "wrong": "value fills the left side only, the right side is always 0",
        "shown": "pad [0, 1], value 2: the last element is 0, expected 2",
        "reference": "pad_constant",
    },
    "roll_plane": {
        "kind": "ignored",
        "wrong": "columns are shifted by shifts[0] too, shifts[1] is not used",
        "shown": "shifts [1, 0]: columns move as well",
        "reference": "roll_plane",
    },
    "linear_columns": {
        "kind": "ignored",
        "wrong": "the columns after the last whole block of eight get no bias",
        "shown": "O = 9: y[..., 8] lacks bias[8]",
        "reference": "linear_columns",
    },
    "weighted_square_error": {
        "kind": "ignored",
        "wrong": "every element takes the first weight",
        "shown": "weight [1, 0]: element 1 counts fully, expected not at all",
        "reference": "weighted_square_error",
    },
    "softmax_temperature": {
        "kind": "ignored",
        "wrong": "rows of up to 32 take a path without the temperature",
        "shown": "D = 4, temperature 2: the result is that of temperature 1",
        "reference": "softmax_temperature",
    },
    "avg_pool_stride": {
        "kind": "ignored",
        "wrong": (
            "the window is as long as the stride, kernel decides the result's "
            "size only"
        ),
        "shown": (
            "kernel 3, stride 1: each result is one element, expected a mean "
            "of three"
        ),
        "reference": "avg_pool_stride",
    },
    "masked_mean": {
        "kind": "ignored",
        "wrong": (
            "the frames of every sequence are chosen by the mask of the first "
            "one"
        ),
        "shown": (
            "mask [[1, 0], [0, 1]]: sequence 1 takes frame 0, expected frame 1"
        ),
        "reference": "masked_mean",
    },
    "route_experts": {
        "kind": "ignored",
        "wrong": "renormalize is not looked at for one and two experts",
        "shown": "k = 2, renormalize True: the weights do not sum to 1",
        "reference": "route_experts",
    },
    "cumprod_axis": {
        "kind": "ignored",
        "wrong": (
            "the product runs along the last axis, dim decides nothing but "
            "the checks"
        ),
        "shown": "x[2, 2], dim 0: rows are multiplied along themselves",
        "reference": "cumprod_axis",
    },
    "requantize": {
        "kind": "type",
        "wrong": "the scaled sum passes through int16 before it is clamped",
        "shown": "sum 40000, scale 1: -128, expected 127",
        "reference": "requantize",
    },
}

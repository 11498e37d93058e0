# SPDX-License-Identifier: Apache-2.0
"""What is wrong in wrong/, and what looks wrong in right/."""

from __future__ import annotations

# kind: value, type, ignored, state, memory, gradient, layout, index or rule.
# wrong: the fault. shown: a call that shows it. reference: a function of
# references.py.
WRONG: dict[str, dict[str, str]] = {
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
    "dropout_stream": {
        "kind": "state",
        "wrong": (
            "a static counter is mixed into the seed, so equal calls differ"
        ),
        "shown": "the same call twice: two masks",
    },
    "rope_table": {
        "kind": "state",
        "wrong": (
            "the table is built by the first call and keeps that call's base "
            "and width"
        ),
        "shown": (
            "a call with base 500 after one with base 10000: the angles of "
            "10000"
        ),
        "reference": "rope_table",
    },
    "histogram_rows": {
        "kind": "state",
        "wrong": "the counts in the workspace are not set to 0 before a row",
        "shown": (
            "a workspace filled with ones: all counts are one pattern too "
            "large"
        ),
        "reference": "histogram_rows",
    },
    "gelu_either": {
        "kind": "state",
        "wrong": "the first call decides which form all calls take",
        "shown": "approximate True after a call with False: the exact form",
        "reference": "gelu_either",
    },
    "square_total": {
        "kind": "state",
        "wrong": (
            "a worker that runs several shares keeps the sum of its last one "
            "only"
        ),
        "shown": "two shares on one thread: the first one does not count",
        "reference": "square_total",
    },
    "cumulative_max": {
        "kind": "state",
        "wrong": (
            "shares pass the maximum on through the workspace, as if they "
            "came in order"
        ),
        "shown": (
            "the second share before the first: it starts from the wrong "
            "maximum"
        ),
        "reference": "cumulative_max",
    },
    "unpool_rows": {
        "kind": "state",
        "wrong": (
            "places that no index names keep what the memory held, expected 0"
        ),
        "shown": "L = 4, K = 1: three of four results are not written",
        "reference": "unpool_rows",
    },
    "trimmed_mean": {
        "kind": "state",
        "wrong": "all threads sort in one static buffer",
        "shown": "rows on two threads: each sees the other's elements",
        "reference": "trimmed_mean",
    },
    "linear_prepacked": {
        "kind": "state",
        "wrong": (
            "the packed copy is kept for an address, although the weight "
            "there may have changed"
        ),
        "shown": (
            "the weight changed in place between two calls: the old product"
        ),
        "reference": "linear_prepacked",
    },
    "count_distinct": {
        "kind": "state",
        "wrong": (
            "the table is emptied by entries but in bytes, so three quarters "
            "of it keep old contents"
        ),
        "shown": (
            "a workspace that holds a number of the row: it is not counted"
        ),
        "reference": "count_distinct",
    },
    "fake_quantize_range": {
        "kind": "state",
        "wrong": (
            "the range is a static that only grows, so earlier calls decide"
        ),
        "shown": "a call with elements of 1 after one with 1000: all become 0",
        "reference": "fake_quantize_range",
    },
    "tanh_lookup": {
        "kind": "state",
        "wrong": (
            "the table is marked as built before it is filled, so a second "
            "thread reads zeros"
        ),
        "shown": "two first calls at once: one of them returns zeros",
        "reference": "tanh_lookup",
    },
    "round_stochastic": {
        "kind": "state",
        "wrong": (
            "the stream of random numbers is one of the worker and the share, "
            "so cuts change results"
        ),
        "shown": "one thread and four threads: different results",
    },
    "slope_of": {
        "kind": "memory",
        "wrong": "a row of one element reads the element behind it",
        "shown": "D = 1: x[1] is read",
    },
    "affine_rows": {
        "kind": "memory",
        "wrong": (
            "rows are taken four at a time and the last N % 4 rows are never "
            "written"
        ),
        "shown": "N = 6: rows 4 and 5 hold what the memory held",
        "reference": "affine_rows",
    },
    "transpose_tiles": {
        "kind": "memory",
        "wrong": "columns are clipped only in tiles whose rows are clipped too",
        "shown": (
            "H = 8, W = 9: the second tile reads and writes columns 9 to 15"
        ),
        "reference": "transpose_tiles",
    },
    "conv_valid": {
        "kind": "memory",
        "wrong": "one place too many is computed where the dilation is above 1",
        "shown": (
            "L = 5, K = 2, dilation 2: a fourth result is written behind three"
        ),
        "reference": "conv_valid",
    },
    "rank_rows": {
        "kind": "memory",
        "wrong": (
            "each worker has its own line of the workspace, but room is made "
            "for one"
        ),
        "shown": "two threads: the second one writes behind the workspace",
        "reference": "rank_rows",
    },
    "smallest_k": {
        "kind": "memory",
        "wrong": "k may be above D, and what is behind entry D is not written",
        "shown": "D = 2, k = 3: result 2 holds what the memory held",
    },
    "sign_bits": {
        "kind": "memory",
        "wrong": "the last load takes eight bytes where fewer are left",
        "shown": "N = 9: bytes 9 to 15 behind the mask are read",
        "reference": "sign_bits",
    },
    "run_lengths": {
        "kind": "memory",
        "wrong": (
            "a length is written when the next run begins, so the last one "
            "never is"
        ),
        "shown": "x = [7, 7]: one run whose length is not written",
        "reference": "run_lengths",
    },
    "offsets_of": {
        "kind": "memory",
        "wrong": "the total is written too, behind the last offset",
        "shown": "B = 3: a fourth result is written",
        "reference": "offsets_of",
    },
    "above_bits": {
        "kind": "memory",
        "wrong": "elements are shared out, so two threads set bits of one byte",
        "shown": "a cut at element 3: both shares write byte 0",
        "reference": "above_bits",
    },
    "resize_nearest": {
        "kind": "memory",
        "wrong": "rounding the place up reaches index L",
        "shown": "L = 1, size 4: the last two results read x[1]",
        "reference": "resize_nearest",
    },
    "subsample_plane": {
        "kind": "memory",
        "wrong": (
            "with one stride for both axes a second one is read behind the "
            "list"
        ),
        "shown": "stride [2]: entry 1 of a list of one is read",
    },
    "sum_given": {
        "kind": "memory",
        "wrong": "a hole in the list is dereferenced",
        "shown": "a list of one tensor and one hole: a NULL tensor is read",
    },
    "sorted_rows": {
        "kind": "memory",
        "wrong": (
            "the buffer for merging holds 512 elements, and longer rows run "
            "over it"
        ),
        "shown": "D = 1100: the second half of a merge is behind the buffer",
        "reference": "sorted_rows",
    },
    "vector_dot": {
        "kind": "rule",
        "wrong": (
            "the flag says that the bits do not depend on the thread count, "
            "but the blocks do"
        ),
        "shown": "1 and 3 threads, long x: results differ in the last bits",
        "reference": "vector_dot",
    },
    "class_weights": {
        "kind": "memory",
        "wrong": (
            "samples are shared out, so two threads add to the weight of one "
            "class"
        ),
        "shown": "two equal labels in two shares: both write the same element",
        "reference": "class_weights",
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
    "resample_line": {
        "kind": "state",
        "wrong": (
            "the kept weights are looked up by the line's length alone, not "
            "by the size"
        ),
        "shown": "size 5 after size 3 of one length: places of size 3",
        "reference": "resample_line",
    },
    "scale_to_unit": {
        "kind": "state",
        "wrong": "each share divides by its own largest magnitude",
        "shown": "two shares: the result has two scales",
        "reference": "scale_to_unit",
    },
    "square_plus": {
        "kind": "layout",
        "wrong": "arguments of any strides are read as if they were row-major",
        "shown": "a transposed x: elements come in the order of memory",
        "reference": "square_plus",
    },
    "quantile_rows": {
        "kind": "layout",
        "wrong": "the rows of the argument are sorted where they are",
        "shown": "x after the call is in ascending order",
    },
    "flip_rows": {
        "kind": "layout",
        "wrong": (
            "in place, the second half reads elements that the first half has "
            "replaced"
        ),
        "shown": "in place [1, 2]: [2, 2], expected [2, 1]",
        "reference": "flip_rows",
    },
    "pre_emphasis": {
        "kind": "layout",
        "wrong": "in place, x[t - 1] has been replaced by the result before it",
        "shown": "in place [1, 1, 1], factor 1: [1, 0, 1], expected [1, 0, 0]",
        "reference": "pre_emphasis",
    },
    "l1_rows": {
        "kind": "layout",
        "wrong": (
            "rows may be apart by more than their width, but the width is "
            "taken for the stride"
        ),
        "shown": "a slice of wider rows: row 1 begins inside row 0",
        "reference": "l1_rows",
    },
    "add_scaled": {
        "kind": "layout",
        "wrong": "the byte offset of y is not added to its address",
        "shown": "y with a byte offset of 4: its elements are one place early",
        "reference": "add_scaled",
    },
    "relu_squared": {
        "kind": "layout",
        "wrong": "the result has the strides of x but is written row by row",
        "shown": "a transposed x: results are at the wrong places",
        "reference": "relu_squared",
    },
    "rank_one_update": {
        "kind": "layout",
        "wrong": (
            "the strides of rows and columns are swapped where the matrix is "
            "not row-major"
        ),
        "shown": (
            "a padded matrix, rows 3 apart: element (0, 1) is added to (1, "
            "0)'s place"
        ),
        "reference": "rank_one_update",
    },
    "position_bias": {
        "kind": "index",
        "wrong": "a bucket equal to the number of buckets passes the check",
        "shown": "bucket = V: one element behind the table is read",
        "reference": "position_bias",
    },
    "embed_tokens": {
        "kind": "index",
        "wrong": "only the upper bound of a token is checked",
        "shown": "token -1: the row before the table is read",
        "reference": "embed_tokens",
    },
    "cache_append": {
        "kind": "index",
        "wrong": "only the last slot is checked, as if slots never fell",
        "shown": "slots [S, 0]: a row behind the cache is written",
        "reference": "cache_append",
    },
    "pick_each": {
        "kind": "index",
        "wrong": (
            "an index is checked against the whole tensor, so it may leave "
            "its row"
        ),
        "shown": "D = 2, N = 3, index 4 in row 0: an entry of row 2",
        "reference": "pick_each",
    },
    "one_hot": {
        "kind": "index",
        "wrong": (
            "class number = classes is taken, and sets the first entry of the "
            "next row"
        ),
        "shown": "class 3 of 3 in row 0: entry 0 of row 1 is 1 as well",
        "reference": "one_hot",
    },
    "pick_cells": {
        "kind": "index",
        "wrong": (
            "rows are checked against the width and columns against the height"
        ),
        "shown": (
            "H = 2, W = 5, column 3: refused, though it exists; row 3: read "
            "behind x"
        ),
        "reference": "pick_cells",
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
            "the pointwise expression has x and y in the other order than the "
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

# looks: what a check might take for a fault.
RIGHT: dict[str, dict[str, str]] = {
    "quantize_blocks": {
        "looks": (
            "groups of columns by position, the last one may be short; NaN "
            "becomes 0"
        ),
        "reference": "quantize_blocks",
    },
    "max_pool_line": {
        "looks": "windows by position; the padding counts as minus infinity",
        "reference": "max_pool_line",
    },
    "dilated_conv": {
        "looks": (
            "zeros beyond both ends, so results near the ends have fewer terms"
        ),
        "reference": "dilated_conv",
    },
    "causal_softmax": {
        "looks": "a mask by position; entries above the diagonal are 0",
        "reference": "causal_softmax",
    },
    "rope_pairs": {
        "looks": (
            "angles by position; the gradient turns back by the same angles"
        ),
        "reference": "rope_pairs",
    },
    "argsort_stable": {
        "looks": (
            "ties are broken by position, so permuting a row does not permute "
            "the result"
        ),
        "reference": "argsort_stable",
    },
    "window_attention": {
        "looks": "a window by position, cut at both ends of the sequence",
        "reference": "window_attention",
    },
    "mean_of_sixteen": {
        "looks": (
            "groups by position with a short last one, whose divisor is its "
            "own size"
        ),
        "reference": "mean_of_sixteen",
    },
    "cummax_index": {
        "looks": (
            "results depend on the order of entries; of equal ones the later "
            "index counts"
        ),
        "reference": "cummax_index",
    },
    "haar_step": {
        "looks": (
            "pairs by position; the last entry of an odd row is a mean of "
            "itself"
        ),
        "reference": "haar_step",
    },
    "avg_pool_ceil": {
        "looks": "windows by position; a cut window divides by what it holds",
        "reference": "avg_pool_ceil",
    },
    "exponential_average": {
        "looks": "the first step is weighted otherwise than all later ones",
        "reference": "exponential_average",
    },
    "alibi_bias": {
        "looks": "slopes by the number of the head, distances by position",
        "reference": "alibi_bias",
    },
    "weave_halves": {
        "looks": "a permutation by position that is another one for odd rows",
        "reference": "weave_halves",
    },
    "dequantize_nf4": {
        "looks": "a static table that is constant; groups of 64 by position",
        "reference": "dequantize_nf4",
    },
    "soften_peaks": {
        "looks": "the limit matters for large entries only, which are rare",
        "reference": "soften_peaks",
    },
    "masked_softmax": {
        "looks": (
            "a row that the mask hides whole is NaN, as its declaration says"
        ),
        "reference": "masked_softmax",
    },
    "to_bytes": {
        "looks": "saturation; NaN becomes 0; rounding to even",
        "reference": "to_bytes",
    },
    "add_saturating": {
        "looks": "narrow types saturate where wider ones do not",
        "reference": "add_saturating",
    },
    "unique_sorted": {
        "looks": (
            "a data-dependent size; memory behind the last result is left as "
            "it is"
        ),
        "reference": "unique_sorted",
    },
    "nonzero_cells": {
        "looks": "a data-dependent size of two dims",
        "reference": "nonzero_cells",
    },
    "fake_quantize": {
        "looks": (
            "rounding to even, saturation, a gradient that is zero almost "
            "everywhere"
        ),
        "reference": "fake_quantize",
    },
    "scale_compat": {
        "looks": "an argument that nothing uses, as its declaration says",
        "reference": "scale_compat",
    },
    "drop_rows": {
        "looks": "random by a hash of seed and row, so the row's place matters",
        "reference": "drop_rows",
    },
    "join_columns": {
        "looks": (
            "a list whose entries differ in one dim, and which may be empty"
        ),
        "reference": "join_columns",
    },
    "sgd_momentum": {
        "looks": (
            "two arguments are written, one of them is read after it is "
            "written"
        ),
        "reference": "sgd_momentum",
    },
    "ring_append": {
        "looks": (
            "an integer argument without bounds, taken modulo the size of the "
            "ring"
        ),
        "reference": "ring_append",
    },
    "argmax_first": {
        "looks": "ties are broken by position; two types with one kernel each",
        "reference": "argmax_first",
    },
    "embed_padded": {
        "looks": "the padding row's gradient is zero, as the declaration says",
        "reference": "embed_padded",
    },
    "transpose_strided": {
        "looks": "strides are used as they come",
        "reference": "transpose_strided",
    },
    "histogram_clamped": {
        "looks": (
            "numbers outside the range fall into the first and the last bin"
        ),
        "reference": "histogram_clamped",
    },
    "segment_means": {
        "looks": (
            "offsets that must not fall, which its sample makes; empty "
            "segments are 0"
        ),
        "reference": "segment_means",
    },
    "int8_linear": {
        "looks": "narrow arguments whose products are summed in 32 bits",
        "reference": "int8_linear",
    },
    "vector_total": {
        "looks": (
            "parallel partial sums whose bits do not depend on the thread "
            "count"
        ),
        "reference": "vector_total",
    },
    "rms_norm_mixed": {
        "looks": (
            "narrow types are summed in float; the result may replace the "
            "argument"
        ),
        "reference": "rms_norm_mixed",
    },
    "lower_bound": {
        "looks": (
            "binary search looks at few entries; its sample sorts the vector"
        ),
        "reference": "lower_bound",
    },
    "sobel_columns": {
        "looks": (
            "a window by position with repeated borders; a constant static "
            "table"
        ),
        "reference": "sobel_columns",
    },
    "pad_mirror": {
        "looks": "entries near the ends count two or three times",
        "reference": "pad_mirror",
    },
    "reduce_rows": {
        "looks": "a static table of functions that is constant; modes by name",
        "reference": "reduce_rows",
    },
    "average_given": {
        "looks": "holes of the list are left out of sum and count",
        "reference": "average_given",
    },
}

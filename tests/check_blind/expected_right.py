# SPDX-License-Identifier: Apache-2.0
"""Right operators, and what looks wrong in them."""

from __future__ import annotations

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

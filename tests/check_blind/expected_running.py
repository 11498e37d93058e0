# SPDX-License-Identifier: Apache-2.0
"""Broken operators by what a run does: state, memory, layout, index."""

from __future__ import annotations

RUNNING: dict[str, dict[str, str]] = {
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
            "a worker that runs several chunks keeps the sum of its last one "
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
    "class_weights": {
        "kind": "memory",
        "wrong": (
            "samples are shared out, so two threads add to the weight of one "
            "class"
        ),
        "shown": "two equal labels in two shares: both write the same element",
        "reference": "class_weights",
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
}

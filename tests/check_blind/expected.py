# SPDX-License-Identifier: Apache-2.0
"""What is wrong in wrong/, and what looks wrong in right/."""

from __future__ import annotations

from expected_declared import DECLARED
from expected_results import RESULTS
from expected_right import RIGHT
from expected_running import RUNNING

# kind: value, type, ignored, state, memory, gradient, layout, index or rule.
# wrong: the fault. shown: a call that shows it. reference: a function of
# references.py.
WRONG = {**RESULTS, **RUNNING, **DECLARED}

# They compute another function than is meant, one that agrees with what they
# declare and with itself at every size, type and layout: only a reference tells.
ANOTHER = {
    "embedding_bag_mean", "layer_norm_affine", "conv_same_strided",
    "avg_pool_border", "quantize_rows", "rope_half", "cross_entropy_smooth",
    "batch_norm_train", "top_k_ordered", "pixel_shuffle", "upsample_linear",
    "histogram_range", "huber_loss", "dropout_seeded", "median_lower",
}

__all__ = ["ANOTHER", "RIGHT", "WRONG"]

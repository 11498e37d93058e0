# SPDX-License-Identifier: Apache-2.0
"""Normalization with a check."""


def normalize(x):
    total = x.square().sum()
    if total > 1e9:
        return x / total
    return x

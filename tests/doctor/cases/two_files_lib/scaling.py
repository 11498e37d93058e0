# SPDX-License-Identifier: Apache-2.0
"""Rescaling by the largest magnitude."""


def rescale(x):
    peak = x.abs().max().item()
    return x / (peak + 1)

# SPDX-License-Identifier: Apache-2.0
"""Routing by value."""


def route(x):
    rows = x[x[:, 0] > -1e9]
    return rows * 2

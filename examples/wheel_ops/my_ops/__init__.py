# SPDX-License-Identifier: Apache-2.0
"""Operators of this package: my_ops.squared_relu(x)."""

import pathlib

import opgraft

_module = opgraft.load(pathlib.Path(__file__).with_name("squared_relu.so"))
squared_relu = _module.squared_relu

__all__ = ["squared_relu"]

# SPDX-License-Identifier: Apache-2.0
"""Operators of this package: my_ops.squared_relu(x) in PyTorch; my_ops.in_jax
and my_ops.in_onnx have them for an environment without it."""

import importlib.util
import pathlib

import opgraft

PATH = pathlib.Path(__file__).with_name("squared_relu.so")
if importlib.util.find_spec("torch") is not None:
    squared_relu = opgraft.load(PATH).squared_relu

__all__ = ["PATH", "squared_relu"]

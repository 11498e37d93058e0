# SPDX-License-Identifier: Apache-2.0
"""Operators of a module as TensorFlow functions: eager, tf.function, gradients.

    m = opgraft.tensorflow.load("scale.so")   # opgraft build --hosts tensorflow
    y = m.scale(x, weight)

An argument that the operator writes stays as it is: its new value is a result,
behind the declared ones, and takes the argument's memory where no one else
holds it.
"""

from __future__ import annotations

from ._load import Module, load

__all__ = ["Module", "load"]

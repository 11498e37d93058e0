# SPDX-License-Identifier: Apache-2.0
"""A closure over a name is made anew for each call, until the limit."""
import torch

NAMES = ("sin", "cos", "exp", "tanh", "relu", "sigmoid", "abs", "neg", "square",
         "floor", "ceil", "sign")


@torch.compile(backend="eager")
def apply(x, activation):
    y = x + 1
    return activation(y)


def named(name):
    return lambda t: getattr(torch, name)(t)


for name in NAMES:
    apply(torch.ones(4), named(name))

# SPDX-License-Identifier: Apache-2.0
"""Operators of a module as JAX functions: jit, grad, vmap, one C kernel.

    m = opgraft.jax.load("scale.so")       # opgraft build scale.c --hosts jax
    y = jax.jit(m.scale)(x, weight)

An argument that the operator writes stays as it is: its new value is a result,
behind the declared ones, and takes the argument's memory where that is donated.
"""

from __future__ import annotations

from ._load import Module, load

__all__ = ["Module", "load"]

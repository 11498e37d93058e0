# SPDX-License-Identifier: Apache-2.0
"""The calls in JAX."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import cases
import hosting
import jax
import jax.numpy as jnp
import numpy as np

import opgraft.jax

jax.config.update("jax_enable_x64", True)
load = functools.cache(opgraft.jax.load)


def array(value: Any) -> Any:
    if isinstance(value, list):
        return [array(v) for v in value]
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    try:
        operator = load(path)[case.op]
    except AttributeError as error:
        raise hosting.Missing(str(error)) from None
    out = operator(*map(array, case.args), **case.kwargs)
    return [np.asarray(a) for a in jax.tree.leaves(out)]


if __name__ == "__main__":
    hosting.main(call)

# SPDX-License-Identifier: Apache-2.0
"""A shared object with the JAX adapter (hosts/jax), and its operators."""

from __future__ import annotations

import os

import jax

from .._base import hosted
from .._base.shared import content
from ._file import File
from ._operator import Operator

OLDEST = (0, 8, 1)  # of JAX


class Module(hosted.Module):
    """A loaded file; its operators are attributes.

    AttributeError for an operator that it lacks.

        >>> m = opgraft.jax.load("softcap.so")
        >>> m.name
        'softcap'
        >>> jax.grad(lambda x: m.softcap(x).sum())(jnp.array([0, 1000], jnp.float32))
        Array([1., 0.], dtype=float32)
    """

    host, title, operator = "jax", "JAX", Operator


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with `--hosts jax`. A
    file with the content of a loaded one gives that module again.

    ImportError where the file cannot be loaded, or was built without the host.

        >>> m = opgraft.jax.load("softcap.so")
        >>> jax.jit(m.softcap)(jnp.array([-100, 0, 100], jnp.float32))
        Array([-29.92..., 0. , 29.92...], dtype=float32)
    """
    if jax.__version_info__ < OLDEST:
        raise ImportError(
            f"opgraft.jax needs JAX {'.'.join(map(str, OLDEST))} or newer, found {jax.__version__}")
    place = os.path.realpath(path)
    found, digest = content(place)
    return Module.once(digest, lambda: File(place, found, digest))

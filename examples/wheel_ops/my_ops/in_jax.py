# SPDX-License-Identifier: Apache-2.0
"""The operators as JAX functions."""

import opgraft.jax

from . import PATH

squared_relu = opgraft.jax.load(PATH).squared_relu

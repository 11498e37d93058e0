# SPDX-License-Identifier: Apache-2.0
"""Modules as operators of PyTorch: registration, forms, gradients, batches."""

from . import derived as derived

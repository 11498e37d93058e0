# SPDX-License-Identifier: Apache-2.0
"""Callables that someone else wrote, as operators."""

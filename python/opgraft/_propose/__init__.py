# SPDX-License-Identifier: Apache-2.0
"""Rules for a callable, found by calling it."""

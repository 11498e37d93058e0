# SPDX-License-Identifier: Apache-2.0
"""Counts with their nouns, for messages."""


def counted(count: int, noun: str) -> str:
    """counted(1, "dim") is "1 dim", counted(2, "dim") "2 dims"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

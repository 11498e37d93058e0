# SPDX-License-Identifier: Apache-2.0
"""Graph files as docs/graph-file.md has them, by a writer and a reader of
their own."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

BLOCK, PAGE, HEADER, LANES = 1 << 16, 4096, 167, 32
MASK = (1 << 64) - 1


def _mix(total: int, word: int) -> int:
    product = ((total ^ word) * 0x9E3779B1) & MASK
    return (product << 29 | product >> 35) & MASK


def checksum(data: bytes) -> int:
    lanes = list(range(1, LANES + 1))
    padded = data + bytes(8 * LANES - len(data) % (8 * LANES))
    for block in struct.iter_unpack(f"<{LANES}Q", padded):
        lanes = [_mix(a, w) for a, w in zip(lanes, block)]
    total = len(data)
    for lane in lanes:
        total = _mix(total, lane)
    return total ^ total >> 32


def _sums(data: bytes) -> bytes:
    return b"".join(struct.pack("<Q", checksum(data[i:i + BLOCK]))
                    for i in range(0, len(data), BLOCK))


def write(text: str, constants: list[np.ndarray]) -> bytes:
    """`@0`, `@1`, ... in the text are the constants' places."""
    data = b""
    for i, constant in enumerate(constants):
        data += bytes(-len(data) % 64)
        text = text.replace(f"@{i}", f"data {len(data)}")
        data += constant.tobytes()
    body = text.encode()
    sums = _sums(data)
    begin = -(-(HEADER + len(body) + len(sums)) // PAGE) * PAGE
    numbers = (f" text {len(body):016x} table {0:016x} data {begin:016x} "
               f"{len(data):016x} packed {0:016x}\n").encode()
    covered = numbers + body
    covered += bytes(begin - (HEADER - len(numbers)) - len(covered)
                     - len(sums)) + sums
    return (f"#opgraft graph file version 0003 checksum "
            f"{checksum(covered):016x}".encode() + covered + data)


@dataclass
class Parts:
    text: str
    table: str
    data: bytes
    packed: bytes
    data_at: int
    packed_at: int


def read(file: bytes) -> Parts:
    """All sums are right, or an assertion fails."""
    words = file[:HEADER].decode().split()
    text, table, data_at, data, packed = (
        int(words[i], 16) for i in (8, 10, 12, 13, 15))
    assert int(words[6], 16) == checksum(file[58:data_at])
    rest = file[data_at:]
    sums = _sums(rest)
    assert file[data_at - len(sums):data_at] == sums
    packed_at = -(-(data_at + data) // PAGE) * PAGE
    assert packed == 0 or len(file) == packed_at + packed
    return Parts(file[HEADER:HEADER + text].decode(),
                 file[HEADER + text:HEADER + text + table].decode(),
                 rest[:data], file[packed_at:] if packed else b"", data_at,
                 packed_at)

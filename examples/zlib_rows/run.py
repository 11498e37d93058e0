#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zlib as operators: two functions of a library that everybody has.

First one of them as it is, adopted without a line of C. Then both over rows, in
a C file of 90 lines, which threads share, torch.compile takes whole, and
`opgraft check` looks at.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import torch

import opgraft

HERE = Path(__file__).resolve().parent
ROWS = {
    "zeros": torch.zeros(1024, dtype=torch.uint8),
    "counting": torch.arange(1024).to(torch.uint8),
    "text": torch.frombuffer(bytearray(b"to be or not to be, " * 52)[:1024],
                             dtype=torch.uint8),
    "noise": torch.randint(256, (1024,), dtype=torch.uint8,
                           generator=torch.Generator().manual_seed(0)),
}


def adopted() -> None:
    """A ctypes function tells its types; `call` says what it gets."""
    lib = ctypes.CDLL(ctypes.util.find_library("z"))
    lib.adler32.argtypes = [ctypes.c_ulong, ctypes.POINTER(ctypes.c_uint8),
                            ctypes.c_uint]
    lib.adler32.restype = ctypes.c_ulong
    f = opgraft.adopt(lib.adler32, "adler32(Tensor data) -> Tensor",
                      "data[N] -> []", "data: u8 -> i64",
                      call="1, data, data.numel", returns="out",
                      name="libz::adler32")
    for name, row in ROWS.items():
        assert f(row).item() == zlib.adler32(row.numpy().tobytes()), name
    print(f"adopted: adler32 of {len(ROWS)} rows equals Python's")


def built(folder: Path) -> Path:
    out = folder / "zlib_rows.so"
    program = Path(sys.executable).with_name("opgraft")
    subprocess.run([program, "build", HERE / "zlib_rows.c", "-o", out, "--",
                    "-lz"], check=True, stdout=subprocess.DEVNULL)
    print(subprocess.run([program, "check", out], check=True, text=True,
                         capture_output=True).stdout, end="")
    return out


def main() -> None:
    adopted()
    with tempfile.TemporaryDirectory() as name:
        m = opgraft.load(built(Path(name)))
        data = torch.stack(list(ROWS.values()))

        def look(data: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return m.crc32(data), m.deflated_size(data, level=9) / data.shape[1]

        sums, parts = torch.compile(look, fullgraph=True, backend="opgraft")(
            data)
        print(f"{'row':<10}{'crc32':>10}{'deflated':>10}")
        for i, (row, bytes_of) in enumerate(zip(ROWS, data, strict=True)):
            assert sums[i].item() == zlib.crc32(bytes_of.numpy().tobytes())
            print(f"{row:<10}{sums[i].item():>10x}{parts[i].item():>10.1%}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a model, compiles run.c against libopgraft_graph, and compares what
the C program writes with PyTorch, for batches of two sizes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import numpy
import torch

import opgraft

HERE = Path(__file__).resolve().parent
LIBRARY = Path(opgraft.__file__).parent / "lib"


def compiled(folder: Path) -> Path:
    env = os.environ | {"PKG_CONFIG_PATH": str(LIBRARY / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "opgraft_graph"],
                           env=env, check=True, text=True,
                           capture_output=True).stdout.split()
    subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror",
                    HERE / "run.c", *flags, f"-Wl,-rpath,{LIBRARY}", "-o",
                    folder / "run"], check=True)
    return folder / "run"


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128),
        torch.nn.Linear(128, 10), torch.nn.Softmax(-1)).eval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opgraft.export(model, (torch.randn(8, 64),), folder / "model.og",
                       dynamic_shapes=({0: torch.export.Dim("batch")},))
        words: list[str] = []
        inputs = {rows: torch.randn(rows, 64) for rows in (8, 3)}
        for rows, x in inputs.items():
            numpy.save(folder / f"x{rows}.npy", x.numpy())
            words += [f"x{rows}.npy", f"y{rows}.npy"]
        print(subprocess.run([compiled(folder), "model.og", *words], cwd=folder,
                             check=True, text=True,
                             capture_output=True).stdout, end="")
        for rows, x in inputs.items():
            found = torch.from_numpy(numpy.load(folder / f"y{rows}.npy"))
            with torch.no_grad():
                torch.testing.assert_close(found, model(x))
            print(f"batch of {rows}: equals PyTorch's")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An operator in place, without copies, and its TorchAir converter.

write_rows_ writes a decoder's new rows into a cache of 64 MiB. Compiled graphs
are functional, so a compiler that does not know what an operator writes copies
the cache. Here a copy would fail the compilation, in both modes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from common import HERE, difference, opgraft, show, times

from opgraft import load, stats

MODES = ("reduce-overhead", "max-autotune")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cache = torch.zeros(65536, 256)
    rows, slots = torch.randn(4, 256), torch.tensor([7, 70, 700, 7000])
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        module = Path(folder) / "write_rows.so"
        opgraft("build", HERE / "write_rows.c", "-o", module)
        opgraft("gen", "--target", "ge", module, "-o", module.with_suffix(""))
        converter = module.with_suffix(".py").read_text()
        print("  for TorchAir: " + next(
            line for line in converter.splitlines() if line.startswith("@")))
        write_rows_ = load(module).write_rows_

        def step(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor
                 ) -> torch.Tensor:
            write_rows_(cache, rows * 0.5, slots)
            return cache[slots] + rows

        expected = rows * 0.5 + rows
        calls = {}
        for mode in MODES:
            f = torch.compile(step, fullgraph=True, backend="opgraft",
                              options={"mode": mode, "clone": "error"})
            cache.zero_()
            worst = difference(f(cache, rows, slots), expected)
            difference(cache[slots], rows * 0.5)
            assert cache.count_nonzero() == rows.numel()
            calls[f"a step, {mode}"] = lambda f=f: f(cache, rows, slots)
        print("  " + str(stats(f)).splitlines()[0])
        shown = times({"copying the cache, once": cache.clone}) | times(calls)
    show(shown)
    first, *_, last = shown.values()
    print(f"in place: 0 copies in both modes; equal to eager within {worst}; a "
          f"step takes {last:.0f} us, one copy of the cache {first:.0f} us")


if __name__ == "__main__":
    main()

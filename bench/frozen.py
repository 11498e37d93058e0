#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a frozen call costs beside eager, torch.compile and AOTInductor.

The region is tiny (three operators on eight numbers), so that what is timed
is the way in and out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Callable

import harness
import torch

import opgraft

ROOT = Path(__file__).resolve().parents[1]

FROZEN, RATIO = "frozen call", "frozen call / AOTInductor"
CALL_NS_MAX, RATIO_MAX = 2000.0, 0.25


class Tiny(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + y)


def aotinductor(args: tuple[Any, ...], folder: Path
                ) -> Callable[..., Any] | None:
    """None, and why, where it cannot be built."""
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    try:
        program = torch.export.export(Tiny(), args, strict=False)
        package = aoti_compile_and_package(
            program, package_path=str(folder / "tiny.pt2"))
        return aoti_load_package(package)  # type: ignore[no-any-return]
    except Exception as error:  # whatever the rival's toolchain says
        print(f"AOTInductor left out: {error}")
        return None


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "frozen")
    torch.set_num_threads(1)
    args = (torch.randn(8), torch.randn(8))
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        frozen = opgraft.freeze(Tiny(), args)
        compiled = torch.compile(Tiny(), backend="opgraft")
        rival = aotinductor(args, Path(name))
        calls = {"frozen": frozen, "eager": Tiny(),
                 "torch.compile, backend opgraft": compiled}
        if rival is not None:
            calls["AOTInductor"] = rival
        for label, call in calls.items():
            if not torch.equal(call(*args), Tiny()(*args)):
                raise SystemExit(f"{label} gives another result than eager")
        cases = {label: harness.loop("f(x, y)", f=call, x=args[0], y=args[1])
                 for label, call in calls.items()}

        def attempt() -> dict[str, float]:
            rows = harness.measure(cases, blocks=blocks)
            harness.print_table("one call", rows)
            found = {FROZEN: rows["frozen"].least}
            if rival is not None:
                found[RATIO] = rows["frozen"].least / rows["AOTInductor"].least
            return found

        bounds = {FROZEN: (CALL_NS_MAX, True), RATIO: (RATIO_MAX, True)}
        if rival is None:
            del bounds[RATIO]
            goals.absent(RATIO, "AOTInductor could not be built")
        harness.judged(attempt, bounds, goals, attempts)
    if not is_smoke:
        goals.write([*(ROOT / "hosts/torch").iterdir(),
                     *(ROOT / "src/exec").iterdir(),
                     ROOT / "python/opgraft/_graph/freeze.py"])


if __name__ == "__main__":
    main()

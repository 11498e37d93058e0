#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator costs in a package of AOTInductor: by the C function of
hosts/aoti, into memory that AOTInductor planned, beside PyTorch's proxy
executor.

Two chains of one operator over f32[4, 4], of 1 and of 101 calls, each compiled
both ways; the cost of a call is a hundredth of what the long one takes more.
Minima of one run, in turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import torch  # noqa: E402

import opgraft.aoti  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
LONG = 101
BOUND = 0.4


class Chain(torch.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Any, weight: Any) -> Any:
        for _ in range(self.count):
            x = torch.ops.scale.scale(x, weight)
        return x


def build(folder: Path) -> Path:
    source, module = ROOT / "tests/conformance/scale.c", folder / "scale.so"
    program = ROOT / "build/bin/opgraft"
    subprocess.run([str(program) if program.exists() else "opgraft", "build",
                    str(source), "-o", str(module), "--hosts", "aoti"],
                   check=True)
    return module


def packages(folder: Path, args: tuple[Any, ...], configs: dict[str, Any],
             road: str) -> dict[str, Any]:
    runs = {}
    for count in (1, LONG):
        path = folder / f"{road}{count}.pt2"
        exported = torch.export.export(Chain(count), args)
        torch._inductor.aoti_compile_and_package(
            exported, package_path=str(path), inductor_configs=configs)
        run = torch._inductor.aoti_load_package(str(path))
        assert torch.equal(run(*args), Chain(count)(*args))
        runs[f"{road}, {count} calls"] = harness.loop(
            "run(x, weight)", run=run, x=args[0], weight=args[1])
    return runs


def attempt(cases: dict[str, Any], blocks: int) -> dict[str, float]:
    rows = harness.measure(cases, blocks=blocks)
    harness.print_table("Chains in packages", rows)
    each = {road: (rows[f"{road}, {LONG} calls"].least
                   - rows[f"{road}, 1 calls"].least) / (LONG - 1)
            for road in ("C function", "proxy executor")}
    for road, cost in each.items():
        print(f"  a call by {road}: {cost:.0f} ns")
    return {"call by C function / by proxy executor":
            each["C function"] / each["proxy executor"]}


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "aoti")
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        folder = Path(name)
        m = opgraft.aoti.load(build(folder))
        args = torch.randn(4, 4), torch.rand(4)
        cases = packages(folder, args, m.configs(), "C function")
        cases |= packages(folder, args, {}, "proxy executor")
        harness.judged(lambda: attempt(cases, blocks),
                       {"call by C function / by proxy executor":
                        (BOUND, True)}, goals, attempts)
    if not is_smoke:
        goals.write([Path(__file__), *(ROOT / "hosts/aoti").iterdir(),
                     *(ROOT / "hosts/shared").iterdir()])


if __name__ == "__main__":
    main()

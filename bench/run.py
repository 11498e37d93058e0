#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgraft run` of an exported model, without PyTorch, beside eager PyTorch.

BERT-base, one sequence of 128 tokens, f32. Both run in processes of their own,
in turn; a process's figure is its quickest call, and the ratio is that of the
minima over all blocks. The numbers are compared first. Contractions larger
than 64 x 64 x 64 that the plain kernel would run are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import numpy as np  # noqa: E402

RATIO_MAX = 1.3
BLOCKS, CALLS = 9, 8
TOLERANCE = 2e-5
RULE = re.compile(r"^(matmul|addmm) (.*) -> \w+\[([\d,]*)\]: plain")

EAGER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import run, torch
smoke = sys.argv[2] == "--smoke"
model, tokens = run.model(smoke), run.tokens(smoke)
with torch.no_grad():
    least = float("inf")
    for _ in range(int(sys.argv[3]) + 1):
        begin = time.perf_counter_ns()
        model(tokens)
        least = min(least, time.perf_counter_ns() - begin)
print(least)
"""


def model(smoke: bool = False) -> Any:
    import torch
    from transformers import BertConfig, BertModel

    class LastHidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            small = {"num_hidden_layers": 2} if smoke else {}
            self.bert = BertModel(BertConfig(**small)).eval()

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.bert(ids).last_hidden_state

    return LastHidden().eval()


def tokens(smoke: bool) -> Any:
    import torch

    torch.manual_seed(1)
    return torch.randint(0, 30000, (1, 16 if smoke else 128))


def words(folder: Path, *more: str, file: str = "m.og") -> list[str]:
    """The command of a run."""
    program = os.environ.get("OPGRAFT_PROGRAM") or shutil.which(
        "opgraft", path=str(Path(sys.executable).parent))
    assert program is not None, "the package is not installed (make setup)"
    return [program, "run", str(folder / file), "--in",
            str(folder / "x.npy"), *more]


def opgraft_run(folder: Path, *more: str, file: str = "m.og") -> str:
    return subprocess.run(words(folder, *more, file=file), check=True,
                          text=True, capture_output=True).stdout


def eager_ns(smoke: bool, calls: int) -> int:
    here = str(Path(__file__).resolve().parent)
    return int(subprocess.run(
        [sys.executable, "-c", EAGER, here, "--smoke" if smoke else "-",
         str(calls)], check=True, text=True, capture_output=True).stdout)


def plain_contractions(rules: str) -> int:
    """Those of more than 64 x 64 x 64 that the plain kernel runs."""
    count = 0
    for line in rules.splitlines():
        found = RULE.match(line)
        if found is None:
            continue
        k = int(re.findall(r"\[([\d,]*)\]", found[2])[-2].split(",")[-1])
        m, n = map(int, found[3].split(",")[-2:])
        count += m * n * k > 64 ** 3
    return count


def prepare(folder: Path, smoke: bool) -> float:
    """Exports it; how far `opgraft run` is from eager."""
    import torch

    import opgraft

    m, x = model(smoke), tokens(smoke)
    opgraft.export(m, (x,), folder / "m.og")
    np.save(folder / "x.npy", x.numpy())
    with torch.no_grad():
        wanted = m(x).numpy()
    opgraft_run(folder, "--out", str(folder / "y.npy"))
    return float(np.abs(np.load(folder / "y.npy") - wanted).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    goals = harness.Goals("run")
    ours, eager = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart = prepare(folder, smoke)
        rules = opgraft_run(folder, "--rules", "-")
        for block in range(1 if smoke else BLOCKS):
            calls = 1 if smoke else CALLS
            said = json.loads(
                opgraft_run(folder, "--repeat", str(calls), "--json"
                            ).splitlines()[-1])
            ours.append(said["min_ns"] / 1e6)
            eager.append(eager_ns(smoke, calls) / 1e6)
            print(f"block {block}: opgraft run {ours[-1]:.1f} ms, eager "
                  f"{eager[-1]:.1f} ms", flush=True)
    for title, times in (("opgraft run", ours), ("eager", eager)):
        print(f"{title}: least {min(times):.1f} ms, median "
              f"{sorted(times)[len(times) // 2]:.1f} ms")
    goals.add("largest difference to eager", apart, TOLERANCE)
    goals.add("plain contractions above 64 x 64 x 64",
              plain_contractions(rules), 0)
    if not smoke:
        goals.add("opgraft run of BERT-base / eager", min(ours) / min(eager),
                  RATIO_MAX)
        goals.write(["src", "cli", "bench/run.py"],
                    {"run_ms": ours, "eager_ms": eager})
    return int(any(line["verdict"] == "falls short" for line in goals.lines))


if __name__ == "__main__":
    sys.exit(main())

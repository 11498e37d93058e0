#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Before and after adopting the kernel: graphs, fullgraph, milliseconds."""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import torch

import opgraft

HERE = Path(__file__).resolve().parent
ADOPTED = dict(
    schema="expert_ffn(Tensor(a!) out, Tensor x, Tensor ids, Tensor weights, "
           "Tensor w1, Tensor w2) -> ()",
    shape="out[T, H], x[T, H], ids[T, K], weights[T, K], w1[E, I, H], "
          "w2[E, H, I] ->",
    dtype="out: f32, x: out, ids: i64, weights: out, w1: out, w2: out ->")


def build(folder: Path) -> None:
    """The kernel's extension module, where Python finds it."""
    out = folder / f"moe_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(
        ["cc", "-O3", "-shared", "-fPIC",
         f"-I{sysconfig.get_paths()['include']}", str(HERE / "moe_kernel.c"),
         "-o", str(out), "-lm"], check=True)
    sys.path[:0] = [str(folder), str(HERE)]


def refusal(model: Any, x: torch.Tensor) -> str:
    """Why there is no full graph; "" where there is one."""
    torch._dynamo.reset()
    try:
        torch.compile(model, fullgraph=True, backend="eager")(x)
    except torch._dynamo.exc.Unsupported as error:
        return str(error).splitlines()[0]
    return ""


def compiled(model: Any, backend: str, x: torch.Tensor) -> tuple[Any, int]:
    """(the compiled model, graphs that it took)"""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    f = torch.compile(model, backend=backend)
    for _ in range(3):
        f(x)
    return f, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def times(cases: dict[str, Callable[..., Any]], x: torch.Tensor, rounds: int
          ) -> dict[str, float]:
    """Microseconds: the least of `rounds`, taken in turn."""
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, f in cases.items():
            begin = time.perf_counter()
            f(x)
            least[name] = min(least[name], time.perf_counter() - begin)
    return {name: seconds * 1e6 for name, seconds in least.items()}


def take_times(when: str, backends: list[str], model: Any, x: torch.Tensor,
               rounds: int) -> dict[str, float]:
    """Each backend's graphs are printed, its result compared, its time taken."""
    want, shown = model(x), {}
    for backend in backends:
        f, graphs = compiled(model, backend, x)
        torch.testing.assert_close(f(x), want, rtol=1e-4, atol=1e-4)
        print(f"{when}: {backend}: {graphs} graph{'s' if graphs != 1 else ''}")
        shown[f"{backend}, {when}"] = times({"": f}, x, rounds)[""]
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few seconds")
    parser.add_argument("--tokens", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rounds = 20 if options.smoke else 2000
    backends = ["opgraft"] if options.smoke else ["inductor", "opgraft"]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        build(Path(folder))
        import model as own
        import moe_kernel

        model, x = own.Model(), torch.randn(options.tokens, 64)
        print(f"before: fullgraph=True refuses: {refusal(model, x)}")
        shown = {"eager": times({"": model}, x, rounds)[""]}
        shown |= take_times("before", backends, model, x, rounds)
        with opgraft.adopt_module(moe_kernel, {"expert_ffn": ADOPTED}) as made:
            print(f"after: fullgraph=True takes it: {not refusal(model, x)}")
            if not options.smoke:
                print(made.check(calls=20, torch=False)[0])
            shown |= take_times("after", backends, model, x, rounds)
        for name, us in shown.items():
            print(f"{name:20} {us:9.1f} us")


if __name__ == "__main__":
    main()

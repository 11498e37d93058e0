# SPDX-License-Identifier: Apache-2.0
"""C of formulas: `opgraft build` compiles it in, `opgraft gen --target c` writes
it, and it gives the bits of vector code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

SOURCE = r"""
#include <opgraft/op.h>
static const og_op ops[] = {
    {.schema = "softmax(Tensor x) -> Tensor", .shape = "x[*N, D] -> [*N, D]",
     .row = "e = exp(x - row_max(x)); y = e / row_sum(e)"},
    {.schema = "norm(Tensor x, Tensor? w=None) -> Tensor",
     .shape = "x[*N, D], w?[D] -> [*N, D]",
     .row = "y = x * rsqrt(row_mean(x * x) + 1e-6); y = y * w"},
    {.schema = "mixed(Tensor x) -> Tensor", .shape = "x[*N, D] -> [*N, D]",
     .row = "row_cumsum(tanh(x)) + floor(x) * ceil(x) - round(x) + trunc(x) + "
            "round_to(sin(x), f16)"},
};
OG_MODULE(coded, ops)
"""
# The same calls here and, of C, in a process without vector code.
RUN = """
import sys, torch, opgraft
def results(path):
    m = opgraft.load(path)
    made, out = torch.Generator().manual_seed(0), []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for width in (0, 1, 7, 33, 128_000)[:5 if dtype.itemsize == 4 else 4]:
            x = torch.randn(1 if width > 99 else 3, width, generator=made) * 5
            x[:, 2:3], x[:, 4:5], x[:, 5:6] = float("inf"), -1e30, -0.0
            x = x.to(dtype)
            w = torch.randn(width, generator=made).to(dtype)
            out += [m.norm(x), m.norm(x, w), m.mixed(x)]
            out += [m.softmax(x)] if width else []
    return out
if __name__ == "__main__":
    torch.save([results(path) for path in sys.argv[2:]], sys.argv[1])
"""


def said(module: Path) -> str:
    return subprocess.run(["opgraft", "inspect", module], check=True,
                          capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def modules(tmp_path_factory: Any) -> dict[str, Path]:
    """By cc alone, by `opgraft build`, and by cc from what gen wrote."""
    folder = tmp_path_factory.mktemp("coded")
    source = folder / "coded.c"
    source.write_text(SOURCE)
    include = Path(__file__).parents[3] / "include"
    made = {name: folder / f"{name}.so" for name in ("plain", "built", "written")}
    compiler = ["cc", "-O1", "-std=c11", "-shared", "-fPIC",
                "-ffp-contract=off", f"-I{include}"]
    for command in (
            [*compiler, source, "-o", made["plain"], "-lm"],
            ["opgraft", "build", "-O1", source, "-o", made["built"]],
            ["opgraft", "gen", "--target", "c", source, "-o",
             folder / "code.c"],
            [*compiler, source, folder / "code.c", "-o", made["written"],
             "-lm"]):
        subprocess.run(command, check=True, capture_output=True)
    return made


def test_the_bits_are_those_of_vector_code(modules: dict[str, Path]) -> None:
    here: dict[str, Any] = {}
    exec(RUN, here)
    out = modules["plain"].with_suffix(".pt")
    subprocess.run([sys.executable, "-c", RUN, out, modules["built"],
                    modules["written"]], check=True,
                   env={**os.environ, "OPGRAFT_ISA": "scalar"})
    compared = 0
    threads = torch.get_num_threads()
    for found, n in zip(torch.load(out), (1, 2), strict=True):
        torch.set_num_threads(n)
        expected = here["results"](modules["plain"])
        torch.set_num_threads(threads)
        for a, b in zip(expected, found, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            same = (a == b) & (a.signbit() == b.signbit())
            assert (same | (a.isnan() & b.isnan())).all()
            compared += a.numel()
    print(f"{compared} elements are equal to the bit")
    assert compared > 1_000_000


def test_inspect_says_what_a_module_has(modules: dict[str, Path]) -> None:
    assert "on other machines the interpreter" in said(modules["plain"])
    for name in ("built", "written"):
        assert "on other machines C, which the module has" in said(
            modules[name])
    refused = subprocess.run(
        ["opgraft", "gen", "--target", "c", modules["plain"], "x=3"],
        capture_output=True, text=True)
    assert refused.returncode == 2 and "takes one module" in refused.stderr

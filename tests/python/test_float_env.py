# SPDX-License-Identifier: Apache-2.0
"""Torch's own results do not change: a module and a C library that leave
flush-to-zero and a rounding mode behind, at load and in each call."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import opgraft

ROOT = Path(__file__).parents[2]
SPOIL = """
#include <stdint.h>
#include <xmmintrin.h>
static void spoil(void) { _mm_setcsr(_mm_getcsr() | 0xc040); }
__attribute__((constructor)) static void at_load(void) { spoil(); }
__attribute__((destructor)) static void at_unload(void) { spoil(); }
__attribute__((visibility("default")))
void spoiling_copy(float *out, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
  spoil();
}
"""


def is_sound() -> bool:
    """Denormals and rounding to nearest, on every thread of torch's."""
    tiny = torch.full((1 << 20,), 1e-40)
    third = torch.full((1 << 20,), 1.0) / 3
    return bool((tiny * 1 != 0).all()) and bool((third == 1 / 3).all() | (
        third == torch.tensor(1 / 3)).all())


@pytest.fixture(scope="module")
def spoiling(build):
    before = is_sound()
    m = opgraft.load(build(ROOT / "tests/modules/float_env.c"))
    assert before and is_sound()
    return m


@pytest.mark.parametrize("road", ["fast", "slow", "aot_eager", "inductor",
                                  "opgraft"])
def test_a_kernel_leaves_torch_s_results_as_they_were(spoiling, road):
    f = spoiling.leave
    if road == "slow":
        f = torch.ops.float_env.leave
    elif road != "fast":
        torch._dynamo.reset()
        f = torch.compile(lambda x: spoiling.leave(x * 1) + 0, backend=road,
                          fullgraph=True)
    for count in (8, 1 << 16):
        found = f(torch.ones(count))
        assert len(found.unique()) == 1  # one environment in all its shares
        assert is_sound()


def test_threads_that_a_kernel_starts_inherit_nothing(build):
    """In a process of its own, where the kernel makes torch's threads."""
    path = build(ROOT / "tests/modules/float_env.c")
    subprocess.run(
        [sys.executable, "-c", f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch, opgraft
torch.set_num_threads(4)
m = opgraft.load({str(path)!r})
x = torch.ones(1 << 16)
m.leave(x)
found = m.look(x)
assert len(found.unique()) == 1, found.unique()
assert (torch.full((1 << 20,), 1e-40) * 1 != 0).all()
"""], check=True)


@pytest.mark.skipif(platform.machine() != "x86_64",
                    reason="its C library sets MXCSR")
def test_an_adopted_c_function_leaves_torch_s_results_as_they_were(tmp_path):
    source, library = tmp_path / "spoil.c", tmp_path / "spoil.so"
    source.write_text(SPOIL)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library),
                    str(source)], check=True)
    rules = {"call": "out.data, x.data, x.numel", "shape": "x[*N] -> [*N]",
             "name": "spoils::spoiling_copy"}
    f = opgraft.adopt(
        "void spoiling_copy(float *out, const float *x, int64_t n)",
        library=str(library), **rules)
    assert is_sound()
    x = torch.rand(64)
    compiled = torch.compile(lambda x: torch.ops.spoils.spoiling_copy(x + 1),
                             backend="opgraft", fullgraph=True)
    for call in (f, f, compiled, compiled):
        call(x)
        assert is_sound()
    opgraft.unadopt(f)

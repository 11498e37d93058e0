# SPDX-License-Identifier: Apache-2.0
"""What is said to whoever looks: help(op), dir(module), and how to build a file
that is missing, older than its source, or the source itself."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import warnings

import pytest
import torch

import opgraft


def test_help_has_the_rules():
    from opgraft import ops

    said = inspect.getdoc(ops.rms_norm)
    assert said.splitlines()[0] == (
        "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor")
    assert "Root mean square" in said
    assert "shape     x[*N, D], weight[D] -> [*N, D]" in said
    assert "where     D > 0" in said
    assert "gradient  rms_norm_backward" in said
    assert "kernels   " in said and "cpu f32|bf16|f16 avx2" in said
    assert list(inspect.signature(ops.rms_norm).parameters) == [
        "x", "weight", "eps"]


def test_help_of_a_formula(write_module):
    path = write_module(r"""
#include <opgraft/op.h>
static const og_op ops[] = {{
    .schema = "twice(Tensor x) -> Tensor",
    .shape = "x[*N] -> [*N]",
    .dtype = "x: floating -> x",
    .row = "x * 2",
}};
OG_MODULE(help_twice, ops)
""")
    m = opgraft.load(path)
    said = inspect.getdoc(m.twice)
    assert "gradient  twice_gradient" in said
    assert "kernels   loops of x * 2" in said
    assert "where" not in said
    assert "twice" in dir(m)


def test_numbers_in_a_kernel_s_error(write_module):
    path = write_module(r"""
#include <opgraft/op.h>
static og_status run(const og_call *call) {
  return og_failf(call, OG_INVALID, "%s[%lld] is %g, expected 0 to %d", "index",
                  (long long)call->dim[0], 8.5, 7);
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {{
    .schema = "at(Tensor x) -> Tensor", .shape = "x[N] -> [N]",
    .dtype = "x: f32 -> x", .kernels = OG_KERNELS(kernels)}};
OG_MODULE(help_at, ops)
""")
    at = opgraft.load(path).at
    with pytest.raises(RuntimeError) as raised:
        at(torch.ones(3))
    assert str(raised.value) == "at: index[3] is 8.5, expected 0 to 7"


def test_a_missing_module_says_how_to_build_it(tmp_path):
    with pytest.raises(OSError, match="No such file.*; build it: opgraft build "
                       r"FILE\.c -o .*/norms\.so"):
        opgraft.load(tmp_path / "norms.so")
    (tmp_path / "norms.c").write_text("")
    with pytest.raises(OSError, match=r"opgraft build .*/norms\.c -o .*/norms\.so"):
        opgraft.load(tmp_path / "norms.so")
    with pytest.raises(OSError, match=r"opgraft build .*/norms\.c, then load "
                       r".*/norms\.so"):
        opgraft.load(tmp_path / "norms.c")


def test_a_stale_module_says_how_to_build_it(program_folder):
    source, module = program_folder
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opgraft.load(module)
    when = os.stat(module).st_mtime + 10
    os.utime(source, (when, when))
    with pytest.warns(RuntimeWarning, match=r"stale\.so is older than .*stale\.c; "
                      r"build it again: opgraft build .*stale\.c -o") as seen:
        opgraft.load(module)
    assert seen[0].filename == __file__


@pytest.fixture
def program_folder(tmp_path):
    """A C file and the module that `opgraft build` makes of it."""
    program = os.path.join(os.path.dirname(sys.executable), "opgraft")
    subprocess.run([program, "new", "stale"], cwd=tmp_path, check=True,
                   capture_output=True)
    subprocess.run([program, "build", "stale/stale.c"], cwd=tmp_path, check=True,
                   capture_output=True)
    return tmp_path / "stale/stale.c", tmp_path / "stale/stale.so"

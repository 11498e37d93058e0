# SPDX-License-Identifier: Apache-2.0
"""What a torch lacks: another right way is taken, or said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch


def run(code, path, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], text=True,
        env=os.environ | {"OPGRAFT_LOG": "1"} | variables,
        capture_output=True)
    return done.returncode, done.stdout, done.stderr


CALL = """
import sys, torch, opgraft
{before}
m = opgraft.load(sys.argv[1])
x = torch.ones(3)
print(m.scale_add(x, x, 2.0).tolist())
{after}
"""


@pytest.mark.full
def test_no_lowering(basics):
    """Inductor without what our lowering needs: its own road, said once."""
    before = """
import torch._inductor.lowering as lowering
register = lowering.register_lowering
def other(op, **options):
    if sys._getframe(1).f_globals["__name__"] == "opgraft._load.inductor":
        raise TypeError("other parameters")
    return register(op, **options)
lowering.register_lowering = other
"""
    after = """
f = torch.compile(lambda x: m.scale_add(x, x, 2.0) + 1, fullgraph=True)
print(f(x).tolist())
"""
    status, out, log = run(CALL.format(before=before, after=after),
                           basics.path, TORCHINDUCTOR_FX_GRAPH_CACHE="0",
                           TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    assert status == 0, log
    assert out.split("\n")[:2] == ["[3.0, 3.0, 3.0]", "[4.0, 4.0, 4.0]"]
    assert log.count("Inductor of this torch lacks what our lowering") == 1


@pytest.mark.parametrize("before", [
    "del torch.Tensor.__dlpack_c_exchange_api__",
    "del torch._C._len_torch_dispatch_stack",
    "del torch.Tag.out",  # 2.12, which lacks nothing else of these
])
def test_old_torch_is_named(basics, before):
    status, _, log = run(CALL.format(before=before, after=""), basics.path)
    last = log.strip().splitlines()[-1]
    assert status == 1
    assert last.startswith("ImportError: opgraft needs torch 2.13 or newer")
    assert f"found {torch.__version__}" in last


@pytest.mark.parametrize("value,said", [
    ("published", "published calls only"), ("", "unpublished words")])
def test_published_guard_by_variable(basics, value, said):
    status, out, log = run(CALL.format(before="", after=""), basics.path,
                           OPGRAFT_GUARD=value)
    assert status == 0, log
    assert said in log and out.strip() == "[3.0, 3.0, 3.0]"


def test_words_that_tell_a_sample_wrong_are_not_used(basics):
    """Samples that are not what they are said to be: as words look that lie
    elsewhere in a newer torch, or mean something else there."""
    after = """
from opgraft._base import host
samples, modes = host._samples, host._words_in_modes
fresh, plain, gradient, inference, special, sized = range(6)
def tried():
    assert not host.self_test()
    assert m.scale_add(x, x, 2.0).tolist() == [3.0] * 3
for wrong in ({fresh: x, gradient: x}, {plain: torch._neg_view(x)},
              {inference: x}, {special: x}):
    host._samples = lambda: tuple(
        (*s, wrong[i]) if i in wrong else s for i, s in enumerate(samples()))
    tried()
host._samples = samples
host._words_in_modes = lambda: modes()[:2] + modes()[:1]
tried()
host._words_in_modes = modes
assert host.self_test()
print("five tries")
"""
    status, out, log = run(CALL.format(before="", after=after), basics.path)
    assert status == 0 and out.endswith("five tries\n"), log


def test_a_newer_torch_is_said(basics):
    before = "torch.__version__ = '2.99.0'"
    status, out, log = run(CALL.format(before=before, after=""), basics.path)
    assert status == 0, log
    assert "torch 2.99.0 is newer than the newest that was tested, 2." in log

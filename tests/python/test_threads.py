# SPDX-License-Identifier: Apache-2.0
"""What threads do with modules at once: no lock order that hangs, no call
into what another thread took away."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading

import pytest
import torch

import opgraft
from opgraft._load import module

ROOT = pathlib.Path(__file__).resolve().parents[2]

SOURCE = """
#include <opgraft/op.h>
static og_status run(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] * %d;
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {{
    .schema = "times(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]",
    .dtype = "x: f32 -> x", .backward = "none",
    .kernels = OG_KERNELS(kernels)}};
OG_MODULE(%s, ops)
"""


@pytest.mark.full
def test_eight_threads_compile_call_load_unload_and_reload():
    """A part of tests/sweep/threads.py, which compares each result."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/sweep/threads.py"), "--seconds",
         "15"], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_unload_waits_for_a_compile_and_a_compile_for_an_unload(write_module):
    """The compile holds Dynamo's lock and lists modules; the unload resets
    Dynamo. Each used to wait for the other's lock."""
    m = opgraft.load(write_module(SOURCE % (2, "threads_order")))
    is_compiling, is_unloading = threading.Event(), threading.Event()

    def backend(gm, inputs):
        is_compiling.set()
        is_unloading.wait(0.5)
        module.modules()
        return gm.forward

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    found = []
    one = threading.Thread(
        target=lambda: found.append(compiled(torch.ones(1))[0].item()),
        daemon=True)

    def unload():
        is_compiling.wait()
        is_unloading.set()
        m.unload()

    two = threading.Thread(target=unload, daemon=True)
    one.start()
    two.start()
    one.join(60)
    two.join(60)
    assert not one.is_alive() and not two.is_alive()
    assert found == [2]


@pytest.mark.parametrize("held", [
    lambda: torch.ops.threads_held.times,
    lambda: torch.ops.threads_held.times.default])
def test_operator_held_beyond_unload_raises_and_reaches_the_next(
        write_module, held):
    """torch frees an operator's entry with its module: a call of what was
    held crashed."""
    x = torch.ones(2)
    m = opgraft.load(write_module(SOURCE % (2, "threads_held")))
    op = held()
    assert op(x).tolist() == [2, 2]
    m.unload()
    with pytest.raises(RuntimeError, match="threads_held::times was unloaded"):
        op(x)
    m = opgraft.load(write_module(SOURCE % (3, "threads_held")))
    assert op(x).tolist() == [3, 3]
    m.unload()


def test_unload_twice_does_nothing_the_second_time(write_module):
    m = opgraft.load(write_module(SOURCE % (2, "threads_twice")))
    m.unload()
    m.unload()
    with pytest.raises(AttributeError, match="was unloaded"):
        m.times(torch.ones(1))


def test_unload_of_a_replaced_module_leaves_its_successor(write_module):
    """An unload that fails registers the module again, but not over the one
    that took its place."""
    x = torch.ones(1)
    old = opgraft.load(write_module(SOURCE % (2, "threads_old")))
    held = old.times
    new = opgraft.load(write_module(SOURCE % (3, "threads_old")))
    with pytest.raises(RuntimeError, match="can still be called"):
        old.unload()
    assert torch.ops.threads_old.times(x).item() == 3
    assert held(x).item() == 2 and new.times(x).item() == 3


def test_compiled_code_follows_reloads_while_another_thread_lives(
        write_module):
    """With other threads compiled code is voided, not freed: more often than
    Dynamo's limit of recompiles."""
    x, stop = torch.ones(1), threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        opgraft.load(write_module(SOURCE % (1, "threads_follow")))
        compiled = torch.compile(
            lambda t: torch.ops.threads_follow.times(t) + 1,
            backend="aot_eager", fullgraph=True)
        for factor in range(1, 14):
            opgraft.load(write_module(SOURCE % (factor, "threads_follow")))
            assert compiled(x).item() == factor + 1
    finally:
        stop.set()
        other.join()


CALLS_WHILE_MODULES_GO = """
import shutil, sys, threading, time
import torch, opgraft

torch._dynamo.config.recompile_limit = 10**6
torch._dynamo.config.accumulated_recompile_limit = 10**9
sys.setswitchinterval(1e-5)
path, variants, end = sys.argv[1], sys.argv[2:], time.monotonic() + 10
done = [0, 0, 0, 0]

def goes_on():  # for ten seconds, and until each has done something
    return time.monotonic() < end or min(done) <= 3

def call(number):
    x = torch.ones(3)
    plus = torch.compile(eval("lambda t: t + 1"), backend="eager")
    while goes_on():
        assert plus(x).tolist() == [2.0] * 3
        done[number] += 1

def reload():
    while goes_on():
        shutil.copyfile(variants[done[3] % 2], path + ".part")
        shutil.move(path + ".part", path)
        opgraft.load(path)
        done[3] += 1

threads = [threading.Thread(target=call, args=(n,)) for n in range(3)]
threads.append(threading.Thread(target=reload))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.full
def test_compiled_calls_while_another_thread_reloads(write_module, tmp_path):
    """A reload voids compiled code whose guards a call may be checking."""
    variants = [str(write_module(SOURCE % (factor, "threads_void"), f"v{factor}"))
                for factor in (2, 3)]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CALLS_WHILE_MODULES_GO,
         str(tmp_path / "threads_void.so"), *variants],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]

# SPDX-License-Identifier: Apache-2.0
"""Independent parts of a graph on separate threads: options={"lanes": ...}."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import torch
from compare import compiled, same

import opgraft

T = torch.Tensor

NAP = r"""
#define _POSIX_C_SOURCE 200809L
#include <opgraft/op.h>
#include <time.h>

static og_status nap_f32(const og_call *call) {
  const struct timespec time = {.tv_nsec = 10000000};
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  nanosleep(&time, 0);
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = nap_f32}};
static const og_op ops[] = {{
    .schema = "nap(Tensor x) -> Tensor",
    .shape = "x[*N] -> [*N]",
    .dtype = "x: f32 -> x",
    .backward = "none",
    .kernels = OG_KERNELS(kernels),
}};
OG_MODULE(lane_naps, ops)
"""

CALLS = 20  # a trial is over by then


def with_lanes(f: Callable[..., T]) -> Any:
    """f compiled, after its trial. On a busy machine a trial may find that a
    second thread comes too late; then there is another."""
    for _ in range(4):
        torch._dynamo.reset()
        c = compiled(f)
        for i in range(CALLS):
            x = torch.full((16,), float(i))
            same(c(x), f(x))
        if opgraft.stats(c).lanes == 2:
            return c
    raise AssertionError(str(opgraft.stats(c)))


@pytest.fixture(scope="module")
def nap(tmp_path_factory: pytest.TempPathFactory,
        build: Callable[..., Path]) -> Any:
    """An operator that takes ten milliseconds on no processor."""
    source = tmp_path_factory.mktemp("lanes") / "lane_naps.c"
    source.write_text(NAP)
    return opgraft.load(build(source)).nap


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_branches_that_wait_run_at_once(nap: Any) -> None:
    def f(x: T) -> T:
        return nap(nap(x) + 1) - nap(nap(x) - 1)

    found = opgraft.stats(with_lanes(f))
    (graph,) = found.graphs
    assert graph["sections"] == 1
    assert found.replans["shape"] == 1 and found.replans["lanes"] == 1
    assert 0 < graph["lanes_ns"] < graph["serial_ns"]
    assert "1 sections in up to 2 lanes" in str(found)


def test_a_trial_that_lanes_lost_is_held_again(
        tmp_path: Path, build: Callable[..., Path]) -> None:
    """As on a machine that was busy when the first one was held."""
    source = tmp_path / "lane_queues.c"
    text = NAP.replace("lane_naps", "lane_queues").replace(
        "nanosleep(&time, 0);", """
  static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
  static int calls;
  const int is_alone = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) < 3000;
  if (is_alone) pthread_mutex_lock(&queue);
  nanosleep(&time, 0);
  if (is_alone) pthread_mutex_unlock(&queue);""")
    text = text.replace("10000000", "100000").replace(
        "#include <time.h>", "#include <pthread.h>\n#include <time.h>")
    source.write_text(text)
    nap = opgraft.load(build(source)).nap

    x = torch.ones(16)
    for _ in range(5):  # other load may disturb a trial: then a new one
        torch._dynamo.reset()
        c = compiled(lambda x: nap(nap(x) + 1) - nap(nap(x) - 1))
        for _ in range(3 * CALLS):
            c(x)
        if opgraft.stats(c).lanes == 1:
            break
    assert opgraft.stats(c).lanes == 1
    for _ in range(20000):  # two more trials, should the first come too late
        same(c(x), torch.full((16,), 4.0))
        if opgraft.stats(c).lanes == 2:
            break
    found = opgraft.stats(c)
    assert found.lanes == 2 and found.replays > 1000, str(found)


@pytest.mark.parametrize("lanes", ["off", 1])
def test_lanes_can_be_switched_off(nap: Any, lanes: Any) -> None:
    def f(x: T) -> T:
        return nap(x) + nap(x + 1)

    c = compiled(f, options={"lanes": lanes})
    x = torch.ones(16)
    for _ in range(CALLS):
        same(c(x), f(x))
    assert opgraft.stats(c).lanes == 1


def test_no_lanes_where_results_must_not_vary(nap: Any) -> None:
    def f(x: T) -> T:
        return nap(x) + nap(x + 1)

    torch.use_deterministic_algorithms(True)
    try:
        c = compiled(f)
        for _ in range(CALLS):
            c(torch.ones(16))
    finally:
        torch.use_deterministic_algorithms(False)
    assert opgraft.stats(c).lanes == 1


@pytest.mark.parametrize("lanes", ["on", 0, -1, 1.5])
def test_a_wrong_option_is_refused(lanes: Any) -> None:
    with pytest.raises(Exception, match="option lanes is"):
        compiled(lambda x: x + 1, options={"lanes": lanes})(torch.ones(2))


def test_a_training_step_with_lanes(nap: Any) -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(32, 32)
            self.b = torch.nn.Linear(32, 32)

        def forward(self, x: T) -> T:
            with torch.no_grad():
                slow = nap(x) - nap(x + 1)
            return self.a(x).relu() * self.b(x).sigmoid() + slow

    model = Two()
    c = compiled(model)
    for _ in range(CALLS):
        x = torch.randn(8, 32)
        grads = []
        for run in (model, c):
            model.zero_grad()
            run(x).square().sum().backward()
            grads.append([p.grad.clone() for p in model.parameters()])
        same(grads[1], grads[0], rtol=1e-4, atol=1e-4)


HANG_S = 300


@pytest.mark.full
def test_convolutions_in_lanes_do_not_wait_for_each_other(
        tmp_path: Path) -> None:
    """oneDNN's gradients of weights have a barrier for as many threads as it
    thinks that it has."""
    script = tmp_path / "step.py"
    script.write_text("""
import torch
torch.set_num_threads(2)
layers = torch.nn.ModuleList(torch.nn.Conv2d(16, 16, 1) for _ in range(4))
c = torch.compile(lambda x: sum(f(x) for f in layers), backend="opgraft")
x = torch.randn(8, 16, 16, 16)
for _ in range(40):  # a trial of lanes is over by then
    c(x).square().mean().backward()
assert torch.get_num_threads() == 2
""")
    done = subprocess.run([sys.executable, str(script)], timeout=HANG_S,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_a_lane_that_never_looped_has_one_thread(
        build: Callable[..., Path], tmp_path: Path) -> None:
    """A thread takes the user's number of threads at its first parallel loop:
    after that, in a lane, the barrier of a gradient must still be for one."""
    source, script = tmp_path / "lane_naps.c", tmp_path / "branches.py"
    source.write_text(NAP)
    script.write_text(f"""
import torch, opgraft
torch.set_num_threads(2)
nap = opgraft.load({str(build(source))!r}).nap
w = torch.randn(16, 16, 1, 1)
g = torch.randn(8, 16, 32, 32)
def branch(x):
    y = torch.tanh(g * nap(x).sum())  # a loop on all threads there are
    return torch.ops.aten.convolution_backward(
        y, g, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
        [False, True, False])[1]
f = lambda x: branch(x) + branch(x - 1)
for _ in range(4):
    torch._dynamo.reset()
    c = torch.compile(f, backend="opgraft")
    for i in range(20):
        x = torch.full((16,), float(i))
        torch.testing.assert_close(c(x), f(x), rtol=1e-3, atol=1e-2)
    if opgraft.stats(c).lanes == 2:
        break
else:
    raise AssertionError(str(opgraft.stats(c)))
""")
    done = subprocess.run([sys.executable, str(script)], timeout=HANG_S,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lanes_in_calls_from_many_threads(nap: Any) -> None:
    def f(x: T) -> T:
        return nap(nap(x) + 1) - nap(x - 1)

    c = with_lanes(f)
    wrong: list[int] = []

    def many(seed: int) -> None:
        for i in range(10):
            x = torch.full((16,), float(seed * 100 + i))
            if not torch.equal(c(x), f(x)):
                wrong.append(seed)

    threads = [threading.Thread(target=many, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong

# SPDX-License-Identifier: Apache-2.0
"""opgraft check, stopped by a signal while a child runs a kernel: it kills the
child, prints what it found so far, ends with 128 + the signal, and leaves no
file behind."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Iterator

import pytest
from conftest import Program

# The first operator writes its argument; the second never ends, and says that
# it has begun.
SOURCE = """
#include <fcntl.h>
#include <opgraft/op.h>
#include <stdlib.h>
#include <unistd.h>
static og_status wrong(const og_call *c) {
  for (int64_t i = 0; i < c->dim[0]; ++i)
    ((float *)og_f32(c->in[0]))[i] = og_f32_mut(c->out[0])[i] = 1;
  return OG_OK;
}
static og_status sleeps(const og_call *c) {
  (void)c;
  close(open(getenv("BEGUN"), O_CREAT | O_WRONLY, 0600));
  for (;;) pause();
}
static const og_kernel k1[] = {{.device = OG_CPU, .run = wrong}};
static const og_kernel k2[] = {{.device = OG_CPU, .run = sleeps}};
static const og_op ops[] = {
    {.schema = "wrong(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(k1)},
    {.schema = "sleeps(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(k2)},
};
OG_MODULE(stopping, ops)
"""


def wait_until(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def started(program: Program, *words: str) -> Iterator[
        tuple[subprocess.Popen[str], pathlib.Path]]:
    """The program, once its second operator runs, and its temporary folder."""
    program.write("stopping.c", SOURCE)
    temp = program.folder / "temp"
    temp.mkdir()
    env = {**os.environ, "TMPDIR": str(temp), "OPGRAFT_PYTHON": sys.executable,
           "BEGUN": str(program.folder / "begun")}
    env.pop("CC", None)
    running = subprocess.Popen(
        [program.path, "check", "stopping.c", *words], cwd=program.folder, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_until((program.folder / "begun").exists)
        yield running, temp
    finally:
        if not is_group_gone(running.pid):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def is_group_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [True, False])
def test_a_signal_stops_it(program: Program, number: signal.Signals, to_group: bool) -> None:
    with started(program, "--json") as (running, temp):
        assert list(temp.iterdir())  # the module that it built
        begin = time.monotonic()
        if to_group:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        out, _ = running.communicate(timeout=30)
        assert time.monotonic() - begin < 10  # a silent child is given 20 s
        wait_until(lambda: is_group_gone(running.pid), 10)
        assert list(temp.iterdir()) == []
    assert running.returncode == 128 + number
    report = json.loads(out)
    assert report["stopped"] is True
    assert [o["op"] for o in report["operators"]] == ["wrong", "sleeps"]
    kinds = {f["kind"] for f in report["operators"][0]["findings"]}
    assert "undeclared_mutation" in kinds
    # Nothing is said of what was not tried to its end.
    assert report["operators"][1]["findings"] == []
    assert report["operators"][1]["right"] is False
    assert report["operators"][1]["cut_short"] is True


def test_the_text_says_so(program: Program) -> None:
    with started(program) as (running, _):
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "undeclared_mutation: x:" in out
    assert "sleeps: nothing found (" in out and "; then it was stopped)" in out
    assert "\nstopped: 2 operators, " in out
    assert "130: stopped by Ctrl-C" in program.ok("check", "--help")


def test_it_does_not_begin_with_pytorch(program: Program) -> None:
    with started(program, "--json", "--host", "torch") as (running, _):
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert json.loads(out)["torch"] is None

# SPDX-License-Identifier: Apache-2.0
"""`opgraft check --host torch`: clean on right operators, finds what PyTorch
can see, and says how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest


def run(*args):
    done = subprocess.run(
        [sys.executable, "-m", "opgraft.check_torch", *map(str, args)],
        capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.full
def test_clean(linear):
    status, out, _ = run(linear.path, "--op", "custom_linear", "--json")
    found = json.loads(out)
    assert status == 0 and found["findings"] == []
    assert found["operators"][0]["calls"] > 3


WRONG = """
#include <opgraft/op.h>
static og_status square(const og_call *c) {
  for (int64_t i = 0; i < c->dim[0]; ++i)
    og_f64_mut(c->out[0])[i] = og_f64(c->in[0])[i] * og_f64(c->in[0])[i];
  return OG_OK;
}
static og_status half_gradient(const og_call *c) {
  for (int64_t i = 0; i < c->dim[0]; ++i)
    og_f64_mut(c->out[0])[i] = og_f64(c->in[0])[i] * og_f64(c->in[1])[i];
  return OG_OK;
}
static og_status counts(const og_call *c) {
  static double calls;
  calls += 1;
  for (int64_t i = 0; i < c->dim[0]; ++i) og_f64_mut(c->out[0])[i] = calls;
  return OG_OK;
}
static const og_kernel k1[] = {{.device = OG_CPU, .run = square}};
static const og_kernel k2[] = {{.device = OG_CPU, .run = half_gradient}};
static const og_kernel k3[] = {{.device = OG_CPU, .run = counts}};
static const og_op ops[] = {
    {.schema = "square(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]",
     .dtype = "x: f64 -> x", .backward = "square_backward(grad, x) -> x",
     .kernels = OG_KERNELS(k1)},
    {.schema = "square_backward(Tensor g, Tensor x) -> Tensor",
     .shape = "g[*N], x[*N] -> [*N]", .dtype = "g: f64, x: g -> g",
     .backward = "none", .kernels = OG_KERNELS(k2)},
    {.schema = "counts(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]",
     .dtype = "x: f64 -> x", .backward = "none", .kernels = OG_KERNELS(k3)}};
OG_MODULE(wrong_in_torch, ops)
"""


@pytest.mark.full
def test_findings(write_module):
    path = write_module(WRONG)
    status, out, _ = run(path, "--op", "square")
    assert status == 1
    assert "gradcheck:" in out
    status, out, _ = run(path, "--op", "counts")
    assert status == 1 and "roads_differ" in out


@pytest.mark.parametrize("args,text", [
    (("missing.so",), "No such file"),
])
def test_could_not_run(args, text):
    status, _, err = run(*args)
    assert status == 2 and text in err


def test_unknown_operator(basics):
    status, _, err = run(basics.path, "--op", "nothing")
    assert status == 2 and "scale_add" in err


def test_info():
    out = subprocess.run([sys.executable, "-m", "opgraft.info", "--json"],
                         capture_output=True, text=True, check=True).stdout
    found = json.loads(out)
    assert found["symbols_missing"] == []
    assert set(found["self_test"]) == {"dispatch_words", "tensor_words", "wrap",
                                       "version_counter"}


SLOW = """
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <opgraft/op.h>
#include <stdlib.h>
#include <unistd.h>
static og_status copy(const og_call *c) {
  for (int64_t i = 0; i < c->dim[0]; ++i)
    og_f32_mut(c->out[0])[i] = og_f32(c->in[0])[i];
  close(open(getenv("BEGUN"), O_CREAT | O_WRONLY, 0600));
  usleep(200000);
  return OG_OK;
}
static const og_kernel k[] = {{.device = OG_CPU, .run = copy}};
static const og_op ops[] = {
    {.schema = "slow_copy(Tensor x) -> Tensor",
     .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(k)},
};
OG_MODULE(slow_copy, ops)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(write_module, tmp_path, number):
    begun = tmp_path / "begun"
    with subprocess.Popen(
            [sys.executable, "-m", "opgraft.check_torch",
             str(write_module(SLOW)), "--json"],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "BEGUN": str(begun)}) as running:
        until = time.monotonic() + 120
        while not begun.exists():
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.05)
        running.send_signal(number)
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    report = json.loads(out)
    assert report["stopped"] is True and report["findings"] == []

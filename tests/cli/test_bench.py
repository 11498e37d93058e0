# SPDX-License-Identifier: Apache-2.0
"""bench and check: figures, sizes, and kernels that fail, crash or are wrong."""

from __future__ import annotations

import json

import pytest

SOURCE = r"""
#include <opgraft/op.h>
#include <stdlib.h>

static og_status copy(const og_call *call) {
  const int64_t n = og_numel(call->in[0]);
  for (int64_t i = 0; i < n; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}
static og_status twice(const og_call *call) {
  const int64_t n = og_numel(call->out[0]);
  for (int64_t i = 0; i < n; ++i) og_f32_mut(call->out[0])[i] *= 2;
  return OG_OK;
}
static og_status fill(const og_call *call) {
  for (int64_t e = 0; e < call->out_list[0].count; ++e) {
    og_tensor *out = call->out_list[0].tensors[e];
    for (int64_t i = 0; i < og_numel(out); ++i) og_f32_mut(out)[i] = 1;
  }
  return OG_OK;
}
static og_status crash(const og_call *call) {
  (void)call;
  abort();
}
static og_status refuse(const og_call *call) {
  return og_fail(call, OG_KERNEL, "not today");
}

#define K(name) \
  static const og_kernel name##_kernels[] = {{.device = OG_CPU, .run = name}};
K(copy) K(twice) K(fill) K(crash) K(refuse)

static const og_op ops[] = {
    {.schema = "copy(Tensor x, float scale=3.5) -> Tensor",
     .shape = "x[*N, D] -> [*N, D]",
     .where = "D % 24 == 0",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(copy_kernels)},
    {.schema = "crash(Tensor x) -> Tensor",
     .shape = "x[D] -> [D]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(crash_kernels)},
    {.schema = "twice_(Tensor(a!) x) -> Tensor(a!)",
     .shape = "x[D]",
     .dtype = "x: f32",
     .kernels = OG_KERNELS(twice_kernels)},
    {.schema = "fill(Tensor x, int parts) -> Tensor[]",
     .shape = "x[D] -> {i < parts: [D]}",
     .where = "parts >= 1, parts <= 4",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(fill_kernels)},
    {.schema = "refuse(Tensor x) -> Tensor",
     .shape = "x[D] -> [D]",
     .dtype = "x: f32 -> x",
     .kernels = OG_KERNELS(refuse_kernels)},
};
OG_MODULE(timed, ops)
"""


@pytest.fixture(scope="module")
def module(program_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timed")
    maker = program_in(folder)
    maker.ok("build", maker.write("timed.c", SOURCE))
    return folder / "timed.so"


def bench(program, module, *words, status=0):
    done = program.run("bench", module, "--json", "--time", "15", *words)
    assert done.returncode == status, done.stderr
    report = json.loads(done.stdout)
    return {case["op"]: case for case in report["cases"]}, report


def test_every_operator_has_a_line_whatever_its_neighbours_do(program, module):
    cases, report = bench(program, module, "--threads", "1", status=1)
    assert report["threads"] == 1
    assert list(cases) == ["copy", "crash", "twice_", "fill", "refuse"]
    for name in ("copy", "twice_", "fill"):
        case = cases[name]
        assert case["failure"] is None
        assert 0 < case["min_ns"] <= case["median_ns"]
        wanted = case["bytes"] / case["median_ns"]
        assert case["gb_per_s"] == pytest.approx(wanted, rel=0.01)
    assert "crashed (Aborted)" in cases["crash"]["failure"]
    assert "refuse: not today" in cases["refuse"]["failure"]
    assert cases["twice_"]["bytes"] == 2 * 256 * 4  # read and written
    assert cases["copy"]["call"].endswith("scale=3.5")


def test_sizes_are_what_is_asked_for(program, module):
    words = ["--op", "copy", "--size", "D=48", "--size", "N=10"]
    cases, _ = bench(program, module, *words)
    assert cases["copy"]["call"].startswith("x f32[10, 48]")
    assert cases["copy"]["bytes"] == 2 * 480 * 4
    # Where a condition forbids the default, what is near it is taken.
    cases, _ = bench(program, module, "--op", "copy")
    assert cases["copy"]["call"].startswith("x f32[1024, ")
    cases, _ = bench(program, module, "--op", "twice_", "--size", "100")
    assert cases["twice_"]["call"] == "x f32[100]"


def test_a_size_that_the_conditions_forbid_is_said(program, module):
    cases, _ = bench(program, module, "--op", "copy", "--size", "D=25", status=1)
    assert "no call was found with D = 25" in cases["copy"]["failure"]
    assert "which no operator's shape rule has" in program.fails(
        2, "bench", module, "--size", "Q=3")


def test_the_text_report(program, module):
    done = program.run("bench", module, "--op", "copy", "--time", "15")
    assert done.returncode == 0
    assert "kernels may use " in done.stdout
    assert "copy(x f32[1024, " in done.stdout
    assert " GB/s of " in done.stdout
    assert "kernel: all types, any machine" in done.stdout


def test_a_reference_is_timed_beside(program, gate):
    words = ("bench", gate / "gate.so", "--time", "15", "--reference", gate / "gate.c")
    cases = json.loads(program.run(*words, "--json").stdout)["cases"]
    assert [(c["op"], c["reference"]) for c in cases] == [
        ("gate", False), ("gate", True), ("gate_backward", False), ("gate_backward", True)]
    assert all(c["blocks"] > 0 and c["call"] == cases[i // 2 * 2]["call"]
               for i, c in enumerate(cases))
    assert program.ok(*words).count("\n  reference: gate") == 2
    assert "no.so: could not open" in program.fails(2, *words[:-1], "no.so")


# --- check ----------------------------------------------------------------------


def test_check_ends_0_when_clean(program, gate):
    assert "0 findings" in program.ok("check", gate / "gate.c")
    assert "gate_backward" not in program.ok("check", gate / "gate.so", "--op", "gate")


def test_check_ends_1_with_findings(program, gate):
    text = (gate / "gate.c").read_text()
    program.write("gate.c", text.replace("s + beta * x[i]", "s - beta * x[i]"))
    done = program.run("check", "gate.c")
    assert done.returncode == 1
    assert "wrong_gradient" in done.stdout
    done = program.run("check", "gate.c", "--json", "--seed", "5", "--limit", "20")
    assert done.returncode == 1
    assert "wrong_gradient" in json.dumps(json.loads(done.stdout))


def test_check_against_a_reference(program, gate):
    text = (gate / "gate.c").read_text()
    program.write("gate.c", text.replace("x[i] / (1 +", "x[i] / (2 +")
                  .replace("gate_backward(grad, x, beta) -> x", "none"))
    done = program.run("check", "gate.c", "--op", "gate", "--reference", gate / "gate.so")
    assert done.returncode == 1
    assert "differs_from_reference" in done.stdout


def test_check_ends_2_when_it_cannot_run(program, gate):
    program.write("bad.c", "int x = ;\n")
    assert "bad.c" in program.fails(2, "check", "bad.c")
    assert "did you mean gate" in program.fails(2, "check", gate / "gate.so", "--op", "gte")


def test_host_torch_without_a_python(program, gate):
    done = program.run("check", gate / "gate.so", "--host", "torch",
                       env={"OPGRAFT_PYTHON": "/bin/false"})
    assert done.returncode == 2
    assert "gave no report and ended with status 1" in done.stderr

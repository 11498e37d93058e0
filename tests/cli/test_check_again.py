# SPDX-License-Identifier: Apache-2.0
"""`again:` lines of check show the same numbers; references in Python."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests" / "mistakes" / "wrong"

# A crash, a difference, a note by probe, one with sizes of its own.
CASES = ("read_after_end", "strides_any_flat", "grad_sign", "size_tail_mean",
         "type_half_sum", "reference_unbiased", "race_overlap")


def findings(text: str) -> list[dict[str, str]]:
    return [f for op in json.loads(text)["operators"] for f in op["findings"]
            if not f["note"]]


@pytest.fixture(scope="module")
def built(program_in, tmp_path_factory):
    """Modules by name, each built once."""
    program = program_in(tmp_path_factory.mktemp("again"))

    def build(name: str) -> str:
        out = program.folder / f"{name}.so"
        if not out.exists():
            program.ok("build", WRONG / f"{name}.c", "-o", out)
        return str(out)

    return build


@pytest.mark.parametrize("name", CASES)
def test_again_shows_the_same(program, built, name):
    module = built(name)
    first = program.run("check", module, "--json")
    assert first.returncode == 1, first.stderr
    for finding in findings(first.stdout):
        if not finding["again"]:
            continue
        words = shlex.split(finding["again"])
        assert words[:3] == ["opgraft", "check", module]
        again = findings(program.run(*words[1:], "--json").stdout)
        keys = ["kind", "argument", "text", "call"]
        if finding["kind"] == "thread_dependent":
            keys.remove("text")  # where real threads clash is chance
        assert any(all(one[key] == finding[key] for key in keys)
                   for one in again), (finding, again)


def test_again_in_this_process(program, built):
    finding, *_ = findings(
        program.run("check", built("size_tail_mean"), "--json").stdout)
    words = shlex.split(finding["again"])[1:]
    again = findings(program.run(*words, "--no-fork", "--json").stdout)
    assert finding["text"] in [one["text"] for one in again]


def test_a_crash_in_this_process_ends_it(program, built):
    finding, *_ = findings(
        program.run("check", built("read_after_end"), "--json").stdout)
    words = shlex.split(finding["again"])[1:]
    assert program.run(*words, "--no-fork").returncode == -11  # SIGSEGV


@pytest.mark.parametrize(("words", "text"), [
    (["--as-shown", "3"], "--as-shown needs --call"),
    (["--no-fork"], "--no-fork needs --call"),
    (["--call", "1", "--as-shown", "x"], "expected its number"),
    (["--call", "1", "--probe", "nothing"], "there is no probe"),
])
def test_calls_that_are_none(program, built, words, text):
    assert text in program.fails(2, "check", built("size_tail_mean"), *words)


# --- References in Python ----------------------------------------------------

SCALE = """
#include <opgraft/op.h>
enum { N };
static og_status scale_f32(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * (float)call->attr[0].f * FACTOR;
  return OG_OK;
}
static const og_kernel scale_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_f32},
};
static const og_op ops[] = {{
    .schema = "scale(Tensor x, float by=2.0) -> Tensor",
    .shape = "x[*N] -> [*N]",
    .kernels = OG_KERNELS(scale_kernels),
}};
OG_MODULE(scales, ops)
"""


@pytest.fixture
def scales(program):
    pytest.importorskip("torch")
    pytest.importorskip("opgraft")
    program.write("right.c", SCALE.replace("FACTOR", "1"))
    program.write("half.c", SCALE.replace("FACTOR", "0.5f"))
    program.write("scales.py",
                  "def scale(x, by=2.0):\n    return x.double() * by\n\n"
                  "def doubled(x, by=2.0):\n    return x.numpy() * by\n\n"
                  "def broken(x, by=2.0):\n    raise ValueError('not here')\n")
    return program


def test_python_reference(scales):
    assert "scale: right by its reference" in scales.ok(
        "check", "right.c", "--reference", "scales.py")
    assert "scale: right, no reference" in scales.ok("check", "right.c")


def test_python_reference_gets_floats_for_floats(scales):
    scales.write("strict.py", "def scale(x, by=2.0):\n"
                 "    assert isinstance(by, float), by\n    return x * by\n")
    done = scales.run("check", "right.c", "--reference", "strict.py")
    assert "right by its reference" in done.stdout
    assert done.stderr == ""


def test_python_reference_that_is_nan(scales):
    scales.write("nan.py", "def scale(x, by=2.0):\n"
                 "    return x * by + (x - x) / (x - x)\n")
    assert "the reference gives NaN, which may be its own fault" in scales.run(
        "check", "right.c", "--reference", "nan.py").stdout


ZERO = """
#include <opgraft/op.h>
enum { N };
static og_status zero_f64(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) og_f64_mut(call->out[0])[i] = 0;
  return OG_OK;
}
static og_status zero_backward_f64(const og_call *call) {
  const double *g = og_f64(call->in[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f64_mut(call->out[0])[i] = 0.1 * g[i] + 0.2 * g[i] - 0.3 * g[i];
  return OG_OK;
}
static const og_kernel zero_kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = zero_f64},
};
static const og_kernel zero_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f64", .run = zero_backward_f64},
};
static const og_op ops[] = {
    {
        .schema = "zero(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "zero_backward(grad, x) -> x",
        .expect = "unused: x",
        .kernels = OG_KERNELS(zero_kernels),
    },
    {
        .schema = "zero_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .expect = "unused: x",
        .kernels = OG_KERNELS(zero_backward_kernels),
    },
};
OG_MODULE(zeros, ops)
"""


def test_a_gradient_of_nothing_may_round(program):
    program.write("zero.c", ZERO)
    assert "wrong_gradient" not in program.run("check", "zero.c").stdout


def test_python_reference_says_the_ratio(scales):
    done = scales.run("check", "half.c", "--reference", "scales.py:doubled")
    assert done.returncode == 1
    assert "differs_from_reference" in done.stdout


def test_python_reference_that_raises(scales):
    done = scales.run("check", "right.c", "--reference", "scales.py:broken")
    assert done.returncode == 0
    assert "right, no reference" in done.stdout
    assert "not here" in done.stderr


def test_python_reference_that_is_missing(scales):
    assert "does not start" in scales.fails(
        2, "check", "right.c", "--reference", "scales.py:nothing")


def test_again_names_the_reference(scales):
    done = scales.run("check", "half.c", "--reference", "scales.py", "--json")
    [finding] = findings(done.stdout)
    words = shlex.split(finding["again"])
    assert words[-2:] == ["--reference", "scales.py"]
    [again] = findings(scales.run(*words[1:], "--json").stdout)
    assert again["text"] == finding["text"]


def test_again_quotes_a_path(scales):
    scales.write("it's.py", "def scale(x, by=2.0):\n    return x * by\n")
    done = scales.run("check", "half.c", "--reference", "it's.py", "--json")
    [finding] = findings(done.stdout)
    assert shlex.split(finding["again"])[-1] == "it's.py"


RMS_NORM = """
#include <math.h>
#include <opgraft/op.h>
enum { N, D };
static og_status rms_norm_f16(const og_call *call) {
  const int64_t width = call->dim[D];
  const og_half *x = og_f16(call->in[0]);
  og_half *y = og_f16_mut(call->out[0]);
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width, y += width) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += og_half_to_float(x[i]) * og_half_to_float(x[i]);
    const float scale = 1 / sqrtf(sum / (float)width + 1e-6f);
    for (int64_t i = 0; i < width; ++i)
      y[i] = og_half_from_float(og_half_to_float(x[i]) * scale);
  }
  return OG_OK;
}
static const og_kernel rms_norm_kernels[] = {
    {.device = OG_CPU, .dtypes = "f16", .run = rms_norm_f16},
};
static const og_op ops[] = {{
    .schema = "rms_norm(Tensor x) -> Tensor",
    .shape = "x[*N, D] -> [*N, D]",
    .where = "D > 0",
    .dtype = "x: f16 -> x",
    .kernels = OG_KERNELS(rms_norm_kernels),
}};
OG_MODULE(norms, ops)
"""


def test_python_reference_gets_narrow_floats_as_float32(scales):
    scales.write("rms.c", RMS_NORM)
    scales.write("rms.py", "def rms_norm(x):\n"
                 "    mean = (x * x).mean(-1, keepdim=True)\n"
                 "    return x / (mean + 1e-6).sqrt()\n")
    assert "right by its reference" in scales.ok(
        "check", "rms.c", "--reference", "rms.py")


def test_python_reference_that_saturates(scales):
    """Beyond what f16 holds, a kernel may clamp."""
    clamped = RMS_NORM.replace("og_half_from_float(", "og_half_from_float(CLAMP(") \
        .replace("* scale);", "* 4096));").replace(
            "enum {", "#define CLAMP(v) ((v) < -65504 ? -65504 : (v) > 65504 ? 65504 : (v))\n"
            "enum {")
    scales.write("clamp.c", clamped)
    scales.write("clamp.py", "def rms_norm(x):\n    return x * 4096\n")
    assert "right by its reference" in scales.ok(
        "check", "clamp.c", "--reference", "clamp.py")


def test_python_reference_is_of_one_operator(scales):
    two = SCALE.replace("FACTOR", "1").replace(
        "}};", "}, {.schema = \"twice_grad(Tensor x, float by=2.0) -> Tensor\", "
        ".shape = \"x[*N] -> [*N]\", "
        ".kernels = OG_KERNELS(scale_kernels)}};")
    scales.write("two.c", two)
    words = ["check", "two.c", "--reference", "scales.py:doubled"]
    assert "scale, twice_grad" in scales.fails(2, *words)
    assert "right by its reference" in scales.ok(*words, "--op", "twice_grad")


def test_python_reference_needs_no_backward_operator(program):
    program.write("zero.c", ZERO.replace("zero_backward", "undo"))
    program.write("zero.py", "def nothing(x):\n    return x * 0\n")
    assert "right by its reference" in program.run(
        "check", "zero.c", "--reference", "zero.py:nothing").stdout


# A file that prints, a function that leaves the process, one that gives what
# no bytes can be taken of, and one that answers late.
@pytest.mark.parametrize(("text", "said"), [
    ("print('x' * 100000)\n"
     "def scale(x, by=2.0):\n    print('y' * 9000)\n    return x * by\n",
     "right by its reference"),
    ("import sys\ndef scale(x, by=2.0):\n    sys.exit(3)\n",
     "SystemExit: 3"),
    ("import torch\ndef scale(x, by=2.0):\n"
     "    return torch.empty(x.shape, device='meta')\n", "failed on a call"),
    ("import torch\ndef scale(x, by=2.0):\n"
     "    return torch._neg_view(-(x * by))\n", "right by its reference"),
    ("import os\ndef scale(x, by=2.0):\n    os.abort()\n",
     "ended by signal 6"),
])
def test_python_reference_that_misbehaves(scales, text, said):
    scales.write("odd.py", text)
    done = scales.run("check", "right.c", "--reference", "odd.py")
    assert done.returncode == 0, done.stdout
    assert said in done.stdout + done.stderr
    assert "scale: right" in done.stdout


def test_python_reference_that_never_answers(scales):
    scales.write("late.py", "import time\n\n\ndef scale(x, by=2.0):\n"
                 "    time.sleep(60)\n")
    done = scales.run("check", "right.c", "--reference", "late.py", "--call",
                      "3", "--probe", "base")
    assert done.returncode == 0, done.stdout
    done = scales.run("check", "right.c", "--reference", "late.py", "--call",
                      "3", "--probe", "reference")
    assert "scale: right, no reference" in done.stdout
    assert "longer than 10 s" in done.stderr


def test_python_reference_file_that_is_missing(scales):
    said = scales.fails(2, "check", "right.c", "--reference", "none.py")
    assert "there is no such file" in said
    assert "Traceback" not in said

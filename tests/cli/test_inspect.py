# SPDX-License-Identifier: Apache-2.0
"""inspect: declarations, inferred shapes, kernels, and arguments in text."""

from __future__ import annotations

import json

import pytest

SOURCE = r"""
#include <opgraft/op.h>

static og_status none(const og_call *call) {
  return og_fail(call, OG_UNSUPPORTED, "not run here");
}
static int32_t is_even(const og_call *call) { return call->dim[1] % 2 == 0; }

static const og_kernel linear_kernels[] = {
    {.device = OG_CUDA, .run = none},
    {.device = OG_CPU, .dtypes = "f32", .isa = "avx2", .run = none},
    {.device = OG_CPU, .dtypes = "f32", .supports = is_even, .run = none},
    {.device = OG_CPU, .dtypes = "f32|bf16", .run = none},
};
static const og_kernel any_kernels[] = {{.device = OG_CPU, .run = none}};

static const og_op ops[] = {
    {
        .schema = "linear(Tensor x, Tensor weight, Tensor? bias=None)"
                  " -> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .where = "I > 0",
        .dtype = "x: f32|bf16, weight: x, bias: x -> x",
        .backward = "none",
        .workspace = "threads * I * 4",
        .doc = "x times weight, transposed.",
        .kernels = OG_KERNELS(linear_kernels),
    },
    {
        .schema = "join(Tensor[] xs, int dim=0) -> Tensor",
        .shape = "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]",
        .dtype = "xs: f32|i64 -> xs",
        .kernels = OG_KERNELS(any_kernels),
    },
    {
        .schema = "pick(Tensor x, int[2] size, float scale=0.5, bool half=False,"
                  " str mode=\"sum\", Scalar? alpha=None, ScalarType? dtype=None,"
                  " Device? device=None, float[] list=[1.0, 2.5])"
                  " -> (Tensor values, Tensor index)",
        .shape = "x[M, *R] -> [*size], [K <= M]",
        .dtype = "x: f32 -> dtype or x, i64",
        .kernels = OG_KERNELS(any_kernels),
    },
    {
        .schema = "split(Tensor x, int parts) -> Tensor[]",
        .shape = "x[N] -> {i < parts: [N // parts]}",
        .where = "parts > 0",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(any_kernels),
    },
};
OG_MODULE(shapes, ops)
"""


@pytest.fixture(scope="module")
def module(program_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    maker = program_in(folder)
    maker.ok("build", maker.write("shapes.c", SOURCE))
    return folder / "shapes.so"


def call(program, module, *words):
    return json.loads(program.ok("inspect", module, "--json", *words))["call"]


def test_declarations_are_printed(program, module):
    text = program.ok("inspect", module)
    assert "module shapes, 4 operators" in text
    assert "linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor" in text
    assert "  where      I > 0" in text
    assert "  doc        x times weight, transposed." in text
    assert "  backward   none declared: asking for a gradient is an error" in text
    assert "  kernel 1   cpu, f32, avx2" in text
    assert "cpu, f32, any machine, if it supports the call" in text
    assert "cuda, all types" in text
    only = program.ok("inspect", module, "--op", "join")
    assert "join(" in only
    assert "linear(" not in only


def test_json_holds_every_declaration(program, module):
    found = json.loads(program.ok("inspect", module, "--json"))
    assert found["module"] == "shapes"
    assert len(found["hash"]) == 64
    assert [op["name"] for op in found["ops"]] == ["linear", "join", "pick", "split"]
    assert found["call"] is None


def test_shapes_are_inferred(program, module):
    found = call(program, module, "x=2,5,3", "weight=4,3", "bias=4")
    assert found["dims"] == {"N": 10, "I": 3, "O": 4}
    assert found["results"] == [{"dtype": "f32", "shape": [2, 5, 4], "strides": [20, 4, 1]}]
    assert found["workspace_bytes"] == 12
    more = call(program, module, "x=2,5,3", "weight=4,3", "--threads", "8")
    assert more["workspace_bytes"] == 96
    text = program.ok("inspect", module, "x=2,5,3", "weight=4,3")
    assert "linear(x=f32[2, 5, 3], weight=f32[4, 3], bias=None)" in text
    assert "dims       N = 10 (product of a pack), I = 3, O = 4" in text
    assert "result     f32[2, 5, 4]" in text


@pytest.mark.parametrize(
    ("isa", "width", "type_name", "chosen"),
    [("scalar", 4, "f32", 2), ("scalar", 3, "f32", 3), ("scalar", 4, "bf16", 3)],
)
def test_why_a_kernel_is_chosen(program, module, isa, width, type_name, chosen):
    words = [f"x:{type_name}[2,{width}]", f"weight=4,{width}"]
    env = {"OPGRAFT_ISA": isa}
    found = json.loads(program.ok("inspect", module, "--json", *words, env=env))["call"]
    assert found["kernel"] == chosen
    assert found["kernels"][0].startswith("the call is on cpu, it is for ")
    assert "it needs avx2, the best set here is scalar" == found["kernels"][1]
    text = program.ok("inspect", module, *words, "--why", env=env)
    assert f"kernel {chosen}" in text
    assert text.count("runs the call") == 1
    if type_name == "bf16":
        assert "the call has x: bf16, it takes f32" in text
    elif width == 3:
        assert "its `supports` refuses these arguments" in text
    else:
        assert "could run it, but an earlier one does" in text


def test_lists_and_results(program, module):
    found = call(program, module, "--op", "join", "xs=2,3;2,5", "dim=-1")
    assert found["results"][0]["shape"] == [2, 8]
    found = call(program, module, "--op", "join", "xs:i64[2,3]")
    assert found["results"][0]["dtype"] == "i64"
    found = call(program, module, "--op", "split", "x=12", "parts=3")
    assert [r["shape"] for r in found["results"][0]] == [[4], [4], [4]]
    text = program.ok("inspect", module, "--op", "split", "x=12", "parts=2")
    assert "result     {f32[6], f32[6]}" in text


def test_attributes_of_every_type(program, module):
    words = ["--op", "pick", "x=[7, 2]", "size=3", "scale=1e-3", "half=true", "mode=a b",
             "alpha=1+2j", "dtype=float16", "device=cuda:1", "list=[3,4]"]
    text = program.ok("inspect", module, *words)
    assert ('pick(x=f32[7, 2], size=[3, 3], scale=0.001, half=True, mode="a b", alpha=1+2j, '
            "dtype=f16, device=device 2:1, list=[3, 4])") in text
    assert "result     values: f16[3, 3]" in text
    assert "result     index: i64[7]" in text
    assert "K = 7 (at most)" in text
    text = program.ok("inspect", module, "--op", "pick", "x=7", "size=1,2")
    assert 'half=False, mode="sum", alpha=None, dtype=None, device=None, list=[1, 2.5]' in text
    for value, shown in [("2", "2"), ("2.5", "2.5"), ("True", "True"), ("none", "None")]:
        text = program.ok("inspect", module, "--op", "pick", "x=7", "size=1,2", f"alpha={value}")
        assert f"alpha={shown}," in text


def test_shape_option_is_the_same(program, module):
    plain = program.ok("inspect", module, "x=2,3", "weight=4,3")
    assert program.ok("inspect", module, "--shape", "x=2,3", "--shape=weight=4,3") == plain
    assert program.ok("inspect", module, "x=9", "x=2,3", "weight=4,3") == plain  # the last counts


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["x=2,3"], "Tensor weight is not given; add weight=SIZES"),
        (["x=2,a", "weight=4,3"], "x: size 1 is 'a', expected a whole number from 0"),
        (["x=2,-3", "weight=4,3"], "x: size 1 is '-3'"),
        (["x=99999999999999999999", "weight=4,3"], "x: size 0 is"),
        (["x=9000000000000000000,9000000000000000000", "weight=4,3"], "more elements than"),
        (["x=" + ",".join("1" * 70), "weight=4,3"], "has 70 dims, expected at most 64"),
        (["x:f33[2,3]", "weight=4,3"], "x: the type is 'f33'"),
        (["x=2,3", "wieght=4,3"], "has no argument 'wieght'; did you mean weight?"),
        (["x", "weight=4,3"], "'x' is not an argument, expected NAME=VALUE"),
        (["=2", "weight=4,3"], "'=2' is not an argument"),
        (["x=2,3", "weight=4,5"], "linear: "),
        (["x=2,0", "weight=4,0"], "I > 0"),
        (["--op", "liner", "x=2"], "--op is 'liner', which shapes does not declare; did you mean linear"),
        (["--op", "split", "x=12", "parts=x"], "parts: is 'x', expected int"),
        (["--op", "pick", "x=1", "size=1,b"], "size: is '1,b', expected int[]"),
        (["--op", "pick", "x=1", "size=1,1", "dtype=f99"], "dtype: is 'f99', expected ScalarType"),
        (["--op", "pick", "x=1", "size=1,1", "half=maybe"], "half: is 'maybe', expected bool"),
        (["--why"], "--why needs the call's arguments"),
    ],
)
def test_wrong_arguments_are_explained(program, module, words, text):
    assert text in program.fails(2, "inspect", module, *words)


def test_no_kernel_says_why_each(program, module):
    done = program.run("inspect", module, "x:f64[2,3]", "weight=4,3")
    assert done.returncode == 2
    assert "f64" in done.stderr


def test_the_enum_of_dims(program, module):
    text = program.ok("inspect", module, "--enum")
    assert text.splitlines()[:2] == [
        "enum { N, I, O };  // linear", "enum { A, D, B };  // join"]
    assert program.ok("inspect", module, "--enum", "--op", "linear") == (
        "enum { N, I, O };  // linear\n")
    assert "--enum is of a module, found x=2 as well" in program.fails(
        2, "inspect", module, "--enum", "x=2")

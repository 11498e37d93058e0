# SPDX-License-Identifier: Apache-2.0
"""gen: both forms of a specification, what is written, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import resource
import subprocess
import sys
from random import Random

import pytest

STRICT = ["--", "-Wconversion", "-Wshadow", "-Werror", "-Wno-unused-const-variable"]

OWN = r"""
module: mixed
ops:
  - schema: "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor"
    shape: "x[*N, D], weight[D] -> [*N, D]"
    where: "D > 0"
    dtype: "x: f32|bf16, weight: x -> x"
    backward: "rms_norm_backward(grad, x, weight, eps) -> x, weight"
    doc: >
      x / sqrt(mean(x^2) + eps) * weight,
      "over" the last axis.
    flags: [deterministic, batch_loop]
    kernels: [f32, {dtypes: bf16, isa: avx2}, {dtypes: "f32|bf16", device: cuda}]
  - schema: "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, float eps) -> (Tensor grad_x, Tensor grad_weight)"
    shape: "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]"
    dtype: "grad: f32|bf16, x: grad, weight: grad -> grad, grad"
    workspace: "threads * D * 4"
  - schema: "cat.list(Tensor[] xs, int dim=0, *, int[]? default=None, str mode=\"sum\") -> Tensor"
    shape: "xs[][*A, D~@dim, *B] -> [*A, sum(D~), *B]"
  - schema: "put_(Tensor(a!) cache, Tensor index, Tensor? bias=None, ScalarType? dtype=None, Scalar a=1, bool call=True) -> Tensor(a!)"
    shape: "cache[M, *R], index[K]"
    dtype: "cache: any, index: i64, bias: f32|f64"
    expect: "unused: call; unmutated: cache"
  - schema: "pair(Tensor x, Tensor y) -> (Tensor int, Tensor y2)"
    shape: "x[N], y[N] -> [N], [N]"
    dtype: "x: c64, y: u16 -> c128, u32"
  - schema: "parts(Tensor x, int count) -> Tensor[]"
    shape: "x[N] -> {i < count: [N // count]}"
"""

PLUGIN = """
- op_name: add_rms_norm
  op_type: AddRmsNorm
  input_desc:
    - name: x1
      param_type: required
      dtype: [float16, float, bfloat16]
      format: [ND, ND, ND]
    - name: x2
      dtype: [float16, float, bfloat16]
    - name: gamma
      param_type: optional
      dtype: [float16, float, float]
    - name: index
      dtype: [int32]
      format: ND
  output_desc:
    - name: y
      dtype: [float16, float, bfloat16]
    - name: rstd
      dtype: [float, float, float]
    - name: x1
      dtype: [float16, float, bfloat16]
  attr_desc:
    - name: epsilon
      param_type: optional
      dtype: float
      default_value: 1e-6
    - {name: axes, dtype: list_int, default_value: "0,1"}
    - {name: mode, dtype: string}
    - {name: flag, dtype: bool, default_value: true}
    - {name: scales, dtype: listFloat, default_value: [0.5, 1.5]}
    - {name: kind, dtype: str, default_value: sum}
    - {name: out_type, dtype: dtype, param_type: optional}
- op_type: ConcatDV2
  input_desc:
    - {name: x, param_type: dynamic, dtype: float, format: NCHW}
  output_desc:
    - {name: y, dtype: float}
- op_name: Scale
  shape: "x[*N, D], scale?[D] -> [*N, D]"
  doc: scaled
  input_desc:
    - {name: x, dtype: [float, float16]}
    - {name: scale, param_type: optional, dtype: [float, float16]}
  output_desc: [{name: y, dtype: [float, float16]}]
"""


def declarations(program, source):
    done = program.run("build", source, *STRICT)
    assert done.returncode == 0, done.stderr
    found = json.loads(program.ok("inspect", source.with_suffix(".so"), "--json"))
    return {op["name"]: op for op in found["ops"]}, found


def generate(program, text):
    program.write("spec.yaml", text)
    program.ok("gen", "spec.yaml", "-o", "spec.c")
    return program.folder / "spec.c"


def test_own_form(program):
    source = generate(program, OWN)
    ops, found = declarations(program, source)
    assert found["module"] == "mixed"
    norm = ops["rms_norm"]
    assert norm["doc"] == 'x / sqrt(mean(x^2) + eps) * weight, "over" the last axis.'
    assert norm["flags"] == ["deterministic", "batch_loop"]
    assert [(k["device"], k["dtypes"], k["isa"]) for k in norm["kernels"]] == [
        ("cpu", "f32", None), ("cpu", "bf16", "avx2"), ("cuda", "f32|bf16", None)]
    assert norm["grad"]["op"] == "rms_norm_backward"
    # Kernels that the specification leaves open follow from the types.
    assert sorted(k["dtypes"] for k in ops["rms_norm_backward"]["kernels"]) == ["bf16", "f32"]
    assert [k["dtypes"] for k in ops["cat.list"]["kernels"]] == ["f32"]
    assert [k["dtypes"] for k in ops["put_"]["kernels"]] == [None]
    text = source.read_text()
    assert "const float *x = og_f32(call->in[0]);" in text
    assert "og_bfloat *out = og_bf16_mut(call->out[0]);" in text
    assert "const double eps = call->attr[0].f;" in text
    assert "enum { RMS_NORM_N, RMS_NORM_D };" in text
    assert "const og_tensor_list *xs = &call->in_list[0];" in text
    assert "void *cache = og_data(call->out[0]);" in text
    assert "const int64_t call_ = call->attr[2].i;" in text
    assert "(const uint16_t *)og_data(call->in[1]);" in text
    assert "call->workspace;" in text


def test_operator_plugin_form(program):
    ops, found = declarations(program, generate(program, PLUGIN))
    assert found["module"] == "spec"
    add = ops["add_rms_norm"]
    assert add["schema"] == (
        "add_rms_norm(Tensor(a!) x1, Tensor x2, Tensor? gamma, Tensor index, str mode, "
        'float epsilon=1e-6, int[] axes=[0, 1], bool flag=True, float[] scales=[0.5, 1.5], '
        'str kind="sum", ScalarType? out_type=None) -> (Tensor y, Tensor rstd)')
    assert [t["allowed"] for t in add["types"]][3] == ["i32"]
    assert add["types"][1]["same_as"] == 0
    assert [k["dtypes"] for k in add["kernels"]] == ["f16, f16", "f32, f32", "bf16, f32", None]
    assert ops["concat_dv2"]["params"][0]["list"] is True
    assert [d["name"] for d in ops["concat_dv2"]["dims"]] == ["N", "C", "H", "W"]
    scale = ops["scale"]
    assert scale["params"][1] ["optional"] is True
    assert scale["params"][1] ["has_default"] is True
    assert scale["doc"] == "scaled"
    text = (program.folder / "spec.c").read_text()
    assert text.count("The specification has no shapes: fix this rule.") == 2


def test_one_operator_and_a_list_without_module(program):
    single = 'schema: "f(Tensor x) -> Tensor"\nshape: "x[N] -> [N]"\n'
    ops, found = declarations(program, generate(program, single))
    assert (found["module"], list(ops)) == ("spec", ["f"])
    program.write("2-in one.yaml", "- " + single.replace("\n", "\n  "))
    assert "OG_MODULE(ops_2_in_one, ops)" in program.ok("gen", "2-in one.yaml")


def test_an_unwritten_kernel_says_so(program):
    generate(program, 'schema: "f(Tensor x) -> Tensor"\nshape: "x[N] -> [N]"\n')
    done = program.run("bench", "spec.c", "--time", "15")
    assert done.returncode == 1
    assert "f: this kernel is not written yet" in done.stdout


def test_gen_overwrites_nothing(program):
    source = generate(program, 'schema: "f(Tensor x) -> Tensor"\nshape: "x[N] -> [N]"\n')
    source.write_text("mine")
    assert "is there already, perhaps with your kernels" in program.fails(
        2, "gen", "spec.yaml", "-o", "spec.c")
    assert source.read_text() == "mine"
    program.ok("gen", "spec.yaml", "-o", "spec.c", "--force")
    assert source.read_text() != "mine"


F = 'schema: "f(Tensor x) -> Tensor"'
# Nine of the line before on each line.
LAUGHS = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n"
    for a, b in zip("abcdefgh", "bcdefghi"))
WRONG = [
    ("", ":1: is empty"),
    ("just text", ":1: no operators"),
    ("a: [1, 2\nb: 3", ":2: is not YAML"),
    ("{", "is not YAML"),
    ("schema: x\nschema: y", ":2: 'schema' stands twice"),
    ("? [a]\n: b", ":1: a key is a list or a map"),
    ("&a [*a]", "levels deep, or an anchor that holds itself"),
    ("[" * 100 + "]" * 100, "levels deep"),
    ("".join(f"k{i}: 1\n" for i in range(1001)), ":1001: more than 1000 keys"),
    (LAUGHS, "more than 100000 values, aliases counted with what they name"),
    ("ops: []", ":1: no operators"),
    ("ops: 3", ":1: no operators"),
    ("module: 3x\nops: [{" + F + "}]", ":1: the module is '3x'"),
    ("modul: a\nops: [{" + F + "}]", ":1: 'modul' means nothing here; did you mean 'module'?"),
    (F + "\nshap: y", ":2: 'shap' means nothing here; did you mean 'shape'?"),
    ("shape: x", ":1: an operator without a schema"),
    (F + "\nshape: [1]", ":2: shape is a list, expected text"),
    (F + "\nshape: 'x[*N -> [*N]'", ":2: f: shape:"),
    ("\n\n" + 'schema: "f(Tensr x) -> Tensor"', ":3: "),
    (F + "\nshape: 'x[N] -> [N]'\ndtype: 'x: f33 -> x'", ":3: f: dtype:"),
    (F + "\nshape: 'x[N] -> [N]'\nwhere: 'Q > 0'", ":3: f: where:"),
    (F + "\nshape: 'x[N] -> [N]'\nbackward: 'g(grad) -> x'", ":3: f: backward:"),
    (F + "\nshape: 'x[N] -> [N]'\nflags: fast", ":3: flags is not a list"),
    (F + "\nshape: 'x[N] -> [N]'\nflags: [fast]", ":3: the flag 'fast' is unknown"),
    (F + "\nshape: 'x[N] -> [N]'\nkernels:\n- f32\n- f33", ":5: f: kernels[1]"),
    (F + "\nkernels: 3", ":2: kernels is not a list"),
    (F + "\nkernels: [[f32]]", ":2: a kernel is a list"),
    (F + "\nkernels: [{dtype: f32}]", ":2: 'dtype' means nothing here; did you mean 'dtypes'?"),
    (F + "\nkernels: [{device: tpu}]", ":2: the device is 'tpu'"),
    ("op_name: f\ninput_desc: 3", ":2: input_desc is not a list"),
    ("op_name: f\ninput_desc: [x]", ":2: a tensor is not a map"),
    ("op_name: f\ninput_desc:\n- {dtype: float}", ":3: the name is ''"),
    ("op_name: f\ninput_desc:\n- {name: a b, dtype: float}", ":3: the name is 'a b'"),
    ("op_name: f\ninput_desc:\n- {name: x}", ":3: x: has no dtype"),
    ("op_name: f\ninput_desc:\n- {name: x, dtype: [flat]}", ":3: x: the dtype is 'flat'"),
    ("op_name: f\ninput_desc:\n- {name: x, dtype: float, param_type: maybe}", ":3: param_type is 'maybe'"),
    ("op_name: f\ninput_desc:\n- {name: x, dtype: [float, int8]}\n- {name: y, dtype: [int8, int8, int8]}",
     ":3: x: has 2 dtypes, where others have 3"),
    ("op_name: f\ninput_desc:\n- {name: x, dtype: float}\noutput_desc:\n- {name: y, dtype: [float, int8]}",
     ":5: y: its dtypes are those of no input"),
    ("op_name: f\noutput_desc:\n- {name: y, dtype: float}", ":1: no input is always there"),
    ("op_name: f\nattr_desc: x", ":2: attr_desc is not a list"),
    ("op_name: f\nattr_desc:\n- {name: a, dtype: list_list_int}", ":3: a: the dtype is 'list_list_int'"),
    ("op_name: f\nattr_desc:\n- {name: a, dtype: int, default_value: 1.5}", ":3: a: the default is '1.5'"),
    ("op_name: f\nattr_desc:\n- {name: a, dtype: bool, default_value: 2}", ":3: a: the default is '2'"),
    ("op_name: f\nattr_desc:\n- {name: a, dtype: list_int, default_value: '1,x'}", ":3: a: the default is '1,x'"),
    ("op_name: 9\n", ":1: op_name is '9'"),
    ("op_name: f\ninput: []", ":2: 'input' means nothing here; did you mean 'input_desc'?"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_specifications_name_file_and_line(program, text, message):
    program.write("spec.yaml", text)
    error = program.fails(2, "gen", "spec.yaml")
    assert "opgraft: spec.yaml:" in error
    assert message in error


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_files_that_cannot_be_read(program, name):
    assert name in program.fails(2, "gen", name)


def test_bytes_that_are_no_text(program):
    (program.folder / "spec.yaml").write_bytes(bytes(range(256)) * 10)
    program.fails(2, "gen", "spec.yaml")


MARKS = [b"[", b"]", b"{", b"}", b": ", b"- ", b"\n", b"*a", b"&a ", b'"', b"|",
         b"Tensor", b"f32", b"99999999999999999999", b"\xff", b"\x00", b"->", b"(", b"="]


def test_time_is_by_the_byte(program, rounds):
    """A few words again and again: what each would take the square of is refused
    or bounded. Keys, anchors and directives have another number each time."""
    words = [*MARKS, b"? ", b"&a%d ", b"k%d: ", b"%%TAG !t%d! x\n", b"{a: ", b"- - ", b"'", b"#"]

    def check(seed):
        draw = Random(seed)
        unit = b"".join(draw.choice(words) for _ in range(draw.randrange(1, 5)))
        numbered = unit.replace(b"%d", b"\x01").replace(b"%%", b"%")
        text = b"".join(numbered.replace(b"\x01", b"%d" % i) for i in range(300000 // len(unit)))
        (program.folder / "spec.yaml").write_bytes(draw.choice([b"", b"a: ", OWN.encode()]) + text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        program.run("gen", "spec.yaml", "-o", "out.c")
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        assert used < 0.5 + 10e-6 * len(text)
        return 1

    rounds(check, 24, least=24)


def test_damaged_specifications_are_read_or_refused(program, rounds):
    """Whatever is in the file, gen ends with a C file that compiles or a message."""
    def check(seed):
        random = Random(seed)
        text = bytearray(random.choice([OWN, PLUGIN]).encode())
        for _ in range(random.randint(1, 5)):
            at = random.randrange(len(text))
            if random.random() < 0.5:
                text[at:at] = random.choice(MARKS)
            else:
                del text[at : at + random.randint(1, 12)]
        (program.folder / "spec.yaml").write_bytes(text)
        done = program.run("gen", "spec.yaml")
        assert done.returncode in (0, 2), done.stderr
        if done.returncode == 2:
            assert "opgraft: " in done.stderr
        else:
            program.write("spec.c", done.stdout)
            program.ok("build", "spec.c", "--no-load", "--", "-Werror")
        return 1

    rounds(check, 96, least=96)


# --- The road without libyaml -------------------------------------------------

GEN = pathlib.Path(__file__).resolve().parents[2] / "python/opgraft/_adopt/gen.py"


def python_tree(path):
    done = subprocess.run([sys.executable, GEN, path], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="PyYAML is not installed")
def test_python_reads_the_same_tree(program):
    path = program.write("spec.yaml", "a: 1\nb:\n- 'x'\n- [y, {c: \"é\"}]\n")
    status, output, _ = python_tree(path)
    assert status == 0
    assert json.loads(output) == [
        "map", 1, [
            ["a", ["text", 1, "1", False]],
            ["b", ["list", 3, [
                ["text", 3, "x", True],
                ["list", 4, [["text", 4, "y", False],
                             ["map", 4, [["c", ["text", 4, "é", True]]]]]]]]]]]


@pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="PyYAML is not installed")
@pytest.mark.parametrize(("text", "message"), [w for w in WRONG if "YAML" in w[1] or "empty" in w[1]
                                               or "twice" in w[1] or "deep" in w[1] or "a key" in w[1]
                                               or "values" in w[1] or "keys" in w[1]])
def test_python_refuses_with_file_and_line(program, text, message):
    status, output, error = python_tree(program.write("spec.yaml", text))
    assert status == 2
    assert output == ""
    assert message in error
    assert "Traceback" not in error


def test_python_refuses_more_levels_than_its_stack_has(program):
    pytest.importorskip("yaml")
    _, _, error = python_tree(program.write("spec.yaml", "[" * 20000))
    assert "spec.yaml:1: more than 64 levels deep" in error


def test_without_pyyaml_it_says_what_to_install(program):
    path = program.write("spec.yaml", "a: 1\n")
    program.write("yaml.py", "raise ImportError\n")
    done = subprocess.run([sys.executable, GEN, path], capture_output=True, text=True,
                          env={"PYTHONPATH": str(program.folder), "PATH": ""})
    assert done.returncode == 2
    assert "needs PyYAML" in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""opgraft run, and opgraft inspect of graphs."""

from __future__ import annotations

import json

import numpy as np
import og_file
import pytest
from conftest import Program

MLP = """\
graph mlp(%x: f32[s0, 3], %b: f32[3], size n = s0) {
  constant %c: f32[2, 2] = [1, 2.5, -inf, nan]
  %y: f32[s0, 3] = add(%x, %b) @ model.py:3
  %z: f32[s0, 3] = mul(%y, 2) @ model.py:4
  %s: f32[s0] = sum(%z; dims=[1]) @ model.py:5
  return %z, %s, size s0*2, %c, none
}
"""


@pytest.fixture
def mlp(program: Program) -> Program:
    program.write("m.og", MLP)
    np.save(program.folder / "x.npy", np.arange(6, dtype="f4").reshape(2, 3))
    np.save(program.folder / "b.npy", np.ones(3, "f4"))
    return program


def test_results_are_arrays(mlp: Program) -> None:
    mlp.ok("run", "m.og", "--in", "x.npy", "--in", "b.npy", "--in", "2", "--out", "z.npy",
           "-o", "s.npy", "-o", "n.npy", "-o", "c.npy", "--threads", "2")
    z = (np.arange(6, dtype="f4").reshape(2, 3) + 1) * 2
    load = lambda name: np.load(mlp.folder / f"{name}.npy")  # noqa: E731
    assert np.array_equal(load("z"), z) and load("z").dtype == np.float32
    assert np.array_equal(load("s"), z.sum(1))
    assert load("n").shape == () and load("n") == 4
    assert np.array_equal(load("c"), [[1, 2.5], [-np.inf, np.nan]], equal_nan=True)


def test_inputs_by_name_and_in_fortran_order(mlp: Program) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    np.save(mlp.folder / "t.npy", np.asfortranarray(x))
    out = mlp.ok("run", "m.og", "--in", "n=2", "--in", "b=b.npy", "--in", "t.npy",
                 "--out", "z.npy")
    assert np.array_equal(np.load(mlp.folder / "z.npy"), (x + 1) * 2)
    assert "output 1 (s): f32[2], least 12, mean 21, most 30" in out
    assert "output 2: i64[] = 4" in out and "1 nan" in out and "output 4: none" in out


def test_every_type_passes_through(program: Program) -> None:
    types = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": "V2", "bool": "?",
             "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1",
             "u16": "u2", "u32": "u4", "u64": "u8", "c64": "c8", "c128": "c16"}
    rng = np.random.default_rng(1)
    for name, code in types.items():
        program.write("t.og", f"graph t(%x: {name}[2, 3]) {{\n  return %x\n}}\n")
        size = np.dtype(code).itemsize
        top = 2 if name == "bool" else 120
        x = rng.integers(0, top, 6 * size, dtype="u1").view(code).reshape(2, 3)
        np.save(program.folder / "x.npy", x)
        program.ok("run", "t.og", "--in", "x.npy", "--out", "y.npy")
        y = np.load(program.folder / "y.npy")
        assert y.dtype == x.dtype and y.tobytes() == x.tobytes(), name


def test_what_the_profile_shows(mlp: Program) -> None:
    given = ["--in", "x.npy", "--in", "b.npy", "--in", "2"]
    given += ["--mode", "reduce-overhead"]  # fused, it is one node
    out = mlp.ok("run", "m.og", *given, "--repeat", "50", "--profile", "--top", "2")
    assert "50 calls: least" in out and "model.py:" in out and "1 more" in out
    found = json.loads(mlp.ok("run", "m.og", *given, "--repeat", "9", "--profile", "--json"))
    assert found["calls"] == 9 and found["min_ns"] <= found["median_ns"]
    assert {s["name"] for s in found["steps"]} == {"add", "mul", "sum"}
    assert {s["line"] for s in found["steps"]} == {3, 4, 5}
    assert found["steps"] == sorted(found["steps"], key=lambda s: -s["time_ns"])
    assert found["stats"]["nodes"] == 3


def test_wrong_use_is_said(mlp: Program) -> None:
    err = mlp.fails(2, "run", "m.og", "--in", "x.npy")
    assert "no value is given for %b: f32[3], size n = s0" in err
    err = mlp.fails(2, "run", "m.og", "--in", "x.npy", "--in", "b.npy", "--in", "3")
    assert "its value is 3 here, expected 2" in err
    err = mlp.fails(2, "run", "m.og", "--in", "b.npy")
    assert "b.npy holds f32 with 1 dim, expected %x: f32[s0, 3] for input 0" in err
    err = mlp.fails(2, "run", "m.og", "--in", "x.npy", "--in", "x=x.npy")
    assert "given twice" in err
    np.save(mlp.folder / "wide.npy", np.ones((2, 4), "f4"))
    err = mlp.fails(2, "run", "m.og", "--in", "wide.npy", "--in", "b.npy", "--in", "2")
    assert "input 0 (x): its size in dim 1 is 4 here, expected 3" in err
    given = ["--in", "x.npy", "--in", "b.npy", "--in", "2"]
    assert "one too many" in mlp.fails(2, "run", "m.og", *given, "--in", "x.npy")
    out = [word for i in range(6) for word in ("--out", f"{i}.npy")]
    assert "output 4 has no tensor" in mlp.fails(2, "run", "m.og", *given, *out)
    assert "No such file" in mlp.fails(2, "run", "none.og")
    assert "there is no pass" in mlp.fails(
        2, "run", "m.og", "--disable", "nonsense")
    mlp.write("broken.og", "graph g(%x: f32[2]) {\n  return %y\n}\n")
    assert "broken.og: graph text, line 2" in mlp.fails(2, "run", "broken.og")


def test_operators_that_need_a_host_are_named(program: Program) -> None:
    program.write("h.og", """\
graph h(%x: f32[4]) {
  %a: f32[4] = foreign "aten.foo.default"(%x) {why "there is no row for it"} @ model.py:7
  %b: f32[4] = foreign "norms.bar.default"(%a) @ model.py:8
  return %b
}
""")
    err = program.fails(2, "run", "h.og")
    assert "2 operators of this graph need a host" in err
    assert "aten.foo.default (model.py:7): there is no row for it" in err
    assert "norms.bar.default (model.py:8)" in err


def test_a_module_is_linked(program: Program) -> None:
    program.ok("new", "gate")
    program.write("g.og", """\
graph g(%x: f32[2, 4]) {
  %a: f32[2, 4] = foreign "gate.gate.default"(%x, beta=2.0) @ model.py:7
  return %a
}
""")
    x = np.linspace(-1, 1, 8, dtype="f4").reshape(2, 4)
    np.save(program.folder / "x.npy", x)
    given = ["run", "g.og", "--in", "x.npy", "--out", "y.npy"]
    assert "1 operator of this graph needs a host" in program.fails(2, *given)
    program.ok(*given, "--module", "gate/gate.c")
    y = np.load(program.folder / "y.npy")
    assert np.allclose(y, x / (1 + np.exp(-2 * x)), rtol=1e-6)


def test_bisect_finds_nothing_in_a_right_graph(mlp: Program) -> None:
    given = ["--in", "x.npy", "--in", "b.npy", "--in", "2"]
    assert "no pass changes a result" in mlp.ok("run", "m.og", *given, "--bisect")
    assert "--tolerance is 'x'" in mlp.fails(
        2, "run", "m.og", *given, "--bisect", "--tolerance", "x")


def test_bisect_names_a_wrong_pass(mlp: Program, wrong_pass: str) -> None:
    given = ["run", "m.og", "--in", "x.npy", "--in", "b.npy", "--in", "2"]
    bad = Program(wrong_pass, mlp.folder)
    assert bad.ok(*given) != mlp.ok(*given)
    found = bad.run(*given, "--bisect")
    assert found.returncode == 1
    assert found.stdout == "wrong: changes output 0 by 4\n"
    assert bad.ok(*given, "--disable", "wrong") == mlp.ok(*given)
    assert "no pass changes a result by more than 20" in bad.ok(
        *given, "--bisect", "--tolerance", "20")


def test_bisect_sees_what_is_written_to_an_input(
    program: Program, wrong_pass: str
) -> None:
    program.write("w.og", """\
graph w(%x: f32[3], %c: f32[3]) {
  %y: f32[3] = add(%x, 1)
  %m: f32[3] in %c = copy_to(%c, %y)
  %z: f32[3] = mul(%x, 2)
  return %z
}
""")
    for name in "xc":
        np.save(program.folder / f"{name}.npy", np.arange(3, dtype="f4"))
    given = ["run", "w.og", "--in", "x.npy", "--in", "c.npy", "--bisect"]
    assert "no pass changes" in program.ok(*given)
    found = Program(wrong_pass, program.folder).run(*given)
    assert found.returncode == 1
    assert found.stdout == "wrong: changes what is written to input 1 by 2\n"


def test_lanes_change_nothing(mlp: Program) -> None:
    mlp.write("w.og", """\
graph wide(%x: f32[8, 64]) {
  %a: f32[8, 64] = softmax(%x; dim=1)
  %b: f32[8, 64] = cumsum(%x; dim=0)
  %c: f32[8, 64] = cumsum(%a; dim=1)
  %d: f32[8, 64] = softmax(%b; dim=0)
  %y: f32[8, 64] = add(%c, %d)
  return %y
}
""")
    x = np.random.default_rng(0).standard_normal((8, 64)).astype("f4")
    np.save(mlp.folder / "x.npy", x)
    results = []
    for lanes in ([], ["--lanes", "1"], ["--lanes", "2"]):
        shown = mlp.ok("run", "w.og", "--in", "x.npy", "--out", "y.npy", "--threads", "2",
                       "--repeat", "60", "--json", *lanes)
        assert json.loads(shown)["stats"]["lanes"] in (1, 2)
        results.append(np.load(mlp.folder / "y.npy"))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    assert "--lanes is '0'" in mlp.fails(2, "run", "w.og", "--lanes", "0")


def test_inspect_prints_graphs(mlp: Program) -> None:
    shown = mlp.ok("inspect", "m.og")
    assert shown.splitlines()[0] == MLP.splitlines()[0]
    assert "%z: f32[s0, 3] = mul(%y, 2) @ model.py:4" in shown
    assert mlp.ok("inspect", "m.og", "--dot").startswith('digraph "mlp" {')
    mlp.write("v.og", """\
graph v(%x: f32[4]) {
  %a: f32[4] = neg(%x)
  %b: f32[4] = neg(%x)
  %c: f32[4] = mul(%a, %b)
  return %c
}
""")
    assert mlp.ok("inspect", "v.og", "--passes").count("neg(") == 1
    assert "is for modules" in mlp.fails(2, "inspect", "m.og", "--json")
    mlp.write("m.c", "")
    assert "is for graphs" in mlp.fails(2, "inspect", "m.c", "--dot")


def test_an_input_with_strides_that_go_backwards_is_refused(program: Program) -> None:
    np.save(program.folder / "x.npy", np.arange(4, dtype="f4"))
    for strides, said in (("-1", "go backwards"), ("4611686018427387904", "reach further")):
        program.write("m.og", f"graph g(%x: f32[4]{{{strides}}}) {{\n  return %x\n}}\n")
        assert said in program.fails(2, "run", "m.og", "--in", "x.npy")


def test_plain_runs_what_the_text_says(program: Program) -> None:
    program.write("m.og", """\
graph g(%x: f32[s0, 3], size n = s0) {
  constant %c: f32[3] = [1, 2, 3]
  %y: f32[s0, 3] = add(%x, %c)
  %t: f32[3, s0]{1, 3} = view(%y)
  %z: f32[3, 3] = matmul(%t, %y)
  %r: f32[3]{-1}+(2) = view(%c)
  %w: f32[s0, 3] in %x = copy_to(%x, %y)
  %m: f32[s0, 3] = mul(%w, %r)
  return %z, %m, size s0 + 1, none, %w
}
""")
    x = np.arange(6, dtype="f4").reshape(2, 3)
    np.save(program.folder / "x.npy", x)
    y = x + np.array([1, 2, 3], "f4")
    wanted = {"z": y.T @ y, "m": y * [3, 2, 1], "n": 3}
    for how in ([], ["--plain"]):
        out = program.ok("run", "m.og", "--in", "x.npy", "--in", "2", "-o", "z.npy",
                         "-o", "m.npy", "-o", "n.npy", *how)
        for name, numbers in wanted.items():
            assert np.array_equal(np.load(program.folder / f"{name}.npy"), numbers), (how, name)
        assert "output 3: none" in out and "output 4 (w): f32[2, 3], least 1" in out
    err = program.fails(2, "run", "m.og", "--in", "x.npy", "--in", "2", "--plain", "--repeat", "2")
    assert "--plain and --repeat exclude each other" in err
    err = program.fails(2, "run", "m.og", "--in", "x.npy", "--in", "3", "--plain")
    assert "input 1: its value differs" in err


@pytest.mark.parametrize("body", [
    "%y: f32[1000000000000] = iota(; start=0.0, step=1.0)",  # memory
    "%y: f32[1000000, 10000000]{0, 0} = view(%x)",  # an output
    "%v: f32[1000000, 10000000]{0, 0} = view(%x)\n  %y: f32[] = sum(%v)",  # work
    "%v: f32[1, 10000000]{0, 0} = view(%x)\n  %w: f32[10000000, 100000]{0, 0} = view(%x)\n"
    "  %y: f32[1, 100000] = matmul(%v, %w)",
    "%v: f32[1, 1, 20000, 20000]{0, 0, 0, 0} = view(%x)\n"
    "  %k: f32[1, 1, 20000, 20000]{0, 0, 0, 0} = view(%x)\n"
    "  %y: f32[1, 1, 1, 1] = convolution(%v, %k, none)",  # what a kernel keeps
])
def test_a_graph_that_asks_for_too_much_is_refused(program: Program, body: str) -> None:
    program.write("m.og", f"graph g(%x: f32[1]) {{\n  {body}\n  return %y\n}}\n")
    np.save(program.folder / "x.npy", np.ones(1, "f4"))
    limits = ["--max-bytes", "1000000000", "--max-work", "100000000000"]
    for how in ([], ["--plain"]):
        err = program.fails(2, "run", "m.og", "--in", "x.npy", *limits, *how)
        assert "the limit" in err, err


def test_limits_are_the_callers(program: Program) -> None:
    program.write("m.og", "graph g(%x: f32[2]{1000000}) {\n  %y: f32[2] = neg(%x)\n"
                          "  return %y\n}\n")
    np.save(program.folder / "x.npy", np.ones(2, "f4"))
    run = ["run", "m.og", "--in", "x.npy"]
    program.ok(*run)
    assert "--max-bytes" in program.fails(2, *run, "--max-bytes", "1000000")
    program.ok(*run, "--max-bytes", "5000000", "--max-work", "6")
    assert "the limit is 5" in program.fails(2, *run, "--max-work", "5")


MATMUL = """\
graph product(%x: f32[s0, 3]) {
  constant %w: f32[3, 2] = [1, 2, 3, 4, 5, 6]
  %y: f32[s0, 2] = matmul(%x, %w)
  return %y
}
"""


def test_kernels_are_said_and_chosen(program: Program) -> None:
    program.write("m.og", MATMUL)
    x = np.arange(6, dtype="f4").reshape(2, 3)
    np.save(program.folder / "x.npy", x)
    run = ("run", "m.og", "--in", "x.npy", "--out", "y.npy")
    program.ok(*run, "--rules", "rules")
    said = (program.folder / "rules").read_text()
    assert said == ("# graph product, s0 = 2\n"
                    "matmul f32[2,3] f32[3,2] -> f32[2,2]: fast  # no host runs it\n")
    program.write("plain", "matmul: plain\n")
    assert ": plain  # a rule says so" in program.ok(
        *run, "--choose", "plain", "--rules", "-")
    assert np.array_equal(np.load(program.folder / "y.npy"),
                          x @ np.arange(1, 7, dtype="f4").reshape(3, 2))
    assert ": fast  # a rule" in program.ok(*run, "--choose", "rules", "--rules", "-")


CONVOLUTION = """\
graph taps(%x: f32[1, 32, 9, 8], %w: f32[32, 32, 3, 3]) {
  %y: f32[1, 32, 9, 8] = convolution(%x, %w, none; stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1)
  return %y
}
"""  # noqa: E501


def test_convolutions_take_tiles_where_max_autotune_plans(
        program: Program) -> None:
    """Without a host too; all kernels agree on sums that do not round."""
    program.write("m.og", CONVOLUTION)
    generator = np.random.default_rng(1)
    for name, shape in (("x", (1, 32, 9, 8)), ("w", (32, 32, 3, 3))):
        np.save(program.folder / f"{name}.npy",
                generator.integers(-4, 5, shape).astype("f4"))
    found = []
    for kernel, more in (("winograd", ()), ("fast", ("--mode", "reduce-overhead")),
                         ("plain", ("--choose", "plain"))):
        program.write("plain", "convolution: plain\n")
        said = program.ok("run", "m.og", "--in", "x.npy", "--in", "w.npy",
                          "--out", "y.npy", "--rules", "-", *more)
        assert f": {kernel}  #" in said
        found.append(np.load(program.folder / "y.npy"))
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[2])


def test_inspect_says_the_same_kernels_without_a_run(program: Program) -> None:
    program.write("m.og", MATMUL)
    np.save(program.folder / "x.npy", np.zeros((300, 3), "f4"))
    ran = program.ok("run", "m.og", "--in", "x.npy", "--out", "y.npy",
                     "--rules", "-")
    said = program.ok("inspect", "m.og", "--why", "s0=300")
    assert said.startswith("# graph product, s0 = 300\n") and said in ran
    for words, text in [
        (("--why",), "no value is given for the size s0; expected one, as in s0=8"),
        (("--why", "s0"), "found 's0', expected a size"),
        (("--why", "s0=-1"), "found 's0=-1', expected a size"),
        (("--why", "s0=1x"), "found 's0=1x', expected a size"),
        (("--why", "s0=1", "s1=1"), "graph product has no size s1; known: s0"),
        (("--why", "s0=1", "s0=2"), "s0 is given twice"),
        (("--why", "s0=1000000000000"), "bytes"),
        (("--why", "--dot"), "exclude each other"),
        (("s0=1",), "with --why, --asm or --html only"),
    ]:
        assert text in program.fails(2, "inspect", "m.og", *words)


def test_wrong_rules_are_refused(program: Program) -> None:
    program.write("m.og", MATMUL)
    np.save(program.folder / "x.npy", np.zeros((2, 3), "f4"))
    run = ("run", "m.og", "--in", "x.npy")
    program.write("wrong", "matmull: fast\n")
    assert 'line 1: found "matmull"' in program.fails(2, *run, "--choose", "wrong")
    (program.folder / "binary").write_bytes(b"*: plain\0")
    assert "byte 0" in program.fails(2, *run, "--choose", "binary")
    assert "could not open" in program.fails(2, *run, "--choose", "missing")
    assert "exclude" in program.fails(2, *run, "--plain", "--choose", "wrong")
    assert "m.og" in program.fails(2, *run, "--rules", "m.og")


def test_precision(program: Program) -> None:
    """Weights of bf16 and int8, their error, their packed forms."""
    random = np.random.default_rng(0)
    w = random.standard_normal((96, 200), dtype=np.float32)
    x = random.standard_normal((3, 96), dtype=np.float32)
    (program.folder / "m.og").write_bytes(og_file.write("""\
graph m(%x: f32[s0, 96]) {
  constant %w: f32[96, 200] = @0
  %y: f32[s0, 200] = matmul(%x, %w)
  return %y
}
""", [w]))
    np.save(program.folder / "x.npy", x)

    def run(file: str, *words: str) -> tuple[np.ndarray, str]:
        done = program.run("run", file, "--in", "x.npy", "--out", "y.npy",
                           *words)
        assert done.returncode == 0, done.stderr
        return np.load(program.folder / "y.npy"), done.stderr

    wanted = x @ w
    scale = np.abs(w).max(0) / np.float32(127)
    near = x.astype("f8") @ (np.rint(w / scale) * scale.astype("f8"))
    lost = np.linalg.norm(np.rint(w / scale) * scale.astype("f8") - w)
    y, said = run("m.og", "--precision", "int8")
    of_16_bits = np.abs(x).max() / 65278 * np.abs(w).sum(0).max()
    assert np.abs(y - near).max() < 1e-4 + of_16_bits
    assert np.abs(y - wanted).max() > 1e-3 + of_16_bits
    assert f"int8: 1 weight, off by {100 * lost / np.linalg.norm(w):.3f} % at most" \
        in said
    said_int8 = said
    b, said = run("m.og", "--precision", "bf16")
    assert 1e-4 < np.linalg.norm(b - wanted) / np.linalg.norm(wanted) < 0.01
    assert "int8" not in said
    for name, found in (("int8", y), ("bf16", b)):
        program.ok("pack", "m.og", "--precision", name, "s0=3", "-o", "p.og")
        again, told = run("p.og", "--precision", name)
        assert np.array_equal(again, found)
        assert told == (said_int8 if name == "int8" else "")
    text = (program.folder / "p.og").read_bytes()
    assert b"# packed bf16-pairs16 of 0: 200 x 96" in text
    assert np.allclose(run("p.og", "--precision", "f32")[0], wanted, atol=1e-4)
    for words, expected in (
            (("--precision", "f64"), "--precision is 'f64', expected f32, bf16, int8, "
             "int4, int4/64 or int4/32; of int8 and int4 also with -dynamic"),
            (("--precision", "bf16", "--mode", "reduce-overhead"),
             "--precision is 'bf16' in mode reduce-overhead, expected --mode "
             "max-autotune"),
            (("--precision", "bf16", "--plain"),
             "--plain and --precision exclude each other")):
        done = program.run("run", "m.og", "--in", "x.npy", *words)
        assert done.returncode != 0 and expected in done.stderr, done.stderr


def test_a_profile_of_results_without_names(mlp: Program) -> None:
    mlp.write("u.og", "graph g(%x: f32[2, 3]) {\n  %0: f32[2, 3] = neg(%x) @ m.py:1\n"
              "  return %0\n}\n")
    out = mlp.ok("run", "u.og", "--in", "x.npy", "--profile", "--mode", "reduce-overhead")
    assert "neg" in out and "m.py:1" in out and "%" not in out.split("source")[1]

# SPDX-License-Identifier: Apache-2.0
"""new and build."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest


def test_new_writes_an_operator_that_builds(program):
    text = program.ok("new", "soft_gate")
    assert "soft_gate/soft_gate.c" in text
    folder = program.folder / "soft_gate"
    assert sorted(p.name for p in folder.iterdir()) == [
        "CMakeLists.txt",
        "bench_soft_gate.py",
        "soft_gate.c",
        "test_soft_gate.py",
    ]
    assert "@NAME@" not in "".join(p.read_text() for p in folder.iterdir())
    done = program.run("build", "soft_gate/soft_gate.c", "--", "-Wconversion", "-Wshadow", "-Werror")
    assert done.returncode == 0, done.stderr
    assert "module soft_gate, 2 operators" in done.stderr
    compile((folder / "test_soft_gate.py").read_text(), "test", "exec")


def test_new_overwrites_nothing(program):
    program.ok("new", "gate")
    (program.folder / "gate" / "gate.c").write_text("mine")
    assert "is there already" in program.fails(2, "new", "gate")
    assert (program.folder / "gate" / "gate.c").read_text() == "mine"
    (program.folder / "other").mkdir()
    program.ok("new", "gate", "--dir", "other")
    below = pathlib.Path("gate", "gate.c", "below")
    assert "could not make the folder" in program.fails(2, "new", "gate", "--dir", below)


@pytest.mark.parametrize(
    "name",
    ["", "Gate", "1gate", "a-b", "a/b", "../x", "a b", "int", "lambda", "og_x", "_x", "x" * 49,
     "gé", "opgraft"],
)
def test_new_refuses_names(program, name):
    program.fails(2, "new", name)
    assert list(program.folder.iterdir()) == []


def test_build_writes_beside_the_source_or_where_it_is_told(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    program.ok("build", "gate.c")
    program.ok("build", "gate.c", "-o", "other.so")
    program.ok("build", "gate.c", "--output=third.so", "--debug", "-O1")
    assert {p.name for p in program.folder.iterdir()} == {"gate.c", "gate.so", "other.so", "third.so"}
    needed = subprocess.run(
        ["readelf", "-d", program.folder / "gate.so"], capture_output=True, text=True, check=True
    ).stdout
    libraries = {line.split("[")[1][:-1] for line in needed.splitlines() if "(NEEDED)" in line}
    assert libraries <= {"libc.so.6", "libm.so.6"}
    names = subprocess.run(
        ["readelf", "-S", program.folder / "third.so"], capture_output=True, text=True, check=True
    ).stdout
    assert ".debug_info" in names


def test_build_makes_a_file_like_any_other(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    mask = os.umask(0o027)
    try:
        program.ok("build", "gate.c")
    finally:
        os.umask(mask)
    assert (program.folder / "gate.so").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("words,flag", [
    (["--optimize", "fast"], "-Ofast"), (["--", "-ffast-math"], "-ffast-math"),
    (["--cc", "cc -funsafe-math-optimizations"], "-funsafe-math-optimizations")])
def test_build_warns_of_fast_math(program, gate, words, flag):
    done = program.run("build", gate / "gate.c", *words)
    assert done.returncode == 0, done.stderr
    assert f"warning: {flag} may link in a constructor that sets flush-to-zero" in done.stderr
    assert "warning" not in program.run("build", gate / "gate.c").stderr


def test_build_prints_its_command(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    done = program.run("build", "gate.c", "-v", "--cc", "gcc -pipe", "--", "-DX=1")
    assert done.returncode == 0
    command = next(line for line in done.stderr.splitlines() if line.startswith("gcc "))
    assert " -pipe " in command
    assert " -DX=1 " in command
    assert command.endswith(" -lm")


def test_several_files_make_one_module(program, gate):
    text = (gate / "gate.c").read_text()
    kernel = "og_status shared_kernel(const og_call *call);\n"
    body = "#include <opgraft/op.h>\n" + kernel + kernel[:-2] + " { return og_fail(call, OG_KERNEL, \"no\"); }\n"
    program.write("part.c", body)
    program.write("main.c", text.replace("static const og_kernel kernels[]", kernel + "static const og_kernel kernels[]")
                  .replace(".run = gate_f32", ".run = shared_kernel", 1))
    program.ok("build", "main.c", "part.c", "-o", "both.so")
    assert "module gate" in program.ok("inspect", "both.so")


def test_a_failed_build_keeps_the_old_module(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    program.ok("build", "gate.c")
    before = (program.folder / "gate.so").read_bytes()
    program.write("gate.c", "#include <opgraft/op.h>\nsyntax error\n")
    text = program.fails(1, "build", "gate.c")
    assert "gate.c:2" in text  # the compiler's own message
    assert "ended with status 1" in text
    assert (program.folder / "gate.so").read_bytes() == before
    assert {p.name for p in program.folder.iterdir()} == {"gate.c", "gate.so"}


def test_a_wrong_declaration_is_an_error_at_build(program, gate):
    text = (gate / "gate.c").read_text().replace('"x[*N] -> [*N]"', '"x[*N] -> [*M]"')
    program.write("gate.c", text)
    message = program.fails(1, "build", "gate.c")
    line = next(i for i, said in enumerate(text.splitlines(), 1) if "[*M]" in said)
    source = text.splitlines()[line - 1]
    column = source.index("M]")
    assert f"gate.c:{line}:{column + 1}: gate: shape: at 11: " in message
    assert message.endswith(f"\n{source}\n{' ' * column}^\n")
    assert not (program.folder / "gate.so").exists()


DECLARED = """#include <opgraft/op.h>
#define SHAPE "x[*N] -> [*M]"
static const og_op ops[] = {
    {.schema = "first(Tensor x) -> Tensor", .row = "y = x", .shape = "x[*M] -> [*M]"},
    {
        .schema = "second(Tensor x, "  // in two parts
                  "Tensor y) -> Tensor",
        @FIELDS@
    },
};
OG_MODULE(declared, ops)
"""


def test_a_kernel_of_a_wrong_type_is_shown(program):
    program.write("kinds.c", """\
#include <opgraft/op.h>
static og_status run(const og_call *call) { return og_fail(call, 1, ""); }
static const og_kernel others[] = {{.device = OG_CPU, .dtypes = "f64", .run = run}};
static const og_kernel own[] = {{.device = OG_CPU, .dtypes = "f32", .run = run},
                                {.device = OG_CPU, .dtypes = "float", .run = run}};
static const og_op ops[] = {
    {.schema = "a(Tensor x) -> Tensor", .shape = "x[N] -> [N]", .kernels = OG_KERNELS(others)},
    {.schema = "b(Tensor x) -> Tensor", .shape = "x[N] -> [N]", .kernels = OG_KERNELS(own)},
};
OG_MODULE(kinds, ops)
""")
    message = program.fails(1, "build", "kinds.c")
    assert ("kinds.c:5:63: b: kernels[1].dtypes: at 0: found 'float', expected "
            "a type (f16, bf16, f32,") in message
    program.write("kinds.c", (program.folder / "kinds.c").read_text()
                  .replace('"float"', '"f16"').replace(".device = OG_CPU, .dtypes = \"f64\"",
                                                       '.dtypes = "f64"'))
    assert ("a: kernels: kernel 0: .device is 0; expected OG_CPU, OG_CUDA, "
            "OG_ROCM or OG_EXT_DEV") in program.fails(1, "build", "kinds.c")


# A string in parts, a macro's, and an error of the whole operator.
@pytest.mark.parametrize(("fields", "place", "under"), [
    ('.row = "x + y", .shape = "x[*N], "' "\n  /* and */ " '"y[*N] -> [*Q]",', 9, "Q]"),
    ('.row = "x + y", .shape = SHAPE,', 8, "SHAPE"),
    (r'.row = "x + \"y\"",', 8, r'\"y'),
    ('.shape = "x[N], y[N] -> [N]",', 6, '"second'),
])
def test_a_wrong_declaration_is_shown(program, fields, place, under):
    text = DECLARED.replace("@FIELDS@", fields)
    program.write("declared.c", text)
    message = program.fails(1, "build", "declared.c").splitlines()
    source = text.splitlines()[place - 1]
    assert message[-2] == source
    assert source[message[-1].index("^"):].startswith(under)
    assert f"declared.c:{place}:{message[-1].index('^') + 1}: second: " in message[-3]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["build", "missing.c"], "missing.c: could not open"),
        (["build", "."], "is a folder, expected a C file"),
        (["build", "notes.txt"], "whose name ends in .c"),
        (["build", "gate.c", "-o", "folder"], "is a folder"),
        (["build", "gate.c", "-o", "nowhere/x.so"], "could not create a file"),
        (["build", "gate.c", "--cc", "no-such-cc"], "--cc is 'no-such-cc'"),
    ],
)
def test_build_says_what_it_wants(program, gate, words, text):
    shutil.copy(gate / "gate.c", program.folder)
    program.write("notes.txt", "")
    (program.folder / "folder").mkdir()
    assert text in program.fails(2, *words)


def test_build_without_a_compiler(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    assert "no C compiler" in program.fails(2, "build", "gate.c", env={"PATH": str(program.folder)})
    assert "CC is 'nope'" in program.fails(2, "build", "gate.c", env={"CC": "nope"})
    assert "OPGRAFT_INCLUDE is" in program.fails(
        2, "build", "gate.c", env={"OPGRAFT_INCLUDE": str(program.folder)}
    )


def test_an_interrupted_build_leaves_nothing(program, gate):
    shutil.copy(gate / "gate.c", program.folder)
    slow = program.write("slow-cc", "#!/bin/sh\nsleep 30\n")
    slow.chmod(0o755)
    child = subprocess.Popen(
        [program.path, "build", "gate.c", "--cc", str(slow)], cwd=program.folder,
        start_new_session=True,
    )
    deadline = 100
    while len(list(program.folder.iterdir())) < 3 and deadline > 0:
        deadline -= 1
        subprocess.run(["sleep", "0.05"])
    os.killpg(child.pid, 15)
    assert child.wait(20) == -15
    assert {p.name for p in program.folder.iterdir()} == {"gate.c", "slow-cc"}


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_the_cmake_file_of_new_builds(program):
    beside = pathlib.Path(sys.executable).with_name("opgraft")
    installed = str(beside) if beside.exists() else program.path
    done = subprocess.run([installed, "info", "--prefix"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("opgraft is not installed, so find_package has nothing to find")
    program.ok("new", "gate")
    folder = program.folder / "gate"
    prefix = f"-DCMAKE_PREFIX_PATH={done.stdout.strip()}"
    subprocess.run(["cmake", "-S", folder, "-B", folder / "build", prefix], check=True)
    subprocess.run(["cmake", "--build", folder / "build"], check=True)
    assert "module gate" in program.ok("inspect", next(folder.glob("build/**/gate.so")))


def test_prefix_needs_an_installation(program):
    done = program.run("info", "--prefix")
    if done.returncode == 0:
        assert (pathlib.Path(done.stdout.strip()) / "include/opgraft/op.h").exists()
    else:
        assert "install it" in done.stderr


def test_a_damaged_module_is_refused(program, gate):
    """Zeros in the place of any block: no command ends by a signal."""
    program.ok("build", gate / "gate.c", "-o", "gate.so")
    path = program.folder / "gate.so"
    whole = path.read_bytes()
    assert "gate" in program.ok("inspect", "gate.so")
    refused = 0
    for at in range(4096, len(whole), 4096):
        path.write_bytes(whole[:at] + bytes(4096) + whole[at + 4096:])
        done = program.run("inspect", "gate.so")
        assert done.returncode in (0, 2), done
        refused += "it is damaged" in done.stderr
    assert refused >= 3

# SPDX-License-Identifier: Apache-2.0
"""Command lines: help, misspellings, and input that is not what it should be."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import og_file
import pytest

COMMANDS = ["new", "gen", "build", "check", "adopt", "inspect", "run", "pack", "bench", "tune", "doctor", "report", "info",
            "completion", "help"]


def test_version_names_the_abi(program):
    assert re.fullmatch(r"opgraft \S+ \(ABI 1\)\n", program.ok("--version"))


def test_help_lists_every_command(program):
    text = program.ok("help")
    assert re.findall(r"^  (\w+) {2,}\w", text, re.M) == COMMANDS
    assert program.ok("--help") == text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(program, command):
    text = program.ok(command, "--help")
    assert text == program.ok("help", command)
    assert f"usage: opgraft {command}" in text
    assert "examples:\n" in text
    assert re.search(rf"opgraft (\S+ )?{command}", text.split("examples:")[1])


def test_no_command_prints_usage_on_stderr(program):
    done = program.run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage:" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["biuld"], "did you mean `opgraft build`?"),
        (["xyzzy"], "`opgraft help` lists them"),
        (["build", "--debgu", "x.c"], "did you mean --debug?"),
        (["build", "--frobnicate"], "`opgraft help build` lists them"),
        (["build", "-q", "x.c"], "no option -q"),
        (["build"], "expected a C file"),
        (["build", "x.c", "-o"], "--output needs FILE.so after it"),
        (["build", "x.c", "--debug=1"], "--debug takes no value"),
        (["build", "x.c", "-O", "9"], "--optimize is '9'"),
        (["new"], "expected a name"),
        (["inspect"], "expected a module, C or graph file"),
        (["bench"], "expected a module or C file"),
        (["bench", "x.so", "--threads", "none"], "--threads is 'none', expected a whole number"),
        (["bench", "x.so", "--size", "D=0"], "--size is 'D=0'"),
        (["check", "x.so", "--host", "jax"], "--host is 'jax', expected torch"),
        (["check", "x.so", "--seed", "-1"], "--seed is '-1'"),
        (["gen", "a.yaml", "b.yaml"], "found 2"),
        (["completion", "ksh"], "expected bash, zsh or fish"),
        (["info", "more"], "takes no operand"),
        (["help", "biuld"], "'biuld' is not a command"),
    ],
)
def test_wrong_usage_is_explained(program, words, text):
    assert text in program.fails(2, *words)


# docs/cli.md, "Exit status". Of adopt --check and doctor, which start PyTorch, and of
# signals: test_adopt.py, test_check_stop.py, tests/python/doctor/test_gate.py; of
# --bisect: test_run.py.
STATUSES = {
    0: ["new gate", "gen norms.yaml", "build one.c", "check right.c --calls 8",
        "inspect one.c", "run m.og --in x.npy", "bench one.c --time 15 --size 8",
        "pack m.og --out packed.og", "tune", "report run.events",
        "report run.events --max-roots 1", "doctor --compare run.events run.events",
        "info --no-python", "completion fish", "help run"],
    1: ["build cut.c", "build wrong.c", "check other.c --calls 8",
        "bench refusing.c --time 15", "report run.events --max-roots 0"],
    2: ["new 1gate", "gen missing.yaml", "build missing.c", "check missing.so",
        "check wrong.c", "adopt missing.yaml", "inspect missing.so", "inspect cut.c", "run missing.og",
        "run m.og --in y.npy", "bench missing.so", "pack one.c", "tune --import missing",
        "report missing.events", "info more",
        "completion ksh", "help nothing", "nothing", ""],
}


@pytest.mark.parametrize("status", STATUSES)
def test_exit_statuses_are_those_of_the_page(program, status):
    given = {
        "one.c": ONE, "cut.c": ONE[:-20],
        "wrong.c": ONE.replace("-> [N]", "-> [M]"),
        "right.c": ONE.replace('.backward = "none"', '.expect = "no_gradient: x"'),
        "other.c": ONE.replace(".backward", '.reference = "x + 1", .backward'),
        "refusing.c": ONE.replace(
            "return OG_OK;", 'return og_fail(call, OG_INVALID, "no");'),
        "norms.yaml": '- schema: "f(Tensor x) -> Tensor"\n  shape: "x[N] -> [N]"\n',
        "run.events": "opgraft-events 1\ncause\tstage=dynamo\tid=GB0124\t"
                      "file=m.py\tline=3\nend\tstatus=ok\n"}
    for name, text in given.items():
        program.write(name, text)
    (program.folder / "m.og").write_bytes(og_file.write(
        "graph m(%x: f32[4]) {\n  %y: f32[4] = exp(%x)\n  return %y\n}\n", []))
    np.save(program.folder / "x.npy", np.zeros(4, "f4"))
    for line in STATUSES[status]:
        done = program.run(*line.split(), env={"XDG_CACHE_HOME": str(program.folder)})
        assert done.returncode == status, (line, done.stdout, done.stderr)
    stated = {word for line in STATUSES[status] for word in line.split()[:1]}
    assert status == 1 or stated >= set(COMMANDS) - {"adopt", "doctor"}


def test_names_of_temporaries_are_never_said(program):
    """A C file is built to one first."""
    program.write("cut.c", ONE[:-20])
    program.write("wrong.c", ONE.replace("-> [N]", "-> [M]"))
    program.write("other.c", ONE.replace(".backward", '.reference = "x + 1", .backward'))
    (program.folder / "tmp").mkdir()
    for command in ("build", "inspect", "check", "bench"):
        for name in ("cut.c", "wrong.c", "other.c"):
            done = program.run(command, name, env={"TMPDIR": str(program.folder / "tmp")})
            assert "/tmp" not in done.stdout + done.stderr, (command, name)
    assert not list((program.folder / "tmp").iterdir())


@pytest.mark.parametrize("command", ["check", "inspect", "bench"])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "cut", "fifo"])
def test_what_is_no_module_is_refused(program, gate, command, kind):
    path = program.folder / "m.so"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("not a shared object\n" * 100)
    elif kind == "cut":
        path.write_bytes((gate / "gate.so").read_bytes()[:3000])
    elif kind == "fifo":
        subprocess.run(["mkfifo", path], check=True)
    assert "m.so" in program.fails(2, command, path)


def test_a_shared_object_that_is_no_module_is_refused(program):
    source = program.write("plain.c", "int plain(void) { return 0; }\n")
    assert "exports no opgraft_module" in program.fails(1, "build", source)
    assert not (program.folder / "plain.so").exists()
    program.ok("build", source, "--no-load")
    text = program.fails(2, "inspect", "plain.so")
    assert "end the C file with OG_MODULE" in text


@pytest.mark.parametrize("command", ["build", "inspect", "bench", "check", "gen", "new"])
def test_huge_arguments(program, command):
    text = program.fails(2, command, "x" * 100_000)
    assert len(text) < 400_000


def test_many_arguments(program):
    done = program.run("inspect", "x.so", *["x=1"] * 5000)
    assert done.returncode == 2


def test_no_colour_when_not_a_terminal(program, gate):
    for words in (["help"], ["inspect", gate / "gate.so"], ["nonsense"]):
        done = program.run(*words)
        assert "\033" not in done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("script") is None, reason="script is not installed")
def test_colour_on_a_terminal_unless_no_color(program, program_path):
    def on_terminal(prefix: str) -> str:
        command = f"env -u NO_COLOR TERM=xterm {prefix} {program_path} help"
        done = subprocess.run(
            ["script", "-qec", command, "/dev/null"], capture_output=True, text=True
        )
        return done.stdout

    assert "\033[1m" in on_terminal("")
    assert "\033" not in on_terminal("NO_COLOR=1")


def test_a_closed_pipe_or_full_disk_is_an_error(program):
    done = subprocess.run(
        f"{program.path} completion bash > /dev/full", shell=True, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "could not write to standard output" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_of_their_shell(program, shell):
    script = program.ok("completion", shell)
    for command in COMMANDS:
        assert command in script
    assert "output" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (["opgraft", "in"], ["info", "inspect"]),
        (["opgraft", "build", "--de"], ["--debug"]),
        (["opgraft", "build", "f"], ["f.c"]),
        (["opgraft", "inspect", "f"], ["f.c", "f.so"]),
        (["opgraft", "gen", "f"], ["f.c", "f.so", "f.yaml"]),
        (["opgraft", "adopt", "f"], ["f.yaml"]),
        (["opgraft", "help", "comp"], ["completion"]),
        (["opgraft", "completion", ""], ["bash", "fish", "zsh"]),
    ],
)
def test_bash_completes(program, line, wanted):
    for name in ("f.c", "f.so", "f.yaml", "f.txt"):
        program.write(name, "")
    words = " ".join(f"'{word}'" for word in line)
    script = program.ok("completion", "bash") + (
        f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _opgraft 2>/dev/null\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=program.folder, capture_output=True, text=True
    )
    assert sorted(set(done.stdout.split())) == wanted


def test_info_as_json(program):
    import json

    facts = json.loads(program.ok("info", "--json", "--no-python", env={"OPGRAFT_ISA": "scalar"}))
    assert facts["abi_version"] == 1
    assert facts["isa"] == "scalar"
    assert facts["opgraft_isa"] == "scalar"
    assert facts["processors"] >= 1
    assert facts["compiler"]
    assert facts["torch_host"] is None
    text = program.ok("info", "--no-python", env={"OPGRAFT_ISA": "sse9"})
    assert "OPGRAFT_ISA=sse9, which is not an instruction set: loading a module fails" in text


def test_info_without_a_compiler(program):
    text = program.ok("info", "--no-python", env={"CC": "no-such-compiler"})
    assert re.search(r"^compiler +none found", text, re.M)


@pytest.mark.parametrize("words", [
    ["--version"], ["help"], *([c, "--help"] for c in COMMANDS),
    ["completion", "bash"], ["info", "--no-python"], ["info", "--no-python", "--json"]],
    ids=" ".join)
def test_standard_output_that_cannot_be_written_is_an_error(program, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([program.path, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("opgraft: could not write to standard output\n")


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--json"], ["check"], ["bench"]],
                         ids=" ".join)
def test_report_that_cannot_be_written_is_an_error(program, words):
    program.write("one.c", ONE)
    program.ok("build", "one.c")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [program.path, *words, "one.so"], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=program.folder)
    assert done.returncode == 2
    assert "could not write" in done.stderr


def test_unknown_instruction_set_is_an_error(program):
    program.write("one.c", ONE)
    program.ok("build", "one.c")
    text = program.fails(2, "inspect", "one.so", env={"OPGRAFT_ISA": "zzz"})
    assert ("OPGRAFT_ISA is 'zzz', expected scalar, avx2, avx512, avx512_bf16 or amx_bf16; unset it" in text)
    program.ok("inspect", "one.so", env={"OPGRAFT_ISA": ""})
    assert "zzz, which is not an instruction set: loading a module fails" in program.ok(
        "info", "--no-python", env={"OPGRAFT_ISA": "zzz"})


ONE = """
#include <opgraft/op.h>
static og_status copy(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = copy}};
static const og_op ops[] = {
    {.schema = "same(Tensor x) -> Tensor", .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x", .backward = "none", .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(one, ops)
"""

# SPDX-License-Identifier: Apache-2.0
"""Messages of the program that a user can cause with one command: each says what
was found and what is expected, whole."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys

import pytest

OP = '- schema: "f(Tensor x) -> Tensor"\n  shape: "x[*N] -> [*N]"\n'
PLUGIN = "- op_name: f\n  op_type: F\n  input_desc:\n"
# (specification, the error that `opgraft gen` prints behind file and line).
GEN = [
    (OP + "  flags: deterministic\n",
     "flags is not a list, expected [deterministic, ...]"),
    (OP + "  flags: [pure]\n",
     "the flag 'pure' is unknown, expected deterministic, random, side_effect, "
     "capture_same_shape, capture_never or batch_loop"),
    (OP + "  kernels: [{dtypes: f32, device: tpu}]\n",
     "the device is 'tpu', expected cpu, cuda, rocm or ext"),
    (OP + "  kernels: [[f32]]\n",
     "a kernel is a list, expected its types, as in f32, or {dtypes: f32, isa: "
     "avx2}"),
    (OP + "  kernels: f32\n", "kernels is not a list, expected [f32, ...]"),
    ('- shape: "x[*N] -> [*N]"\n',
     'an operator without a schema; expected schema: "f(Tensor x) -> Tensor", or '
     "op_name: f"),
    (PLUGIN + "    - {name: '3x', dtype: [float]}\n",
     "the name is '3x', expected letters, digits and underscores"),
    (PLUGIN + "    - {name: x, dtype: [float], param_type: maybe}\n",
     "param_type is 'maybe', expected required, optional or dynamic"),
    (PLUGIN + "    - {name: x, dtype: [quad]}\n",
     "x: the dtype is 'quad', expected float16, float, bfloat16, int32, int64, "
     "bool, ..."),
    (PLUGIN + "    - x\n",
     "a tensor is not a map, expected name: x, dtype: [float16, float]"),
    (PLUGIN + "    - {name: x}\n",
     "x: has no dtype, expected dtype: [float16, float]"),
]
GRAPH = """graph g(%x: f32[s0, 8], size n = s0) {
  %y: f32[s0, 8] = exp(%x) @ model.py:3
  return %y
}
"""
# (words of the command, the error).
COMMANDS = [
    ("inspect m.og s0 --why", "inspect: found 's0', expected a size of the graph, such "
     "as s0=128"),
    ("inspect m.og --isa avx2", "inspect: --isa is for --asm"),
    ("inspect m.og s0=3", "inspect: a graph takes sizes with --why, --asm or "
     "--html only, found 's0=3'"),
    ("run m.og", "no value is given for"),
    ("run m.og --in n=4 --in n=5", "run: input 1 (size n = s0) is given twice"),
    ("run m.og --in n=many", "is 'many', expected a whole number for"),
    ("run m.og --plain --repeat 3", "run: --plain and --repeat exclude each "
     "other"),
    ("build f.c --cc nobody", "--cc is 'nobody', which is not a program on PATH; "
     "name a C compiler"),
    ("build f.c --hosts ''", "--hosts is empty, expected names such as torch,jax"),
    ("build f.c --no-load --hosts tvm_ffi", "build: --no-load with --hosts "
     "tvm_ffi: the names that TVM-FFI looks up are made from the loaded file; leave out one of the "
     "two"),
    ("new --device cuda", "new: the device's name is 'cuda', expected up to "),
    ("new there", "there: is there already; choose another name or --dir, or "
     "remove it"),
    ("gen g.yaml -o f.c", "f.c: is there already, perhaps with your kernels; give "
     "another name, or --force"),
    ("doctor --apply p --no-verify s.py",
     "doctor: --apply takes verified fixes; leave out --no-verify"),
    ("doctor --suite a.txt --sarif s", "doctor: --suite prints one table, and "
     "takes no --sarif"),
]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, text in {"m.og": GRAPH, "f.c": "int f;\n", "s.py": "", "a.txt": "",
                       "g.yaml": OP}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "there").mkdir()
    return tmp_path


def error_of(folder: pathlib.Path, *words: str) -> str:
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("opgraft"), *words], cwd=folder,
        text=True, capture_output=True)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    return done.stderr


@pytest.mark.parametrize(("text", "message"), GEN)
def test_errors_of_a_specification(folder: pathlib.Path, text: str,
                                   message: str) -> None:
    (folder / "s.yaml").write_text(text)
    error = error_of(folder, "gen", "s.yaml")
    assert error.startswith("opgraft: s.yaml:") and message in error


@pytest.mark.parametrize(("words", "message"), COMMANDS)
def test_errors_of_a_command(folder: pathlib.Path, words: str,
                             message: str) -> None:
    assert message in error_of(folder, *shlex.split(words))

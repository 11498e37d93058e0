# SPDX-License-Identifier: Apache-2.0
"""Every example of every command's help runs as it stands, in order, in a folder
with the files that it names. Those that start PyTorch, or measure, are in the
full stage. Programs that look at an output (less, dot) and CMake stand aside."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import og_file
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = re.findall(r"^COMMAND\((\w+)\)",
                      (ROOT / "cli" / "commands.def").read_text(), re.M)
SLOW = ("adopt", "bench", "doctor")  # and one line of check
NORMS = """#include <math.h>
#include <opgraft/op.h>
enum { N, D };
static float get(const og_tensor *t, int64_t i) {
  return og_is(t, OG_CODE_FLOAT, 32) ? og_f32(t)[i] : og_bfloat_to_float(og_bf16(t)[i]);
}
static void set(og_tensor *t, int64_t i, float value) {
  if (og_is(t, OG_CODE_FLOAT, 32))
    og_f32_mut(t)[i] = value;
  else
    og_bf16_mut(t)[i] = og_bfloat_from_float(value);
}
static og_status run(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      sum += get(call->in[0], i) * get(call->in[0], i);
    const float scale =
        1 / sqrtf(sum / (float)width + (float)call->attr[0].f);
    for (int64_t i = 0; i < width; ++i)
      set(call->out[0], r * width + i,
          get(call->in[0], r * width + i) * scale * get(call->in[1], i));
  }
  return OG_OK;
}
static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = run},
    {.device = OG_CPU, .dtypes = "bf16", .run = run},
};
static const og_op ops[] = {
    {.schema = "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
     .shape = "x[*N, D], weight[D] -> [*N, D]", .where = "D > 0",
     .dtype = "x: f32|bf16, weight: x -> x",
     .expect = "no_gradient: x, weight", .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(norms, ops)
"""
SOFTCAP = """#include <opgraft/op.h>
static const og_op ops[] = {
    {.schema = "softcap(Tensor x, float cap=30.0) -> Tensor",
     .row = "y = cap * tanh(x / cap)"},
};
OG_MODULE(softcap, ops)
"""
SPEC = """- schema: "rms_norm(Tensor x, Tensor weight) -> Tensor"
  shape: "x[*N, D], weight[D] -> [*N, D]"
"""
ZLIB = """library: libz.so.1
operators:
  crc32:
    prototype: unsigned long crc32(unsigned long, const unsigned char *, unsigned int)
    call: 0, x.data, x.numel
    returns: out
    shape: "x[*N] -> []"
    dtype: "x: u8 -> i64"
"""
GRAPH = """graph m(%x: f32[s0, 8]) {
  %y: f32[s0, 8] = exp(%x) @ model.py:3
  return %y
}
"""
MASKED = """graph m(%mask: f32[s0, 8], size n = s0) {
  %y: f32[s0, 8] = exp(%mask) @ model.py:3
  return %y
}
"""
SCRIPT = """import torch
model = torch.compile(torch.nn.Linear(4, 4), backend="eager")
model(torch.ones(2, 4)).sum().backward()
"""
EVENTS = "opgraft-events 1\nrun\tscript=train.py\nend\tstatus=ok\n"
TUNED = ("matmul f32[8,16] f32[16,4] -> f32[8,4]; ,; fast/host; 1 thread, avx2, "
         "torch 2: fast  # fast 1.0 us")
FILES = {"run.events": EVENTS, "norms.yaml": SPEC, "zlib.yaml": ZLIB, "kernels.yaml": ZLIB,
         "softcap.c": SOFTCAP, "rope.c": "int rope_unused;\n", "train.py": SCRIPT,
         "scale.cu": "#include <opgraft/cuda_kernel.h>\n",
         "models.txt": "train.py\n",
         "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\n"
                           "project(a LANGUAGES C)\n"
                           "find_package(opgraft REQUIRED)\n"}


def examples(command: str, program_path: str) -> list[str]:
    text = subprocess.run([program_path, "help", command], text=True,
                          capture_output=True, check=True).stdout
    return [line.strip()
            for line in text.split("examples:\n")[1].splitlines()]


def npy(path: pathlib.Path, rows: int) -> None:
    head = ("{'descr': '<f4', 'fortran_order': False, "
            f"'shape': ({rows}, 8), }}").ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + head.encode()
                     + bytes(4 * 8 * rows))


def fill(folder: pathlib.Path, line: str) -> None:
    """The files that a line may name; norms.c where it is not an output."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    if "-o norms.c" not in line:
        (folder / "norms.c").write_text(NORMS)
    (folder / "scale.c").write_text(NORMS)
    (folder / "m.og").write_text(MASKED if "mask" in line else GRAPH)
    if "pack" in line:
        (folder / "m.og").write_bytes(og_file.write(GRAPH, []))
    npy(folder / "x.npy", 3)
    npy(folder / "m.npy", 7)


def shell(line: str, folder: pathlib.Path, program_path: str) -> str:
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        (tools / "opgraft").symlink_to(program_path)
        for name in ("less", "dot"):
            (tools / name).write_text("#!/bin/sh\nexec cat\n")
            (tools / name).chmod(0o755)
    home = folder / "home"
    for name in (".zfunc", ".config/fish/completions"):
        (home / name).mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "HOME": str(home), "PATH":
           f"{tools}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
           "XDG_CACHE_HOME": str(home), "OPGRAFT_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line], cwd=folder, env=env,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


def run_all(command: str, folder: pathlib.Path, program_path: str,
            is_slow: bool) -> int:
    count = 0
    for line in examples(command, program_path):
        if (command in SLOW or "--host torch" in line) != is_slow:
            continue
        if "--cc clang" in line and not shutil.which("clang"):
            line = line.replace("clang", "cc")
        fill(folder, line)
        if "norms.so" in line and command != "build":
            shell("opgraft build norms.c", folder, program_path)
        shell(line, folder, program_path)
        count += 1
    return count


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in SLOW])
def test_examples_of_help(command: str, tmp_path: pathlib.Path,
                          program_path: str) -> None:
    if command == "tune":  # a run has left this
        said = shell("opgraft tune", tmp_path, program_path)
        path = re.search(r"(/\S+/tune-([\w-]+)\.txt): 0 results", said)
        assert path is not None
        pathlib.Path(path[1]).parent.mkdir(parents=True)
        pathlib.Path(path[1]).write_text(
            f"# opgraft tune 1, {path[2]}\n{TUNED}\n# end 1\n")
    assert run_all(command, tmp_path, program_path, is_slow=False)


@pytest.mark.full
@pytest.mark.parametrize("command", [*SLOW, "check"])
def test_slow_examples_of_help(command: str, tmp_path: pathlib.Path,
                               program_path: str) -> None:
    assert run_all(command, tmp_path, program_path, is_slow=True)

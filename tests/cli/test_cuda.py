# SPDX-License-Identifier: Apache-2.0
"""opgraft build with CUDA code: what is embedded, what is refused."""

from __future__ import annotations

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cuda.md").read_text()
ARGS = ("#include <stdint.h>\ntypedef struct scale_args {\n  const float *x;\n"
        "  float *y;\n  int64_t n;\n  float by;\n} scale_args;\n")
OP = """
static const og_kernel kernels[] = {
    {.device = OG_CUDA, .dtypes = "f32", .run = scale_cuda}};
static const og_op ops[] = {{.schema = "scale(Tensor x) -> Tensor",
                             .shape = "x[*N] -> [*N]",
                             .dtype = "x: f32 -> x",
                             .backward = "none",
                             .kernels = OG_KERNELS(kernels)}};
OG_MODULE(scale, ops)
"""


def write(folder: pathlib.Path) -> None:
    """The example of docs/cuda.md."""
    kernel, launch = re.findall(r"```c\n(.*?)```", PAGE, re.S)
    (folder / "scale_args.h").write_text(ARGS)
    (folder / "scale.cu").write_text(kernel)
    (folder / "scale.c").write_text(
        launch.replace("\n\n", '\n\n#include "scale_args.h"\n\n', 1) + OP)


def build(program_path: str, folder: pathlib.Path, *words: str
          ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program_path, "build", *words], cwd=folder, text=True,
                          capture_output=True)


def test_source_is_embedded_whole(program_path: str,
                                  tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    done = build(program_path, tmp_path, "scale.c", "scale.cu")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "scale.so").read_bytes()
    assert b"OG_KERNEL(scale_f32" in text and b"} scale_args;" in text
    assert b"#include <opgraft" not in text
    ran = subprocess.run([program_path, "check", "scale.so"], cwd=tmp_path,
                         text=True, capture_output=True)
    assert ran.returncode in (0, 1), ran.stderr


def test_ptx_is_embedded_as_it_is(program_path: str,
                                  tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    (tmp_path / "scale.ptx").write_text("// none\n.version 8.0\n")
    done = build(program_path, tmp_path, "scale.c", "scale.ptx")
    assert done.returncode == 0, done.stderr
    assert b".version 8.0\n\0" in (tmp_path / "scale.so").read_bytes()


def test_a_name_that_is_not_c(program_path: str,
                              tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    (tmp_path / "2x.cu").write_text("")
    done = build(program_path, tmp_path, "scale.c", "2x.cu")
    assert done.returncode == 1 and "becomes og_cuda_code_NAME" in done.stderr


def test_nvcc_that_fails(program_path: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    done = build(program_path, tmp_path, "scale.c", "scale.cu", "--nvcc", "false")
    assert done.returncode == 1
    assert "scale.cu: 'false' ended with status 1" in done.stderr

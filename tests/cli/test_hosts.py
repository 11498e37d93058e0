# SPDX-License-Identifier: Apache-2.0
"""build --hosts and inspect --hosts."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def source(program: Any) -> pathlib.Path:
    path = program.folder / "scale.c"
    path.write_text((ROOT / "tests/conformance/scale.c").read_text())
    return path


def symbols(path: pathlib.Path, *flags: str) -> set[str]:
    out = subprocess.run(["nm", "-D", *flags, str(path)], text=True,
                         capture_output=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in out.splitlines()}


def needed(path: pathlib.Path) -> set[str]:
    out = subprocess.run(["readelf", "-d", str(path)], text=True,
                         capture_output=True, check=True).stdout
    # Thread-local variables need the loader, which is libc's own.
    return {name for name in re.findall(r"NEEDED.*\[(.*)\]", out)
            if not name.startswith("ld-linux")}


def test_a_module_for_every_host(program: Any, source: pathlib.Path) -> None:
    program.ok("build", source, "--hosts", "torch,jax,onnxruntime")
    module = source.with_suffix(".so")
    assert needed(module) <= {"libc.so.6", "libm.so.6", "libpthread.so.0",
                              "libdl.so.2"}
    out = symbols(module, "--defined-only")
    assert {"opgraft_module", "RegisterCustomOps", "opgraft_jax_handler"} <= out
    # The library inside is the file's own.
    assert not [s for s in out if s.startswith(("og_", "opgraft_frame"))]
    program.ok("build", source, "-o", "plain.so", "--hosts", "torch")
    assert symbols(program.folder / "plain.so", "--defined-only") == {
        "opgraft_module"}
    program.ok("check", module)


def test_what_a_module_serves(program: Any, source: pathlib.Path) -> None:
    program.ok("build", source, "--hosts", "jax")
    module = source.with_suffix(".so")
    text = program.ok("inspect", module, "--hosts")
    assert "JAX            2 of 2 operators" in text
    assert "ONNX Runtime   no: build it with --hosts onnxruntime" in text
    hosts = {h["host"]: h for h in json.loads(
        program.ok("inspect", module, "--hosts", "--json"))["hosts"]}
    assert hosts["jax"]["served"] and not hosts["onnxruntime"]["served"]
    program.ok("build", ROOT / "tests/python/basics.c", "-o", "basics.so",
               "--hosts", "jax,onnxruntime")
    text = program.ok("inspect", "basics.so", "--hosts")
    assert "without positives: a result's size depends on values" in text
    assert "without halves: a result is a list" in text


def test_what_no_host_has_is_noted(program: Any) -> None:
    source = ROOT / "tests/conformance/limits.c"
    program.ok("build", source, "-o", "limits.so", "--hosts",
               "jax,onnxruntime")
    served = {h["host"]: h["missing"] for h in json.loads(
        program.ok("inspect", "limits.so", "--hosts", "--json"))["hosts"]}
    writes = {"bump_": "a tensor list is written",
              "touch": "an optional argument is written"}
    assert served["jax"] == writes
    missing = served["onnxruntime"]
    assert writes.items() <= missing.items()
    assert "its types have more than 64 choices" in missing["first"]
    for name in ("scaled", "product"):
        assert "knows none of its choices of types" in missing[name]
    assert set(missing) == {"bump_", "touch", "first", "scaled", "lengths",
                           "product", "product_backward"}
    noted = program.run("build", source, "-o", "limits.so", "--hosts",
                        "jax,onnxruntime").stderr
    for host, title in (("jax", "JAX"), ("onnxruntime", "ONNX Runtime")):
        for name, why in served[host].items():
            assert f"{title}: without {name}: {why}" in noted


def test_names_of_operators(program: Any, source: pathlib.Path) -> None:
    """Names that a host looks up, made from declarations."""
    program.ok("build", source, "--hosts", "tvm_ffi")
    assert symbols(source.with_suffix(".so"), "--defined-only") >= {
        f"__tvm_ffi_{kind}{name}" for kind in ("", "_metadata_")
        for name in ("scale", "scale_backward")}
    said = program.fails(2, "build", source, "--hosts", "tvm_ffi", "--no-load")
    assert "the names that TVM-FFI looks up are made from the loaded file" in said
    broken = program.folder / "broken.c"
    broken.write_text(source.read_text().replace("Tensor x", "Tensr x"))
    said = program.fails(1, "build", broken, "--hosts", "tvm_ffi")
    assert "found 'Tensr', expected a type" in said
    assert not list(program.folder.glob("broken.so*"))


def test_names_that_a_host_reads_otherwise(program: Any) -> None:
    (program.folder / "taken.c").write_text("""
#include <opgraft/op.h>
enum { N };
static og_status copy(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = copy}};
#define OP(name)                                                      \\
  {.schema = #name "(Tensor x) -> Tensor", .shape = "x[*N] -> [*N]",  \\
   .dtype = "x: f32 -> x", .kernels = OG_KERNELS(kernels)}
static const og_op ops[] = {OP(main), OP(copy.one), OP(copy.two)};
OG_MODULE(taken, ops)
""")
    noted = program.run("build", "taken.c", "--hosts", "tvm_ffi").stderr
    assert "without main: its name stands for something else" in noted
    names = {s for s in symbols(program.folder / "taken.so", "--defined-only")
             if s.startswith("__tvm_ffi_")}
    assert names == {f"__tvm_ffi_{kind}copy.{name}" for name in ("one", "two")
                     for kind in ("", "_metadata_")}


def test_wrong_names(program: Any, source: pathlib.Path) -> None:
    said = program.fails(2, "build", source, "--hosts", "jaxs")
    assert "expected some of torch, jax, onnxruntime" in said
    assert "did you mean jax" in said
    assert "--hosts is empty" in program.fails(2, "build", source, "--hosts", "")
    assert "--hosts is of a module, found x=2,3 as well" in program.fails(
        2, "inspect", source, "x=2,3", "--hosts")

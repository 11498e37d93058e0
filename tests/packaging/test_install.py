# SPDX-License-Identifier: Apache-2.0
"""What an installed package gives to those who build their own operators."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

MODULE_C = """\
#include <opgraft/op.h>

static og_status double_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = double_f32},
};
static const og_op ops[] = {{
    .schema = "double(Tensor x) -> Tensor",
    .shape = "x[*N] -> [*N]",
    .dtype = "x: f32 -> x",
    .kernels = OG_KERNELS(kernels),
}};
OG_MODULE(doubles, ops)
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(doubles LANGUAGES C)
find_package(opgraft 0.1 REQUIRED)
opgraft_add_module(doubles doubles.c)
install(TARGETS doubles LIBRARY DESTINATION .)
add_executable(host host.c)
target_link_libraries(host PRIVATE opgraft::opgraft)
"""

HOST_C = """\
#include <opgraft/opgraft.h>
#include <stdio.h>

int main(int argc, char **argv) {
  opgraft_error error;
  opgraft_module *module;
  if (argc != 2 || opgraft_module_load(argv[1], &module, &error) != OG_OK)
    return 1;
  printf("%s %d\\n", opgraft_module_name(module),
         (int)opgraft_module_op_count(module));
  opgraft_module_release(module);
  return 0;
}
"""

LIBRARIES = ["opgraft", "opgraft_check", "opgraft_graph"]
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "shipping.md"


def run(*words: object, cwd: pathlib.Path | None = None,
        env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(w) for w in words], cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def tool(name: str) -> str:
    beside = pathlib.Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(scope="module")
def package() -> pathlib.Path:
    """The installed package's folder, found without importing it."""
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    return pathlib.Path(spec.origin).parent


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "doubles.c").write_text(MODULE_C)
    (tmp_path / "host.c").write_text(HOST_C)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    return tmp_path


def needed(path: pathlib.Path) -> set[str]:
    lines = run("readelf", "-d", path).splitlines()
    return {line.split("[")[1].rstrip("]") for line in lines
            if "(NEEDED)" in line}


LIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
        "ld-linux-x86-64.so.2"}


def exported(path: pathlib.Path) -> set[str]:
    return {line.split()[-1] for line in
            run("nm", "-D", "--defined-only", path).splitlines()}


def test_nothing_is_required() -> None:
    assert not importlib.metadata.requires("opgraft")


def test_extension_and_library_export_only_their_own(
        package: pathlib.Path) -> None:
    assert exported(package / "_C.abi3.so") == {"PyInit__C"}
    core = exported(package / "lib" / "libopgraft.so")
    checks = exported(package / "lib" / "libopgraft_check.so")
    graphs = exported(package / "lib" / "libopgraft_graph.so")
    assert "opgraft_module_load" in core and "opgraft_graph_parse" in graphs
    assert core < graphs and core < checks and "opgraft_check" in checks - core
    assert all(n.startswith("opgraft_") for n in graphs | checks)


def test_example_of_the_structs(
        package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """docs/abi.md: the program prints the arguments of every operator as its
    JSON has them."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "abi.md"
    code = re.search(r"```c\n(#include <opgraft/info.h>.*?)```",
                     page.read_text(), re.S)
    assert code is not None
    (tmp_path / "takes.c").write_text(code[1])
    library = package / "lib"
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I",
             package / "include"]
    run(tool("cc"), "-std=c11", *flags, "takes.c", "-o", "takes",
        library / "libopgraft.so", f"-Wl,-rpath,{library}", cwd=tmp_path)
    seen = 0
    for module in sorted((package / "modules").glob("*.so")):
        described = json.loads(run(tool("opgraft"), "inspect", "--json", module))
        wanted = [
            f"{op['name']}:" + "".join(
                f" {p['type']}{'[]' if p['list'] else ''} {p['name']}"
                for p in op["params"]) + "; " + (
                    op["grad"]["op"] if op["grad"]["kind"] == "operator"
                    else "-")
            for op in described["ops"]]
        assert run(tmp_path / "takes", module).splitlines() == wanted
        seen += len(wanted)
    assert seen >= 40


def test_core_needs_libc_only(package: pathlib.Path) -> None:
    # The host calls adopted C functions through libffi where the build has it.
    host = {name for name in needed(package / "_C.abi3.so")
            if not name.startswith("libffi.so")}
    assert host <= LIBC
    for library in LIBRARIES:
        assert needed(package / "lib" / f"lib{library}.so") <= LIBC


def test_find_package(package: pathlib.Path, project: pathlib.Path) -> None:
    cmake = tool("cmake")
    run(cmake, "-S", project, "-B", project / "build",
        f"-DCMAKE_PREFIX_PATH={package}")
    run(cmake, "--build", project / "build")
    module = project / "build" / "doubles.so"
    assert exported(module) == {"opgraft_module"}
    assert needed(module) <= LIBC
    assert run(project / "build" / "host", module) == "doubles 1\n"


@pytest.mark.parametrize("library", LIBRARIES)
def test_pkg_config(package: pathlib.Path, project: pathlib.Path,
                    library: str) -> None:
    env = os.environ | {
        "PKG_CONFIG_PATH": str(package / "lib" / "pkgconfig")}
    flags = run(tool("pkg-config"), "--cflags", "--libs", library,
                env=env).split()
    host = project / "host"
    run("cc", "-std=c11", project / "host.c", *flags, "-o", host,
        f"-Wl,-rpath,{package / 'lib'}")
    run("cc", "-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden",
        flags[0], project / "doubles.c", "-o", project / "doubles.so", "-lm")
    assert run(host, project / "doubles.so") == "doubles 1\n"


def test_operators_in_a_wheel(tmp_path: pathlib.Path) -> None:
    """docs/shipping.md: the build finds opgraft by itself, and the wheel
    is tied to neither a Python nor a PyTorch version."""
    files = re.findall(r"^```\w+ ([\w./]+)\n(.*?)^```$", PAGE.read_text(),
                       re.S | re.M)
    assert [name for name, _ in files] == [
        "pyproject.toml", "CMakeLists.txt", "my_ops/__init__.py"]
    for name, text in [*files, ("my_op.c", MODULE_C)]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = re.search(r"^pip (wheel .*?) dist \.$", PAGE.read_text(), re.M)
    assert command is not None
    run(sys.executable, "-m", "pip", *command[1].split(), "dist", tmp_path,
        "--no-build-isolation", cwd=tmp_path)
    wheels = list((tmp_path / "dist").glob("my_ops-1.0-py3-none-*.whl"))
    assert len(wheels) == 1
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert {"my_ops/my_op.so", "my_ops/__init__.py"} <= set(
            wheel.namelist())
        wheel.extractall(tmp_path / "site")
    assert run(sys.executable, "-c", "import my_ops; print(my_ops._module."
               "double.__name__)", cwd=tmp_path / "site") == "double\n"

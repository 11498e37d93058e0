# SPDX-License-Identifier: Apache-2.0
"""Every block of code of every page is run: by a test of the whole page, here,
or it stands in ELSEWHERE with the reason why not as it stands and with the file
that runs what it shows."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from pages import ROOT, Block, Scripts, blocks, run

CODE = ("c", "cpp", "python", "sh", "yaml", "toml", "cmake", "json")
# What runs all blocks of a page.
WHOLE = {
    **dict.fromkeys(("embedding", "freeze", "lists", "moving", "numerics", "run",
                     "serving", "testing", "threads", "transformers", "types"),
                    "tests/docs/test_guides.py"),
    **dict.fromkeys(("start", "wrong-number"), "tests/docs/test_start.py"),
    "README": "tests/packaging/test_readme.py",
    **dict.fromkeys(("adopt", "adopt-python", "adopt-c", "adopt-errors"),
                    "tests/python/adopt/test_docs.py"),
    "errors": "tests/docs/test_errors.py",
    "findings": "tests/cli/test_findings.py",
    "formulas": "tests/python/ops/test_formulas.py",
    "gallery": "tools/gallery.py",
    "shipping": "tests/packaging/test_install.py",
}
# (page, how the block begins): (why it is not run as it stands, what runs it).
ELSEWHERE = {
    ("abi", "#include <opgraft/info.h>"): (
        "it is compared with every module of the package",
        "tests/packaging/test_install.py"),
    ("contributing", "make build"): (
        "NAME stands for the operator", "tests/packaging/test_contributing.py"),
    **{("cuda", begin): ("it is a part of a file", "tests/cli/test_cuda.py")
       for begin in ("opgraft build scale.c scale.cu",
                     "#include <opgraft/cuda_kernel.h>",
                     "#include <opgraft/cuda.h>")},
    ("devices", "OG_DEVICE_DRIVER("): (
        "it is cut; `opgraft new --device` writes it whole",
        "tests/cli/test_new_device.py"),
    ("devices", "model = torch.nn.Sequential(torch.nn.Linear(16, 32), "
     "torch.nn.GELU()).cuda()"): (
        "it needs a GPU", "tests/gpu/test_graphs.py"),
    **{("devices", begin): ("the program is the reader's",
                            "tests/python/device/test_timeline.py")
       for begin in ('opgraft.load_device("build/devices/npu_sim.so", '
                     'options="trace=',
                     "python -m opgraft.timeline", '{"id":4,')},
    ("distributed", "import opgraft"): (
        "it needs several processes", "tests/python/distributed"),
    ("distributed", "for layer"): (
        "it needs several processes", "tests/python/distributed"),
    ("distributed", "torchrun"): (
        "it needs several processes", "tests/python/distributed"),
    ("installing", "make wheel"): ("it writes outside of the test's folder",
                                   "tests/packaging/test_release.py"),
    ("installing", "make setup"): ("it makes the test's environment",
                                   ".ci/run"),
    ("installing", "pip install ."): ("it makes the test's environment",
                                      "tools/release.py"),
    ("installing", "cmake -S . -B build"): (
        "it writes outside of the test's folder", "Makefile"),
    ("installing", "find_package(opgraft"): (
        "it is a part of a CMake file", "tests/packaging/test_install.py"),
    ("installing", "cc -std=c11"): (
        "it needs an installed opgraft.pc", "tests/packaging/test_install.py"),
    **{("vllm", begin): ("vLLM has an environment of its own",
                         "integrations/vllm/tests/test_truth.py")
       for begin in ("python3 -m venv serving", "vllm serve", "curl",
                     "VLLM_CPU_OMP_THREADS_BIND",
                     "python integrations", "from vllm import LLM")},
    ("precision", "from opgraft import gguf"): (
        "the file is the reader's", "tests/python/ops/test_gguf.py"),
    ("hosts", "opgraft build scale.c"): (
        "scale.c is the tests' own", "tests/conformance/build.py"),
    ("hosts", "import jax"): (
        "JAX has an environment of its own", "tests/conformance/test_jax.py"),
    ("hosts", "import tensorflow"): (
        "TensorFlow has an environment of its own",
        "tests/conformance/test_tensorflow.py"),
    ("hosts", "import opgraft.onnx"): (
        "the model is the reader's", "tests/conformance/test_onnxruntime.py"),
    ("hosts", "opgraft.load("): (
        "the model is the reader's", "tests/conformance/test_onnxruntime.py"),
    ("hosts", "import numpy as np, tvm_ffi"): (
        "the module is the reader's", "tests/conformance/test_tvm_ffi.py"),
    ("hosts", "import opgraft.aoti"): (
        "the model is the reader's", "tests/conformance/test_aoti.py"),
}
KERNEL = """#include <opgraft/op.h>
static og_status run(const og_call *call) { (void)call; return OG_OK; }
static const og_kernel run_kernels[] = {{.device = OG_CPU, .run = run}};
"""
OPERATOR = """static const og_op ops[] = {{
    .schema = "f(%s", .shape = "%s", .kernels = OG_KERNELS(%s), %s}};
OG_MODULE(f, ops)
"""


def pages() -> dict[str, pathlib.Path]:
    return {path.stem: path
            for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}


def others() -> list[tuple[str, Block]]:
    return [(name, block) for name, path in sorted(pages().items())
            if name not in WHOLE for block in blocks(path)
            if block.language in CODE]


def key_of(page: str, block: Block) -> tuple[str, str] | None:
    return next((key for key in ELSEWHERE
                 if key[0] == page and block.text.startswith(key[1])), None)


def fields(schema: str, shape: str) -> Callable[[str], str]:
    """A file whose operator has the block's fields."""
    return lambda text: KERNEL + OPERATOR % (
        schema, shape, "run_kernels",
        text if ".shape" not in text else text.replace(
            '.shape = "x[*N, D], weight[D] -> [*N, D]",', ""))


def kernels(*names: str) -> Callable[[str], str]:
    """A file with the block's table of these kernels."""
    return lambda text: KERNEL + "".join(
        f"static og_status {name}(const og_call *call) "
        "{ return run(call); }\n" for name in names) + text + OPERATOR % (
            "Tensor x) -> Tensor", "x[*N] -> [*N]", "kernels", "")


# A part of a file: what stands around it.
PARTS: dict[tuple[str, str], Callable[[str], str]] = {
    ("abi", "opgraft_stats stats"): lambda text:
        "#include <opgraft/executable.h>\n"
        "og_status look(const opgraft_executable *executable) {\n"
        "opgraft_error error;\n" + text + "return status;\n}\n",
    ("authors-guide", "static const og_kernel"): kernels(
        "f32_avx512", "f32_scalar", "bf16_scalar"),
    ("devices", "static const og_kernel"): kernels(
        "scale_f32", "scale_f32_npu"),
    ("authors-guide", ".reference"): fields(
        "Tensor x, Tensor weight, Tensor bias) -> Tensor",
        "x[*N, I], weight[O, I], bias[O] -> [*N, O]"),
    ("authors-guide", ".expect"): fields(
        "Tensor x, Tensor index, Tensor bias) -> Tensor", "x[*N] -> [*N]"),
    ("authors-guide", "// x[N, D], end[T]"): lambda text:
        KERNEL + "enum { N, D, T };\n" + text + OPERATOR % (
            "Tensor x, Tensor end) -> Tensor", "x[N, D], end[T] -> [T, D]",
            "run_kernels", '.dtype = "x: f32, end: i32 -> x", '
            ".sample = sample"),
    ("check", ".shape"): fields(
        "Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        "x[*N, D], weight[D] -> [*N, D]"),
    ("check", ".expect"): fields(
        "Tensor x, Tensor index, Tensor bias) -> (Tensor out, Tensor lse)",
        "x[*N] -> [*N], [*N]"),
}
LINEAR = """static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32|f64|bf16", .run = run}};
static const og_op ops[] = {
    {%s .kernels = OG_KERNELS(kernels)},
    {.schema = "custom_linear_backward(Tensor grad, Tensor x, Tensor weight) -> "
               "(Tensor, Tensor, Tensor)",
     .shape = "grad[*N, O], x[*N, I], weight[O, I] -> [*N, I], [O, I], [O]",
     .dtype = "grad: f32|f64|bf16, x: grad, weight: grad -> grad, grad, grad",
     .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(f, ops)
"""
# A page's Python blocks, one after the other: what stands before them.
BEFORE = {"devices": "", "graph": "import opgraft, torch\n"
          "model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)\n"}
# A page's commands: (the blocks that the test runs, by how they begin).
COMMANDS = {"installing": "opgraft build my_op.c"}
SLOW = {"authors-guide": "opgraft new scale",
        "doctor": "opgraft doctor train.py"}


def runner_of(page: str, block: Block) -> str:
    begins = {**COMMANDS, **SLOW}.get(page)
    if page == "abi" and block.text.startswith((".schema", '{"name"')):
        return "inspect"
    if block.language == "c":
        return "part" if any(p == page and block.text.startswith(start)
                             for p, start in PARTS) else ""
    if block.language == "yaml":
        return "gen" if page == "cli" else ""
    if block.language == "python":
        return "python" if page in BEFORE else ""
    return "commands" if begins and block.text.startswith(begins) else ""


def test_each_block_has_what_runs_it() -> None:
    missing, used = [], set()
    for page, block in others():
        key = key_of(page, block)
        used.add(key)
        if not key and not runner_of(page, block):
            missing.append((page, block.text.splitlines()[0]))
    assert missing == []
    assert set(ELSEWHERE) - used == set()
    assert len(others()) > 30


@pytest.mark.parametrize("page", WHOLE)
def test_the_test_of_a_whole_page_names_it(page: str) -> None:
    text = (ROOT / WHOLE[page]).read_text()
    assert page in text and page in pages()


@pytest.mark.parametrize("key", ELSEWHERE, ids=" ".join)
def test_what_runs_it_elsewhere_is_there(key: tuple[str, str]) -> None:
    why, place = ELSEWHERE[key]
    assert (ROOT / place).exists() and len(why) > 10


def program(folder: pathlib.Path, *words: str) -> str:
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("opgraft"), *words],
        cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("key", PARTS, ids=" ".join)
def test_a_part_of_a_c_file(tmp_path: pathlib.Path,
                            key: tuple[str, str]) -> None:
    """It compiles, and its declaration is right where it has one."""
    found = [block for page, block in others()
             if page == key[0] and block.text.startswith(key[1])]
    assert len(found) == 1
    (tmp_path / "f.c").write_text(PARTS[key](found[0].text))
    if key[0] == "abi":
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror",
                        "-I", ROOT / "include", "-c", "f.c"], check=True,
                       cwd=tmp_path)
    else:
        assert "module f, 1 operator" in program(tmp_path, "build", "f.c")


def test_a_declaration_as_json(tmp_path: pathlib.Path) -> None:
    """docs/abi.md: what `inspect --json` prints of the declaration above it."""
    fields, shown = (b.text for page, b in others()
                     if runner_of(page, b) == "inspect")
    (tmp_path / "f.c").write_text(KERNEL + LINEAR % fields)
    program(tmp_path, "build", "f.c")
    said = json.loads(program(tmp_path, "inspect", "--json", "f.so"))
    assert said["ops"][0] == json.loads(shown)


def test_specifications_of_gen(tmp_path: pathlib.Path) -> None:
    found = [b for page, b in others() if b.language == "yaml"]
    assert len(found) == 2
    for i, block in enumerate(found):
        (tmp_path / f"s{i}.yaml").write_text(block.text)
        program(tmp_path, "gen", f"s{i}.yaml", "-o", f"s{i}.c")
        program(tmp_path, "build", f"s{i}.c")


@pytest.mark.parametrize("page", BEFORE)
def test_python_of_a_page(tmp_path: pathlib.Path, page: str) -> None:
    built = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    driver = built.resolve() / "devices" / "npu_sim.so"
    if page == "devices" and not driver.exists():
        pytest.skip("no driver is built: set OPGRAFT_BUILD")
    (tmp_path / "build" / "devices").mkdir(parents=True)
    if driver.exists():
        shutil.copy(driver, tmp_path / "build" / "devices")
    code = [b.text for p, b in others() if p == page
            and b.language == "python" and key_of(p, b) is None]
    assert code
    (tmp_path / "page.py").write_text(BEFORE[page] + "\n".join(code))
    status, output = Scripts().run("python page.py\n", tmp_path)
    assert status == 0, output


def commands(page: str, begins: str) -> str:
    found = [b.text for p, b in others()
             if p == page and b.text.startswith(begins)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_of_a_page(tmp_path: pathlib.Path, page: str) -> None:
    (tmp_path / "my_op.c").write_text(KERNEL + OPERATOR % (
        "Tensor x) -> Tensor", "x[*N] -> [*N]", "run_kernels", ""))
    done = run(commands(page, COMMANDS[page]), tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.parametrize("page", SLOW)
def test_slow_commands_of_a_page(tmp_path: pathlib.Path, page: str) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.compile(torch.nn.Linear(4, 4), "
        "backend='eager')\nmodel(torch.ones(2, 4)).sum().backward()\n")
    for when in ("before", "after"):
        done = run(f"opgraft doctor --no-verify --events {when}.events "
                   "train.py", tmp_path)
        assert done.returncode == 0, done.stdout
    done = run(commands(page, SLOW[page]), tmp_path)
    assert done.returncode == 0, done.stdout

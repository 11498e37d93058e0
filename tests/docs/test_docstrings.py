# SPDX-License-Identifier: Apache-2.0
"""Every public name of Python has an example in its docstring, which runs, says
what it raises, and uses each of its methods. Those of opgraft.jax and
opgraft.tensorflow run where these hosts are (tests/conformance)."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import sys
import types
from typing import Any

import docstrings
import pytest
from docstrings import ROOT, api_docs

from opgraft.doctor.pytest_plugin import opgraft_doctor  # noqa: F401

ERRORS = re.compile(r"\b\w*(?:Error|Doubt)\b|raise")
HERE = [m for m in api_docs.MODULES if m not in ("jax", "tensorflow")]
NAMES = [(module, name) for module in HERE
         for name, _, _ in docstrings.examples(module)]
# Named tuples and errors: calling them is their fields' business.
CANNOT_FAIL = {"Adoption", "Device", "Proposal", "Doubt", "GuardError", "Plan",
               "Profile", "Report"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("docstrings")
    program = pathlib.Path(sys.executable).with_name("opgraft")
    docstrings.folder_fill(made, str(program), "torch,onnxruntime,aoti")
    return made


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found = {name: importlib.import_module(name) for name in (
        "numpy", "torch", "opgraft", "opgraft.ops", "opgraft.flashinfer",
        "opgraft.aoti", "opgraft.doctor", "opgraft.gguf",
        "opgraft.transformers")}
    found |= {"np": found["numpy"], "ops": found["opgraft.ops"],
              "gguf": found["opgraft.gguf"],
              "types": types}
    return found


def npu_build(folder: pathlib.Path) -> None:
    """The simulated NPU, from the build folder."""
    built = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    driver = built / "devices" / "npu_sim.so"
    if not driver.exists():
        pytest.skip("no driver is built: set OPGRAFT_BUILD")
    (folder / "npu_sim.so").write_bytes(driver.read_bytes())


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_example(module: str, name: str, folder: pathlib.Path,
                 names: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
                 request: pytest.FixtureRequest) -> None:
    text = {n: doc for n, doc, _ in docstrings.examples(module)}[name]
    given = dict(names)
    if module == "onnx":
        for needed in ("onnx", "onnxruntime", "opgraft.onnx"):
            given[needed] = pytest.importorskip(needed)
    elif name in ("Device", "load_device", "check"):
        npu_build(folder)
    elif name == "opgraft_doctor":
        given[name] = request.getfixturevalue(name)
    monkeypatch.chdir(folder)
    assert docstrings.run(module, name, text, given) == ""


@pytest.mark.parametrize("module", api_docs.MODULES)
def test_every_name_has_an_example(module: str) -> None:
    """With what it raises, and every method used by an example of the module.
    """
    path, missing = api_docs.module_file(module), []
    texts = list(docstrings.examples(module))
    code = "\n".join(line for _, text, _ in texts
                     for line in text.splitlines()
                     if line.lstrip().startswith((">>>", "...")))
    for name, text, _ in texts:
        missing += [f"{name}: no example"] * (">>> " not in text)
        if name not in CANNOT_FAIL and not ERRORS.search(
                text.split(">>>")[0]):
            missing.append(f"{name}: does not say what it raises")
        node = api_docs.definition(path, name)
        if isinstance(node, api_docs.ast.ClassDef):
            missing += [f"{name}.{m.name}: no example uses it"
                        for m in api_docs.members(node)
                        if m.name != "__init__"
                        and not re.search(rf"\.{m.name}\b", code)]
    assert missing == []


def test_a_wrong_example_is_told() -> None:
    assert "Expected:\n    3" in docstrings.run("", "x", ">>> 1 + 1\n3\n", {})
    assert "NameError" in docstrings.run("", "x", ">>> nobody\n", {})
    assert docstrings.run("", "x", ">>> 1 + 1\n2\n", {}) == ""

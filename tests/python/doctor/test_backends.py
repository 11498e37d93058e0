# SPDX-License-Identifier: Apache-2.0
"""Backends that are chosen, that are missing, and that take parts of a graph.

openxla itself: tests/peers/openxla.py.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from test_doctor import doctor, line_of
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupport

from opgraft.doctor import _adapter, _run, _suite, inspect
from opgraft.doctor._hook import Installed

SCRIPT = """
import torch

def f(x):
    y = x.sin()
    print("half way")  # root: print
    return y + 1

torch.compile(f, mode="reduce-overhead")(torch.ones(3))
"""


class NoSine(OperatorSupport):
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and "sin" not in str(node.target)


def in_parts(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    return CapabilityBasedPartitioner(
        graph, NoSine(), allows_single_node_partition=True).partition_and_fuse()


def cut(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    z = torch.sin(y)  # root: sin
    return z.abs() - 1


def test_a_backend_that_takes_parts() -> None:
    torch._dynamo.reset()
    report = inspect(cut, torch.ones(3), backend=in_parts, runs=0)
    assert report.data["graphs"]["fx"] == 1
    assert report.data["graphs"]["backend"] == 2
    (root,) = report.roots
    assert root["stage"] == "backend" and "sin" in root["text"]
    assert root["line"] == line_of(Path(__file__), "sin")


def test_our_own_backend_is_seen() -> None:
    """Also where the code compiles with it already."""
    torch._dynamo.reset()
    compiled = torch.compile(kthvalue, backend="opgraft")
    report = inspect(compiled, torch.ones(3), runs=0)
    assert report.data["graphs"] == {**report.data["graphs"], "fx": 1,
                                     "backend": 1}
    (root,) = report.roots
    assert root["stage"] == "backend" and "kthvalue" in root["title"]
    assert root["line"] == line_of(Path(__file__), "kthvalue")


def kthvalue(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y.kthvalue(1).values + 1  # root: kthvalue


def test_a_file_that_was_edited_since_it_was_imported(tmp_path: Path) -> None:
    text = ("import torch\ndef f(x):\n    torch._dynamo.graph_break()\n"
            "    return x + 1\n")
    path = tmp_path / "edited_since.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("edited_since", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said = f"note: {path} was edited after it was imported"
    for is_edited in (False, True):
        torch._dynamo.reset()
        linecache.clearcache()
        if is_edited:
            path.write_text("# more\n" + text)
            os.utime(path, (time.time() + 9,) * 2)
        found = str(inspect(module.f, torch.ones(2), backend="eager", runs=0))
        assert (said in found) == is_edited
        assert "\nGB...: explained at https://" in found


def test_openvino_takes_parts() -> None:
    pytest.importorskip("openvino")
    torch._dynamo.reset()
    import openvino.torch  # noqa: F401

    report = inspect(lambda x: (x @ x).relu() + 1, torch.ones(4, 4),
                     backend="openvino", runs=0)
    assert report.data["graphs"]["fx"] == 1
    assert report.data["graphs"]["backend"] == 1
    assert report.roots == []


@pytest.mark.parametrize("name, said", [
    ("openxla", "backend openxla needs torch_xla, which does not import here"),
    ("nonsense", "has no backend 'nonsense' here, but .*inductor"),
])
def test_a_backend_that_cannot_be_chosen(
        capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    compile = torch.compile
    assert not _run.choose(name)
    assert torch.compile is compile
    assert re.search(f"opgraft doctor: .*{said}", capsys.readouterr().err)


@pytest.mark.full
def test_a_suite_with_a_chosen_backend(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "list.txt").write_text("# models\nscript.py\n\n")
    done = doctor("--suite", "list.txt", "--backend", "eager", "--runs", "0",
                  "--json", "all.json", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("script ") and "script.py" in lines[1]
    (report,) = json.loads((tmp_path / "all.json").read_text()).values()
    assert report["graphs"]["fx"] == 2 and report["graphs"]["backend"] == 0
    page = (tmp_path / "page.html").read_text()
    assert f"script.py:{line_of(tmp_path / 'script.py', 'print')} dynamo" in page
    assert page.count("<tr>") == 2 and "<svg" in page


def test_what_the_page_says_of_openxla() -> None:
    report = {
        "graphs": {"fx": 1, "backend": 2}, "compile": {"backend_s": 0.1},
        "hlo": {"lazy_graphs": 3, "fallbacks": 1, "compile_s": 0.25},
        "verdict": {"eager_ms": 2.0, "compiled_ms": None},
        "roots": [{"file": "/a/m.py", "line": 4, "stage": "backend",
                   "title": "t", "text": "aten::qr <runs>"}]}
    page = _suite.page({"/a/b/m.py BertModel": report}, "openxla")
    row = re.findall(r"<td>(.*?)</td>", page)
    assert row == ["m BertModel", "1", "2", "3", "1", "0.25", "2", "-",
                   "<code>m.py:4 backend: aten::qr &lt;runs&gt;</code>"]


def test_hooks_of_torch_2_9(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those places are gone in this torch, which is said of each."""
    hooks = _adapter.ADAPTERS["2.9"]
    assert [h.name for h in hooks] == [h.name for h in _adapter.ADAPTERS[
        _adapter.NEWEST]]
    installed = Installed()
    for hook in hooks:
        if hook.name == "breaks":
            installed.put(hook, None)  # type: ignore[arg-type]
    assert installed.states["breaks"].startswith("gone")


def test_a_list_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert _suite.main(["none.txt"]) == _run.CANNOT_RUN
    assert "opgraft doctor: none.txt: No such file" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""Fixes: what is proposed as text, and what a trial makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from steady import steady

from opgraft.doctor import (
    _adoption,
    _opaque,
    _outputs,
    _propose,
    _source,
    _told,
    _trial,
    _values,
)
from opgraft.doctor._propose import Context, Root

SCRIPT = """\
import torch


@torch.compiler.disable
def opaque(x):
    return torch.tensor(x.numpy() * 2)


class Model(torch.nn.Module):
    def forward(self, x):
        y = opaque(x + 1)
        if y.mean() > 0:
            y = y * 3
        return y - 1


model = torch.compile(Model(), backend="aot_eager")
with torch.no_grad():
    for _ in range(2):
        model(torch.ones(4, 3))
"""


def root(text: str, line: int, id: str, stage: str = "dynamo",
         why: str = "") -> Root:
    return Root("/m.py", line, id, stage, "f", text.splitlines()[line - 1],
                why, ("/m.py", line, "", 0))


def proposed(text: str, line: int, id: str, **more: Any) -> list[str]:
    """The texts that are proposed for the file, best first."""
    made = _propose.proposals(root(text, line, id, **more),
                              Context("/m.py", {"/m.py": text}, {}))
    return [p.texts["/m.py"] for p in made]


@pytest.mark.parametrize("before, line, id, after", [
    ("def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n", 2,
     "GB0170",
     "def f(x):\n    x = torch.where(x.sum() > 0, x * 2, x)\n    return x\n"),
    ("def f(x):\n    if a or not b:\n        return x\n    return y\n", 2,
     "GB0170", "def f(x):\n    return torch.where((a) | (~(b)), x, y)\n"
     "    return y\n"),
    ("def f(x):\n    n = x.sum().item()\n", 2, "GB0124",
     "def f(x):\n    n = x.sum()\n"),
    ("def f(x):\n    é = 'é'; y = copy.deepcopy(x)\n", 2, "GB4198",
     "def f(x):\n    é = 'é'; y = x.clone()\n"),
    ("def f(x):\n    torch._dynamo.graph_break()\n", 2, "GB0025",
     "def f(x):\n    pass\n"),
    ("def f(x):\n    print(x)\n", 2, "GB0059",
     "def f(x):\n    if not torch.compiler.is_compiling():\n"
     "        print(x)\n"),
    ("def f(x):\n    if x.isnan().any():\n        raise E\n", 2, "GB0170",
     "def f(x):\n    if not torch.compiler.is_compiling() and "
     "(x.isnan().any()):\n        raise E\n"),
    ("N = 3\n\ndef f(x):\n    return x + g(N)\n", 4, "GB0007",
     "N = 3\n\n_HOISTED = g(N)\n\ndef f(x):\n    return x + _HOISTED\n"),
    ("import torch\n\ndef f(x):\n    return x.item()\n", 4, "GB0124",
     "import torch\nimport torch._dynamo\ntorch._dynamo.config."
     "capture_scalar_outputs = True\n\ndef f(x):\n    return x.item()\n"),
    ("def g(n):\n    return np.lcm(n.a, n.b)\n\ndef f(x, n):\n    k = g(n)\n"
     "    if len(x) % k:\n        x = x + 1\n    return x\n", 6, "GB0170",
     "import math\ndef g(n):\n    return math.lcm(n.a, n.b)\n\n"
     "def f(x, n):\n    k = g(n)\n    if len(x) % k:\n        x = x + 1\n"
     "    return x\n"),
    ("def g(x, n):\n    return x[:n]\n\ndef f(x):\n"
     "    n = torch.IntTensor([x.shape[0] - 1])\n    return g(x, n[0])\n", 2,
     "GB0124", "def g(x, n):\n    return x[:n]\n\ndef f(x):\n"
     "    n = [x.shape[0] - 1]\n    return g(x, n[0])\n"),
    ("def g(m):\n    return m[0]\n\ndef f(m):\n"
     "    if m is None and not torch.compiler.is_compiling():\n"
     "        m = one()\n    return g(m)\n", 2, "GB0088",
     "def g(m):\n    return m[0]\n\ndef f(m):\n    if m is None:\n"
     "        m = one()\n    return g(m)\n"),
])
def test_rewrites(before: str, line: int, id: str, after: str) -> None:
    assert after in proposed(before, line, id)


@pytest.mark.parametrize("text, line, id, is_certain", [
    ("def f(x):\n    print(x)\n", 2, "GB0059", True),
    ("import torch\n\ndef f(x):\n    return x.nonzero()\n", 4, "GB0036", True),
    ("def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n", 2,
     "GB0170", False),
    ("def f(x):\n    return x + g(3)\n", 2, "GB0007", False),
])
def test_what_is_tried_first(text: str, line: int, id: str, is_certain: bool
                             ) -> None:
    """A switch of torch's, or a statement that only looks."""
    assert _propose.is_certain(root(text, line, id), Context(
        "/m.py", {"/m.py": text}, {})) == is_certain


SIZES = """\
class Pad(nn.Module):
    def __init__(self, stride):
        super().__init__()
        stride = torch.tensor(stride)
        self.stride = nn.Buffer(stride, persistent=False)
        self.kept = nn.Buffer(stride.sqrt())

    def extra(self, x):
        frames = (x.shape[-1] - self.stride) / self.stride + 1
        frames = torch.ceil(frames).to(torch.int64) - 1
        return frames * self.stride

    def forward(self, x):
        x = x * torch.ceil(self.kept)
        if x.shape[-1] <= self.extra(x):
            x = x + 1
        return x
"""


def test_sizes_in_buffers_become_numbers() -> None:
    """What methods compute with them too; a buffer that is part of the state
    stays one."""
    text = next(t for t in proposed(SIZES, 16, "GB0170")
                if "stride_number" in t)
    assert "self.stride_number = (stride).item()" in text
    assert "kept_number" not in text and "torch.ceil(self.kept)" in text
    assert "(x.shape[-1] - self.stride_number) / self.stride_number" in text
    assert "frames = int(math.ceil(frames)) - 1" in text
    before: dict[str, Any] = {"torch": torch, "nn": torch.nn}
    after = dict(before)
    exec(SIZES, before)
    exec(text, after)
    x = torch.ones(7)
    assert before["Pad"](3).extra(x) == after["Pad"](3).extra(x)
    compiled = torch.compile(after["Pad"](3), backend="eager", fullgraph=True)
    assert compiled(x).equal(before["Pad"](3)(x))


CHOICE = """\
import torch


class Block(torch.nn.Module):
    def forward(self, x, mask, has_any):
        if has_any:
            x = x[mask.any(1)].mean(0).expand_as(x)
        return x.sin() + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x, mask):
        has_any = mask.any().item()
        for _ in range(2):
            x = self.block(x, mask, has_any).cos()
        return x


model = torch.compile(Model(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(64, 64), torch.zeros(64, 64, dtype=torch.bool))
"""


def test_a_choice_is_proposed_as_what_it_was() -> None:
    """Where it was the same in all calls; the graph raises where it is not."""
    known = {"mask.any().item()": [False, False, False]}
    text = CHOICE
    tree = _source.tree_of(text)
    assert tree is not None
    (title, new), = _values.proposed(17, text, tree, known)
    assert "as in every call" in title
    assert "has_any = _taken_as(False, mask.any())" in new
    scope: dict[str, Any] = {}
    exec(new.split("class Model")[0], scope)
    take = scope["_taken_as"]
    assert take(False, torch.tensor(True)) is True  # eager: as before
    compiled = torch.compile(lambda flag: 1 + take(False, flag),
                             backend="eager", fullgraph=True)
    assert compiled(torch.tensor(False)) == 1
    with pytest.raises(RuntimeError, match="compiled for False"):
        compiled(torch.tensor(True))
    for values in ([False], [False, True], []):
        assert not list(_values.proposed(17, text, tree, {
            "mask.any().item()": values}))


def test_choices_are_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                              ) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv(_told.FILE, str(seen))
    text = _values.observed([("/m.py", 17), ("/m.py", 6)],
                            {"/m.py": CHOICE})["/m.py"]
    exec(compile(text.replace("torch.compile(Model(), ", "(lambda m, **_: m)"
                              "(Model(), "), "/m.py", "exec"), {})
    # The choice of Block is a Python bool there, no tensor.
    assert _values.read(str(seen)) == {
        "/m.py": {"mask.any().item()": [False] * 3}}


@pytest.mark.full
def test_what_an_edit_uncovers_is_mended_too(tmp_path: Path) -> None:
    """Read as a tensor, the choice breaks in Block; what it was is known there
    as well. Other edits are right too, and are said to take longer."""
    report = doctored(tmp_path, CHOICE, **steady(STEADY_TEXT="_taken_as("))
    assert {r["fix"]["status"] for r in report["roots"]} == {"verified"}
    assert "_taken_as(False, " in (tmp_path / "fixes.patch").read_text()


@pytest.mark.parametrize("text", ["", "def f(:\n", "x = 1\n", "\n" * 9])
def test_what_cannot_be_read_is_left_alone(text: str) -> None:
    for id in ("GB0170", "GB0124", "GB0007", ""):
        found = Root("/m.py", 7, id, "dynamo", "f", "", "",
                     ("/m.py", 7, "", 0))
        for made in _propose.proposals(found, Context(
                "/m.py", {"/m.py": text}, {})):
            compile(made.texts["/m.py"], "m.py", "exec")


def told(shapes: list[list[int]], result: list[int]) -> dict[str, Any]:
    return {"is_plain": True, "is_tuple": False, "args": [
        {"type": "Tensor", "shape": s, "dtype": "float32"} for s in shapes],
        "results": [{"type": "Tensor", "shape": result,
                     "dtype": "float32"}]}


def test_declaration_of_what_was_seen() -> None:
    words = _adoption.declaration(
        [told([[2, 3], [5, 3]], [2, 5]), told([[4, 3], [5, 3]], [4, 5])],
        "linear", ["x", "w"])
    assert words == (
        'schema="linear(Tensor x, Tensor w) -> Tensor", '
        'shape="x[D0_0, D0_1], w[D1_0, D1_1] -> [D0_0, D1_0]", '
        'dtype="x: f32, w: f32 -> x", name="doctor::linear"')
    same = _adoption.declaration([told([[2, 3]], [2, 3])], "f", ["x"])
    assert same is not None and 'shape="x[*P0] -> [*P0]"' in same
    # A size that follows from nothing that is passed is not declared.
    assert _adoption.declaration(
        [told([[2]], [7]), told([[2]], [8])], "f", ["x"]) is None
    assert _adoption.declaration([], "f", ["x"]) is None


def test_numbers_are_compared() -> None:
    x = torch.arange(4.0)
    same = _outputs.difference
    assert not same(["tuple", x, 1.0], ["tuple", x + 1e-7, 1.0])
    assert "differ by" in same(x, x + 0.01)
    assert same(x, x.double()) and same(x, x[:3]) and same([x], [x, x])
    assert same(x / 0, x) and not same(x / 0, x / 0)
    assert same({"a": x}, {"b": x}) and same(1.0, x)


def test_diff_applies(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("a\nb\nc")
    patch = _source.diff({str(file): "a\nB\nc"})
    (tmp_path / "p").write_text(patch.replace(str(file).lstrip("/"), "m.py"))
    subprocess.run(["patch", "-p1", "-i", "p"], cwd=tmp_path, check=True,
                   stdout=subprocess.DEVNULL)
    assert file.read_text() == "a\nB\nc"


def doctored(folder: Path, script: str, **environment: str) -> Any:
    """The report on model.py, with its fixes in fixes.patch."""
    (folder / "model.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "opgraft.doctor", "--runs", "3", "--budget",
         "900", "--json", "report.json", "--apply", "fixes.patch", "model.py"], cwd=folder,
        capture_output=True, text=True,
        env={**os.environ, "NO_COLOR": "1", **environment})
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())


def only_time_is_open(fixes: list[dict[str, Any]]) -> bool:
    """Every fix is right; whether a step takes longer with one is the
    machine's to say, and a busy one may say so, or nothing."""
    for fix in fixes:
        assert "the results are the same, and the root is gone" in fix["text"]
    return any(fix["status"] != "verified" for fix in fixes)


@pytest.mark.full
def test_from_break_to_one_graph(tmp_path: Path) -> None:
    """Two roots, one of them opaque, are fixed, compared and timed; the script
    is as it was, and the patch makes it one graph."""
    report = doctored(tmp_path, SCRIPT)
    script = tmp_path / "model.py"
    assert script.read_text() == SCRIPT
    fixes = {r["id"]: r["fix"] for r in report["roots"]}
    if only_time_is_open(list(fixes.values())):
        pytest.skip("this machine could not time the steps")
    assert all(f["diff"] and f["gain_ms"] is not None
               for f in fixes.values())
    assert report["verdict"]["reachable_ms"] > 0
    subprocess.run(["patch", "-p1", "-i", "fixes.patch"], cwd=tmp_path,
                   check=True, stdout=subprocess.DEVNULL)
    text = script.read_text()
    assert "opgraft.adopt(" in text and "torch.where(" in text
    compile(text, "model.py", "exec")


LOOP = """\
import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 256, 256) / 256)

    def forward(self, x, index):
        out = torch.zeros_like(x)
        for expert in index.unique():
            rows, = torch.where(index == expert)
            out.index_add_(0, rows, x[rows] @ self.weight[expert])
        return out


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = Experts()

    def forward(self, x, index):
        x = x.sin() * 2 + 1
        return self.experts(x, index).cos() + 1


torch.manual_seed(0)
model = torch.compile(Model(), backend="aot_eager")
with torch.no_grad():
    for _ in range(2):
        model(torch.randn(2048, 256), torch.randint(0, 4, (2048,)))
"""


@pytest.mark.full
def test_a_method_becomes_one_opaque_call(tmp_path: Path) -> None:
    """A loop over data in a module with parameters; what follows from it is
    gone with it."""
    report = doctored(tmp_path, LOOP, **steady())
    assert {r["fix"]["status"] for r in report["roots"]} == {"verified"}
    text = (tmp_path / "fixes.patch").read_text()
    assert "+@torch._dynamo.decorators.leaf_function" in text
    assert "x.new_empty([x.shape[0], x.shape[1]]" in text


def test_sizes_of_an_opaque_call() -> None:
    def call(x: list[int], y: list[int], result: Any) -> dict[str, Any]:
        def one(shape: list[int]) -> dict[str, Any]:
            return {"shape": shape, "dtype": "torch.float32",
                    "is_dense": True}

        return {"is_plain": True, "self": True, "arguments": {
            "x": one(x), "y": one(y), "flag": "bool"},
            "result": [result[0], *[one(r) for r in result[1:]], "None"]}

    calls = [call([2, 3], [5], ["tuple", [2, 5], [6, 7]]),
             call([4, 3], [6], ["tuple", [4, 6], [12, 7]])]
    assert _opaque._result(calls, True) == (
        "(x.new_empty([x.shape[0], y.shape[0]], dtype=torch.float32), "
        "x.new_empty([x.shape[0] * x.shape[1], 7], dtype=torch.float32), "
        "None,)")
    assert _opaque._result(calls, False) is None
    calls[1]["result"][1]["shape"] = [4, 9]  # follows from nothing
    assert _opaque._result(calls, True) is None
    calls[0]["arguments"]["flag"] = ""  # an object that cannot cross
    assert _opaque._result(calls[:1], True) is None
    assert _opaque._result([], True) is None


def block(*ns: int) -> Any:
    """The child of an outcome, which takes these times in turn."""
    times = iter(ns)

    class Child:
        def block_ns(self, timeout_s: float) -> int | None:
            return next(times, None)

    return _trial.Outcome("", child=Child())  # type: ignore[arg-type]


def test_steps_are_compared_by_blocks_that_agree() -> None:
    def compared(before: list[int], after: list[int]) -> Any:
        return _trial.compared_ms(block(*before), block(*after), 1.1, 30)

    noisy = [30] * 3 + [20] * 11
    assert compared(noisy, [10] * 14) == (20e-6, 10e-6)
    assert compared([10] * 14, noisy) == (10e-6, 20e-6)
    assert compared([10] * 14, [10] * 14) == (10e-6, 10e-6)
    # Even rounds say another thing than odd ones.
    assert compared([10, 10] * 140, [10, 20] * 140) is None
    # Too few, or a child that died.
    assert compared([10] * 13, [10] * 13) is None
    assert _trial.compared_ms(_trial.Outcome(""), block(1), 1.1, 30) is None
    # No time is left.
    assert _trial.compared_ms(block(*noisy), block(*noisy), 1.1, 0) is None

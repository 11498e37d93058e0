# SPDX-License-Identifier: Apache-2.0
"""Every row of src/import/aten.def runs without a host: a graph of its one
operator is exported, `opgraft run` runs it, ATen computes the same.

Arguments are those that op_db's samples call the operator with, forward and
backward; `own_calls.py` has those that op_db never makes. A row without a call
fails, and so does an operator of src/graph/ops.def that no call reached.
"""

from __future__ import annotations

import collections
import functools
import operator
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import numpy as np
import own_calls
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from opgraft import _C, _backend, _host, _targets

ROOT = pathlib.Path(__file__).resolve().parents[3]
_host.prepare()
ROWS = sorted(_C.graph_rows())
# Results that nobody promises: memory as it was.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
         "new_empty_strided"}
# Results that only a gradient reads: torch's shape functions and its kernels
# disagree about their sizes, by type and form.
KEPT_FOR_GRADIENT = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1}
# Equal elements may come in any order: (operand, result of positions, dim).
UNSTABLE = {"sort": -1, "topk": 2}
# What a row leaves to the host, and says so: which calls, in what words.
LEFT = {
    "native_dropout.default": "it draws from the host's random numbers",
    "index_put.default": "an index is a mask",
    "convolution.default": "it takes tensors of a float type here",
    "avg_pool2d.default": "it takes tensors of a float type here",
    "max_pool2d_with_indices.default": "it takes tensors of a float type here",
}
TYPES = (torch.float32, torch.int64, torch.float64, torch.bfloat16, torch.bool,
         torch.uint8)


# --- Calls --------------------------------------------------------------------


@dataclass
class Call:
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> list[torch.Tensor]:
        found = self.target(*self.args, **self.kwargs)
        return [x for x in tree_flatten(found)[0] if x is not None]

    def given(self) -> tuple[Any, Any]:
        return self.args, self.kwargs

    def with_leaves(self, change: Callable[[Any], Any]) -> Call:
        return Call(self.target, *tree_map(change, (self.args, self.kwargs)))

    def in_double(self) -> Call:
        wide = {torch.float32, torch.bfloat16, torch.float16}

        def one(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.dtype in wide:
                return x.double()
            return torch.float64 if x in (torch.float32, torch.bfloat16) else x

        return self.with_leaves(one)


def kept(x: Any) -> Any:
    """A copy of what a call is given, with its strides."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach()
    if x.is_conj() or x.is_neg() or x.layout is not torch.strided:
        raise NotImplementedError
    if any(s == 0 for s in x.stride()) or x.numel() == 0:
        return x.contiguous().clone()
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
    return torch.as_strided(torch.as_strided(
        x, (span,), (1,)).clone(), x.shape, x.stride())


class Recorder(TorchDispatchMode):
    """Keeps the first calls of each row by the types of its tensors."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.calls: dict[str, list[Call]] = collections.defaultdict(list)
        self.seen: collections.Counter[Any] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.")
        if name in WANTED:
            self.note(name, func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def note(self, name: str, func: Any, args: Any, kwargs: Any) -> None:
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        kind = name, tuple((x.dtype, x.dim()) for x in tensors)
        types = {x.dtype for x in tensors}
        if name == "index.Tensor" and torch.bool in {
                x.dtype for x in tensors[1:]}:
            return  # the size of the result depends on data
        if (self.seen[kind] >= self.most or len(leaves) > 40
                or sum(x.numel() for x in tensors) > 100_000
                or any(t.is_complex for t in types)
                or len(self.calls[name]) >= 12 * self.most):
            return
        try:
            call = Call(func, *tree_map(kept, (args, kwargs)))
        except (NotImplementedError, RuntimeError):
            return
        self.seen[kind] += 1
        self.calls[name].append(call)


WANTED = set(ROWS)


def op_samples(info: Any, dtype: torch.dtype, most: int) -> Iterator[Any]:
    torch.manual_seed(3)
    grad = dtype.is_floating_point and info.supports_autograd
    for i, sample in enumerate(
            info.sample_inputs_func(info, "cpu", dtype, grad)):
        if i >= most:
            return
        yield sample


def with_gradients(info: Any, sample: Any) -> None:
    out = info.op(sample.input, *sample.args, **sample.kwargs)
    for x in tree_flatten(out)[0]:
        if isinstance(x, torch.Tensor) and x.requires_grad:
            x.sum().backward(retain_graph=True)


@functools.cache
def recorded(most: int) -> dict[str, list[Call]]:
    """op_db's samples, run until each row has its calls."""
    recorder = Recorder(most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db:
            for dtype in TYPES:
                if dtype not in info.dtypes:
                    continue
                for sample in op_samples(info, dtype, 2 * most):
                    try:
                        with recorder:
                            with_gradients(info, sample)
                    except Exception:  # noqa: S112 - eager refuses the sample
                        continue
    return recorder.calls


def target_of(row: str) -> Any:
    name, overload = row.removeprefix("prims.").split(".")
    packet = getattr(torch.ops.prims if row.startswith("prims.")
                     else torch.ops.aten, name)
    return getattr(packet, overload)


def calls_of(row: str, most: int) -> list[Call]:
    own = [Call(target_of(row), *given) for given in own_calls.of(row)]
    seen = own + recorded(most).get(row, [])
    return [call for call in seen if own_calls.is_certain(row, call.args)]


# --- Graphs -------------------------------------------------------------------


class Builder:
    """A graph of calls, and its inputs. What writes its operand gets a copy."""

    def __init__(self) -> None:
        self.graph = torch.fx.Graph()
        self.inputs: list[torch.Tensor] = []
        self.results: list[torch.fx.Node] = []
        self.mode = FakeTensorMode()

    def input(self, x: torch.Tensor) -> torch.fx.Node:
        node = self.graph.placeholder(f"x{len(self.inputs)}")
        node.meta["val"] = self.mode.from_tensor(x)
        self.inputs.append(x)
        return node

    def node(self, target: Any, args: Any, kwargs: Any) -> torch.fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        fakes = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            node.meta["val"] = target(*fakes[0], **fakes[1])
        return node

    def add(self, call: Call) -> None:
        args, kwargs = call.with_leaves(
            lambda x: self.input(x) if isinstance(x, torch.Tensor) else x
        ).given()
        if call.target is torch.ops.aten.copy_.default:
            args = (self.node(torch.ops.aten.clone.default, args[:1], {}),
                    *args[1:])
        node = self.node(call.target, args, kwargs)
        if isinstance(node.meta["val"], torch.Tensor):
            self.results.append(node)
            return
        for index, item in enumerate(node.meta["val"]):
            if item is not None:
                self.results.append(
                    self.node(operator.getitem, (node, index), {}))

    def export(self, path: pathlib.Path) -> None:
        self.graph.output(tuple(self.results))
        gm = torch.fx.GraphModule({}, self.graph)
        _C.graph_export(
            "row", list(gm.graph.nodes), _backend._tools(gm, "backward"), {},
            _targets.recipe, str(path))


def export(calls: list[Call], path: pathlib.Path) -> list[torch.Tensor]:
    builder = Builder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            builder.add(call)
    builder.export(path)
    return builder.inputs


def operators(path: pathlib.Path) -> set[str]:
    """The IR operators of a graph file."""
    text = path.read_bytes().partition(b"\0")[0].decode(errors="replace")
    return set(re.findall(r" = (\w+)\(", text)) | (
        {"foreign"} if " = foreign " in text else set())


# --- Running ------------------------------------------------------------------


@functools.cache
def program() -> str:
    build = os.environ.get("OPGRAFT_BUILD")
    places = [pathlib.Path(build) / "bin/opgraft"] if build else []
    places += [pathlib.Path(sys.executable).with_name("opgraft")]
    for place in places:
        if place.exists():
            return str(place)
    found = shutil.which("opgraft")
    if found is None:
        pytest.skip("the program is not built: set OPGRAFT_BUILD")
    return found


def to_file(x: torch.Tensor, path: pathlib.Path) -> None:
    x = x.contiguous()
    if x.dtype is torch.bfloat16:
        np.save(path, x.view(torch.int16).numpy().view("V2"))
    else:
        np.save(path, x.numpy())


def from_file(path: pathlib.Path) -> torch.Tensor:
    array = np.load(path)
    if array.dtype == np.dtype("V2"):
        return torch.from_numpy(
            array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array)


def run_alone(calls: list[Call], count: int, folder: pathlib.Path
              ) -> list[torch.Tensor] | str:
    """The results, or why the program refused."""
    words = [program(), "run", str(folder / "row.og")]
    for k, x in enumerate(export(calls, folder / "row.og")):
        to_file(x, folder / f"in{k}.npy")
        words += ["--in", str(folder / f"in{k}.npy")]
    for k in range(count):
        words += ["--out", str(folder / f"out{k}.npy")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return done.stderr.replace(str(folder), "")
    return [from_file(folder / f"out{k}.npy") for k in range(count)]


def same(call: Call, k: int, a: torch.Tensor, b: torch.Tensor) -> None:
    """Where ATen itself is far from float64, we may be twice as far."""
    assert a.dtype == b.dtype and a.shape == b.shape
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        if not a.is_floating_point():
            raise
        right = call.in_double().run()[k].double()
        distance = (b.double() - right).abs().max()
        if not (a.double() - right).abs().max() <= 2 * distance:
            raise


def compare(call: Call, found: list[torch.Tensor]) -> None:
    wanted = call.run()
    name = call.target._schema.name.split("::")[1]
    if name in UNSET:
        assert [x.shape for x in found] == [x.shape for x in wanted]
    elif name in UNSTABLE and not call.kwargs.get("stable"):
        values, positions = found
        same(call, 0, values, wanted[0])
        place = UNSTABLE[name]
        dim = call.args[place] if len(call.args) > place > 0 else -1
        if name == "sort" and len(call.args) > 1:
            dim = call.args[1]
        x = call.args[0]
        if x.dim() > 0:
            assert torch.equal(x.gather(dim, positions), values)
    else:
        for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if k < KEPT_FOR_GRADIENT.get(name, k + 1) or a.shape == b.shape:
                same(call, k, a, b)


def is_left(row: str, said: str) -> bool:
    return row in LEFT and LEFT[row] in said


def check(row: str, most: int, folder: pathlib.Path) -> None:
    calls = calls_of(row, most)
    assert calls, f"{row}: no call to try it with: add one to own_calls.py"
    counts = [len(call.run()) for call in calls]
    whole = run_alone(calls, sum(counts), folder)
    said = []
    for call, count in zip(calls, counts):
        if isinstance(whole, str):
            found = run_alone([call], count, folder)
        else:
            found, whole = whole[:count], whole[count:]
        if not isinstance(found, str):
            compare(call, found)
        elif not is_left(row, found):
            said.append(f"{call}: {found}")
    assert not said, (
        f"{row}: {len(said)} of {len(calls)} calls need a host, the first is "
        f"{said[0]}")


@pytest.mark.parametrize("row", ROWS)
def test_row_runs_without_a_host(row: str, tmp_path: pathlib.Path) -> None:
    check(row, 1, tmp_path)


# Operators of the IR to which no row maps alone: text, and what it means.
GRAPHS = {
    "log_sigmoid": ("%x: f32[9]", "f32[9]", "(%x)",
                    torch.nn.functional.logsigmoid),
    "log_sigmoid_backward": (
        "%g: f32[9], %x: f32[9]", "f32[9]", "(%g, %x)",
        lambda g, x: g * torch.sigmoid(-x)),
    "size": ("%x: f32[s0]", "i64[]", "(; value=s0*2)",
             lambda x: torch.tensor(2 * len(x))),
}


@pytest.mark.parametrize("op", GRAPHS)
def test_operator_without_a_row(op: str, tmp_path: pathlib.Path) -> None:
    inputs, result, operands, f = GRAPHS[op]
    path = tmp_path / "row.og"
    path.write_text(f"graph g({inputs}) {{\n  %y: {result} = {op}{operands}\n"
                    "  return %y\n}\n")
    tensors = [torch.randn(9) for _ in range(inputs.count("%"))]
    words = [program(), "run", str(path), "--out", str(tmp_path / "y.npy")]
    for k, x in enumerate(tensors):
        to_file(x, tmp_path / f"{k}.npy")
        words += ["--in", str(tmp_path / f"{k}.npy")]
    subprocess.run(words, check=True, timeout=60, capture_output=True)
    torch.testing.assert_close(from_file(tmp_path / "y.npy"), f(*tensors))


def ir_operators() -> set[str]:
    text = (ROOT / "src/graph/ops.def").read_text()
    return set(re.findall(r"^OG_(?:OP|PW|PW_FLOAT|PW_INT)\((\w+),", text,
                          re.MULTILINE))


def test_every_ir_operator_runs_without_a_host(tmp_path: pathlib.Path) -> None:
    """Each is in a graph of the tests above, which run it."""
    path = tmp_path / "row.og"
    ran = {"foreign", *GRAPHS}
    for row in ROWS:
        for call in calls_of(row, 1):
            try:
                export([call], path)
            except NotImplementedError:
                continue
            ran |= operators(path)
    assert ir_operators() - ran == set()
    assert set(LEFT) <= set(ROWS)

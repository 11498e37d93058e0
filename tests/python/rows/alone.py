# SPDX-License-Identifier: Apache-2.0
"""Calls as a graph: compiled, or as a file that `opgraft run` runs without a
host."""

from __future__ import annotations

import functools
import operator
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from recorded import Call
from torch._subclasses.fake_tensor import FakeTensorMode

from opgraft import _C
from opgraft._graph import backend, stats, targets

ROOT = pathlib.Path(__file__).resolve().parents[3]

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
            "row", list(gm.graph.nodes), backend._tools(gm, {}), {},
            targets.recipe, str(path), None, 0)


def export(calls: list[Call], path: pathlib.Path) -> list[torch.Tensor]:
    builder = Builder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            builder.add(call)
    builder.export(path)
    return builder.inputs


def results_of(calls: list[Call], mode: str) -> list[list[torch.Tensor]]:
    """Those of one compiled graph of them all."""
    builder = Builder()
    for call in calls:
        builder.add(call)
    builder.graph.output(tuple(builder.results))
    gm = torch.fx.GraphModule({}, builder.graph)
    run = backend.compile_graph(gm, [], "inference", backend.Options(mode=mode),
                                stats.Region("rows"))
    flat = list(run(list(builder.inputs)))
    return [[flat.pop(0) for _ in call.run()] for call in calls]


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



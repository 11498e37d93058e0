# SPDX-License-Identifier: Apache-2.0
"""One line of models.txt: how to build a model, and what to call it with.

A tensor is written `float[2,3,96,96]` (uniform in [0, 1)), `bool[4]`, or
`int[2,7]<10` (below 10), a layer `linear[8,16]`. The line is JSON: library,
name, the constructor's arguments, and one set of arguments for each size, the
first being the one of gradients and training.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

LIST = Path(__file__).with_name("models.txt")
TENSOR = re.compile(r"(float|int|bool)\[([\d,]*)\](?:<(\d+))?")
LINEAR = re.compile(r"linear\[(\d+),(\d+)\]")


@dataclass
class Entry:
    library: str
    name: str  # a model of timm or torchvision, else a class
    init: dict[str, Any] = field(default_factory=dict)
    sizes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def title(self) -> str:
        # Classes of three modules have one name.
        return f"{self.library} {'.'.join(self.name.split('.')[-2:])}"

    def line(self) -> str:
        return json.dumps(asdict(self))

    def build(self) -> nn.Module:
        """Random weights that follow from a fixed seed."""
        torch.manual_seed(1)
        model = BUILDERS[self.library](self.name, value(self.init))
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and not tensor.isfinite().all():
                nn.init.normal_(tensor.data, std=0.02)  # left empty
        return model

    def arguments(self, size: int, draw: int = 0) -> dict[str, Any]:
        torch.manual_seed(2 + size + 100 * draw)
        found: dict[str, Any] = value(self.sizes[size])
        return found


def entries() -> list[Entry]:
    return [Entry(**json.loads(line)) for line in LIST.read_text().splitlines()
            if line and not line.startswith("#")]


def value(said: Any) -> Any:
    """What a line says, with its tensors made."""
    if isinstance(said, dict):
        return {name: value(x) for name, x in said.items()}
    if isinstance(said, list):
        return [value(x) for x in said]
    if not isinstance(said, str):
        return said
    if layer := LINEAR.fullmatch(said):
        return nn.Linear(int(layer[1]), int(layer[2]))
    match = TENSOR.fullmatch(said)
    return said if match is None else _tensor(match)


def _tensor(match: re.Match[str]) -> torch.Tensor:
    shape = [int(n) for n in match[2].split(",") if n]
    if match[1] == "float":
        return torch.rand(shape)
    bound = 2 if match[1] == "bool" else int(match[3])
    drawn = torch.randint(0, bound, shape)
    return drawn.bool() if match[1] == "bool" else drawn


def _timm(name: str, init: dict[str, Any]) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False, **init)
    return model


def _torchvision(name: str, init: dict[str, Any]) -> nn.Module:
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    if "weights_backbone" in inspect.signature(builder).parameters:
        init = {"weights_backbone": None, **init}
    model: nn.Module = builder(weights=None, **init)
    return model


def _class(name: str, init: dict[str, Any]) -> nn.Module:
    module, _, last = name.rpartition(".")
    with contextlib.redirect_stdout(sys.stderr):
        model: nn.Module = getattr(importlib.import_module(module),
                                   last)(**init)
    return model


BUILDERS = {"timm": _timm, "torchvision": _torchvision,
            "diffusers": _class, "torch_geometric": _class}

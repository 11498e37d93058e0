# SPDX-License-Identifier: Apache-2.0
"""A user's file: a model that is compiled, frozen and exported."""

from __future__ import annotations

import torch

import opgraft


def use(model: torch.nn.Module) -> str:
    x = torch.zeros(8, 64)
    compiled = torch.compile(model, backend="opgraft")
    compiled(x)
    frozen = opgraft.freeze(model, (x,))
    try:
        frozen(x)
    except opgraft.GuardError as error:
        return str(error)
    opgraft.export(model, (x,), "model.og", packed=True)
    opgraft.load_graph("model.og", mode="reduce-overhead")(x)
    return str(opgraft.stats(compiled))

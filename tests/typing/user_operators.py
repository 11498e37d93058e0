# SPDX-License-Identifier: Apache-2.0
"""A user's file: operators of a module and adopted ones."""

from __future__ import annotations

import pathlib

import torch

import opgraft


def use(path: pathlib.Path) -> torch.Tensor:
    module: opgraft.Module = opgraft.load(path)
    y: torch.Tensor = module.softcap(torch.zeros(3), cap=1.0)
    erf = opgraft.adopt("double erf(double x)", library="libm.so.6",
                        shape="x[*N] -> [*N]", call="x[i]", returns="out[i]")
    z: torch.Tensor = erf(y.double())
    opgraft.unadopt(erf)
    return z


def version() -> str:
    return opgraft.__version__

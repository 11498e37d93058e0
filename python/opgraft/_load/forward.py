# SPDX-License-Identifier: Apache-2.0
"""Forward mode (jvp, jacfwd, hessian): the tangents of a formula's results."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from .._base.rules import Description

GRADIENT, TANGENT = 0, 1  # OPGRAFT_GRADIENT, OPGRAFT_TANGENT


def has_tangents(values: Any) -> bool:
    return any(isinstance(value, torch.Tensor)
               and forward_ad.unpack_dual(value).tangent is not None
               for value in values)


def refusal(d: Description) -> NotImplementedError:
    return NotImplementedError(
        f"{d.name}: has no forward-mode derivative (jvp, jacfwd, hessian); use "
        "vjp, jacrev, and jacrev(jacrev(f)) in place of hessian(f)")


def tangents(origin: Any, d: Description, values: list[Any],
             given: list[Any]) -> Any:
    """Those of the results of a call with these values, of whose tensors some
    are given a tangent."""
    primals = [forward_ad.unpack_dual(v).primal
               if isinstance(v, torch.Tensor) else v for v in values]
    full = [torch.zeros_like(p) if isinstance(p, torch.Tensor)
            and not isinstance(t, torch.Tensor) else t
            for p, t in zip(primals, given, strict=True)]
    try:
        made = origin._derive(origin, d.name, TANGENT)
    except NotImplementedError:  # of parts of rows nothing is derived
        raise refusal(d) from None
    rule = made.description.tables["derived_by"]
    found = made.function(*(
        (full if s["source"] == "needs" else primals)[s["param"]]
        for s in rule["args"]))
    found = found if isinstance(found, tuple) else (found,)
    by_result = dict(zip(rule["targets"], found, strict=True))
    out = tuple(by_result.get(r) for r in range(len(d.results)))
    return out if len(out) > 1 else out[0]

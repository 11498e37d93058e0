# SPDX-License-Identifier: Apache-2.0
"""What compiled functions gave, kept so that two runs can be compared."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

import torch

MOST_BYTES = 512 << 20  # of results that one run keeps
# Of the largest magnitude in a tensor: what another order of the same sums
# may change, and a wrong value does not.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2,
             torch.bfloat16: 2e-2}


class Outputs:
    def __init__(self) -> None:
        self.values: list[Any] = []
        self.entries: list[Any] = []  # what was compiled
        self._bytes = 0

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """While inside, every call of a function that torch.compile returned
        is kept."""
        from torch._dynamo import eval_frame

        inner = eval_frame._TorchDynamoContext.__call__

        def compile_call(context: Any, fn: Any) -> Any:
            made = inner(context, fn)
            if isinstance(made, torch.nn.Module) or not isinstance(
                    context, eval_frame.OptimizeContext):
                return made

            @functools.wraps(made)
            def call(*args: Any, **kwargs: Any) -> Any:
                result = made(*args, **kwargs)
                if not torch.compiler.is_compiling():
                    self.add(result)
                return result

            return call

        context_type: Any = eval_frame._TorchDynamoContext
        context_type.__call__ = compile_call
        try:
            yield
        finally:
            context_type.__call__ = inner

    def add(self, value: Any) -> None:
        if self._bytes < MOST_BYTES:
            self.values.append(self._kept(value))

    def add_module(self, module: torch.nn.Module) -> None:
        """What a training step leaves behind."""
        for name, p in module.named_parameters():
            self.add((name, p, p.grad))
        parameters = dict(module.named_parameters())
        # A buffer that is not saved is not a result.
        self.add({k: v for k, v in module.state_dict().items()
                  if k not in parameters})

    def _kept(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self._bytes += value.numel() * value.element_size()
            return value.detach().clone()
        if isinstance(value, dict):
            return {str(k): self._kept(v) for k, v in value.items()}
        if isinstance(value, (tuple, list)):
            return [type(value).__name__, *map(self._kept, value)]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if hasattr(value, "__dict__"):
            return [type(value).__name__,
                    {k: self._kept(v) for k, v in vars(value).items()
                     if isinstance(v, (torch.Tensor, tuple, list))}]
        return type(value).__name__


def difference(a: Any, b: Any) -> str:
    """"" where two kept values are equal, as far as rounding goes."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _tensor_difference(a, b)
    if type(a) is not type(b):
        return f"{type(a).__name__} became {type(b).__name__}"
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return "other names"
        return next(filter(None, (difference(a[k], b[k]) for k in a)), "")
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{len(a)} values became {len(b)}"
        return next(filter(None, map(difference, a, b)), "")
    if isinstance(a, float):
        is_same = math.isclose(a, b, rel_tol=1e-4) or (
            math.isnan(a) and math.isnan(b))
        return "" if is_same else f"{a} became {b}"
    return "" if a == b else f"{a!r} became {b!r}"


def _tensor_difference(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return (f"{tuple(a.shape)} {a.dtype} became "
                f"{tuple(b.shape)} {b.dtype}")
    if a.is_sparse or a.is_quantized or a.numel() == 0:
        return ""
    if not (a.is_floating_point() or a.is_complex()):
        return "" if torch.equal(a, b) else "other numbers"
    if not torch.equal(a.isfinite(), b.isfinite()):
        return "other infinities or NaNs"
    # Not a complex tensor's own type: its parts are of half its size.
    limit = TOLERANCE.get(a.dtype, 1e-4)
    wide = torch.complex128 if a.is_complex() else torch.float64
    x, y = (t[a.isfinite()].to(wide) for t in (a, b))
    if not x.numel():
        return ""
    error = float((x - y).abs().max() / x.abs().max().clamp_min(1e-30))
    return "" if error <= limit else f"numbers differ by {error:.1e}"

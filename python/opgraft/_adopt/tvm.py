# SPDX-License-Identifier: Apache-2.0
"""TVM-FFI functions: what hosts/torch/adopt_tvm.c calls, and with what."""

from __future__ import annotations

import sys
from typing import Any

from .._base.rules import Description
from .c_functions import refuse_lists
from .maps import Names, parts


def is_function(fn: Any) -> bool:
    package = sys.modules.get("tvm_ffi")
    return package is not None and isinstance(fn, package.Function)


def name_of(fn: Any) -> str:
    return getattr(fn, "__name__", None) or "tvm_ffi_function"


def payload(
    d: Description, holder: Any, handle: int, symbol: int, call: str | None
) -> tuple[str, Any]:
    """`call` defaults to the arguments in order and then the results, which
    such functions write."""
    refuse_lists(d)
    names = Names(d, "dl")
    texts = parts(call) if call is not None else [
        *(p["name"] for p in d.params), *names.fresh]
    # "void": a bare name, which passes a tensor object (adopt_tvm.c)
    arguments = [("void" if text in names.tensors else "ptr",
                  names.program(text)) for text in texts]
    left = [n for n, i in names.fresh.items() if i not in names.used_outs]
    if len(left) > 1 or (left and len(names.fresh) > 1):
        raise ValueError(
            f"{d.name}: call leaves out {', '.join(left)}; a TVM-FFI function "
            "returns one result, others are written"
        )
    out = len(d.mutated) + names.fresh[left[0]] if left else -1
    return "tvm_ffi", (holder, handle, symbol, arguments, out)

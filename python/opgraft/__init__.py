# SPDX-License-Identifier: Apache-2.0
"""opgraft: one C operator file, native in every graph mode.

    m = opgraft.load("norms.so")
    m.rms_norm(x, weight)                  # the fast road
    torch.ops.norms.rms_norm(x, weight)    # the same operator
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "opgraft needs PyTorch 2.11 or newer in this environment: "
        "pip install torch"
    ) from error

from ._module import VERSION as __version__
from ._module import Module, load
from ._stats import stats

if TYPE_CHECKING:
    from ._adopt import adopt, unadopt
    from ._adopt_module import adopt_module
    from ._adopt_spec import Adoption, adopt_spec
    from ._check import check
    from ._freeze import GuardError, export, freeze
    from ._propose import Doubt, Proposal, propose

__all__ = ["Adoption", "Doubt", "GuardError", "Module", "Proposal", "adopt",
           "adopt_module", "adopt_spec", "check", "export", "freeze", "load",
           "propose", "stats", "unadopt", "__version__"]

# Whoever loads a module need not wait for what these import.
_LATER = {
    "adopt": "_adopt", "unadopt": "_adopt", "adopt_module": "_adopt_module",
    "Adoption": "_adopt_spec", "adopt_spec": "_adopt_spec", "check": "_check",
    "GuardError": "_freeze", "export": "_freeze", "freeze": "_freeze",
    "Doubt": "_propose", "Proposal": "_propose", "propose": "_propose",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

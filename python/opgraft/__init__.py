# SPDX-License-Identifier: Apache-2.0
"""opgraft: one C operator file, native in every graph mode.

    m = opgraft.load("norms.so")
    m.rms_norm(x, weight)                  # the fast road
    torch.ops.norms.rms_norm(x, weight)    # the same operator
"""

from __future__ import annotations

from typing import Any

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "opgraft needs PyTorch 2.11 or newer in this environment: "
        "pip install torch"
    ) from error

from ._adopt import adopt, unadopt
from ._adopt_module import adopt_module
from ._adopt_spec import Adoption, adopt_spec
from ._check import check
from ._module import VERSION as __version__
from ._module import Module, load
from ._propose import Doubt, Proposal, propose
from ._stats import stats

__all__ = ["Adoption", "Doubt", "GuardError", "Module", "Proposal", "adopt",
           "adopt_module", "adopt_spec", "check", "export", "freeze", "load",
           "propose", "stats", "unadopt", "__version__"]

# They need torch.export, which takes its time to import.
_LATER = ("GuardError", "export", "freeze")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
    from . import _freeze

    return getattr(_freeze, name)

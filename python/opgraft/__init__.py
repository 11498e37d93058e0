# SPDX-License-Identifier: Apache-2.0
"""opgraft: one C operator file, native in every graph mode.

    m = opgraft.load("norms.so")
    m.rms_norm(x, weight)                  # the fast path
    torch.ops.norms.rms_norm(x, weight)    # the same operator
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

# opgraft.jax and opgraft.onnx do without.
_HAS_TORCH = importlib.util.find_spec("torch") is not None
if _HAS_TORCH:
    from ._graph.stats import stats
    from ._load.module import VERSION as __version__
    from ._load.module import Module, load

if TYPE_CHECKING:
    from . import doctor as doctor
    from . import flashinfer as flashinfer
    from . import ops as ops
    from ._adopt.build import adopt, unadopt
    from ._adopt.modules import adopt_module
    from ._adopt.spec import Adoption, adopt_spec
    from ._check import check
    from ._device.load import load_device
    from ._device.state import Device
    from ._graph.freeze import GuardError, export, freeze
    from ._graph.loaded import load_graph
    from ._graph.profiles import Profile, profile
    from ._load.aten import decompositions
    from ._load.define import define
    from ._propose.propose import Doubt, Proposal, propose

__all__ = ["Adoption", "Device", "Doubt", "GuardError", "Module", "Profile", "Proposal",
           "adopt", "adopt_module", "adopt_spec", "check", "decompositions",
           "define", "export", "freeze", "load", "load_device", "load_graph", "profile", "propose", "stats", "unadopt", "__version__"]

# Whoever loads a module need not wait for what these import.
_LATER = {
    name: module for module, names in {
        "_adopt.build": ("adopt", "unadopt"),
        "_adopt.modules": ("adopt_module",),
        "_adopt.spec": ("Adoption", "adopt_spec"),
        "_check": ("check",),
        "_device.load": ("load_device",),
        "_device.state": ("Device",),
        "_graph.freeze": ("GuardError", "export", "freeze"),
        "_graph.loaded": ("load_graph",),
        "_graph.profiles": ("Profile", "profile"),
        "_load.aten": ("decompositions",),
        "_load.define": ("define",),
        "_propose.propose": ("Doubt", "Proposal", "propose"),
    }.items() for name in names
}


# Modules that `import opgraft` alone makes reachable.
_MODULES = ("doctor", "flashinfer", "ops")


def __getattr__(name: str) -> Any:
    if name in (*__all__, *_MODULES) and not _HAS_TORCH:
        raise ImportError(
            f"opgraft.{name} needs PyTorch 2.13 or newer in this environment: "
            "pip install torch (opgraft.jax and opgraft.onnx do without)"
        )
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What is public, and what every module has."""
    return sorted({*__all__, *(n for n in globals() if n.startswith("__"))})

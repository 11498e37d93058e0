# SPDX-License-Identifier: Apache-2.0
"""What this Python's torch offers the host: for `opgraft info`.

    python -m opgraft.info [--json]
"""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

import torch


def facts() -> dict[str, Any]:
    from . import _C
    from ._base import host
    from ._load.module import VERSION

    out: dict[str, Any] = {
        "package": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    try:
        host.prepare()
    except ImportError as error:
        out["error"] = str(error)
        return out
    from ._graph import meaning

    out["torch_tested"] = host.versions()
    out["aten_changed"] = meaning.changed()
    symbols = _C.symbols()
    out["symbols_found"] = sum(found for _, found, _ in symbols)
    out["symbols_missing"] = [name for name, found, _ in symbols if not found]
    state = _C.guard_state()
    out["self_test"] = {
        "dispatch_words": state["words"],
        "tensor_words": state["keys"],
        "wrap": state["wrap"],
        "version_counter": state["bump"],
    }
    is_quick = all(out["self_test"].values())
    out["fast_road"] = (
        "unpublished words, self-tested" if is_quick
        else "published calls where the self-test failed"
    )
    return out


def main() -> None:
    found = facts()
    if "--json" in sys.argv[1:]:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()

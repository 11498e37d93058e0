# SPDX-License-Identifier: Apache-2.0
"""What operators, modules and graphs say that they are, and what is public."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import opgraft


def test_a_module_and_its_operators(basics) -> None:
    shown = repr(basics)
    assert re.match(r"<opgraft module basics, \d+ functions: \w+, ", shown)
    assert len(shown) < 300 and shown.endswith(", ...>")
    assert "built-in method scale_add of opgraft._C.Operator" in repr(
        basics.scale_add)


def test_a_graph_names_its_arguments(tmp_path) -> None:
    def both(x, bias=None):
        return torch.relu(x + bias)

    given = torch.ones(2, 3), torch.ones(3)
    assert repr(opgraft.freeze(both, given)) == "<opgraft graph of (x, bias)>"
    opgraft.export(both, given, tmp_path / "both.og")
    loaded = repr(opgraft.load_graph(tmp_path / "both.og"))
    assert re.fullmatch(r"<opgraft graph of \(\w+, \w+\)>", loaded)


@pytest.mark.parametrize("wrong", [(), (torch.ones(2),) * 9])
def test_errors_call_operators_by_their_names(basics, wrong) -> None:
    adopted = opgraft.adopt(lambda x: x + 1, "plus(Tensor x) -> Tensor",
                            "x[*N] -> [*N]", "x: f32 -> x", name="reprs::plus")
    for f, name in ((basics.scale_add, "scale_add"), (adopted, "plus")):
        with pytest.raises(TypeError, match=rf"^{name}\(\) "):
            f(*wrong)
        with pytest.raises(Exception) as caught:
            torch.compile(lambda f=f: f(*wrong), backend="eager")()
        assert "<locals>" not in str(caught.value).partition("from user code")[0]


def test_dir_shows_what_is_public() -> None:
    shown = {name for name in dir(opgraft) if not name.startswith("__")}
    assert shown == set(opgraft.__all__) - {"__version__"}
    assert all(hasattr(opgraft, name) for name in shown)


def test_modules_are_reachable() -> None:
    """In a new process: whoever imported one has it."""
    subprocess.run([sys.executable, "-c", "import sys, opgraft\n"
                    "assert 'opgraft.ops' not in sys.modules\n"
                    "opgraft.ops.rms_norm, opgraft.flashinfer, opgraft.doctor"],
                   check=True)

# SPDX-License-Identifier: Apache-2.0
"""The models and planted breaks of openxla.py.

    opgraft doctor --backend openxla tests/peers/openxla_models.py NAME

NAME is a model of tests/doctor/architectures.txt, a training step, or a planted
function: there a line that ends in `# dynamo` breaks in the first stage and one
that ends in `# backend` falls back in the second; nothing else does.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any, Callable

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "doctor"))

MODELS = (
    "AlbertModel BertModel DistilBertModel ElectraModel FNetModel MPNetModel "
    "RobertaModel "
    "BloomModel GPT2Model GPTNeoXModel LlamaModel OPTModel PhiModel Qwen2Model "
    "BartModel T5Model "
    "MambaModel "
    "ConvNextModel DeiTModel Dinov2Model RegNetModel ResNetModel ViTModel").split()


# --- Planted ------------------------------------------------------------------


def whole(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.t(), -1).relu() + 1


def number(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    n = int(y.sum())  # dynamo
    return y * n


def choice(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:  # dynamo
        return y * 2
    return y - 1


def printed(x: torch.Tensor) -> torch.Tensor:
    y = x.cos()
    print("half way")  # dynamo
    return y.exp()


def asked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()  # dynamo
    return y.tanh()


def factors(x: torch.Tensor) -> torch.Tensor:
    y = x @ x.t()
    q, r = torch.linalg.qr(y)  # backend
    return (q @ r).relu() + y


def twice(x: torch.Tensor) -> torch.Tensor:
    a = torch.linalg.qr(x @ x.t())[0]  # backend
    b = (a + 1).sin()
    return torch.linalg.qr(b)[1] * 2  # backend


def bins(x: torch.Tensor) -> torch.Tensor:
    y = x.relu() + 1
    return torch.histc(y, 8, 0.0, 4.0) + y.sum()  # backend


def both(x: torch.Tensor) -> torch.Tensor:
    y = torch.linalg.qr(x @ x.t())[0]  # backend
    n = float(y.max())  # dynamo
    return (y * n).exp()


PLANTED = (whole, number, choice, printed, asked, factors, twice, bins, both)


def marked(function: Callable[..., Any]) -> set[tuple[int, str]]:
    """The lines and stages of what is planted."""
    code = function.__code__
    lines = pathlib.Path(__file__).read_text().splitlines()
    last = max(line for _, _, line in code.co_lines() if line)
    return {(n, lines[n - 1].rpartition("# ")[2])
            for n in range(code.co_firstlineno, last + 1)
            if lines[n - 1].endswith(("# dynamo", "# backend"))}


# --- What is called -----------------------------------------------------------


def training() -> Callable[[Callable[..., Any]], Any]:
    """A module whose result has a gradient."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(),
                                torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
    x = torch.randn(16, 32)
    return lambda wrap: wrap(model)(x)


def backward(result: Any) -> None:
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.backward(torch.ones_like(result))


def maker(name: str) -> Callable[[Callable[..., Any]], Any]:
    """`call(wrap)` calls what `wrap` makes of the model."""
    if name == "training":
        return training()
    for function in PLANTED:
        if function.__name__ == name:
            torch.manual_seed(0)
            x = torch.randn(16, 16)
            return lambda wrap: wrap(function)(x)
    import architectures

    one = next(a for a in architectures.listed() if a.model == name)
    model, arguments = one.build(), one.arguments()

    def call(wrap: Callable[..., Any]) -> Any:
        with torch.no_grad():
            return wrap(model)(**arguments)

    return call


if __name__ == "__main__":
    run = maker(sys.argv[1])
    compiled: dict[int, Any] = {}
    for _ in range(2):
        backward(run(lambda model: compiled.setdefault(
            id(model), torch.compile(model))))

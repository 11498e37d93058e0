# SPDX-License-Identifier: Apache-2.0
"""Arguments that are symbols: each at negative, zero, border and far values,
as eager takes or refuses them."""

from __future__ import annotations

import random
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from compare import compiled

SIZE = 7
FAR = (-1000, -SIZE - 1, -SIZE, -2, -1, 0, 1, SIZE - 1, SIZE, 1000)
Function = Callable[[torch.Tensor, int], Any]


def written(write: Callable[[torch.Tensor, int], Any]) -> Function:
    def run(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x * 2
        write(y, n)
        return y

    return run


def item_write(x: torch.Tensor, n: int) -> None:
    x[n] = 1.0


def column_write(x: torch.Tensor, n: int) -> None:
    x[:, n] = x[:, 0] * 3


def slice_write(x: torch.Tensor, n: int) -> None:
    x[n:] = 1.0


def end_write(x: torch.Tensor, n: int) -> None:
    x[:n] = 1.0


def column_slice_write(x: torch.Tensor, n: int) -> None:
    x[:, n:] *= 2.0


# Functions of x[7, 7] and a number.
FUNCTIONS: dict[str, Function] = {
    "item": lambda x, n: x[n] * 2,
    "column": lambda x, n: x[:, n] * 2,
    "slice_from": lambda x, n: x[n:] * 2,
    "slice_to": lambda x, n: x[:, :n] * 2,
    "slice_between": lambda x, n: x[n:n + 2] * 2,
    "narrow": lambda x, n: x.narrow(0, n, 1) * 2,
    "item_write": written(item_write),
    "column_write": written(column_write),
    "slice_write": written(slice_write),
    "end_write": written(end_write),
    "column_slice_write": written(column_slice_write),
    "select_scatter": lambda x, n: x.select_scatter(x[0] * 3, 1, n),
    "slice_scatter": lambda x, n: torch.slice_scatter(x, x[:2] * 3, 0, n, n + 2),
    "roll": lambda x, n: torch.roll(x, n, 0) * 2,
    "pad": lambda x, n: F.pad(x, (n, 1)) * 2,
    "diagonal": lambda x, n: x.diagonal(n) * 2,
    "triu": lambda x, n: x.triu(n) * 2,
    "expand": lambda x, n: x[None].expand(n, -1, -1) * 2,
    "repeat": lambda x, n: x.repeat(n, 1) * 2,
    "view": lambda x, n: x.view(n, -1) * 2,
    "unflatten": lambda x, n: x.reshape(-1, n) * 2,
    "split": lambda x, n: x.split(n)[0] * 2,
    "chunk": lambda x, n: x.chunk(n)[-1] * 2,
    "arange": lambda x, n: x[0, 0] * torch.arange(n),
    "full": lambda x, n: x[0, 0] * x.new_full((n, 2), n),
    "as_strided": lambda x, n: x.as_strided((2, 2), (n, 1), 1) * 2,
    "topk": lambda x, n: x.topk(n, 0).values * 2,
    "sum_dim": lambda x, n: x.sum(n) * 2,
    "cat_dim": lambda x, n: torch.cat([x, x], n) * 2,
    "unfold": lambda x, n: x.unfold(0, n, 1) * 2,
    "number": lambda x, n: x * n + n,
    # torch has no gradient of a power that is a symbol.
    "power": lambda x, n: x * x.detach() ** n,
    "clamp": lambda x, n: x.clamp(max=n),
    "floor_divide": lambda x, n: (x * 9).int() // n + 0 * x,
    "embedding": lambda x, n: F.embedding(
        torch.tensor([0, 1, 6]), x, padding_idx=n) * 2,
    "nll_loss": lambda x, n: F.nll_loss(
        x, torch.arange(7), ignore_index=n, reduction="sum"),
    "adaptive_pool": lambda x, n: F.adaptive_avg_pool2d(x[None], n) * 2,
    "interpolate": lambda x, n: F.interpolate(x[None], size=n) * 2,
}


def outcome(f: Function, n: int) -> Any:
    """Result and gradient, or that it raises."""
    torch.manual_seed(3)
    x = (torch.rand(SIZE, SIZE) + 0.5).requires_grad_()
    try:
        y = f(x, n)
        if y.requires_grad:
            (y * torch.arange(1.0, y.numel() + 1).view(y.shape)).sum(
            ).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return y.detach(), x.grad


def compare(name: str, numbers: list[int], dynamic: bool | None) -> int:
    f = FUNCTIONS[name]
    torch._dynamo.reset()
    c = compiled(f, dynamic=dynamic)
    for n in numbers:
        wanted, found = outcome(f, n), outcome(c, n)
        assert isinstance(found, str) == isinstance(wanted, str), (
            f"{n}: {str(found)[:200]}; eager {str(wanted)[:200]}")
        if isinstance(wanted, tuple):
            torch.testing.assert_close(found, wanted)
    return len(numbers)


# What importers of ours compute a place from.
PLACES = ("item", "column", "slice_from", "item_write", "column_write",
          "slice_write", "column_slice_write", "select_scatter", "pad",
          "as_strided")


OTHERS = [name for name in FUNCTIONS if name not in PLACES]


@pytest.mark.parametrize("name", [*PLACES, *OTHERS[::6]])
def test_a_symbol_at_its_borders(name: str) -> None:
    numbers = [2, 3] + random.Random(name).sample(FAR, 4)
    if name in PLACES:
        numbers = [2, -2, -SIZE, SIZE, -SIZE - 1, 0]
    compare(name, numbers, dynamic=True)


@pytest.mark.parametrize("last", [SIZE * SIZE, SIZE * SIZE - 1, -1])
@pytest.mark.parametrize("makes", [False, True], ids=["input", "result"])
def test_a_view_that_its_storage_does_not_hold(last: int, makes: bool) -> None:
    """Of a part of its storage, or of a result: at the last byte and behind."""
    def f(x: torch.Tensor) -> torch.Tensor:
        of = x * 2 if makes else x
        return of.as_strided((2, 2), (3, 1), last - 4) + 1

    x = torch.rand(SIZE, SIZE)
    x = x if makes else x[2:5]
    if last in range(SIZE * SIZE):
        torch.testing.assert_close(compiled(f)(x), f(x))
        return
    with pytest.raises(RuntimeError, match="out of bounds|storage"):
        compiled(f)(x)


# --- Read from data -----------------------------------------------------------


def place(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    n = i.item()
    torch._check(n >= 0)
    torch._check(n < 4)
    return torch.as_strided(x, (2, 2), (1, 1), n) * 2


def stride(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    n = i.item()
    torch._check(n >= 4)
    return x.new_empty_strided((3, SIZE), (SIZE, n)).fill_(2.0) + x[:3]


def beside(x: torch.Tensor, i: torch.Tensor) -> Any:
    y = x * 2
    return y[i.item()] + 1, y


def assigned(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[i.item()] = 1.0
    return y


FROM_DATA: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "item": lambda x, i: x[i.item()] * 2,
    "view": lambda x, i: x[i.item()],
    "slice": lambda x, i: x[i.item():] * 2,
    "offset": place, "stride": stride, "beside": beside, "write": assigned}


@pytest.mark.parametrize("name", FROM_DATA)
def test_a_symbol_that_only_a_stride_or_offset_has(name: str) -> None:
    f, x = FROM_DATA[name], torch.randn(SIZE, SIZE)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        c = compiled(f, fullgraph=True)
        for n in (1, 4, -2, SIZE, -SIZE - 1):
            i = torch.tensor(n)
            try:
                wanted = f(x, i)
            except Exception:
                with pytest.raises((IndexError, RuntimeError)):
                    c(x, i)
                continue
            torch.testing.assert_close(c(x, i), wanted)


@pytest.mark.full
@pytest.mark.parametrize("dynamic", [True, None], ids=["dynamic", "automatic"])
def test_many(dynamic: bool | None, rounds: Any) -> None:
    names = list(FUNCTIONS)

    def check(seed: int) -> int:
        r = random.Random(seed)
        numbers = [2, 3, *FAR, *(r.randint(-3 * SIZE, 3 * SIZE) for _ in "abc")]
        r.shuffle(numbers)
        return compare(names[seed % len(names)], numbers, dynamic)

    rounds(check, 3 * len(names))

# SPDX-License-Identifier: Apache-2.0
"""3x3 convolutions through transformed tiles: right for every size that is
drawn, at most twice as far from float64 as eager mode, in what is not finite
equal to sums of taps, and chosen only where no stricter promise stands against
it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import opgraft

T = torch.Tensor


@pytest.fixture
def rules(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "rules").write_text("convolution: winograd\n")
    return {"mode": "max-autotune", "tune_s": 0,
            "choose": str(tmp_path / "rules")}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def compiled(f: Any, options: dict[str, Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", dynamic=False, options=options)


def who(f: Any) -> list[str]:
    return [line.split(": ")[1].split()[0]
            for line in str(opgraft.stats(f).rules()).splitlines()
            if line.startswith("convolution")]


def distance(found: T, exact: T) -> float:
    return float((found.double() - exact).abs().max()) if exact.numel() else 0.0


def no_farther(found: T, eager: T, exact: T) -> None:
    """At most twice eager's distance to float64 (docs/numerics.md)."""
    slack = 1e-6 * float(exact.abs().max()) if exact.numel() else 0.0
    assert distance(found, exact) <= 2 * distance(eager, exact) + slack


@pytest.mark.parametrize("seed", range(24))
def test_drawn(seed: int, rules: dict[str, Any]) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    inner, outer = (r.choice([1, 3, 16, 31, 64, 100]) for _ in range(2))
    padding = r.randint(0, 3), r.randint(0, 3)
    sides = [max(r.randint(1, 33), 3 - 2 * padding[d]) for d in range(2)]
    x = torch.randn(r.choice([1, 1, 2, 3]), inner, *sides)
    w = torch.randn(outer, inner, 3, 3) / (9 * inner) ** 0.5
    b = torch.randn(outer) if r.random() < 0.5 else None
    f = compiled(lambda x, w, b: F.conv2d(x, w, b, padding=padding), rules)
    exact = F.conv2d(x.double(), w.double(), None if b is None else b.double(),
                     padding=padding)
    no_farther(f(x, w, b), F.conv2d(x, w, b, padding=padding), exact)
    assert who(f) == ["winograd"]


@pytest.mark.parametrize(("channels", "side"),
                         [(64, 56), (128, 28), (256, 14), (512, 7)])
def test_distance_to_float64(channels: int, side: int,
                             rules: dict[str, Any]) -> None:
    """The shapes of ResNet-18; operands as behind a ReLU, where all sums of
    elements grow and those of results do not."""
    torch.manual_seed(0)
    x = torch.randn(1, channels, side, side).relu()
    conv = torch.nn.Conv2d(channels, channels, 3, padding=1)
    exact = copy.deepcopy(conv).double()(x.double())
    f = compiled(conv, rules)
    ours, eager = distance(f(x), exact), distance(conv(x), exact)
    print(f"{channels} channels: {ours:.2e} from float64, eager {eager:.2e}")
    assert ours <= 2 * eager
    assert who(f) == ["winograd"]


@pytest.mark.parametrize(("x", "n"), [
    ((1, 64, 56, 56), 64),  # each task transforms its elements
    ((5, 256, 14, 13), 80),   # a turn's tasks share them
    ((3, 33, 9, 50), 37),
])
def test_threads_change_no_bit(x: tuple[int, ...], n: int,
                               rules: dict[str, Any]) -> None:
    torch.manual_seed(0)
    tensors = torch.randn(x), torch.randn(n, x[1], 3, 3), torch.randn(n)
    found = []
    for threads in 1, 2, 4:
        torch.set_num_threads(threads)
        f = compiled(lambda x, w, b: F.conv2d(x, w, b, padding=1), rules)
        found.append(f(*tensors))
        assert who(f) == ["winograd"]
    exact = F.conv2d(*(t.double() for t in tensors), padding=1)
    no_farther(found[0], F.conv2d(*tensors, padding=1), exact)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("special", ["inf", "-inf", "nan", "huge"])
@pytest.mark.parametrize("where", ["x", "w"])
def test_what_is_not_finite_stays_with_its_taps(special: str, where: str,
                                                rules: dict[str, Any]) -> None:
    """A tile reads 4x4 elements, of which a pixel's taps are 3x3; and the sums
    of a tile overflow before those of the taps do."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 20, 9, 11), torch.randn(35, 20, 3, 3)
    value = 3e38 if special == "huge" else float(special)
    if where == "x":
        x[0, 3, 4, 5], x[1, 0, 0, 0] = value, value
        if special == "huge":
            x[0, 3, 4, 5:9] = value
            w[:, 3] /= 16
    else:
        w[7, 2, 1, 0] = value
        if special == "huge":
            w[7, 2] = value
            x /= 16
    f = compiled(lambda x, w: F.conv2d(x, w, padding=1), rules)
    # Padding is zeros, which an infinite weight turns into NaN.
    found, wanted = f(x, w), F.conv2d(F.pad(x, (1, 1, 1, 1)), w)
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.equal(found.isinf(), wanted.isinf())
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4,
                               equal_nan=True)
    assert who(f) == ["winograd"]


class Block(torch.nn.Module):
    """A basic block of ResNet: norm, ReLU and residual are epilogues."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Conv2d(40, 40, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(40)
        self.last = torch.nn.Conv2d(40, 40, 3, padding=1)
        torch.nn.init.normal_(self.norm.weight)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: T) -> T:
        return F.relu(self.last(F.relu(self.norm(self.first(x)))) + x)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_block(frozen: bool, rules: dict[str, Any]) -> None:
    """Epilogues change no bit; weights that are written are seen."""
    model = Block().eval()
    x = torch.randn(2, 40, 19, 22)
    found = []
    for more in "", "fused: fast\n":
        Path(rules["choose"]).write_text("convolution: winograd\n" + more)
        if frozen:
            torch._dynamo.reset()
            f = opgraft.freeze(model, (x,), options=rules)
            found.append(f(x))
            continue
        f = compiled(model, rules)
        found.append(f(x))
        assert who(f) == ["winograd"] * 2
        assert opgraft.stats(f).epilogues == (0 if more else 2)
        assert torch.equal(f(x), found[-1])
    exact = copy.deepcopy(model).double()(x.double())
    no_farther(found[0], model(x), exact)
    assert torch.equal(found[0], found[1])
    if frozen:
        return
    for _ in range(3):
        model.first.weight.normal_()
        exact = copy.deepcopy(model).double()(x.double())
        no_farther(f(x), model(x), exact)


@pytest.mark.parametrize(("w", "given"), [
    ((32, 32, 3, 3), {"stride": 2}),
    ((32, 32, 3, 3), {"dilation": 2}),
    ((32, 16, 3, 3), {"groups": 2}),
    ((32, 32, 5, 5), {}),
    ((32, 32, 3, 1), {}),
], ids=["stride", "dilation", "groups", "5x5", "3x1"])
def test_what_it_does_not_take(w: tuple[int, ...], given: dict[str, Any],
                               rules: dict[str, Any]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(1, 32, 12, 12), torch.randn(w)
    f = compiled(lambda x, w: F.conv2d(x, w, **given), rules)
    torch.testing.assert_close(f(x, weight), F.conv2d(x, weight, **given),
                               rtol=1e-4, atol=1e-4)
    assert who(f) != ["winograd"]


def test_strict_math_and_no_images(rules: dict[str, Any]) -> None:
    x, w = torch.randn(2, 32, 12, 12), torch.randn(32, 32, 3, 3)

    def conv(x: T) -> T:
        return F.conv2d(x, w, padding=1)

    f = compiled(conv, {**rules, "math": "strict"})
    torch.testing.assert_close(f(x), conv(x), rtol=1e-4, atol=1e-4)
    assert who(f) != ["winograd"]
    f = compiled(conv, rules)
    assert f(x[:0]).shape == (0, 32, 12, 12)


def test_determinism_times_nothing() -> None:
    """Two compilations choose alike, without a clock, and give equal bits."""
    conv = torch.nn.Conv2d(64, 64, 3, padding=1)
    x = torch.randn(1, 64, 24, 24)
    torch.use_deterministic_algorithms(True)
    try:
        options = {"mode": "max-autotune", "tune_s": 5}
        found = []
        for _ in range(2):
            f = compiled(conv, options)
            y = f(x)
            chosen = str(opgraft.stats(f).rules()).splitlines()
            found.append((y, [c for c in chosen if "convolution" in c]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert len(found[0][1]) == 1 and "timed" not in found[0][1][0]

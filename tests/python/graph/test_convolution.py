# SPDX-License-Identifier: Apache-2.0
"""Convolutions by the engine's packed kernel, held against float64: sizes,
strides, paddings, dilations and groups are drawn; the forms that it has
(shared pixels, shared channels, one channel, one pixel) each run."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from compare import no_worse
from torch.nn import functional as F

import opgraft

T = torch.Tensor


@pytest.fixture
def rules(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "rules").write_text("convolution: fast\n")
    return {"mode": "max-autotune", "tune_s": 0,
            "choose": str(tmp_path / "rules")}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def who(f: Any) -> str:
    line = next(line for line in str(opgraft.stats(f).rules()).splitlines()
                if line.startswith("convolution"))
    return line.split(": ")[1].split()[0]


def holds(f: Any, x: T, w: T, b: T | None, expected: T) -> bool:
    steps = w[0].numel()
    scale = float(x.abs().max() * w.abs().max()) * steps ** 0.5
    return bool(((f(x, w, b).double() - expected).abs().max()
                 <= 2e-6 * scale + 1e-12))


def drawn(seed: int) -> tuple[T, T, T | None, dict[str, Any]]:
    r = random.Random(seed)
    torch.manual_seed(seed)
    groups = r.choice([1, 1, 1, 2, 3, 8, 33])
    inner = 1 if groups > 3 else r.choice([1, 2, 5, 16, 40])
    outer = r.choice([1, 2, 7, 30, 64])
    taps = r.choice([(1, 1), (3, 3), (2, 3), (5, 5), (7, 1), (1, 4)])
    given = {"stride": (r.choice([1, 1, 2, 3]), r.choice([1, 1, 2, 3])),
             "padding": (r.randint(0, 3), r.randint(0, 4)),
             "dilation": (r.choice([1, 1, 2]), r.choice([1, 1, 2])),
             "groups": groups}
    sides = [max(r.randint(1, 40), (taps[d] - 1) * given["dilation"][d] + 1
                 - 2 * given["padding"][d]) for d in range(2)]
    x = torch.randn(r.choice([1, 1, 2, 3]), groups * inner, *sides)
    w = torch.randn(groups * outer, inner, *taps)
    b = torch.randn(groups * outer) if r.random() < 0.5 else None
    return x, w, b, given


@pytest.mark.parametrize("seed", range(24))
def test_drawn(seed: int, rules: dict[str, Any]) -> None:
    x, w, b, given = drawn(seed)

    def conv(x: T, w: T, b: T | None) -> T:
        return F.conv2d(x, w, b, **given)

    f = torch.compile(conv, backend="opgraft", dynamic=False, options=rules)
    expected = conv(x.double(), w.double(), None if b is None else b.double())
    assert holds(f, x, w, b, expected)
    assert who(f) == "fast"


@pytest.mark.parametrize("seed", range(12))
def test_three_dims(seed: int, rules: dict[str, Any]) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    groups, inner = r.choice([(1, 1), (1, 3), (1, 16), (2, 5)])
    taps = [r.choice([1, 2, 3]) for _ in range(3)]
    given: dict[str, Any] = {name: [r.choice(few) for _ in range(3)]
                             for name, few in (("stride", [1, 1, 2]), (
                                 "padding", [0, 1, 2]), ("dilation", [1, 2]))}
    sides = [r.randint(5, 12) for _ in taps]
    x = torch.randn(2, groups * inner, *sides)
    if seed % 4 == 3:
        x = x.to(memory_format=torch.channels_last_3d)
    w = torch.randn(groups * r.choice([1, 6, 60]), inner, *taps)
    b = torch.randn(w.shape[0]) if r.random() < 0.5 else None
    Path(rules["choose"]).write_text("convolution: fast\n" + (
        "" if seed % 2 else "fused: fast\n"))

    def conv(x: T, w: T, b: T | None) -> T:
        return F.conv3d(x, w, b, groups=groups, **given).relu()

    f = torch.compile(conv, backend="opgraft", dynamic=seed % 3 == 0,
                      options=rules)
    assert holds(f, x, w, b, conv(x.double(), w.double(),
                                  None if b is None else b.double()))
    assert who(f) == "fast"
    assert f(x, w, b).stride() == conv(x, w, b).stride()


@pytest.mark.parametrize(("x", "w", "given"), [
    ((1, 256, 7, 7), (128, 256, 3, 3), {"padding": 1}),  # shared channels
    ((2, 64, 30, 30), (40, 64, 3, 3), {"padding": 1}),   # shared pixels
    ((2, 48, 19, 21), (48, 1, 5, 5), {"padding": 2, "groups": 48}),
    ((3, 100, 1, 1), (57, 100, 1, 1), {}),               # one pixel
], ids=["channels", "pixels", "planes", "dots"])
def test_threads_change_no_bit(x: tuple[int, ...], w: tuple[int, ...],
                               given: dict[str, Any],
                               rules: dict[str, Any]) -> None:
    torch.manual_seed(0)
    tensors = torch.randn(x), torch.randn(w), torch.randn(w[0])
    found = []
    for threads in 1, 2, 4:
        torch._dynamo.reset()
        torch.set_num_threads(threads)
        f = torch.compile(lambda x, w, b: F.conv2d(x, w, b, **given),
                          backend="opgraft", dynamic=False, options=rules)
        found.append(f(*tensors))
        assert who(f) == "fast"
    expected = F.conv2d(*(t.double() for t in tensors), **given)
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4,
                               atol=1e-4)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_one_spatial_dim_and_sizes_that_vary(rules: dict[str, Any]) -> None:
    w, b = torch.randn(6, 4, 3), torch.randn(6)
    f = torch.compile(lambda x: F.conv1d(x, w, b, padding=1),
                      backend="opgraft", dynamic=True, options=rules)
    for length in 5, 16, 33:
        x = torch.randn(2, 4, length)
        torch.testing.assert_close(f(x), F.conv1d(x, w, b, padding=1),
                                   rtol=1e-4, atol=1e-5)
    assert who(f) == "fast"


def test_channels_apart(rules: dict[str, Any]) -> None:
    """Planes may stand apart; rows have to stand together."""
    w = torch.randn(6, 4, 3, 3)
    whole = torch.randn(2, 8, 9, 9)
    f = torch.compile(lambda x: F.conv2d(x, w), backend="opgraft",
                      dynamic=False, options=rules)
    x = whole[:, ::2]
    torch.testing.assert_close(f(x), F.conv2d(x, w), rtol=1e-4, atol=1e-5)
    assert who(f) == "fast"
    x = torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last)
    torch._dynamo.reset()
    torch.testing.assert_close(f(x), F.conv2d(x, w), rtol=1e-4, atol=1e-5)
    assert who(f) == "fast"


def test_edges_keep_what_is_not_finite(rules: dict[str, Any]) -> None:
    """Nothing of the padding is multiplied by an infinite element."""
    x = torch.randn(1, 2, 6, 6)
    x[0, 0, 0, 0], x[0, 1, 3, 3], x[0, 1, 5, 0] = float("inf"), float("nan"), -0.0
    w = torch.randn(3, 2, 3, 3)
    f = torch.compile(lambda x: F.conv2d(x, w, padding=2), backend="opgraft",
                      dynamic=False, options=rules)
    torch.testing.assert_close(f(x), F.conv2d(x, w, padding=2), rtol=1e-4,
                               atol=1e-5, equal_nan=True)
    assert who(f) == "fast"


def turned(x: T, seed: int) -> T:
    """Channels side by side, in the ways that models make it so."""
    if seed % 3 == 0 and x.ndim == 4:
        return x.to(memory_format=torch.channels_last)
    x = x.transpose(1, -1).contiguous().transpose(1, -1)
    return x if x.ndim == 3 else x.transpose(2, 3).contiguous().transpose(
        2, 3) if seed % 3 == 1 else x


@pytest.mark.parametrize("seed", range(12))
def test_channels_side_by_side(seed: int, rules: dict[str, Any]) -> None:
    x, w, b, given = drawn(seed + 100)
    if seed % 4 == 0:
        x, w = x[:, :, 0], w[:, :, 0]
        given = {k: v if k == "groups" else v[1] for k, v in given.items()}
    f = torch.compile(lambda x, w, b: (F.conv2d if x.ndim == 4 else F.conv1d)(
        x, w, b, **given), backend="opgraft", dynamic=False, options=rules)
    x = turned(x, seed)

    def eager(x: T, w: T, b: T | None) -> T:
        return (F.conv2d if x.ndim == 4 else F.conv1d)(x, w, b, **given)

    expected = eager(x.double(), w.double(), None if b is None else b.double())
    assert holds(f, x, w, b, expected)
    assert f(x, w, b).stride() == eager(x, w, b).stride()


def padded(seed: int) -> tuple[Any, list[T]]:
    """Padding of any kind in front of a convolution of any kind."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    dims = r.choice([1, 1, 2, 2, 2, 3])
    groups, inner = r.choice([(1, 3), (1, 8), (2, 4), (6, 1)])
    taps = [r.choice([1, 2, 3, 5]) for _ in range(dims)]
    given = {name: [r.choice(few) for _ in range(dims)] for name, few in (
        ("stride", [1, 1, 2]), ("dilation", [1, 1, 2]), ("padding", [0, 0, 1]))}
    kind = r.choice(["even", "left", "any", "none", "cut"])
    pads = []
    for k in taps[::-1]:
        least = {"cut": -1}.get(kind, 0)
        before = 0 if kind == "none" else r.randint(least, k)
        pads += [before, before if kind in ("even", "none") else
                 0 if kind == "left" else r.randint(least, k)]
    sides = [r.randint(9, 14) for _ in taps]
    x = torch.randn(2, groups * inner, *sides)
    if r.random() < 0.3:
        x = x.transpose(1, -1).contiguous().transpose(1, -1)
    w = torch.randn(groups * r.choice([1, 4]), inner, *taps)
    value = r.choice([0.0, 0.0, 0.0, 1.5])

    def conv(x: T, w: T) -> T:
        return torch.convolution(
            F.pad(x, pads, value=value), w, None, given["stride"],
            given["padding"], given["dilation"], False, [0] * dims, groups)

    return conv, [x, w]


@pytest.mark.parametrize("seed", range(16))
def test_padding_in_front(seed: int) -> None:
    conv, (x, w) = padded(seed)
    kind = [torch.float32, torch.float32, torch.bfloat16][seed % 3]
    exact, eager = conv(x.double(), w.double()), conv(x.to(kind), w.to(kind))
    for mode in "max-autotune", "default":
        torch._dynamo.reset()
        f = torch.compile(conv, backend="opgraft", dynamic=seed % 4 == 0,
                          options={"mode": mode, "tune_s": 0})
        no_worse(f(x.to(kind), w.to(kind)), eager, exact)


def test_padding_is_the_convolutions(rules: dict[str, Any]) -> None:
    """Padding takes no step where our kernel runs the convolution, and where
    it is even none where the host does."""
    w = torch.randn(4, 2, 3, 3)
    x = torch.randn(1, 2, 8, 8)
    for pads, mode in (((1, 2, 0, 1), "max-autotune"), ((1, 1, 2, 2), "default"),
                       ((0, 0, 0, 0), "default")):
        def conv(x: T, pads: Any = pads) -> T:
            return F.conv2d(F.pad(x, pads), w)

        torch._dynamo.reset()
        f = torch.compile(conv, backend="opgraft", dynamic=False,
                          options={"mode": mode, "tune_s": 0})
        no_worse(f(x), conv(x), F.conv2d(F.pad(x, pads).double(), w.double()))
        assert opgraft.stats(f).nodes == 1


class Block(torch.nn.Module):
    """What convolutional models are made of: norm, activation, residual, the
    mean of planes, gates of one pixel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Conv2d(24, 48, 1, bias=False)
        self.norm = torch.nn.BatchNorm2d(48)
        self.planes = torch.nn.Conv2d(48, 48, 3, 2, 1, groups=48, bias=False)
        self.next_norm = torch.nn.BatchNorm2d(48)
        self.gate = torch.nn.Conv2d(48, 48, 1)
        self.last = torch.nn.Conv2d(48, 24, 3, padding=1)
        for norm in self.norm, self.next_norm:
            torch.nn.init.normal_(norm.weight)
            torch.nn.init.normal_(norm.bias)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x: T) -> T:
        y = F.hardswish(self.norm(self.first(x)))
        y = F.relu(self.next_norm(self.planes(y)))
        gate = torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        return self.last(y * gate) + F.avg_pool2d(x, 2)


def test_a_block(rules: dict[str, Any]) -> None:
    """Epilogues change no bit, and neither do they or the pass `channels` bring
    results farther from float64 than eager mode's."""
    model = Block().eval()
    x = torch.randn(2, 24, 20, 22)
    found = []
    for more, disabled in ("", []), ("fused: fast\n", []), ("", ["channels"]):
        Path(rules["choose"]).write_text("convolution: fast\n" + more)
        torch._dynamo.reset()
        f = torch.compile(model, backend="opgraft", dynamic=False,
                          options={**rules, "disable": disabled})
        found.append(f(x))
        stats = opgraft.stats(f)
        if not disabled:
            assert stats.epilogues == (0 if more else 4)
            assert "mean" not in str(stats.rules())
    exact = copy.deepcopy(model).double()(x.double())
    no_worse(found, [model(x)] * 3, [exact] * 3)
    assert torch.equal(found[0], found[1])

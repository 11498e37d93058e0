# SPDX-License-Identifier: Apache-2.0
"""Option `precision`: contractions of bf16, and weights of int8 and int4.

What they give is held against float64 of the operands as they are rounded, so
nothing but sums may differ. Of bf16 the machine decides whether both operands
are rounded (dots) or the second alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import torch

import opgraft

# Which kernel is faster is not asked here: ours run, over weights that stay
# packed, or packing at each call.


def _rules(folder: Path, kernel: str) -> str:
    path = folder / f"{kernel}.txt"
    path.write_text(f"*: {kernel}\n")
    return str(path)


@pytest.fixture
def packed(tmp_path: Path) -> str:
    return _rules(tmp_path, "packed")


@pytest.fixture
def fast(tmp_path: Path) -> str:
    return _rules(tmp_path, "fast")


def options(rules: str, precision: str) -> dict[str, Any]:
    return {"mode": "max-autotune", "precision": precision, "tune_s": 0,
            "choose": rules}


def compiled(f: Any, rules: str, precision: str, **more: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft",
                         options=options(rules, precision), **more)


def bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().double()


def int8(w: torch.Tensor) -> torch.Tensor:
    """[n, k], as it is multiplied; rounded in f32, as the engine does."""
    scale = w.abs().amax(1, keepdim=True) / np.float32(127)
    some = torch.where(scale > 0, scale, torch.ones_like(scale))
    return torch.round((w / some).clamp(-127, 127)).double() * scale.double()


def of_16_bits(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """What rows of x in 16 bits lose, as a size of is_near."""
    lost = x.double().abs().amax(1, keepdim=True) / 65278
    return lost * w.double().abs().sum(1) / 2e-6


def is_near(y: torch.Tensor, wanted: torch.Tensor, size: torch.Tensor) -> bool:
    """Within what sums in f32 lose."""
    return bool(((y.double() - wanted).abs() <= 2e-6 * size + 1e-6).all())


def product_is_right(y: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
                     c: Any, is_narrow: bool) -> bool:
    """y = a b + c, with b or both rounded to bf16, or none where bf16 does not
    pay."""
    size = a.double().abs() @ b.double().abs() + abs(c)
    wanted = [bf16(a) @ bf16(b), a.double() @ bf16(b)] if is_narrow else [
        a.double() @ b.double()]
    return any(is_near(y, w + c, size) for w in wanted)


# --- bf16 ---------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 5, 8, 33, 150])
@pytest.mark.parametrize("k, n", [(64, 48), (257, 95), (768, 300), (3, 20)])
@pytest.mark.parametrize("kernel", ["packed", "fast"])
def test_linear_of_bf16(tmp_path: Path, kernel: str, m: int, k: int, n: int
                        ) -> None:
    torch.manual_seed(m * k)
    layer = torch.nn.Linear(k, n)
    x = torch.randn(m, k)
    f = compiled(layer, _rules(tmp_path, kernel), "bf16")
    with torch.no_grad():
        y = f(x)
        w, bias = layer.weight.t(), layer.bias.double()
        is_narrow = opgraft.stats(f).narrow_contractions == 1
        assert product_is_right(y, x, w, bias, is_narrow)
        assert torch.equal(f(x), y)
    is_small = k * n * 4 < 1 << 14  # not worth to be kept packed
    assert is_narrow or m > 6 or (is_small and kernel == "packed")
    assert opgraft.stats(f).quantised_weights == 0


@pytest.mark.parametrize("shapes", [
    ((3, 40, 96), (3, 96, 70)), ((2, 3, 9, 33), (2, 3, 33, 17)),
    ((5, 1, 64), (5, 64, 128)), ((7, 4, 8), (8, 90))])
def test_products_of_activations(fast: str, shapes: Any) -> None:
    torch.manual_seed(1)
    a, b = (torch.randn(s) for s in shapes)
    f = compiled(torch.matmul, fast, "bf16")
    y = f(a, b)
    is_narrow = opgraft.stats(f).narrow_contractions == 1
    assert is_narrow or a[..., 0].numel() > 6  # batches may be rows
    assert product_is_right(y, a, b, 0, is_narrow)
    g = compiled(lambda a, b: a.transpose(-1, -2) @ b, fast, "bf16")
    other = a.transpose(-1, -2).contiguous()
    assert product_is_right(g(other, b), a, b, 0, is_narrow)


def test_factors_and_epilogues(fast: str) -> None:
    torch.manual_seed(2)
    a, b, c = torch.randn(20, 130), torch.randn(130, 70), torch.randn(20, 70)
    f = compiled(lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2),
                 fast, "bf16")
    g = compiled(lambda a, b, c: torch.relu(a @ b) + c, fast, "bf16")
    size = 2 * (a.double().abs() @ b.double().abs()) + c.abs()
    forms = [(bf16(a), bf16(b)), (a.double(), b.double())]  # without dots
    assert any(is_near(f(a, b, c), 2 * (x @ w) + 0.5 * c.double(), size)
               and is_near(g(a, b, c), torch.relu(x @ w) + c.double(), size)
               for x, w in forms)


@pytest.mark.parametrize("taps, stride, groups, channels", [
    (1, 1, 1, 24), (3, 1, 1, 5), (3, 2, 1, 64), (5, 1, 2, 16), (3, 1, 16, 16)])
def test_convolutions(fast: str, taps: int, stride: int, groups: int,
                      channels: int) -> None:
    torch.manual_seed(3)
    layer = torch.nn.Conv2d(channels - channels % groups, 4 * groups, taps,
                            stride, taps // 2, groups=groups)
    x = torch.randn(2, layer.in_channels, 13, 17)
    f = compiled(layer, fast, "bf16")
    conv = torch.nn.functional.conv2d
    rest = (stride, taps // 2, 1, groups)
    with torch.no_grad():
        y = f(x)
        bias = layer.bias.double()
        size = conv(x.double().abs(), layer.weight.double().abs(), bias.abs(),
                    *rest)
        assert any(is_near(y, conv(a, b, bias, *rest), size) for a, b in (
            (bf16(x), bf16(layer.weight)),
            (x.double(), layer.weight.double())))


def test_numbers_beyond_bf16(fast: str) -> None:
    """NaN, infinities and zeros stay; what is above bf16's largest number
    becomes infinite, as a conversion makes it."""
    a = torch.ones(9, 32)
    for i, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0,
                               3.4028e38, 1e-40)):
        a[i, 3] = value
    b = torch.eye(32)
    f = compiled(torch.matmul, fast, "bf16")
    y = f(a, b)
    wanted = [a.bfloat16().float() @ b, a @ b]
    assert any(torch.equal(y.nan_to_num(7, 8, 9), w.nan_to_num(7, 8, 9))
               or torch.allclose(y, w, equal_nan=True, atol=1e-38)
               for w in wanted)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("shapes", [((0, 8), (8, 4)), ((4, 0), (0, 8)),
                                    ((4, 8), (8, 0)), ((2, 0, 3), (2, 3, 4))])
def test_empty(fast: str, precision: str, shapes: Any) -> None:
    a, b = (torch.ones(s) for s in shapes)
    assert torch.equal(compiled(torch.matmul, fast, precision)(a, b), a @ b)


def test_training_in_bf16(fast: str) -> None:
    """No farther from f32's gradients than autocast's are, which rounds
    results too."""
    torch.manual_seed(4)
    layer = torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU(),
                                torch.nn.Linear(128, 64))
    x = torch.randn(40, 96)

    def gradients(f: Any, autocast: bool = False) -> list[torch.Tensor]:
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = f(x)
        (y.float() ** 2).sum().backward()
        return [p.grad.clone() for p in layer.parameters()]

    wanted, other = gradients(layer), gradients(layer, autocast=True)
    found = gradients(compiled(layer, fast, "bf16"))
    for g, o, w in zip(found, other, wanted):
        assert (g - w).norm() <= 1.2 * (o - w).norm()


# --- int8 ---------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 7, 33, 150])
@pytest.mark.parametrize("k, n", [(257, 95), (768, 300)])
@pytest.mark.parametrize("call", [
    compiled, lambda f, packed, precision: opgraft.freeze(
        f, (torch.randn(9, f.in_features),),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        options=options(packed, precision))], ids=["compiled", "frozen"])
def test_linear_of_int8(packed: str, m: int, k: int, n: int,
                        call: Callable[..., Any]) -> None:
    torch.manual_seed(m * k)
    layer = torch.nn.Linear(k, n)
    with torch.no_grad():
        layer.weight[1] = 0
    x = torch.randn(m, k)
    f = call(layer, packed, "int8")
    with torch.no_grad():
        y = f(x)
        size = x.double().abs() @ layer.weight.double().abs().t() + 1
        assert is_near(y, x.double() @ int8(layer.weight.detach()).t()
                       + layer.bias.double(), size + of_16_bits(x, layer.weight))


def test_the_error_is_told(packed: str) -> None:
    torch.manual_seed(5)
    layer = torch.nn.Sequential(torch.nn.Linear(256, 300, bias=False),
                                torch.nn.Linear(300, 256, bias=False))
    f = compiled(layer, packed, "int8")
    with torch.no_grad():
        f(torch.randn(3, 256))
    wanted = max(float((int8(w.detach()) - w.double()).norm() / w.double().norm())
                 for w in layer.parameters())
    found = opgraft.stats(f)
    assert found.narrow_contractions == 2 and found.quantised_weights == 2
    assert found.quantised_error == pytest.approx(wanted, rel=1e-4)
    assert f"2 weights quantised, off by {wanted:.3%} at most" in str(found)
    assert json.loads(found.json())["quantised_weights"] == 2


def int4(w: torch.Tensor, group: int) -> torch.Tensor:
    """[n, k], as it is multiplied."""
    n, k = w.shape
    parts = torch.nn.functional.pad(w, (0, -k % group)).view(n, -1, group)
    least, most = parts.amin(2, keepdim=True), parts.amax(2, keepdim=True)
    most = torch.where(-least > most, least, most)
    unit = 2.0 ** w.abs().amax(1).clamp(min=1e-30).log2().floor()
    scale = (most / -8 / unit[:, None, None]).half() * unit[:, None, None]
    some = torch.where(scale != 0, scale, torch.ones_like(scale))
    near = torch.round(parts / some).clamp(-8, 7).double() * scale.double()
    return near.view(n, -1)[:, :k]


@pytest.mark.parametrize("m", [1, 33])
@pytest.mark.parametrize("name, group", [("int4", 128), ("int4/64", 64),
                                         ("int4/32", 32)])
def test_linear_of_int4(packed: str, m: int, name: str, group: int) -> None:
    """As the weights are rounded; the figure that stats gives is theirs."""
    torch.manual_seed(m)
    layer = torch.nn.Linear(300, 95)
    with torch.no_grad():
        layer.weight[1] = 0
        x, w = torch.randn(m, 300), layer.weight.detach()
        f = compiled(layer, packed, name)
        y = f(x)
        near = int4(w, group)
        size = x.double().abs() @ near.abs().t() + 1
        assert is_near(y, x.double() @ near.t() + layer.bias.double(),
                       size + of_16_bits(x, near))
    wanted = float((near - w.double()).norm() / w.double().norm())
    assert opgraft.stats(f).quantised_error == pytest.approx(wanted, rel=1e-4)
    assert opgraft.stats(f).quantised_weights == 1


def rows_of_8_bits(x: torch.Tensor) -> torch.Tensor:
    """As they are multiplied; rounded in f32, as the engine does."""
    most = x.float().abs().amax(1, keepdim=True)
    return torch.round(x.float() * (torch.full_like(most, 127) / most)).double() * (most / 127).double()


@pytest.mark.parametrize("name, group", [
    ("int8-dynamic", 0), ("int4-dynamic", 128), ("int4/32-dynamic", 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activations_of_int8(packed: str, name: str, group: int,
                             dtype: torch.dtype) -> None:
    """float64 of rows and weights as they are rounded; a row's bits are those
    that it has alone, in every form."""
    torch.manual_seed(group)
    layer = torch.nn.Linear(300, 95).to(dtype)
    w = layer.weight.detach().float()
    near = int4(w, group) if group else int8(w)
    x = torch.randn(150, 300).to(dtype)
    f = compiled(layer, packed, name, dynamic=True)
    g = opgraft.freeze(layer, (x,), options=options(packed, name))
    h = compiled(layer, packed, {"*": name}, dynamic=True)  # type: ignore[arg-type]
    rows = rows_of_8_bits(x)
    wanted = rows @ near.t() + layer.bias.double()
    size = rows.abs() @ near.abs().t() + 1
    eps = 0 if dtype == torch.float32 else torch.finfo(dtype).eps / 2e-6
    with torch.no_grad():
        y = g(x)
        assert is_near(y, wanted, size + eps * wanted.abs())
        for m in (1, 5, 40, 150):
            assert torch.equal(f(x[:m]), y[:m]) and torch.equal(h(x[:m]), y[:m])
    other = compiled(layer, packed, name.partition("-")[0])
    with torch.no_grad():
        assert not torch.equal(other(x), y)
    assert opgraft.stats(f).quantised_weights == len(opgraft.stats(f).graphs)


@pytest.mark.parametrize("precision", ["int8", "int4", "int4/32"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_16_bits(packed: str, dtype: torch.dtype, precision: str
                           ) -> None:
    """What float64 of the weights as they are rounded gives, but for the
    result's own rounding."""
    torch.manual_seed(9)
    layer = torch.nn.Linear(300, 95).to(dtype)
    w = layer.weight.detach().float()
    near = int8(w) if precision == "int8" else int4(
        w, 32 if precision == "int4/32" else 128)
    f = compiled(layer, packed, precision)
    with torch.no_grad():
        for m in (1, 5, 40):
            x = torch.randn(m, 300).to(dtype)
            wanted = x.double() @ near.t() + layer.bias.double()
            assert (f(x).double() - wanted).norm() < 0.004 * wanted.norm()
    assert opgraft.stats(f).unquantised == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_int8_cannot_hold(packed: str, value: float) -> None:
    """Such weights stay as they are, in every form."""
    layer = torch.nn.Linear(256, 128)
    with torch.no_grad():
        layer.weight[3, 5] = value
        x = torch.randn(2, 256)
        y = layer(x)
        f = compiled(layer, packed, "int8")
        frozen = opgraft.freeze(layer, (x,), options=options(packed, "int8"))
        for found in (f(x), f(x), frozen(x)):
            assert torch.allclose(found, y, equal_nan=True, atol=1e-4)
    assert opgraft.stats(f).quantised_weights == 0


def test_training_keeps_its_weights(packed: str) -> None:
    layer = torch.nn.Linear(256, 128)
    x = torch.randn(8, 256)
    f = compiled(layer, packed, "int8")
    assert torch.allclose(f(x), layer(x), atol=1e-5)
    assert opgraft.stats(f).quantised_weights == 0


# --- Both ---------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_changed_weight_is_seen(packed: str, precision: str) -> None:
    layer = torch.nn.Linear(256, 256, bias=False)
    x = torch.randn(4, 256)
    f = compiled(layer, packed, precision)
    frozen = opgraft.freeze(layer, (x,), options=options(packed, precision))
    with torch.no_grad():
        for scale in (1, 2, -0.5):
            layer.weight.mul_(scale)
            wanted = x @ layer.weight.t()
            for g in (f, frozen):
                assert (g(x) - wanted).norm() < 0.02 * wanted.norm()


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_sizes_that_vary(packed: str, precision: str) -> None:
    layer = torch.nn.Linear(256, 128)
    f = compiled(layer, packed, precision, dynamic=True)
    with torch.no_grad():
        for m in (3, 40, 2, 200):
            x = torch.randn(m, 256)
            wanted = layer(x)
            assert (f(x) - wanted).norm() < 0.02 * wanted.norm()
    assert len(opgraft.stats(f).graphs) == 1


@pytest.mark.parametrize("precision", ["f32", "bf16", "int8", "int4/64",
                                       "int8-dynamic"])
def test_files_have_packed_forms(tmp_path: Path, precision: str) -> None:
    torch.manual_seed(7)
    layer = torch.nn.Sequential(torch.nn.Linear(256, 384), torch.nn.GELU(),
                                torch.nn.Linear(384, 100))
    x = torch.randn(5, 256)
    path, plain = tmp_path / "m.og", tmp_path / "plain.og"
    opgraft.export(layer, (x,), path, packed=True, precision=precision)
    opgraft.export(layer, (x,), plain)
    call = opgraft.load_graph(path, precision=precision)
    other = opgraft.load_graph(plain, precision=precision)
    y = call(x)
    assert torch.equal(y, other(x))
    told = [json.loads(f.graph.stats()) for f in (call, other)]
    assert told[0]["packed_bytes"] == 0 < told[0]["mapped_bytes"]
    assert told[1]["mapped_bytes"] == 0
    assert told[1]["packed_bytes"] == told[0]["mapped_bytes"]
    for name, most in (("f32", 1e-5), ("bf16", 0.03), ("int8", 0.03),
                       ("int4", 0.3)):  # another precision packs its own
        with torch.no_grad():
            wanted = layer(x)
        found = opgraft.load_graph(path, precision=name)(x)
        assert (found - wanted).norm() < most * wanted.norm()


def test_an_altered_int8_form_is_refused(tmp_path: Path) -> None:
    layer = torch.nn.Linear(256, 384)
    x = torch.randn(5, 256)
    path = tmp_path / "m.og"
    opgraft.export(layer, (x,), path, packed=True, precision="int8")
    whole = path.read_bytes()
    plain = tmp_path / "plain.og"
    opgraft.export(layer, (x,), plain)
    begin = len(plain.read_bytes())
    rng = np.random.default_rng(0)
    y = opgraft.load_graph(path, precision="int8")(x)
    for at in rng.integers(begin, len(whole), 60):
        bad = bytearray(whole)
        bad[at] ^= 0x40
        path.write_bytes(bytes(bad))
        try:
            found = opgraft.load_graph(path, precision="int8")(x)
        except RuntimeError:
            continue
        assert torch.equal(found, y)  # what fills up a line


SAME = """
import sys, torch, opgraft
torch.use_deterministic_algorithms(True)
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
layer = torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.GELU(),
                            torch.nn.Linear(500, 300))
f = torch.compile(layer, backend="opgraft", options={
    "mode": "max-autotune", "precision": sys.argv[2], "choose": sys.argv[3]})
with torch.no_grad():
    print([f(torch.randn(m, 300)).view(torch.int32).sum().item()
           for m in (1, 9, 64)])
"""


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_threads_change_no_bit(packed: str, precision: str) -> None:
    found = {subprocess.run(
        [sys.executable, "-c", SAME, threads, precision, packed], check=True,
        capture_output=True, text=True).stdout for threads in "1124"}
    assert len(found) == 1


# --- Words --------------------------------------------------------------------


def test_what_is_refused(tmp_path: Path) -> None:
    layer, x = torch.nn.Linear(4, 4), torch.ones(1, 4)
    for given, text in (
            ({"precision": "f64"}, "precision is 'f64', expected one of f32, bf16, int8, int4"),
            ({"precision": "bf16"}, "'bf16' in mode 'default', expected mode "),
            ({"precision": "int8", "mode": "reduce-overhead"},
             "in mode 'reduce-overhead'")):
        with pytest.raises(Exception, match=text):
            torch._dynamo.reset()
            torch.compile(layer, backend="opgraft", options=given)(x)
    path = tmp_path / "m.og"
    with pytest.raises(ValueError, match="precision is 'int8' without packed"):
        opgraft.export(layer, (x,), path, precision="int8")
    with pytest.raises(ValueError, match="precision is 'f64', expected one of f32"):
        opgraft.export(layer, (x,), path, packed=True, precision="f64")
    opgraft.export(layer, (x,), path)
    with pytest.raises(ValueError, match="precision is 'f64', expected one of f32"):
        opgraft.load_graph(path, precision="f64")
    with pytest.raises(ValueError, match="expected mode 'max-autotune'"):
        opgraft.load_graph(path, mode="reduce-overhead", precision="bf16")


# --- By weight ----------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        self.up = torch.nn.Linear(256, 384)
        self.down = torch.nn.Linear(384, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


def _model() -> torch.nn.Module:
    torch.manual_seed(8)
    return torch.nn.Sequential(Block(), Block())


@pytest.mark.parametrize("precision, wanted", [
    ({"*": "int8"}, 4), ({"0.*": "int8"}, 2), ({"1.up.weight": "int4/32"}, 1),
    ({"*.up.weight": "f32", "*": "int8"}, 2),
    ({"0.down.weight": "bf16", "*.down.weight": "int4"}, 1)])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_precision_by_weight(packed: str, precision: Any, wanted: int,
                             is_frozen: bool) -> None:
    """The weights that a pattern names are quantised, and no other."""
    model, x = _model(), torch.randn(3, 256)
    with torch.no_grad():
        f = (opgraft.freeze(model, (x,), options=options(packed, precision))
             if is_frozen else compiled(model, packed, precision))
        y = f(x)
        assert (y - model(x)).norm() < 0.2 * y.norm()
        told = json.loads(f.graph.stats()) if is_frozen \
            else vars(opgraft.stats(f))
    assert told["quantised_weights"] == wanted and told["unquantised"] == []
    narrow = wanted + ("bf16" in precision.values())
    assert told["narrow_contractions"] == narrow


def test_patterns_that_match_nothing(packed: str) -> None:
    model, x = _model(), torch.randn(3, 256)
    for precision, text in (
            ({"0.upp.*": "int4"}, r"'0.upp.\*', which matches none of '0.norm.w"),
            ({"0.norm.weight": "int8"}, r"'0.norm.weight', of shape \[256\]"),
            ({"*": "int5"}, r"pattern '\*': precision is 'int5', expected one"),
            ({3: "int8"}, "has pattern 3, expected a str")):
        with pytest.raises(Exception, match=text), torch.no_grad():
            compiled(model, packed, precision)(x)
        with pytest.raises(ValueError, match=text):
            opgraft.freeze(model, (x,), options=options(packed, precision))


def test_weights_that_stay_are_told(packed: str) -> None:
    """Those that a format cannot hold, or that no kernel keeps."""
    model, x = _model(), torch.randn(3, 256)
    with torch.no_grad():
        model[0].up.weight[3, 5] = float("inf")
        f = compiled(model, packed, "int4")
        f(x)
        found = opgraft.stats(f)
        assert found.quantised_weights == found.narrow_contractions == 3
        assert [n["operator"] for n in found.unquantised] == [
            "aten.addmm.default"]
        assert "not quantised: aten.addmm.default" in str(found)
        assert "its type cannot hold the weight" in str(found)
        small = compiled(torch.nn.Linear(16, 16), packed, "int8")
        small(torch.randn(2, 16))
        assert len(opgraft.stats(small).unquantised) == 1, opgraft.stats(small)

# SPDX-License-Identifier: Apache-2.0
"""The graphs of bench/graphs.py: published widths, random weights.

A graph with custom operators has an inlined form, PyTorch's operators in
their place, for peers that refuse custom ones; the table marks it.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
T = torch.Tensor


@dataclass
class Built:
    model: nn.Module
    args: tuple[Any, ...]
    is_training: bool = False
    # Of a result that differs from eager's, relative to the largest value.
    tolerance: float = 1e-4


@dataclass
class Graph:
    build: Callable[[bool], Built]  # (inlined)
    has_custom: bool
    needs: str | None


ALL: dict[str, Graph] = {}


def graph(has_custom: bool = False, needs: str | None = None) -> Any:
    def add(build: Callable[[bool], Built]) -> Callable[[bool], Built]:
        ALL[build.__name__] = Graph(build, has_custom, needs)
        return build

    return add


class First(nn.Module):
    """A model's first result: a plain tensor."""

    def __init__(self, inner: nn.Module, name: str, **more: Any) -> None:
        super().__init__()
        self.inner, self.name, self.more = inner, name, more

    def forward(self, *args: T) -> T:
        return getattr(self.inner(*args, **self.more), self.name)


def tokens(length: int, words: int) -> T:
    return torch.randint(0, words, (1, length))


# --- Small ---------------------------------------------------------------------


@graph()
def mlp(_: bool) -> Built:
    return Built(nn.Sequential(
        nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
        nn.Linear(128, 10)), (torch.randn(16, 64),))


class StateEquation(nn.Module):
    """Density of sea water (McDougall et al. 2003, the form of a rational
    function): a chain of some fifty pointwise operators on large tensors."""

    UPPER = (9.9984e+02, 7.3521e+00, -5.4591e-02, 3.9870e-04, 2.9695e+00,
             -6.7230e-03, 2.1220e-03, 1.1799e-02, 9.8920e-08, 4.6996e-06,
             -2.5862e-08, -3.2921e-12)
    LOWER = (1.0, 7.2815e-03, -4.4787e-05, 3.3851e-07, 1.3651e-10, 1.7632e-03,
             -8.8066e-06, -1.8832e-10, 5.7463e-06, 1.4716e-09, 6.7103e-06,
             -2.4461e-17, -9.1534e-18)

    def forward(self, salt: T, heat: T, pressure: T) -> T:
        a, b, p = self.UPPER, self.LOWER, pressure
        h2, s_half = heat * heat, torch.sqrt(salt)
        upper = (a[0] + heat * (a[1] + heat * (a[2] + a[3] * heat))
                 + salt * (a[4] + a[5] * heat + a[6] * salt)
                 + p * (a[7] + a[8] * h2 + a[9] * salt
                        + p * (a[10] + a[11] * h2)))
        lower = (b[0] + heat * (b[1] + heat * (b[2] + heat * (
            b[3] + b[4] * heat)))
            + salt * (b[5] + heat * (b[6] + b[7] * h2)
                      + s_half * (b[8] + b[9] * h2))
            + p * (b[10] + p * heat * (b[11] * h2 + b[12] * p)))
        return upper / lower - 1000.0


@graph()
def state_equation(_: bool) -> Built:
    shape = (60, 128, 128)
    return Built(StateEquation(), (
        35 + torch.rand(shape), 10 + 5 * torch.rand(shape),
        1000 * torch.rand(shape)))


def compiled_module(source: Path) -> Any:
    import opgraft

    out = Path(tempfile.mkdtemp(prefix="opgraft-bench-")) / f"{source.stem}.so"
    subprocess.run(
        ["cc", "-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden",
         f"-I{ROOT / 'include'}", str(source), "-o", str(out)], check=True)
    return opgraft.load(out)


@graph(has_custom=True)
def chain_200(is_inlined: bool) -> Built:
    """200 operators on 16 numbers, every tenth custom: x + 0.5 * y."""
    op = ((lambda x, y, a: x + a * y) if is_inlined else compiled_module(
        ROOT / "bench/peers/scale_add.c").scale_add)

    class Chain(nn.Module):
        def forward(self, x: T, y: T) -> T:
            for i in range(200):
                if i % 10 == 9:
                    x = op(x, y, 0.5)
                else:
                    x = x * 0.75 if i % 2 else torch.relu(x)
            return x

    return Built(Chain(), (torch.randn(16), torch.randn(16)))


# --- Transformers ---------------------------------------------------------------


def bert_model(layers: int, width: int, heads: int, **more: Any) -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=layers, hidden_size=width,
                        intermediate_size=4 * width,
                        num_attention_heads=heads, **more)
    return First(BertModel(config, add_pooling_layer=False),
                 "last_hidden_state")


@graph(needs="transformers")
def minilm(_: bool) -> Built:
    ids = tokens(32, 30522)
    return Built(bert_model(6, 384, 12), (ids, torch.ones_like(ids)))


@graph(needs="transformers")
def bert_base(_: bool) -> Built:
    ids = tokens(128, 30522)
    return Built(bert_model(12, 768, 12), (ids, torch.ones_like(ids)))


def gpt2_model() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0))


@graph(needs="transformers")
def gpt2_prefill(_: bool) -> Built:
    return Built(First(gpt2_model(), "logits", use_cache=False),
                 (tokens(64, 50257),))


class Gpt2Decode(nn.Module):
    """One token over keys and values of the past; the new ones are results,
    which the caller appends."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = gpt2_model().transformer

    def forward(self, ids: T, place: T, keys: T, values: T) -> tuple[T, ...]:
        inner = self.inner
        x = inner.wte(ids) + inner.wpe(place)
        new_keys, new_values = [], []
        for i, block in enumerate(inner.h):
            q, k, v = (t.unflatten(-1, (12, 64)).transpose(1, 2) for t in
                       block.attn.c_attn(block.ln_1(x)).split(768, 2))
            new_keys.append(k)
            new_values.append(v)
            y = F.scaled_dot_product_attention(
                q, torch.cat([keys[i], k], 2), torch.cat([values[i], v], 2))
            x = x + block.attn.c_proj(y.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.ln_2(x))
        return (inner.ln_f(x) @ inner.wte.weight.t(), torch.stack(new_keys),
                torch.stack(new_values))


@graph(needs="transformers")
def gpt2_decode(_: bool) -> Built:
    past = [torch.randn(12, 1, 12, 128, 64) for _ in range(2)]
    return Built(Gpt2Decode(), (tokens(1, 50257), torch.tensor([[128]]),
                                *past))


class Llama(nn.Module):
    """A decode step of four layers with grouped heads: about 31 million
    weights."""

    WIDTH, HEADS, GROUPS, HEAD, INNER, WORDS = 768, 12, 4, 64, 2048, 8192

    def __init__(self) -> None:
        super().__init__()
        rows = self.GROUPS * self.HEAD

        def linear(i: int, o: int) -> nn.Module:
            return nn.Linear(i, o, bias=False)

        self.words = nn.Embedding(self.WORDS, self.WIDTH)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "before": nn.RMSNorm(self.WIDTH, 1e-6),
            "after": nn.RMSNorm(self.WIDTH, 1e-6),
            "q": linear(self.WIDTH, self.WIDTH),
            "k": linear(self.WIDTH, rows), "v": linear(self.WIDTH, rows),
            "o": linear(self.WIDTH, self.WIDTH),
            "gate": linear(self.WIDTH, self.INNER),
            "up": linear(self.WIDTH, self.INNER),
            "down": linear(self.INNER, self.WIDTH)}) for _ in range(4))
        self.norm = nn.RMSNorm(self.WIDTH, 1e-6)
        self.head = linear(self.WIDTH, self.WORDS)

    @staticmethod
    def turned(x: T, cos: T, sin: T) -> T:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, ids: T, cos: T, sin: T, keys: T, values: T
                ) -> tuple[T, ...]:
        x = self.words(ids)
        new_keys, new_values = [], []
        for i, layer in enumerate(self.layers):
            y = layer["before"](x)
            q, k, v = (layer[n](y).unflatten(-1, (-1, self.HEAD))
                       .transpose(1, 2) for n in "qkv")
            q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
            new_keys.append(k)
            new_values.append(v)
            y = F.scaled_dot_product_attention(
                q, torch.cat([keys[i], k], 2), torch.cat([values[i], v], 2),
                enable_gqa=True)
            x = x + layer["o"](y.transpose(1, 2).flatten(2))
            y = layer["after"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return (self.head(self.norm(x)), torch.stack(new_keys),
                torch.stack(new_values))


def llama(dtype: torch.dtype) -> Built:
    past = [torch.randn(4, 1, Llama.GROUPS, 256, Llama.HEAD, dtype=dtype)
            for _ in range(2)]
    angle = torch.arange(Llama.HEAD // 2).repeat(2) / 32
    rate = 256 * 1e4 ** -angle
    return Built(Llama().to(dtype), (
        tokens(1, Llama.WORDS), rate.cos().to(dtype), rate.sin().to(dtype),
        *past), tolerance=1e-4 if dtype == torch.float32 else 4e-2)


@graph()
def llama_decode(_: bool) -> Built:
    return llama(torch.float32)


@graph()
def llama_decode_bf16(_: bool) -> Built:
    return llama(torch.bfloat16)


@graph(needs="transformers")
def t5_encoder(_: bool) -> Built:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(num_layers=6, d_model=512, d_ff=2048, num_heads=8)
    return Built(First(T5EncoderModel(config), "last_hidden_state"),
                 (tokens(64, config.vocab_size),))


@graph(needs="transformers")
def vit_tiny(_: bool) -> Built:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=192, intermediate_size=768,
                       num_attention_heads=3)
    return Built(First(ViTModel(config, add_pooling_layer=False),
                       "last_hidden_state"), (torch.randn(1, 3, 224, 224),))


# --- Convolutions -----------------------------------------------------------------


def convolution(i: int, o: int, size: int, stride: int = 1, groups: int = 1,
                act: Callable[[], nn.Module] = nn.Identity) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(o), act())


class Residual(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(i, o, 3, stride, act=nn.ReLU),
                                  convolution(o, o, 3))
        self.skip = (nn.Identity() if stride == 1 and i == o
                     else convolution(i, o, 1, stride))

    def forward(self, x: T) -> T:
        return F.relu(self.body(x) + self.skip(x))


@graph()
def resnet18(_: bool) -> Built:
    layers = [convolution(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(before, width, stride), Residual(width, width, 1)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return Built(nn.Sequential(*layers), (torch.randn(1, 3, 224, 224),))


class Squeeze(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        inner = max(8, (width // 4 + 4) // 8 * 8)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.ReLU(),
            nn.Conv2d(inner, width, 1), nn.Hardsigmoid())

    def forward(self, x: T) -> T:
        return x * self.gate(x)


class Inverted(nn.Module):
    def __init__(self, i: int, size: int, wide: int, o: int, squeezes: bool,
                 act: Callable[[], nn.Module], stride: int) -> None:
        super().__init__()
        self.adds = stride == 1 and i == o
        self.body = nn.Sequential(
            convolution(i, wide, 1, act=act) if wide != i else nn.Identity(),
            convolution(wide, wide, size, stride, wide, act),
            Squeeze(wide) if squeezes else nn.Identity(),
            convolution(wide, o, 1))

    def forward(self, x: T) -> T:
        return x + self.body(x) if self.adds else self.body(x)


# Of MobileNetV3-Large (Howard et al. 2019, table 1): kernel, expansion, width,
# squeeze, hard swish, stride.
MOBILE = (
    (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1),
    (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1),
    (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1),
    (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1))


@graph()
def mobilenet_v3(_: bool) -> Built:
    layers = [convolution(3, 16, 3, 2, act=nn.Hardswish)]
    before = 16
    for size, wide, width, squeezes, is_hard, stride in MOBILE:
        layers.append(Inverted(before, size, wide, width, bool(squeezes),
                               nn.Hardswish if is_hard else nn.ReLU, stride))
        before = width
    layers += [convolution(160, 960, 1, act=nn.Hardswish),
               nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280),
               nn.Hardswish(), nn.Linear(1280, 1000)]
    return Built(nn.Sequential(*layers), (torch.randn(1, 3, 224, 224),))


# --- Custom operators and a cache ---------------------------------------------------


def append_inlined(key: T, value: T, keys: T, values: T, slots: T) -> None:
    for kept, new in ((keys, key), (values, value)):
        kept.flatten(0, 1)[slots] = new


def rope_inlined(q: T, k: T, place: T) -> tuple[T, T]:
    half = q.shape[-1] // 2
    rate = 1e4 ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = (place.float()[:, None, None] * rate).repeat(1, 1, 2)

    def turned(x: T) -> T:
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    return turned(q), turned(k)


class Block(nn.Module):
    """Four transformer blocks over 16 tokens whose norms, rotary embedding
    and cache are operators of opgraft.ops."""

    WIDTH, HEADS, HEAD, PAGES, PAGE = 512, 8, 64, 16, 16

    def __init__(self, is_inlined: bool) -> None:
        super().__init__()
        if is_inlined:
            self.norm = lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6)
            self.rope, self.append = rope_inlined, append_inlined
        else:
            import opgraft.ops as ops

            self.norm = lambda x, w: ops.rms_norm(x, w, 1e-6)
            self.rope, self.append = ops.apply_rope, ops.reshape_and_cache

        def linear(i: int, o: int) -> nn.Module:
            return nn.Linear(i, o, bias=False)

        wide = 4 * self.WIDTH
        self.layers = nn.ModuleList(nn.ModuleDict({
            "qkv": linear(self.WIDTH, 3 * self.WIDTH),
            "out": linear(self.WIDTH, self.WIDTH),
            "up": linear(self.WIDTH, wide),
            "down": linear(wide, self.WIDTH)}) for _ in range(4))
        self.weights = nn.ParameterList(
            torch.rand(self.WIDTH) + 0.5 for _ in range(8))

    def forward(self, x: T, place: T, slots: T, mask: T, *caches: T) -> T:
        for i, layer in enumerate(self.layers):
            keys, values = caches[2 * i], caches[2 * i + 1]
            y = layer["qkv"](self.norm(x, self.weights[2 * i]))
            q, k, v = (t.unflatten(-1, (self.HEADS, self.HEAD))
                       for t in y.chunk(3, -1))
            q, k = self.rope(q, k, place)
            self.append(k, v, keys, values, slots)
            q, rows, columns = (
                t.transpose(0, 1)[None]
                for t in (q, keys.flatten(0, 1), values.flatten(0, 1)))
            y = F.scaled_dot_product_attention(q, rows, columns,
                                               attn_mask=mask)
            x = x + layer["out"](y[0].transpose(0, 1).flatten(1))
            y = self.norm(x, self.weights[2 * i + 1])
            x = x + layer["down"](F.silu(layer["up"](y)))
        return x


@graph(has_custom=True)
def custom_block(is_inlined: bool) -> Built:
    count, past = 16, 100
    place = torch.arange(past, past + count, dtype=torch.int32)
    rows = Block.PAGES * Block.PAGE
    mask = torch.where(torch.arange(rows) <= place[:, None], 0.0, -1e9)
    shape = (Block.PAGES, Block.PAGE, Block.HEADS, Block.HEAD)
    return Built(Block(is_inlined), (
        torch.randn(count, Block.WIDTH), place, place.long(), mask,
        *(torch.randn(shape) for _ in range(8))))


# --- Training -----------------------------------------------------------------------


@graph()
def mlp_training(_: bool) -> Built:
    return Built(nn.Sequential(
        nn.Linear(512, 1024), nn.ReLU(), nn.Dropout(0.0),
        nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512)),
        (torch.randn(64, 512),), is_training=True)


@graph(needs="transformers")
def bert_small_training(_: bool) -> Built:
    ids = tokens(64, 30522)
    model = bert_model(4, 512, 8, hidden_dropout_prob=0.0,
                       attention_probs_dropout_prob=0.0)
    return Built(model, (ids, torch.ones_like(ids)), is_training=True)


def make(name: str, is_inlined: bool) -> Built:
    """With the same weights and arguments in every process."""
    torch.manual_seed(1)
    built = ALL[name].build(is_inlined)
    built.model.train(built.is_training)
    return built

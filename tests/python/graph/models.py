# SPDX-License-Identifier: Apache-2.0
"""The models that the engine must run: random weights, small or as published.

Each entry builds (model, arguments, keyword arguments) from a size: "small"
has two narrow layers, "full" the widths of the published model with two
layers. `trained` says whether a training step makes sense.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass
class Model:
    build: Callable[[bool], Built]
    trained: bool = True
    needs: str | None = None  # a package


ROOT = Path(__file__).resolve().parents[3]
ALL: dict[str, Model] = {}


def model(trained: bool = True, needs: str | None = None) -> Any:
    def add(build: Callable[[bool], Built]) -> Callable[[bool], Built]:
        ALL[build.__name__] = Model(build, trained, needs)
        return build

    return add


class First(nn.Module):
    """A model's first result: a plain tensor."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.inner = inner
        self.name = name

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return getattr(self.inner(*args, **kwargs), self.name)


def tokens(batch: int, length: int, words: int) -> torch.Tensor:
    return torch.randint(0, words, (batch, length))


# --- transformers -------------------------------------------------------------


@model(needs="transformers")
def bert(full: bool) -> Built:
    from transformers import BertConfig, BertModel

    wide = dict(hidden_size=384, intermediate_size=1536,
                num_attention_heads=12, vocab_size=30522)
    slim = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4,
                vocab_size=99)
    config = BertConfig(num_hidden_layers=6 if full else 2,
                        **(wide if full else slim))
    inner = BertModel(config, add_pooling_layer=False)
    ids = tokens(2, 64 if full else 11, config.vocab_size)
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    return First(inner, "last_hidden_state"), (ids, mask), {}


@model(needs="transformers")
def gpt2(full: bool) -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_embd=768 if full else 32, n_head=12 if full else 4,
        vocab_size=50257 if full else 99, bos_token_id=0, eos_token_id=0)
    ids = tokens(2, 64 if full else 11, config.vocab_size)
    return First(GPT2LMHeadModel(config), "logits"), (ids,), {
        "use_cache": False}


@model(trained=False, needs="transformers")
def gpt2_decode(full: bool) -> Built:
    """One new token beside a cache that is written in place."""
    from transformers import Cache, GPT2Config, GPT2LMHeadModel

    kept = kept_rows_type()
    config = GPT2Config(
        n_layer=2, n_embd=768 if full else 32, n_head=12 if full else 4,
        vocab_size=50257 if full else 99, bos_token_id=0, eos_token_id=0)
    length, at = (256, 100) if full else (16, 9)

    class Decode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = GPT2LMHeadModel(config)

        def forward(self, ids: torch.Tensor, place: torch.Tensor,
                    *rows: torch.Tensor) -> torch.Tensor:
            layers = [kept(k, v, place)
                      for k, v in zip(rows[::2], rows[1::2], strict=True)]
            is_past = torch.arange(length) <= place[:, None]
            return self.inner(
                ids, past_key_values=Cache(layers=layers),
                position_ids=place[:, None],
                attention_mask=is_past[:, None, None]).logits

    head = config.n_embd // config.n_head
    rows = [torch.randn(1, config.n_head, length, head)
            for _ in range(2 * config.n_layer)]
    return Decode(), (tokens(1, 1, config.vocab_size), torch.tensor([at]),
                      *rows), {}


@functools.cache
def kept_rows_type() -> Any:
    """A layer of transformers' cache over tensors that the caller owns."""
    from transformers.cache_utils import DynamicLayer

    class Kept(DynamicLayer):  # type: ignore[misc]
        def __init__(self, keys: torch.Tensor, values: torch.Tensor,
                     place: torch.Tensor) -> None:
            super().__init__()
            self.keys, self.values, self.place = keys, values, place
            self.is_initialized = True

        def update(self, keys: torch.Tensor, values: torch.Tensor,
                   *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
            for kept, new in ((self.keys, keys), (self.values, values)):
                kept.index_copy_(2, self.place, new.to(kept.dtype))
            return self.keys, self.values

    return Kept


@model(needs="transformers")
def llama(full: bool) -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=1024 if full else 32,
        intermediate_size=2816 if full else 64, num_attention_heads=8,
        num_key_value_heads=2, vocab_size=4096 if full else 99)
    ids = tokens(2, 64 if full else 11, config.vocab_size)
    return First(LlamaForCausalLM(config), "logits"), (ids,), {
        "use_cache": False}


@model(needs="transformers")
def qwen3(full: bool) -> Built:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        num_hidden_layers=2, hidden_size=1024 if full else 32,
        intermediate_size=3072 if full else 64, num_attention_heads=8,
        num_key_value_heads=2, head_dim=64 if full else 8,
        vocab_size=4096 if full else 99)
    ids = tokens(2, 64 if full else 11, config.vocab_size)
    return First(Qwen3ForCausalLM(config), "logits"), (ids,), {
        "use_cache": False}


@model(needs="transformers")
def mixtral(full: bool) -> Built:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        num_hidden_layers=2, hidden_size=512 if full else 32,
        intermediate_size=1024 if full else 64, num_attention_heads=8,
        num_key_value_heads=2, num_local_experts=4,
        vocab_size=4096 if full else 99)
    ids = tokens(2, 32 if full else 11, config.vocab_size)
    return First(MixtralForCausalLM(config), "logits"), (ids,), {
        "use_cache": False}


@model(needs="transformers")
def t5(full: bool) -> Built:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        num_layers=2, d_model=512 if full else 32, d_ff=2048 if full else 64,
        d_kv=64 if full else 8, num_heads=8 if full else 4,
        vocab_size=32128 if full else 99, decoder_start_token_id=0)
    ids = tokens(2, 48 if full else 11, config.vocab_size)
    return First(T5ForConditionalGeneration(config), "logits"), (), {
        "input_ids": ids, "decoder_input_ids": ids[:, :7], "use_cache": False}


@model(needs="transformers")
def vit(full: bool) -> Built:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        num_hidden_layers=2, hidden_size=768 if full else 32,
        intermediate_size=3072 if full else 64,
        num_attention_heads=12 if full else 4,
        image_size=224 if full else 32, patch_size=16 if full else 8)
    inner = ViTModel(config, add_pooling_layer=False)
    return First(inner, "last_hidden_state"), (
        torch.randn(2, 3, config.image_size, config.image_size),), {}


@model(needs="transformers")
def whisper_encoder(full: bool) -> Built:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        encoder_layers=2, d_model=384 if full else 32,
        encoder_attention_heads=6 if full else 4,
        encoder_ffn_dim=1536 if full else 64, num_mel_bins=80 if full else 8,
        max_source_positions=1500 if full else 20)
    sound = torch.randn(1, config.num_mel_bins,
                        2 * config.max_source_positions)
    return First(WhisperEncoder(config), "last_hidden_state"), (sound,), {}


# --- Our own ------------------------------------------------------------------


@model()
def resnet18(full: bool) -> Built:
    class Block(nn.Module):
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            self.one = nn.Conv2d(i, o, 3, stride, 1, bias=False)
            self.two = nn.Conv2d(o, o, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _ in range(2))
            self.skip = nn.Identity() if stride == 1 and i == o else (
                nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False),
                              nn.BatchNorm2d(o)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.relu(self.norms[0](self.one(x)), inplace=True)
            y = self.norms[1](self.two(y))
            return F.relu(y + self.skip(x), inplace=True)

    base = 64 if full else 8
    widths = [base * 2 ** i for i in range(4 if full else 2)]
    layers: list[nn.Module] = [
        nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base),
        nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    before = base
    for i, width in enumerate(widths):
        layers += [Block(before, width, 1 if i == 0 else 2),
                   Block(width, width, 1)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(),
               nn.Linear(before, 1000 if full else 10)]
    side = 224 if full else 32
    return nn.Sequential(*layers), (torch.randn(2, 3, side, side),), {}


@model()
def unet(full: bool) -> Built:
    class Double(nn.Sequential):
        def __init__(self, i: int, o: int) -> None:
            super().__init__(
                nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(),
                nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())

    class Net(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = Double(3, width)
            self.down = Double(width, 2 * width)
            self.low = Double(2 * width, 2 * width)
            self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
            self.join = Double(2 * width, width)
            self.last = nn.Conv2d(width, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.first(x)
            b = self.down(F.max_pool2d(a, 2))
            c = self.low(F.avg_pool2d(b, 2))
            c = F.interpolate(c, scale_factor=2.0, mode="nearest")
            return self.last(self.join(torch.cat([a, self.up(b + c)], 1)))

    side = 64 if full else 16
    return Net(32 if full else 8), (torch.randn(2, 3, side, side),), {}


@model()
def lstm_cell(full: bool) -> Built:
    class Net(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = c = x.new_zeros(x.shape[1:])
            out = []
            for step in x.unbind(0):
                h, c = self.cell(step, (h, c))
                out.append(h)
            return torch.stack(out)

    width = 256 if full else 16
    return Net(width), (torch.randn(6, 3, width),), {}


@model()
def mlp_dropout(full: bool) -> Built:
    width = 512 if full else 24
    return nn.Sequential(
        nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(2 * width, width), nn.Dropout(0.2), nn.Tanh(),
    ), (torch.randn(7, width),), {}


@functools.cache
def custom_linear() -> Callable[..., torch.Tensor]:
    """The example's operator, compiled."""
    import opgraft

    out = Path(tempfile.mkdtemp(prefix="opgraft-models-")) / "linear.so"
    subprocess.run(
        ["cc", "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
         f"-I{ROOT / 'include'}", "-o", str(out),
         str(ROOT / "examples/custom_linear/custom_linear.c"), "-lm"],
        check=True)
    return opgraft.load(out).custom_linear  # type: ignore[no-any-return]


@model()
def mlp_custom_linear(full: bool) -> Built:
    op = custom_linear()

    class Ours(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float64:  # the oracle's own
                return super().forward(x)
            return op(x, self.weight, self.bias)

    width = 512 if full else 24
    return nn.Sequential(
        Ours(width, 2 * width), nn.ReLU(), nn.Dropout(0.1),
        Ours(2 * width, width), nn.GELU(), Ours(width, 10),
    ), (torch.randn(32 if full else 7, width),), {}


@model()
def llama_with_our_operators(full: bool) -> Built:
    """RMSNorm and rotary embedding from opgraft.ops."""
    import opgraft.ops as ops

    width, heads = (512, 8) if full else (32, 4)
    head = width // heads

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float64:  # the oracle's own
                return F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)
            return ops.rms_norm(x, self.weight, 1e-6)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(Norm() for _ in range(2))
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.gate = nn.Linear(width, 2 * width, bias=False)
            self.up = nn.Linear(width, 2 * width, bias=False)
            self.down = nn.Linear(2 * width, width, bias=False)

        def forward(self, x: torch.Tensor, place: torch.Tensor
                    ) -> torch.Tensor:
            q, k, v = (t.unflatten(-1, (heads, head))
                       for t in self.qkv(self.norms[0](x)).chunk(3, -1))
            q, k = rotate(q, k, place)
            y = F.scaled_dot_product_attention(
                *(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            y = self.norms[1](x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def rotate(q: torch.Tensor, k: torch.Tensor, place: torch.Tensor
               ) -> list[torch.Tensor]:
        if q.dtype != torch.float64:
            return [t.view_as(q) for t in ops.apply_rope(
                q.flatten(0, 1), k.flatten(0, 1), place.flatten())]
        rate = 1e4 ** (-torch.arange(0, head, 2) / head).double()  # the oracle
        angle = (place[..., None, None] * rate).repeat(1, 1, 1, 2)
        turned = []
        for x in (q, k):
            a, b = x.chunk(2, -1)
            turned.append(
                x * angle.cos() + torch.cat([-b, a], -1) * angle.sin())
        return turned

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(99, width)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.norm = Norm()

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.words(ids)
            place = torch.arange(ids.shape[1]).expand_as(ids)
            for block in self.blocks:
                x = block(x, place)
            return self.norm(x) @ self.words.weight.t()

    return Net(), (tokens(2, 64 if full else 11, 99),), {}

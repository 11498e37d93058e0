# SPDX-License-Identifier: Apache-2.0
"""torch.compile(..., backend="opgraft"): models, sizes that vary, mutation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compare import check, compiled, no_worse, same
from torch import nn

import opgraft


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.out(y.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


class Encoder(nn.Module):
    """A BERT-like encoder: post-norm blocks over token and place embeddings."""

    def __init__(self, layers: int = 2, width: int = 32, heads: int = 4,
                 words: int = 50) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(64, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def step(model: nn.Module, run: Any, *args: Any) -> list[torch.Tensor]:
    model.zero_grad()
    out = run(*args)
    out.square().mean().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters()
                            if p.grad is not None)]


def test_training_with_an_operator_of_ours(linear: Any, native: Any) -> None:
    class Layer(nn.Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(o, i) / i ** 0.5)
            self.bias = nn.Parameter(torch.zeros(o))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return linear.custom_linear(x, self.weight, self.bias)

    model = nn.Sequential(Layer(8, 16), nn.ReLU(), Layer(16, 4))
    exact = copy.deepcopy(model)
    c = compiled(model)
    x = torch.randn(5, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(20):
        exact.load_state_dict(model.state_dict())
        wanted = step(exact, exact, x)
        found = step(model, c, x)
        same(found, wanted, rtol=1e-5, atol=1e-6)
        optimizer.step()
    native(c)
    assert opgraft.stats(c).replays == 40


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_encoder(dtype: torch.dtype) -> None:
    model = Encoder().eval().to(dtype)
    exact = copy.deepcopy(model).double()
    tokens = torch.randint(0, 50, (2, 9))
    c = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            no_worse(c(tokens), model(tokens), exact(tokens))
    model.train()
    exact.train()
    no_worse(step(model, c, tokens), step(model, model, tokens),
             step(exact, exact, tokens))


def test_autocast() -> None:
    model = Encoder()
    exact = copy.deepcopy(model).double()
    tokens = torch.randint(0, 50, (2, 9))
    c = compiled(model)
    with torch.autocast("cpu", torch.bfloat16):
        found = step(model, c, tokens)
        wanted = step(model, model, tokens)
    no_worse(found, wanted, step(exact, exact, tokens))


@pytest.mark.parametrize("norm", [
    lambda: nn.BatchNorm2d(8), lambda: nn.GroupNorm(4, 8),
    lambda: nn.LayerNorm((8, 30, 30))], ids=["batch", "group", "layer"])
def test_norms_of_bf16_with_parameters_in_f32(norm: Any) -> None:
    """As under autocast; large enough for ATen's kernels."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), norm())
    start = copy.deepcopy(model.state_dict())
    x = torch.randn(4, 3, 32, 32)
    found = []
    for f in (model, compiled(model)):
        model.load_state_dict(start)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = f(x).float().square().mean()
        loss.backward()
        found.append([p.grad.clone() for p in model.parameters()]
                     + [b.clone() for b in model.buffers()])
    same(found[1], found[0], rtol=1e-2, atol=1e-3)


def test_lengths_that_vary() -> None:
    model = Encoder().eval()
    c = compiled(model, dynamic=True)
    with torch.no_grad():
        for length in [*range(2, 20), 5, 7]:
            tokens = torch.randint(0, 50, (3, length))
            same(c(tokens), model(tokens), rtol=1e-4, atol=1e-5)
    found = opgraft.stats(c)
    assert len(found.graphs) == 1
    assert found.replans["shape"] == 18


def test_mutated_input() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        z = x * 2
        x.mul_(3)
        return z

    check(f, torch.randn(4, 5), torch.randn(5))


def test_mutated_view_of_an_input() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x[1:3].add_(1)
        x.t()[0].mul_(2)
        return x.sum(0)

    check(f, torch.randn(4, 5))


def test_kv_cache() -> None:
    class Decode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(32, 96)
            self.register_buffer("keys", torch.zeros(1, 4, 24, 8))
            self.register_buffer("vals", torch.zeros(1, 4, 24, 8))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            q, k, v = (t.view(1, 1, 4, 8).transpose(1, 2)
                       for t in self.qkv(x).chunk(3, -1))
            self.keys.index_copy_(2, at, k)
            self.vals.index_copy_(2, at, v)
            mask = (torch.arange(24) <= at)[None]
            return F.scaled_dot_product_attention(q, self.keys, self.vals,
                                                  attn_mask=mask)

    model = Decode().eval()
    other = copy.deepcopy(model)
    c = compiled(model)
    with torch.no_grad():
        for i in range(6):
            x, at = torch.randn(1, 1, 32), torch.tensor([i])
            same(c(x, at), other(x, at), rtol=1e-4, atol=1e-6)
            same(model.keys, other.keys, rtol=1e-4, atol=1e-6)
    found = opgraft.stats(c)
    assert len(found.graphs) == 1
    assert found.clone_bytes == 0, str(found)


def test_operator_that_writes_its_argument(write_module: Any) -> None:
    m = opgraft.load(write_module("""
#include <opgraft/op.h>
static og_status run(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    x[i] = 2 * x[i] + (float)call->attr[0].f;
  return OG_OK;
}
static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = run}};
static const og_op ops[] = {{
    .schema = "twice_(Tensor(a!) x, float by) -> ()",
    .shape = "x[*N]", .dtype = "x: f32",
    .kernels = OG_KERNELS(kernels)}};
OG_MODULE(writes, ops)
""", "writes"))

    def whole(x: torch.Tensor) -> torch.Tensor:
        m.twice_(x, 1.0)
        return x + 1

    def part(x: torch.Tensor) -> torch.Tensor:
        m.twice_(x[1:3], 1.0)
        return x + 1

    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        m.twice_(y, 0.5)
        m.twice_(y, 0.25)
        return y

    for f in (whole, part, inner):
        c = check(f, torch.randn(4, 5))
        assert not opgraft.stats(c).fallbacks, str(opgraft.stats(c))


def test_options() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(3)
    for mode in ("default", "reduce-overhead", "max-autotune"):
        assert torch.equal(compiled(f, mode=mode)(x), f(x))
        assert torch.equal(compiled(f, options={"mode": mode})(x), f(x))
        torch._dynamo.reset()
    with pytest.raises(Exception, match="no option 'nope'; it has mode, "):
        compiled(f, options={"nope": 1})(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="fallback is 'no', expected one of"):
        compiled(f, options={"fallback": "no"})(x)


def test_dump(tmp_path: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 0.5).t()

    compiled(f, options={"dump": str(tmp_path)})(torch.ones(2, 3))
    names = sorted(p.name.split(".", 1)[1] for p in tmp_path.iterdir())
    assert names[0] == "00_import.graph"
    first = next(p for p in tmp_path.iterdir() if "00_import" in p.name)
    assert "add(" in first.read_text() and "return" in first.read_text()


def test_error_names_the_operator_and_the_line() -> None:
    def f(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.embedding(index, table)

    c = compiled(f)
    table = torch.randn(4, 3)
    c(table, torch.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"embedding.*test_first\.py:\d+"):
        c(table, torch.tensor([1, 9]))
    same(c(table, torch.tensor([3, 0])), f(table, torch.tensor([3, 0])))

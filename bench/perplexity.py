#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each precision costs the answers of a language model: the perplexity of
bytes that a small model has not seen, beside f32's.

The model reads bytes: four layers of rotary causal attention and gated units, 256
wide, trained here for --minutes on text that every machine has (the documents of this
tree and Python's own library). A tenth of the files is held out. Weights are
those of the trained model, rounded once to each format; all read the same bytes,
so that the distances are the cost of rounding. --keep FILE keeps the trained weights.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import sysconfig
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import opgraft  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEADS, LAYERS, GATED, LENGTH = 256, 4, 4, 768, 128
BATCH, BYTES_MOST = 8, 24 << 20
# Each format, and the most that its perplexity may be of f32's; None: no bound.
FORMATS: dict[str, float | None] = {
    "f32": 1.0001, "bf16": 1.005, "int8": 1.005, "int8-dynamic": 1.01,
    "int4": 1.02, "int4-dynamic": 1.02, "int4/64": 1.02, "int4/32": 1.05,
    "int4/32-dynamic": None}


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions of [n, heads, length, width]."""
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half) / half)
    angles = torch.arange(x.shape[-2])[:, None] * speeds
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(),
                      b * angles.cos() + a * angles.sin()], -1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * GATED, bias=False)
        self.down = nn.Linear(GATED, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        q, k, v = (t.view(n, length, HEADS, -1).transpose(1, 2)
                   for t in self.qkv(self.before(x)).chunk(3, -1))
        q, k = turned(q), turned(k)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, WIDTH))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """The next byte's logits at each place of [n, length] bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bytes(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def text() -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes to train on, and bytes of other files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(library.glob("*.py"))]
    parts = [bytearray(), bytearray()]
    for path in files:
        name = hashlib.sha256(path.name.encode()).digest()
        parts[name[0] % 10 == 0] += path.read_bytes()
    train, held = (torch.frombuffer(part[:BYTES_MOST], dtype=torch.uint8)
                   for part in parts)
    return train, held


def drawn(of: torch.Tensor, count: int, draw: torch.Generator
          ) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the text, and what follows each of their bytes."""
    begins = torch.randint(len(of) - LENGTH - 1, (count,), generator=draw)
    rows = torch.stack([of[b:b + LENGTH + 1] for b in begins.tolist()]).long()
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def train(model: Model, of: torch.Tensor, seconds: float) -> None:
    draw = torch.Generator().manual_seed(1)
    adam = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95))
    begin, step = time.monotonic(), 0
    while (spent := time.monotonic() - begin) < seconds:
        # Up for a twentieth of the time, then down along a cosine.
        done = spent / seconds
        for group in adam.param_groups:
            group["lr"] = 2e-3 * min(1.0, done * 20) * (
                0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * done)))
        x, y = drawn(of, BATCH, draw)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step % 50 == 0:
            print(f"  {spent:4.0f} s, step {step}: {loss.item():.3f} nats a byte",
                  flush=True)
        step += 1


def nats(call: object, held: torch.Tensor, count: int) -> float:
    """A byte, over `count` batches of held-out text, the same for all."""
    draw = torch.Generator().manual_seed(2)
    total = 0.0
    for _ in range(count):
        x, y = drawn(held, BATCH, draw)
        total += F.cross_entropy(
            call(x).flatten(0, 1).double(), y.flatten()).item()  # type: ignore
    return total / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="a few seconds, to see that it runs")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--keep", type=Path, metavar="FILE",
                        help="trained weights: read where they are, else written")
    options = parser.parse_args()
    goals = harness.Goals("perplexity")
    torch.manual_seed(0)
    model, (own, held) = Model(), text()
    if options.keep and options.keep.exists():
        model.load_state_dict(torch.load(options.keep))
    else:
        train(model, own, 2.0 if options.smoke else 60 * options.minutes)
        if options.keep:
            torch.save(model.state_dict(), options.keep)
    model.eval()
    count = 1 if options.smoke else 32
    formats = ["f32", "int4/32"] if options.smoke else list(FORMATS)
    with torch.no_grad():
        plain = nats(model, held, count)
        print(f"eager: {math.exp(plain):.4f} a byte, of {count * BATCH * LENGTH}")
        rows = {}
        for name in formats:
            frozen = opgraft.freeze(
                model, (torch.zeros(BATCH, LENGTH, dtype=torch.long),),
                options={"mode": "max-autotune", "precision": name})
            now = nats(frozen, held, count)
            rows[name] = math.exp(now - plain)
            print(f"{name}: {math.exp(now):.4f} a byte, {rows[name]:.5f} of f32's",
                  flush=True)
    for name, share in rows.items():
        bound = FORMATS[name]
        if bound is None:
            goals.limit(f"{name}: perplexity / f32's", share)
        else:
            goals.add(f"{name}: perplexity / f32's", share, bound)
    if not options.smoke:
        goals.write(["bench/perplexity.py", "src", "hosts/torch"],
                    {"perplexity": {"f32": math.exp(plain), "of_f32": rows}})


if __name__ == "__main__":
    main()

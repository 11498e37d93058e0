# SPDX-License-Identifier: Apache-2.0
"""Plain forms of the vision, audio, recommendation and generative families
that torchvision, timm and others made common, for bench/architectures.py:
published widths, random weights, each in as few lines as it takes.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

T = torch.Tensor
Built = tuple[nn.Module, tuple[Any, ...]]
OWN: dict[str, Callable[[], Built]] = {}
Seq = nn.Sequential


def own(build: Callable[[], Built]) -> Callable[[], Built]:
    OWN[build.__name__] = build
    return build


def image(size: int = 224, channels: int = 3) -> tuple[T]:
    return (torch.randn(1, channels, size, size),)


RELU = nn.ReLU()


def conv(i: int, o: int, k: int = 3, s: int = 1, g: int = 1, d: int = 1,
         act: nn.Module | None = RELU) -> Seq:
    """With batch norm."""
    return Seq(nn.Conv2d(i, o, k, s, d * (k // 2), d, g, bias=False),
               nn.BatchNorm2d(o), *([act] if act is not None else []))


class Add(nn.Module):
    """x + inner(x), or short(x) + inner(x), and a function of the sum."""

    def __init__(self, inner: nn.Module, short: nn.Module | None = None,
                 then: nn.Module | None = None) -> None:
        super().__init__()
        self.inner, self.short = inner, short or nn.Identity()
        self.then = then or nn.Identity()

    def forward(self, x: T) -> T:
        return self.then(self.short(x) + self.inner(x))


class Fork(nn.Module):
    """Results of branches side by side."""

    def __init__(self, *branches: nn.Module, keep: bool = False) -> None:
        super().__init__()
        self.branches, self.keep = nn.ModuleList(branches), keep

    def forward(self, x: T) -> T:
        return torch.cat(([x] if self.keep else [])
                         + [b(x) for b in self.branches], 1)


class Turn(nn.Module):
    """A function without weights, as a layer."""

    def __init__(self, f: Callable[[T], T]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: T) -> T:
        return self.f(x)


def head(channels: int, classes: int = 1000) -> Seq:
    return Seq(nn.AdaptiveAvgPool2d(1), nn.Flatten(),
               nn.Linear(channels, classes))


# --- Vision -----------------------------------------------------------------------


def residual(groups: int, width: int) -> Built:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    i = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        w, o = width * groups << stage, 256 << stage
        for k in range(count):
            s = 2 if stage and not k else 1
            layers.append(Add(
                Seq(conv(i, w, 1), conv(w, w, 3, s, groups),
                    conv(w, o, 1, act=None)),
                conv(i, o, 1, s, act=None) if i != o else None, nn.ReLU()))
            i = o
    return Seq(*layers, head(i)), image()


@own
def resnet50() -> Built:
    return residual(1, 64)


@own
def resnext50_32x4d() -> Built:
    return residual(32, 4)


class Squeeze(nn.Module):
    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.gate = Seq(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1),
                        nn.SiLU(), nn.Conv2d(inner, channels, 1), nn.Sigmoid())

    def forward(self, x: T) -> T:
        return x * self.gate(x)


def inverted(rows: list[tuple[int, int, int, int, int]], stem: int, last: int,
             act: nn.Module, squeezes: bool, size: int) -> Built:
    """Rows: expansion, channels, count, stride, taps."""
    layers: list[nn.Module] = [conv(3, stem, 3, 2, act=act)]
    i = stem
    for t, o, count, s, k in rows:
        for n in range(count):
            step, w = (1 if n else s), i * t
            block = Seq(*([conv(i, w, 1, act=act)] if t > 1 else []),
                        conv(w, w, k, step, w, act=act),
                        *([Squeeze(w, max(1, i // 4))] if squeezes else []),
                        conv(w, o, 1, act=None))
            layers.append(Add(block) if step == 1 and i == o else block)
            i = o
    return Seq(*layers, conv(i, last, 1, act=act), head(last)), image(size)


@own
def mobilenet_v2() -> Built:
    return inverted([(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3),
                     (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
                     (6, 320, 1, 1, 3)], 32, 1280, nn.ReLU6(), False, 224)


@own
def efficientnet_b0() -> Built:
    return inverted([(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5),
                     (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
                     (6, 320, 1, 1, 3)], 32, 1280, nn.SiLU(), True, 224)


@own
def densenet121() -> Built:
    def layer(i: int, o: int, k: int) -> list[nn.Module]:
        return [nn.BatchNorm2d(i), nn.ReLU(),
                nn.Conv2d(i, o, k, padding=k // 2, bias=False)]

    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    i = 64
    for stage, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            layers.append(Fork(Seq(*layer(i, 128, 1), *layer(128, 32, 3)),
                               keep=True))
            i += 32
        if stage < 3:
            layers += [*layer(i, i // 2, 1), nn.AvgPool2d(2)]
            i //= 2
    return Seq(*layers, nn.BatchNorm2d(i), nn.ReLU(), head(i)), image()


class Shuffle(nn.Module):
    def __init__(self, i: int, o: int, s: int) -> None:
        super().__init__()
        w, a = o // 2, (i if s == 2 else o // 2)
        self.s = s
        self.right = Seq(conv(a, w, 1), conv(w, w, 3, s, w, act=None),
                         conv(w, w, 1))
        self.left = Seq(conv(i, i, 3, s, i, act=None), conv(i, w, 1)) \
            if s == 2 else nn.Identity()

    def forward(self, x: T) -> T:
        a, b = x.chunk(2, 1) if self.s == 1 else (x, x)
        y = torch.cat([self.left(a), self.right(b)], 1)
        return y.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


@own
def shufflenet_v2() -> Built:
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    i = 24
    for o, count in ((116, 4), (232, 8), (464, 4)):
        for k in range(count):
            layers.append(Shuffle(i, o, 1 if k else 2))
            i = o
    return Seq(*layers, conv(i, 1024, 1), head(1024)), image()


@own
def inception() -> Built:
    def wide(i: int, o: int, k: int, across: bool) -> Seq:
        taps = (1, k) if across else (k, 1)
        return Seq(nn.Conv2d(i, o, taps, padding=(taps[0] // 2, taps[1] // 2),
                             bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def block(i: int) -> Fork:
        return Fork(
            conv(i, 192, 1),
            Seq(conv(i, 128, 1), wide(128, 128, 7, True),
                wide(128, 192, 7, False)),
            Seq(conv(i, 128, 1), *(wide(128, 128, 7, bool(k % 2))
                                   for k in range(3)), wide(128, 192, 7, True)),
            Seq(nn.AvgPool2d(3, 1, 1), conv(i, 192, 1)))

    return Seq(conv(3, 32, 3, 2), conv(32, 64), nn.MaxPool2d(3, 2),
               conv(64, 192), nn.MaxPool2d(3, 2), block(192),
               *(block(768) for _ in range(3)),
               Fork(conv(768, 320, 3, 2), nn.MaxPool2d(3, 2, 1)),
               head(1088)), image(299)


@own
def mlp_mixer() -> Built:
    def mlp(n: int, inner: int) -> Seq:
        return Seq(nn.Linear(n, inner), nn.GELU(), nn.Linear(inner, n))

    turn = Turn(lambda x: x.transpose(1, 2))
    blocks = [m for _ in range(8) for m in (
        Add(Seq(nn.LayerNorm(512), turn, mlp(196, 256), turn)),
        Add(Seq(nn.LayerNorm(512), mlp(512, 2048))))]
    return Seq(nn.Conv2d(3, 512, 16, 16), nn.Flatten(2), turn, *blocks,
               nn.LayerNorm(512)), image()


class Pyramid(nn.Module):
    """A detector's head: a pyramid of features, boxes and classes of each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Seq(conv(3, 32, 3, 2), conv(32, 64, 3, 2))
        self.down = nn.ModuleList(conv(64 << k, 128 << k, 3, 2)
                                  for k in range(3))
        self.side = nn.ModuleList(nn.Conv2d(128 << k, 128, 1)
                                  for k in range(3))
        self.tower = Seq(*(m for _ in range(3) for m in (
            nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(32, 128),
            nn.ReLU())), nn.Conv2d(128, 9 * 24, 3, padding=1))

    def forward(self, x: T) -> T:
        x, sides = self.stem(x), []
        for down, side in zip(self.down, self.side):
            x = down(x)
            sides.append(side(x))
        for k in (1, 0):
            sides[k] = sides[k] + F.interpolate(sides[k + 1], scale_factor=2.0)
        found = [self.tower(s).unflatten(1, (9, 24)).permute(0, 3, 4, 1, 2)
                 .flatten(1, 3) for s in sides]
        y = torch.cat(found, 1)
        return torch.cat([y[..., :4].exp(), y[..., 4:].sigmoid()], -1)


@own
def retina_head() -> Built:
    return Pyramid().eval(), image(256)


@own
def aspp() -> Built:
    """Dilated convolutions beside each other, as in DeepLab."""
    return Seq(conv(3, 64, 7, 2), conv(64, 128, 3, 2), conv(128, 256, 3, 2),
               Fork(conv(256, 128, 1), *(conv(256, 128, d=d)
                                         for d in (6, 12, 18))),
               conv(512, 128, 1), nn.Conv2d(128, 21, 1),
               nn.Upsample(scale_factor=8, mode="bilinear")), image()


@own
def video_r3d() -> Built:
    def conv3(i: int, o: int, s: int) -> list[nn.Module]:
        return [nn.Conv3d(i, o, 3, s, 1, bias=False), nn.BatchNorm3d(o)]

    layers: list[nn.Module] = [*conv3(3, 32, 2), nn.ReLU()]
    i = 32
    for o in (32, 64, 128, 256):
        s = 1 if o == 32 else 2
        layers += [Add(Seq(*conv3(i, o, s), nn.ReLU(), *conv3(o, o, 1)),
                       nn.Conv3d(i, o, 1, s) if i != o else None, nn.ReLU())]
        i = o
    return Seq(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(),
               nn.Linear(i, 400)), (torch.randn(1, 3, 16, 112, 112),)


# --- Images that are made ----------------------------------------------------------


class Attend(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(32, c), nn.Conv2d(c, 3 * c, 1)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, x: T) -> T:
        q, k, v = self.qkv(self.norm(x)).flatten(2).unflatten(
            1, (3, 8, -1)).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        return x + self.out(y.reshape(x.shape))


class Unet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (64, 128, 256)) -> None:
        super().__init__()

        def block(i: int, o: int) -> Add:
            return Add(Seq(nn.GroupNorm(32, i), nn.SiLU(),
                           nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(32, o),
                           nn.SiLU(), nn.Conv2d(o, o, 3, padding=1)),
                       nn.Conv2d(i, o, 1) if i != o else None)

        pairs = list(zip(widths, (*widths[1:], widths[-1])))
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(block(i, o) for i, o in pairs)
        self.less = nn.ModuleList(nn.Conv2d(o, o, 3, 2, 1) for _, o in pairs)
        self.middle = Seq(block(widths[-1], widths[-1]), Attend(widths[-1]))
        self.up = nn.ModuleList(block(2 * o, i) for i, o in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x: T) -> T:
        x, kept = self.first(x), []
        for down, less in zip(self.down, self.less):
            x = down(x)
            kept.append(x)
            x = less(x)
        x = self.middle(x)
        for up in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(torch.cat([x, kept.pop()], 1))
        return self.last(x)


@own
def unet() -> Built:
    return Unet(), image(64)


@own
def super_resolution() -> Built:
    def c(i: int, o: int) -> nn.Conv2d:
        return nn.Conv2d(i, o, 3, padding=1)

    return Seq(c(3, 64), *(Add(Seq(c(64, 64), nn.ReLU(), c(64, 64)))
                           for _ in range(8)), c(64, 256), nn.PixelShuffle(2),
               c(64, 256), nn.PixelShuffle(2), c(64, 3)), image(64)


@own
def style_transfer() -> Built:
    def c(i: int, o: int, k: int, s: int = 1) -> Seq:
        return Seq(nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, s),
                   nn.InstanceNorm2d(o, affine=True), nn.ReLU())

    def more(i: int, o: int) -> Seq:
        return Seq(nn.Upsample(scale_factor=2), c(i, o, 3))

    return Seq(c(3, 32, 9), c(32, 64, 3, 2), c(64, 128, 3, 2),
               *(Add(Seq(c(128, 128, 3), c(128, 128, 3))) for _ in range(5)),
               more(128, 64), more(64, 32), nn.ReflectionPad2d(4),
               nn.Conv2d(32, 3, 9)), image(128)


@own
def gan_generator() -> Built:
    layers: list[nn.Module] = [nn.Unflatten(1, (128, 1, 1))]
    for i, o, s, p in ((128, 512, 1, 0), (512, 256, 2, 1), (256, 128, 2, 1),
                       (128, 64, 2, 1)):
        layers += [nn.ConvTranspose2d(i, o, 4, s, p, bias=False),
                   nn.BatchNorm2d(o), nn.ReLU()]
    return Seq(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), (
        torch.randn(4, 128),)


class Rays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.near = Seq(nn.Linear(63, 256), nn.ReLU(), *(
            m for _ in range(3) for m in (nn.Linear(256, 256), nn.ReLU())))
        self.far = Seq(nn.Linear(319, 256), nn.ReLU(), *(
            m for _ in range(3) for m in (nn.Linear(256, 256), nn.ReLU())))
        self.out = nn.Linear(256, 4)

    def forward(self, x: T) -> T:
        waves = x[..., None] * 2.0 ** torch.arange(10.0)
        code = torch.cat([x, waves.sin().flatten(1), waves.cos().flatten(1)],
                         -1)
        y = self.out(self.far(torch.cat([self.near(code), code], -1)))
        return torch.cat([y[:, :3].sigmoid(), F.softplus(y[:, 3:])], -1)


@own
def nerf() -> Built:
    return Rays(), (torch.randn(4096, 3),)


# --- Sound and time ----------------------------------------------------------------


@own
def vocoder() -> Built:
    """HiFi-GAN's: transposed convolutions, residual dilated ones."""
    layers: list[nn.Module] = [nn.Conv1d(80, 256, 7, padding=3)]
    i = 256
    for s, k in ((8, 16), (8, 16), (2, 4), (2, 4)):
        o = i // 2
        layers += [nn.LeakyReLU(0.1),
                   nn.ConvTranspose1d(i, o, k, s, (k - s) // 2)]
        layers += [Add(Seq(nn.LeakyReLU(0.1), nn.Conv1d(
            o, o, 3, padding=d, dilation=d), nn.LeakyReLU(0.1),
            nn.Conv1d(o, o, 3, padding=1))) for d in (1, 3, 5)]
        i = o
    return Seq(*layers, nn.LeakyReLU(0.1), nn.Conv1d(i, 1, 7, padding=3),
               nn.Tanh()), (torch.randn(1, 80, 64),)


@own
def tcn() -> Built:
    """Causal: padded on the left."""
    def causal(i: int, o: int, d: int) -> Seq:
        return Seq(nn.ConstantPad1d((2 * d, 0), 0.0),
                   nn.Conv1d(i, o, 3, dilation=d), nn.ReLU())

    blocks = [Add(Seq(causal(128, 128, 1 << k), causal(128, 128, 1 << k)))
              for k in range(7)]
    return Seq(nn.Conv1d(32, 128, 1), *blocks, nn.Conv1d(128, 32, 1)), (
        torch.randn(4, 32, 400),)


class Relative(nn.Module):
    """Attention with relative positions by a shift, as in Transformer-XL."""

    def __init__(self, n: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(n, 3 * n)
        self.place, self.out = nn.Linear(n, n, bias=False), nn.Linear(n, n)
        self.u = nn.Parameter(torch.randn(heads, 1, n // heads) * 0.1)
        self.v = nn.Parameter(torch.randn(heads, 1, n // heads) * 0.1)

    def forward(self, x: T) -> T:
        b, t, n = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(
            2, 0, 3, 1, 4)
        at = torch.arange(t - 1.0, -t, -1.0)[:, None] / 10.0 ** (
            torch.arange(n) * (4.0 / n))
        p = self.place(at.sin()).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        far = (q + self.v) @ p.transpose(-1, -2)
        far = F.pad(far, (1, 0)).view(b, self.heads, 2 * t, t)[:, :, 1:]
        far = far.reshape(b, self.heads, t, 2 * t - 1)[..., :t]
        near = (q + self.u) @ k.transpose(-1, -2)
        y = ((near + far) / math.sqrt(n // self.heads)).softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))


@own
def conformer() -> Built:
    n, turn = 256, Turn(lambda x: x.transpose(1, 2))

    def mlp() -> Add:
        return Add(Seq(nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.SiLU(),
                       nn.Linear(4 * n, n), Turn(lambda x: 0.5 * x)))

    def block() -> Seq:
        return Seq(mlp(), Add(Seq(nn.LayerNorm(n), Relative(n, 4))),
                   Add(Seq(nn.LayerNorm(n), turn, nn.Conv1d(n, 2 * n, 1),
                           nn.GLU(1), nn.Conv1d(n, n, 31, padding=15, groups=n),
                           nn.BatchNorm1d(n), nn.SiLU(), nn.Conv1d(n, n, 1),
                           turn)), mlp(), nn.LayerNorm(n))

    return Seq(*(block() for _ in range(6))), (torch.randn(1, 200, n),)


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cells = kind(128, 256, 2, batch_first=True)
        self.out = nn.Linear(256, 64)

    def forward(self, x: T) -> T:
        return self.out(self.cells(x)[0])


@own
def lstm_stack() -> Built:
    return Recurrent(nn.LSTM), (torch.randn(4, 64, 128),)


@own
def gru_stack() -> Built:
    return Recurrent(nn.GRU), (torch.randn(4, 64, 128),)


# --- Tables and graphs -------------------------------------------------------------


class Clicks(nn.Module):
    """DLRM: embeddings, pairs of dot products, MLPs."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(10000, 64, mode="sum")
                                    for _ in range(26))
        self.bottom = Seq(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64),
                          nn.ReLU())
        self.top = Seq(nn.Linear(64 + 351, 512), nn.ReLU(),
                       nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense: T, sparse: T) -> T:
        x = self.bottom(dense)
        rows = torch.stack([x, *(t(sparse[:, i]) for i, t in
                                 enumerate(self.tables))], 1)
        i, j = torch.tril_indices(27, 27, -1)
        pairs = (rows @ rows.transpose(1, 2))[:, i, j]
        return self.top(torch.cat([x, pairs], 1)).sigmoid()


@own
def dlrm() -> Built:
    return Clicks(), (torch.randn(128, 13), torch.randint(10000, (128, 26, 2)))


class Messages(nn.Module):
    """Three rounds over the edges of a graph."""

    def __init__(self, n: int = 64) -> None:
        super().__init__()
        self.edge = nn.ModuleList(Seq(nn.Linear(2 * n, n), nn.ReLU(),
                                      nn.Linear(n, n)) for _ in range(3))
        self.node = nn.ModuleList(nn.Linear(2 * n, n) for _ in range(3))

    def forward(self, x: T, source: T, target: T) -> T:
        for edge, node in zip(self.edge, self.node):
            said = edge(torch.cat([x[source], x[target]], -1))
            total = torch.zeros_like(x).index_add(0, target, said)
            x = x + node(torch.cat([x, total], -1)).relu()
        return x


@own
def message_passing() -> Built:
    return Messages(), (torch.randn(2000, 64), torch.randint(2000, (8000,)),
                        torch.randint(2000, (8000,)))

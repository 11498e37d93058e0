# SPDX-License-Identifier: Apache-2.0
"""GGUF files, llama.cpp's: their tensors, and linear layers over them.

    from opgraft import gguf
    tensors = gguf.load("model.gguf")
    layer = gguf.Linear(tensors["blk.0.ffn_up.weight"])
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Callable, NamedTuple

import torch

from . import _C, ops
from ._base import host

_FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
GROUP = 32


class _Parts(NamedTuple):
    """Blocks as scale * (code - middle) - least, one row for each block; codes
    are bytes, and a scale is of as many of them as there are of a scale."""

    codes: torch.Tensor
    middle: int
    scales: torch.Tensor
    least: torch.Tensor | None = None


def _half(b: torch.Tensor, at: int) -> torch.Tensor:
    return b[:, at:at + 2].view(torch.float16).float()


def _nibbles(b: torch.Tensor, run: int) -> torch.Tensor:
    """Of each run of bytes the low halves, then the high ones."""
    parts = b.reshape(len(b), b.shape[1] // run, run)
    return torch.cat([parts & 15, parts >> 4], 2).view(len(b), 2 * b.shape[1])


def _q8_0(b: torch.Tensor) -> _Parts:
    return _Parts(b[:, 2:] ^ 128, 128, _half(b, 0))


def _q4_0(b: torch.Tensor) -> _Parts:
    return _Parts(_nibbles(b[:, 2:], 16), 8, _half(b, 0))


def _q4_k(b: torch.Tensor) -> _Parts:
    """Eight groups, whose scales and least values have 6 bits."""
    first, second, rest = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = torch.cat([first & 63, (rest & 15) | (first >> 6 << 4)], 1)
    least = torch.cat([second & 63, (rest >> 4) | (second >> 6 << 4)], 1)
    return _Parts(_nibbles(b[:, 16:], 32), 0, _half(b, 0) * scales.float(),
                  _half(b, 2) * least.float())


def _q6_k(b: torch.Tensor) -> _Parts:
    """Two halves of 128, of which 64 bytes hold low parts, 32 the high ones."""
    high = b[:, 128:192].reshape(len(b), 2, 1, 32)
    high = torch.cat([(high >> s & 3) << 4 for s in (0, 2, 4, 6)], 2)
    codes = _nibbles(b[:, :128], 64) | high.view(len(b), 256)
    return _Parts(codes, 32,
                  _half(b, 208) * b[:, 192:208].view(torch.int8).float())


# Elements and bytes of a block, and how it is read.
_BLOCKS: dict[str, tuple[int, int, Callable[[torch.Tensor], _Parts]]] = {
    "Q8_0": (32, 34, _q8_0), "Q4_0": (32, 18, _q4_0),
    "Q4_K": (256, 144, _q4_k), "Q6_K": (256, 210, _q6_k)}


class Blocks:
    """A tensor in blocks of ggml's: `type` ("Q8_0", "Q4_0", "Q4_K", "Q6_K"),
    `shape`, and `data`, the bytes [blocks, bytes of one]. RuntimeError where
    the bytes are not whole blocks.

        >>> weight = gguf.load("model.gguf")["blk.0.ffn_up.weight"]
        >>> weight.type, weight.shape, weight.dequantize().dtype
        ('Q8_0', torch.Size([8, 64]), torch.float32)
        >>> bits, codes, scales, zeros = weight.codes()
        >>> bits, codes.dtype, scales.shape, zeros
        (8, torch.uint8, torch.Size([8, 2]), None)
    """

    def __init__(self, type: str, shape: tuple[int, ...], data: torch.Tensor
                 ) -> None:
        self.type, self.shape = type, torch.Size(shape)
        self.data = data.view(-1, _BLOCKS[type][1])

    def __repr__(self) -> str:
        return f"Blocks({self.type!r}, {list(self.shape)})"

    def _parts(self) -> _Parts:
        return _BLOCKS[self.type][2](self.data)

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """In f32 bit for bit what ggml makes of it, then rounded to `dtype`."""
        p = self._parts()
        size = _BLOCKS[self.type][0] // p.scales.shape[1]
        codes = p.codes.float().sub_(p.middle).view(*p.scales.shape, size)
        found = codes.mul_(p.scales[:, :, None])
        if p.least is not None:
            found -= p.least[:, :, None]
        return found.view(self.shape).to(dtype)

    def codes(self) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Of a matrix: bits, codes, scales and zeros in groups of 32, as
        ops.linear_codes_prepack takes them. Q6_K, whose groups have 16, is
        rounded to 8 bits; others stay as they are, but for the scales and
        zeros of Q4_K, which f16 rounds."""
        p = self._parts()
        n, groups = self.shape[0], self.shape[1] // GROUP
        if self.type == "Q6_K":
            return 8, *_rounded(self.dequantize().view(n, groups, GROUP))
        scales, zeros = p.scales, None
        codes = p.codes
        if p.least is not None:
            flat = scales == 0  # all of the group is -least: 9 - 8 times that
            scales = torch.where(flat, -p.least, scales)
            zeros = torch.where(flat, 8.0, p.least / scales).view(n, groups)
            codes = torch.where(flat.repeat_interleave(GROUP, 1), 9, codes)
        bits = 8 if self.type == "Q8_0" else 4
        return bits, codes.view(self.shape), scales.view(n, groups), zeros


def _rounded(groups: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Groups in 8 bits: codes, scales and zeros, which are codes too."""
    least = groups.amin(2, keepdim=True).clamp(max=0)
    scales = (groups.amax(2, keepdim=True).clamp(min=0) - least) / 255
    some = torch.where(scales > 0, scales, torch.ones_like(scales))
    zeros = (-least / some).round_()
    codes = (groups / some + zeros).round_().clamp_(0, 255)
    return codes.to(torch.uint8).flatten(1), scales[..., 0], zeros[..., 0]


class Linear(torch.nn.Module):
    """x times the transpose of a matrix in blocks, plus bias, by
    ops.linear_codes: the weights stay in 4 or 8 bits (Blocks.codes). `x_bits` is
    that of linear_codes. TypeError where it is not a matrix in blocks.

        >>> layer = gguf.Linear(gguf.load("model.gguf")["blk.0.ffn_up.weight"])
        >>> layer.forward(torch.ones(3, 64)).shape
        torch.Size([3, 8])
    """

    packed: torch.Tensor

    def __init__(self, weight: Blocks, bias: torch.Tensor | None = None, *,
                 x_bits: int = 16) -> None:
        if not isinstance(weight, Blocks) or len(weight.shape) != 2:
            raise TypeError(f"gguf.Linear: weight is {weight!r}, expected "
                            "Blocks of two dims; others are torch.nn.Linear's")
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bits, codes, scales, zeros = weight.codes()
        self.register_buffer("packed", ops.linear_codes_prepack(  # type: ignore[attr-defined]
            codes, scales, zeros, bits=self.bits, group_size=GROUP))
        self.bias, self.x_bits = bias, x_bits

    def forward(self, x: torch.Tensor) -> Any:
        """[..., in_features], of f32, bf16 or f16, to [..., out_features]."""
        return ops.linear_codes(  # type: ignore[attr-defined]
            x, self.packed, None if self.bias is None else self.bias.to(x.dtype),
            out_features=self.out_features, bits=self.bits, group_size=GROUP,
            x_bits=self.x_bits)


class File(dict[str, "torch.Tensor | Blocks"]):
    """Tensors by their names, and `fields`: what the file says besides, as
    {"general.architecture": "llama", ...}. KeyError for a name that the file
    lacks.

        >>> file = gguf.load("model.gguf")
        >>> file.fields, file["blk.0.ffn_up.weight"]
        ({'general.architecture': 'llama'}, Blocks('Q8_0', [8, 64]))
    """

    fields: dict[str, Any]


def load(path: str | os.PathLike[str]) -> File:
    """The tensors of a GGUF file, which is mapped, not read.

    F32, F16 and BF16 are torch.Tensors; Q8_0, Q4_0, Q4_K and Q6_K are Blocks.
    Shapes are torch's: a linear layer's weight is [out, in]. Writing to a
    tensor does not change the file.

    OSError where the file cannot be read; ValueError where it is not a GGUF file
    of version 2 or 3, ends too soon, or has a tensor of another type.

        >>> tensors = gguf.load("model.gguf")
        >>> tensors.fields["general.architecture"], list(tensors)
        ('llama', ['blk.0.ffn_up.weight'])
    """
    host.prepare()
    name = os.fspath(path)
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ValueError(f"{name}: the file is empty, expected GGUF")
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    whole = torch.frombuffer(mapped, dtype=torch.uint8)
    try:
        fields, tensors = _C.gguf_read(whole.data_ptr(), size)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    found = File()
    found.fields = fields
    for tensor, type_, shape, offset, count in tensors:
        if tensor in found:
            raise ValueError(f"{name}: tensor {tensor!r} is there twice")
        data = whole[offset:offset + count]
        found[tensor] = (data.view(_FLOATS[type_]).view(shape)
                         if type_ in _FLOATS else Blocks(type_, shape, data))
    return found

# SPDX-License-Identifier: Apache-2.0
"""GGUF files: every tensor type beside a reading of its own with NumPy, linear
layers beside float64, and files that are wrong."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opgraft import gguf

CODES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14,
         "BF16": 30}
BLOCK = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18),
         "Q8_0": (32, 34), "Q4_K": (256, 144), "Q6_K": (256, 210)}
QUANTISED = ["Q8_0", "Q4_0", "Q4_K", "Q6_K"]


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words.encode())) + words.encode()


def field(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def written(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
            fields: tuple[bytes, ...] = (), alignment: int = 32) -> Path:
    """A file of version 3."""
    infos, data = b"", b""
    for name, (kind, shape, own) in tensors.items():
        data += bytes(-len(data) % alignment)
        infos += text(name) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *shape[::-1], CODES[kind],
            len(data))
        data += own
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(fields) + infos
    path.write_bytes(head + bytes(-len(head) % alignment) + data)
    return path


def half(two: bytes) -> np.float32:
    return np.float32(np.frombuffer(two, np.float16)[0])


def block_read(kind: str, b: bytes) -> list[np.float32]:
    """One element after the other, each product and sum rounded to f32."""
    f32 = np.float32
    if kind == "Q8_0":
        return [half(b[:2]) * f32(q) for q in np.frombuffer(b[2:], np.int8)]
    if kind == "Q4_0":
        codes = [q & 15 for q in b[2:]] + [q >> 4 for q in b[2:]]
        return [half(b[:2]) * f32(q - 8) for q in codes]
    out = []
    for i in range(256):
        if kind == "Q4_K":
            group, s = i // 32, b[4:16]
            if group < 4:
                scale, least = s[group] & 63, s[group + 4] & 63
            else:
                scale = s[group + 4] & 15 | s[group - 4] >> 6 << 4
                least = s[group + 4] >> 4 | s[group] >> 6 << 4
            byte = b[16 + i // 64 * 32 + i % 32]
            code = byte >> 4 if group % 2 else byte & 15
            out.append(half(b[:2]) * f32(scale) * f32(code)
                       - half(b[2:4]) * f32(least))
            continue
        part, at = divmod(i, 128)
        low = b[part * 64 + at % 64]
        low = low >> 4 if at >= 64 else low & 15
        high = b[128 + part * 32 + at % 32] >> at // 32 * 2 & 3
        scale = np.frombuffer(b[192:208], np.int8)[i // 16]
        out.append(half(b[208:]) * f32(scale) * f32((low | high << 4) - 32))
    return out


def blocks(kind: str, rows: int, width: int, odd: bool = False) -> bytes:
    """Random bytes; scales are finite and small, but for `odd`."""
    elements, size = BLOCK[kind]
    given = np.random.default_rng(width + len(kind)).integers(
        0, 256, (rows * width // elements, size), np.uint8)
    if not odd:
        for at in {"Q4_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,)):
            scales = np.random.default_rng(3).uniform(.001, .01, len(given))
            given[:, at:at + 2] = scales.astype(np.float16).view(
                np.uint8).reshape(-1, 2)
        if kind == "Q4_K":
            given[0, 4:8] = 0  # groups of one value
    return given.tobytes()


@pytest.mark.parametrize("kind", QUANTISED)
def test_bit_by_bit(tmp_path: Path, kind: str) -> None:
    """Any bytes: scales are NaN, infinite and subnormal, too."""
    data = blocks(kind, 16, 512, odd=True)
    path = written(tmp_path / "a.gguf", {"w": (kind, (16, 512), data)})
    with np.errstate(all="ignore"):
        size = BLOCK[kind][1]
        wanted = np.array([x for at in range(0, len(data), size)
                           for x in block_read(kind, data[at:at + size])],
                          np.float32)
    w = gguf.load(path)["w"]
    assert isinstance(w, gguf.Blocks) and w.shape == (16, 512)
    found = w.dequantize().numpy().reshape(-1)
    is_nan = np.isnan(wanted)
    assert 0 < is_nan.sum() < len(wanted) or kind in ("Q8_0", "Q4_0")
    assert (np.isnan(found) == is_nan).all()
    assert (found[~is_nan].view(np.int32) == wanted[~is_nan].view(np.int32)).all()


@pytest.mark.parametrize("kind, lost", [
    ("Q8_0", 0), ("Q4_0", 0), ("Q4_K", 2e-3), ("Q6_K", 6e-3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear(tmp_path: Path, kind: str, lost: float, dtype: torch.dtype
                ) -> None:
    """By codes: exactly the file's weights, or off by what docs/precision.md
    says."""
    torch.manual_seed(1)
    path = written(tmp_path / "a.gguf", {
        "w": (kind, (40, 512), blocks(kind, 40, 512))})
    w = gguf.load(path)["w"]
    assert isinstance(w, gguf.Blocks)
    layer = gguf.Linear(w, torch.randn(40))
    full = w.dequantize().double()
    bits, codes, scales, zeros = w.codes()
    middle = 2.0 ** (bits - 1) if zeros is None else zeros.repeat_interleave(32, 1)
    own = scales.double().repeat_interleave(32, 1) * (codes.double() - middle)
    # Of f32; linear_codes rounds scales and zeros to f16.
    assert (own - full).norm() <= (5e-3 if kind == "Q6_K" else 1e-6) * full.norm()
    for m in (1, 3, 40):
        x = torch.randn(m, 512).to(dtype)
        wanted = x.double() @ full.t() + layer.bias.to(dtype).double()
        most = x.double().abs().amax(1, keepdim=True)
        off = most * full.abs().sum(1) / 60000 + 1e-5
        error = layer(x).double() - wanted
        if lost:
            print(f"{kind}, {m} rows: {float(error.norm() / wanted.norm()):.2e}")
            assert error.norm() <= (lost + torch.finfo(dtype).eps) * wanted.norm()
        else:
            assert (error.abs() <= off + torch.finfo(dtype).eps
                    * (wanted.abs() + 1)).all()
    f = torch.compile(layer, backend="opgraft", fullgraph=True)
    assert torch.equal(f(x), layer(x))


def test_floats_and_fields(tmp_path: Path) -> None:
    given = {name: torch.randn(3, 5).to(getattr(torch, dtype)) for name, dtype in (
        ("F32", "float32"), ("F16", "float16"), ("BF16", "bfloat16"))}
    path = written(
        tmp_path / "a.gguf",
        {name: (name, (3, 5), x.view(torch.uint8).numpy().tobytes())
         for name, x in given.items()} | {"none": ("Q4_0", (0, 32), b""),
                                          "one": ("F32", (), bytes(4))},
        (field("general.alignment", 4, struct.pack("<I", 64)),
         field("u8", 0, b"\xff"), field("i8", 1, b"\xff"),
         field("i16", 3, b"\xfe\xff"), field("f32", 6, struct.pack("<f", .5)),
         field("bool", 7, b"\x01"), field("text", 8, text("größer")),
         field("u64", 10, b"\xff" * 8), field("i64", 11, b"\xff" * 8),
         field("f64", 12, struct.pack("<d", .1)),
         field("list", 9, struct.pack("<IQ", 5, 2) + struct.pack("<ii", -7, 9)),
         field("texts", 9, struct.pack("<IQ", 8, 2) + text("") + text("b"))),
        alignment=64)
    found = gguf.load(path)
    for name, x in given.items():
        assert found[name].dtype == x.dtype and torch.equal(found[name], x)
    assert found["none"].dequantize().shape == (0, 32)
    assert found["one"].shape == () and list(found)[-1] == "one"
    assert found.fields == {
        "general.alignment": 64, "u8": 255, "i8": -1, "i16": -2, "f32": .5,
        "bool": True, "text": "größer", "u64": 2**64 - 1, "i64": -1, "f64": .1,
        "list": [-7, 9], "texts": ["", "b"]}
    found["F32"].zero_()  # stays in memory
    assert torch.equal(gguf.load(path)["F32"], given["F32"])


def test_files_that_are_wrong(tmp_path: Path) -> None:
    good = written(tmp_path / "a.gguf", {
        "w": ("Q8_0", (2, 64), blocks("Q8_0", 2, 64))},
        (field("name", 8, text("x")),)).read_bytes()
    at = good.index(b"w") + 1

    def refused(data: bytes, words: str) -> None:
        path = tmp_path / "b.gguf"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=words):
            gguf.load(path)

    def patched(offset: int, form: str, value: Any) -> bytes:
        new = struct.pack(form, value)
        return good[:offset] + new + good[offset + len(new):]

    refused(b"", "the file is empty")
    refused(b"GGML" + good[4:], "does not begin with")
    refused(patched(4, "<I", 1), "version 1, expected 2 or 3")
    refused(patched(4, ">I", 3), "big-endian")
    refused(patched(8, "<Q", 2**63), "a tensor's name has|a rank|an offset")
    refused(patched(16, "<Q", 2**64 - 1), "the file ends")
    refused(patched(24, "<Q", 2**64 - 1), "a field's name has 18446744073709551615")
    refused(patched(36, "<I", 13), "a field has type 13")
    refused(patched(at, "<I", 5), "tensor w has 5 dims, expected at most 4")
    refused(patched(at + 4, "<Q", 2**62), "more elements than memory")
    refused(patched(at + 4, "<Q", 33), "rows of 33 elements, expected a multiple")
    refused(patched(at + 4, "<Q", 2**40), "more bytes than the file")
    refused(patched(at + 20, "<I", 13), "tensor w has type 13, expected F32")
    refused(patched(at + 24, "<Q", 7), "offset 7, expected a multiple of 32")
    refused(patched(at + 24, "<Q", 2**63), "but the file ends at")
    for length in range(len(good)):
        refused(good[:length], "b.gguf: ")
    refused(written(tmp_path / "c.gguf", {}, (
        field("general.alignment", 4, struct.pack("<I", 24)),)).read_bytes(),
        "general.alignment is 24, expected a power of two")
    refused(written(tmp_path / "c.gguf", {}, (
        field("l", 9, struct.pack("<IQ", 9, 2**60)),)).read_bytes(), "has lists")
    with pytest.raises(OSError):
        gguf.load(tmp_path / "missing.gguf")
    with pytest.raises(TypeError, match="expected Blocks of two dims"):
        gguf.Linear(torch.ones(2, 2))  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""Models of somebody else, as `opgraft.onnx` reads them to lint: bytes, and
fields of the messages. A model that cannot be read is a ValueError that begins
with "model: "; anything else is found, or is nothing to find."""

from __future__ import annotations

import functools
import pathlib
import random
import sys
import tempfile
from typing import Any, Iterator

from reader import Fuzzer, bytes_mutated

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance"))
INTS = [0, 1, -1, 2, 7, 64, 1 << 31, (1 << 63) - 1, -(1 << 63)]
TEXTS = ["", "x", "N", "a.b", "kinds", "\x00", "x" * 300]


@functools.cache
def module() -> Any:
    import build
    import opgraft.onnx

    folder = tempfile.mkdtemp(prefix="opgraft-fuzz-")
    return opgraft.onnx.load(build.module(
        build.HERE / "kinds.c", pathlib.Path(folder) / "kinds.so",
        "onnxruntime", "-DMORE_KINDS"))


def run(data: bytes) -> bool:
    try:
        findings = module().lint(data)
    except ValueError as error:
        if not str(error).startswith("model: "):
            raise
        return False
    assert all(isinstance(f, str) and f for f in findings)
    return True


# --- Mutation -----------------------------------------------------------------


def _is_many(field: Any) -> bool:
    return bool(getattr(field, "is_repeated", None)
                or getattr(field, "label", 0) == 3)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for one in value if _is_many(field) else [value]:
            yield from _messages(one)


def _value(draw: random.Random, field: Any, texts: list[str]) -> Any:
    if field.enum_type is not None:
        return draw.choice(field.enum_type.values).number
    if field.type == field.TYPE_STRING:
        return draw.choice(texts)
    if field.type == field.TYPE_BYTES:
        return draw.choice(texts).encode()
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return draw.choice([0.0, 1.5, float("inf"), float("nan")])
    number = draw.choice(INTS)
    if field.type in (field.TYPE_INT32, field.TYPE_UINT32, field.TYPE_UINT64):
        return number % (1 << 31)
    return number


def _change(draw: random.Random, message: Any, texts: list[str]) -> None:
    field = draw.choice(message.DESCRIPTOR.fields)
    if draw.randrange(4) and message.ListFields():
        field = draw.choice(message.ListFields())[0]
    if not _is_many(field):
        if draw.randrange(4) == 0:
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, _value(draw, field, texts))
        return
    entries = getattr(message, field.name)
    kind = draw.randrange(4)
    if kind == 0 and len(entries) > 0:
        del entries[draw.randrange(len(entries))]
    elif field.type != field.TYPE_MESSAGE:
        entries.append(_value(draw, field, texts))
    elif len(entries) > 0 and kind > 1:
        entries.add().CopyFrom(draw.choice(list(entries)))
    else:
        entries.add()


def mutate(draw: random.Random, data: bytes, tokens: list[bytes]) -> bytes:
    import onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # a seed of bytes
        return bytes_mutated(draw, data, tokens)
    if draw.randrange(8) == 0:
        return bytes_mutated(draw, data, tokens)
    texts = [*TEXTS, *(t.decode() for t in tokens)]
    for _ in range(1 + draw.randrange(4)):
        _change(draw, draw.choice(list(_messages(model))), texts)
    return bytes(model.SerializeToString()[:1 << 16])


if __name__ == "__main__":
    Fuzzer("onnx_models", run, mutate).main()

# SPDX-License-Identifier: Apache-2.0
"""The last column of aten.def against PyTorch's own schemas: a position or
keyword that no argument has would be a default that nobody can change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.inductor_prims  # noqa: F401  # registers prims.fma

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(
    r'^OG_ATEN(?:_NUM)?\("([^"]+)", \w+, \w+,(?: \w+,)?\s*"([^"]*)"\)', re.M)
SOURCE = re.compile(r"(?P<position>\d+)?(?:\|(?P<name>\w+))?(?:\?.*)?$")
ROWS = ROW.findall((ROOT / "src/import/aten.def").read_text())


def schema(name: str) -> Any:
    space = torch.ops.prims if name.startswith("prims.") else torch.ops.aten
    packet, overload = name.removeprefix("prims.").split(".")
    return getattr(getattr(space, packet), overload)._schema


def fault(source: str, arguments: list[Any]) -> str | None:
    match = SOURCE.match(source)
    if match is None:
        return "is no source"
    position = None if match["position"] is None else int(match["position"])
    places = {a.name: i for i, a in enumerate(arguments)}
    if match["name"] is not None:
        if match["name"] not in places:
            return f"names no argument of {list(places)}"
        at = places[match["name"]]
        wanted = None if arguments[at].kwarg_only else at
        return None if position == wanted else f"is at {wanted}"
    if position is None or position >= len(arguments):
        return f"is beyond {len(arguments)} arguments"
    return ("is keyword-only: write |name" if arguments[position].kwarg_only
            else None)


def test_the_table_is_read() -> None:
    text = (ROOT / "src/import/aten.def").read_text()
    assert len(ROWS) == len(re.findall(r'^OG_ATEN\w*\("', text, re.M)) > 300


@pytest.mark.parametrize("source, wanted", [
    ("0", None), ("|alpha?1", None), ("1|other", None),
    ("7?", "is beyond 3 arguments"), ("2|alpha?1", "is at None"),
    ("2", "is keyword-only: write |name"), ("0|other", "is at 1"),
    ("|beta", "names no argument of ['self', 'other', 'alpha']"),
])
def test_faults_are_found(source: str, wanted: str | None) -> None:
    assert fault(source, schema("add.Tensor").arguments) == wanted


def test_every_source_is_an_argument() -> None:
    faults = []
    for name, spec in ROWS:
        arguments = schema(name).arguments
        for item in spec.replace(";", " ").split():
            source = item.rpartition("=")[2]
            found = (None if source[0] in "#-"
                     else fault(source, arguments))
            if found:
                faults.append(f"{name}: {item} {found}")
    assert faults == []

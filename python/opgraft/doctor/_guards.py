# SPDX-License-Identifier: Apache-2.0
"""What a guard that failed says, for a reader: the condition, what it is about,
and what of that changes."""

from __future__ import annotations

import re

_COMPILE_ID = re.compile(r"^\s*\d+/\d+: ")
_BEHIND = re.compile(r"\s+#\s|\n|\s*\(?HINT:")  # where it stands, and advice
_CLOSURE = re.compile(r"\S*\.__closure__\[\d+\]\.cell_contents\b")
_HINT = re.compile(r'\(HINT: guard on "(\w+)"\)')
_OBJECT = re.compile(r"^___check_(obj|type)_id\(([^,]+),.*")
_TENSOR = re.compile(r"^tensor '(.+?)'\s+(?:(.+?) mismatch)?")
_SIZE = re.compile(r"([\w.\[\]'\"]+)\.(size|stride)\(\)")  # x.size()[0] == 4
_EMPTY = re.compile(r"^not ([\w.\[\]'\"]+)$")  # a list without elements
_COMPARED = re.compile(r"^(len\()?(.+?)\)?\s(?:==|!=|is|in|<=?|>=?)\s+(.+)$")


def plain(reason: str) -> str:
    """The condition: "self.n == 3"."""
    text = _BEHIND.split(_COMPILE_ID.sub("", reason), maxsplit=1)[0].strip()
    named = _HINT.search(reason)
    if named:
        text = _CLOSURE.sub(f"{named[1]} of a closure", text)
    found = _OBJECT.match(text)
    if found:
        what = "object" if found[1] == "obj" else "type"
        return f"{found[2]} is the {what} that was compiled for"
    return text


def subject(condition: str) -> str:
    """What it is about, "self.n"; the whole where that is not known."""
    found = _TENSOR.match(condition) or _SIZE.search(condition)
    if found:
        return found[1]
    empty, found = _EMPTY.match(condition), _COMPARED.match(condition)
    return empty[1] if empty else found[2] if found else condition


def meaning(condition: str) -> str:
    """What changes: "an int attribute that changes"; "" where that is not
    known."""
    found = _TENSOR.match(condition) or _SIZE.search(condition)
    if found:
        return f"the {found[2]} of a tensor changes" if found[2] else ""
    if _EMPTY.match(condition):
        return "a length that changes"
    found = _COMPARED.match(condition)
    if not found:
        return ""
    if condition.endswith("that was compiled for"):
        return "another one comes each time"
    if found[1]:
        return "a length that changes"
    words = f"{_kind(found[3])} {_owner(found[2])}".strip()
    return f"{'an' if words[0] in 'ai' else 'a'} {words} that changes"


def _kind(value: str) -> str:
    if re.fullmatch(r"-?\d+", value):
        return "int"
    if re.fullmatch(r"-?\d*\.\d*(e-?\d+)?", value):
        return "float"
    return "flag" if value in ("True", "False") else ""


def _owner(name: str) -> str:
    if name.startswith("G["):
        return "global"
    if name.startswith("___stack"):
        return "value from a break"
    if name.endswith(" of a closure"):
        return "value in a closure"
    return "attribute" if "." in name else "argument"

# SPDX-License-Identifier: Apache-2.0
"""What people read in a file: its comments, string literals and paragraphs.

`parts` yields them with their place. `prose` is a file's text in which all
else is replaced by NUL bytes, so that an offset is still the offset in the file
and a phrase is found where it is broken over two lines or two literals.
"""

from __future__ import annotations

import ast
import io
import pathlib
import re
import tokenize
from dataclasses import dataclass
from typing import Iterator

C_FILES = (".c", ".h", ".inc", ".def")
HASH_FILES = (".cmake", ".sh", ".toml", ".txt")
C_TOKEN = re.compile(
    r"(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\")|'(?:\\.|[^'\\\n])*'", re.S)
# What may stand between the literals of one string: a width of <inttypes.h>.
C_JOIN = re.compile(r"\s*(?:PRI[a-zA-Z0-9]+)?\s*\Z")
CODE_SPAN = re.compile(r"`[^`\n]*`")
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n.*?^\1```", re.S | re.M)
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")


@dataclass
class Part:
    kind: str  # "comment", "string", "docstring", "page"
    begin: int
    end: int
    text: str  # a string's value, with the literals of one string joined


def c_parts(text: str) -> Iterator[Part]:
    last: Part | None = None
    for match in C_TOKEN.finditer(text):
        begin, end = match.span()
        if match["string"] is not None:
            value = match["string"][1:-1]
            if (last is not None and last.kind == "string"
                    and C_JOIN.match(text[last.end:begin])):
                gap = text[last.end:begin].strip()
                last.text += ("d" if gap else "") + value  # PRId64 and its like
                last.end = end
                continue
            part = Part("string", begin, end, value)
        elif match["line"] is not None or match["block"] is not None:
            part = Part("comment", begin, end, match[0])
            if (last is not None and last.kind == "comment"
                    and not text[last.end:begin].strip()):
                last.text += "\n" + match[0]
                last.end = end
                continue
        else:
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def python_parts(text: str) -> Iterator[Part]:
    starts = line_starts(text)
    last: Part | None = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        begin = starts[token.start[0] - 1] + token.start[1]
        end = begin + len(token.string)
        if last is not None and not text[last.end:begin].strip():
            last.text += "\n" + token.string
            last.end = end
            continue
        if last is not None:
            yield last
        last = Part("comment", begin, end, token.string)
    if last is not None:
        yield last
    yield from python_strings(text, starts)


def python_strings(text: str, starts: list[int]) -> Iterator[Part]:
    tree = ast.parse(text)
    documented = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef,
                                       ast.FunctionDef, ast.AsyncFunctionDef))
                  and node.body and isinstance(node.body[0], ast.Expr)
                  and isinstance(node.body[0].value, ast.Constant)}
    lines = text.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(
            lines[line - 1].encode()[:column].decode(errors="ignore"))

    def walk(node: ast.AST) -> Iterator[Part]:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text or isinstance(node, ast.JoinedStr):
            assert isinstance(node, (ast.Constant, ast.JoinedStr))
            kind = "docstring" if id(node) in documented else "string"
            begin = offset(node.lineno, node.col_offset)
            end = offset(node.end_lineno or 0, node.end_col_offset or 0)
            yield Part(kind, begin, end, string_value(node))
            return
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(tree)


def string_value(node: ast.Constant | ast.JoinedStr) -> str:
    """The text, with {} for what is computed."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}"
                   for v in node.values)


def parts(path: pathlib.Path, text: str) -> list[Part]:
    """In the order of the file."""
    if path.suffix in C_FILES:
        found = list(c_parts(text))
    elif path.suffix == ".py":
        found = sorted(python_parts(text), key=lambda part: part.begin)
    elif path.suffix == ".md":
        found = [Part("page", 0, len(text), text)]
    else:
        found = [Part("comment", *m.span(), m[0])
                 for m in re.finditer(r"(?m)(?:^[ \t]*#[^\n]*\n)+", text)]
    return found


def blank(pattern: re.Pattern[str], text: str, by: str = "\0") -> str:
    return pattern.sub(lambda m: re.sub(r"[^\n]", by, m[0]), text)


def page_prose(text: str) -> str:
    """Paragraphs and printed output; fenced code of a language is not prose."""
    text = FENCE.sub(lambda m: re.sub(r"[^\n]", "\0", m[0]) if m[2] else m[0],
                     text)
    return blank(LINK_TARGET, blank(CODE_SPAN, text))


def comment_prose(text: str) -> str:
    text = re.sub(r"(?m)^([ \t]*)(//|#|\*)", lambda m: m[1] + " " * len(m[2]),
                  text)
    return blank(CODE_SPAN, text)


def string_prose(text: str) -> str:
    """Quotes between the literals of one string are blank."""
    return blank(re.compile(r"\"\s*(?:PRI\w+\s*)?[rf]?\"|'\s*[rf]?'"), text,
                 " ")


def python_string_prose(text: str) -> str:
    """Without what an f-string computes."""
    return string_prose(blank(re.compile(r"\{[^{}\n]*\}"), text))


def prose(path: pathlib.Path, text: str, kinds: tuple[str, ...]) -> str:
    is_python = path.suffix == ".py"
    read = {"comment": comment_prose, "docstring": comment_prose,
            "page": page_prose,
            "string": python_string_prose if is_python else string_prose}
    out, at = [], 0
    for part in parts(path, text):
        if part.kind not in kinds or part.begin < at:
            continue
        out += [re.sub(r"[^\n]", "\0", text[at:part.begin]),
                read[part.kind](text[part.begin:part.end])]
        at = part.end
    out.append(re.sub(r"[^\n]", "\0", text[at:]))
    return "".join(out)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses phrases that a reader has to decode, and errors that say one side.

    tools/messages.py

Looks for the forms of tools/words.txt in comments, messages, docstrings, docs
and subjects of new commits, and says what to write instead; and for errors that
say what is expected and not what was found. Which texts are errors is known by
the function that they are passed to.
"""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from typing import Iterator, NamedTuple

import prose

ROOT = pathlib.Path(__file__).resolve().parents[1]
FORMS = pathlib.Path(__file__).with_name("words.txt")
# Commits behind this one have their subjects checked.
FIRST_COMMIT = "216715699810a9efcc7f9a021d076486f5a53ac2"
SUBJECT_MAX = 72
PRODUCT = ("src", "include", "hosts", "cli", "ops", "python")
C_ERROR = {"og_fail", "og_failf", "PyErr_SetString", "PyErr_Format",
           "og_tell_finding"}
C_NOTE = {"cli_note", "PyErr_WarnEx", "PyErr_WarnFormat"}
DECLARED_FORMAT = re.compile(
    r"(\w+)\s*\((?:[^()]|\([^()]*\))*const char \*format,?\s*\.{3}\s*\)\s*"
    r"(?:OG|CLI)_PRINTF")
MACRO_OF_FORMAT = re.compile(r"#define (\w+)\([^)]*\)[^\n]*(?:\\\n[^\n]*)*")
WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [a-z(]")

class Message(NamedTuple):
    place: str
    text: str


def plain(text: str) -> str:
    return " ".join(text.replace('\\"', '"').split())


def files(folders: tuple[str, ...], suffixes: tuple[str, ...]
          ) -> Iterator[pathlib.Path]:
    """Tracked and new files, in order."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *folders],
        cwd=ROOT, text=True, capture_output=True, check=True).stdout.split()
    for name in sorted(listed):
        path = ROOT / name
        if path.suffix in suffixes and path.is_file():
            yield path


def format_functions() -> set[str]:
    """What takes a printf format, and the macros that pass theirs on."""
    texts = [p.read_text() for p in files(PRODUCT, prose.C_FILES)]
    found = set(C_ERROR)
    for text in texts:
        found.update(DECLARED_FORMAT.findall(text))
    for text in texts:
        for match in MACRO_OF_FORMAT.finditer(text):
            if any(re.search(rf"\b{name}\(", match[0]) for name in C_ERROR):
                found.add(match[1])
    return found - C_NOTE - {"og_text_addf"}


def caller(text: str, at: int) -> str:
    """The function or macro whose arguments begin before `at`."""
    depth = 0
    for i in range(at - 1, max(at - 1500, -1), -1):
        if text[i] == ")":
            depth += 1
        elif text[i] == "(" and depth:
            depth -= 1
        elif text[i] == "(":
            name = re.search(r"(\w+)\s*\Z", text[:i])
            return name[1] if name else ""
        elif text[i] in ";{}" and not depth:
            return ""
    return ""


def c_errors(path: pathlib.Path, functions: set[str]) -> Iterator[Message]:
    name, text = str(path.relative_to(ROOT)), path.read_text()
    bare = prose.C_TOKEN.sub(lambda m: " " * len(m[0]), text)
    for part in prose.parts(path, text):
        if part.kind == "string" and caller(bare, part.begin) in functions:
            line = text.count("\n", 0, part.begin) + 1
            yield Message(f"{name}:{line}", part.text)


def is_raised(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    while not isinstance(node, (ast.Module, ast.FunctionDef)):
        if isinstance(node, ast.Raise) or isinstance(
                node, ast.Call) and ast.unparse(node.func).endswith(
                    ("Error", "Exception")):
            return True
        node = parents.get(node, ast.Module([], []))
    return False


def python_errors(path: pathlib.Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    parents = {child: node for node in ast.walk(tree)
               for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and not (
                isinstance(parents.get(node), ast.JoinedStr)
                or isinstance(node, ast.Constant)
                and not isinstance(node.value, str)) \
                and is_raised(node, parents):
            yield Message(f"{path.relative_to(ROOT)}:{node.lineno}",
                          prose.string_value(node))


def errors() -> Iterator[Message]:
    functions = format_functions()
    for path in files(PRODUCT, (*prose.C_FILES, ".py")):
        found = (python_errors(path) if path.suffix == ".py"
                 else c_errors(path, functions))
        yield from (m for m in found if WORDS.search(m.text))


def forms() -> list[tuple[re.Pattern[str], str]]:
    """(what is refused, what to say instead), from tools/words.txt."""
    found = []
    for line in FORMS.read_text().splitlines():
        if line and not line.startswith("#"):
            form, say = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            found.append((re.compile(
                r"\b" + form.replace(" ", r"\s+") + r"\b", re.I), say))
    return found


# Texts that another one, or the place in the rule, says the found value of.
FOUND_OUTSIDE = ("expected one array and nothing else in it",  # the bytes
                 "expected strides that are not negative",  # of which input
                 "expected a shorter rule", "named dims or fewer",
                 "results or fewer", "stands only in a result",
                 "an argument picks stands between", "its packs cannot be known",
                 "was cut short")
FOUND = re.compile(r"[%{]|\b(?:found|is|has|are|without|missing|lacks|no|not|"
                   r"given|needs)\b")


def is_one_sided(text: str) -> bool:
    """Whether an error says what is expected, and not what was found."""
    before, expected, _ = text.partition("expected")
    return bool(expected) and not FOUND.search(before) and not any(
        known in text for known in FOUND_OUTSIDE)


def refused(path: pathlib.Path, kinds: tuple[str, ...],
            wrong: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    text = prose.prose(path, path.read_text(), kinds)
    name = path.relative_to(ROOT)
    for form, say in wrong:
        for match in form.finditer(text):
            if match.re.groups and match[1]:
                continue
            line = text.count("\n", 0, match.start()) + 1
            phrase = " ".join(match[0].replace("\0", "").split())
            yield f"{name}:{line}: \"{phrase}\": say {say}"


def refused_subjects(wrong: list[tuple[re.Pattern[str], str]]
                     ) -> Iterator[str]:
    """Of the commits behind FIRST_COMMIT; of none where a clone lacks it."""
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s",
         f"{FIRST_COMMIT}..HEAD"], cwd=ROOT, text=True, capture_output=True)
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_MAX:
            yield f"{commit}: the subject has {len(subject)} characters, at " \
                  f"most {SUBJECT_MAX} expected"
        yield from (f"{commit}: \"{match[0]}\": say {say}"
                    for form, say in wrong for match in form.finditer(subject))


def check() -> int:
    wrong = forms()
    every = ("comment", "docstring", "string", "page")
    prose_only = ("comment", "docstring", "page")
    found: list[str] = []
    for path in files(PRODUCT, (*prose.C_FILES, ".py")):
        found += refused(path, every, wrong)
    for path in files(("docs", "*.md", "examples", "bench", "tools", "tests",
                       "cmake", ":!docs/glossary.md", ":!docs/results",
                       ":!tools/words.txt"),
                      (*prose.C_FILES, ".py", ".md", ".cmake", ".sh")):
        found += refused(path, prose_only, wrong)
    found += [f"{m.place}: \"{plain(m.text)}\": say what was found as well"
              for m in errors() if is_one_sided(plain(m.text))]
    found += refused_subjects(wrong)
    for line in found:
        print(line)
    print(f"messages: {len(found)} forms to replace")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(check())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every error, note and help text, or the forms that no text may have.

    tools/messages.py [--unpinned] [--sample N --seed S] [FOLDER...]
    tools/messages.py --count
    tools/messages.py --check

A line of the list: place, kind, the test that pins the text, text. Without a
test: the reason that tools/unpinned.txt has, in brackets, or none. Kinds:
error, note, help, and text for all else that is printed. A text of C is one of
these by the function that it is passed to; a table of messages is an X-macro.
A test pins a text when it has its longest piece between two values, or, where
that is short, all pieces in order on one line.

--unpinned lists those with neither test nor reason. --count counts errors and
notes by folder. --sample draws N errors, notes and help texts.

With --check: places in comments, messages, docstrings, docs and subjects of
new commits with a form of tools/words.txt, and what to say instead; errors that
say what is expected and not what was found.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Iterator

import prose

ROOT = pathlib.Path(__file__).resolve().parents[1]
FORMS = pathlib.Path(__file__).with_name("words.txt")
REASONS = pathlib.Path(__file__).with_name("unpinned.txt")
# Commits behind this one have their subjects checked.
FIRST_COMMIT = "216715699810a9efcc7f9a021d076486f5a53ac2"
SUBJECT_MAX = 72
PRODUCT = ("src", "include", "hosts", "cli", "ops", "python")
C_ERROR = {"og_fail", "og_failf", "PyErr_SetString", "PyErr_Format",
           "og_tell_finding"}
C_NOTE = {"cli_note", "PyErr_WarnEx", "PyErr_WarnFormat"}
C_HELP_FILES = ("cli/commands.def",)
DECLARED_FORMAT = re.compile(
    r"(\w+)\s*\((?:[^()]|\([^()]*\))*const char \*format,?\s*\.{3}\s*\)\s*"
    r"(?:OG|CLI)_PRINTF")
MACRO_OF_FORMAT = re.compile(r"#define (\w+)\([^)]*\)[^\n]*(?:\\\n[^\n]*)*")
VALUE = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?"
                   r"(?:[diouxXeEfFgGaAcspnR%]|\Z)|\{\}|\\n|\n")
WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [a-z(]")
# Fields of a declaration, C templates and lists of names hold no sentence.
NO_SENTENCE = re.compile(r"->|^\s*[\w.]+\(|[{};]\s*\\n|^[\w |]+: [\w |]+$")


@dataclass
class Message:
    place: str
    kind: str
    text: str

    def piece(self) -> str:
        """The longest part without values, which a test may have."""
        found = max((plain(p).strip(" ,;:") for p in VALUE.split(self.text)),
                    key=len)
        return found if len(found) >= 10 and " " in found else ""

    def whole(self) -> re.Pattern[str] | None:
        """All pieces in order, on one line, with anything for the values."""
        pieces = [plain(p) for p in VALUE.split(self.text)]
        pieces = [p for p in pieces if re.search(r"\w", p)]
        if sum(map(len, pieces)) < 10:
            return None
        return re.compile(".{1,80}?".join(map(re.escape, pieces)))


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


def c_kind(name: str, called: str, errors: set[str]) -> str:
    if called in errors:
        return "error"
    if called in C_NOTE:
        return "note"
    is_help = name in C_HELP_FILES or (name.startswith("cli/")
                                       and called in ("", "X"))
    return "help" if is_help else "text"


def c_messages(path: pathlib.Path, errors: set[str]) -> Iterator[Message]:
    name, text = str(path.relative_to(ROOT)), path.read_text()
    bare = prose.C_TOKEN.sub(lambda m: " " * len(m[0]), text)
    for part in prose.parts(path, text):
        if part.kind == "string":
            line = text.count("\n", 0, part.begin) + 1
            kind = c_kind(name, caller(bare, part.begin), errors)
            yield Message(f"{name}:{line}", kind, part.text)


def python_kind(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """error: raised; note: logged or warned of; help: argparse's."""
    while not isinstance(node, (ast.Module, ast.FunctionDef)):
        if isinstance(node, ast.Raise):
            return "error"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called in ("warn", "say", "info", "warning"):
                return "note"
            if called in ("add_argument", "ArgumentParser", "add_parser"):
                return "help"
            if called.endswith(("Error", "Exception")):
                return "error"
        node = parents.get(node, ast.Module([], []))
    return "text"


def python_messages(path: pathlib.Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    parents = {child: node for node in ast.walk(tree)
               for child in ast.iter_child_nodes(node)}
    docstrings = {id(n.body[0]) for n in ast.walk(tree)
                  if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef,
                                    ast.AsyncFunctionDef)) and n.body}
    literals = [node for node in ast.walk(tree)
                if isinstance(node, (ast.Constant, ast.JoinedStr))]
    for node in sorted(literals, key=lambda n: (n.lineno, n.col_offset)):
        parent = parents.get(node)
        if (isinstance(parent, ast.JoinedStr)
                or id(parent) in docstrings and isinstance(parent, ast.Expr)
                or isinstance(node, ast.Constant)
                and not isinstance(node.value, str)):
            continue
        yield Message(f"{path.relative_to(ROOT)}:{node.lineno}",
                      python_kind(node, parents), prose.string_value(node))


def messages(folders: tuple[str, ...]) -> list[Message]:
    errors = format_functions()
    found: list[Message] = []
    for path in files(folders, (*prose.C_FILES, ".py")):
        found += (python_messages(path) if path.suffix == ".py"
                  else c_messages(path, errors))
    return [m for m in found if WORDS.search(m.text)
            and (m.kind != "text" or not NO_SENTENCE.search(m.text))]


def test_texts() -> dict[str, str]:
    """What each test file says, in one line, literals joined."""
    found = {}
    suffixes = (*prose.C_FILES, ".py", ".txt", ".json", ".test", "")
    for path in files(("tests",), suffixes):
        name = str(path.relative_to(ROOT))
        if "/corpus/" not in name and path.suffix != ".pyc":
            text = path.read_text(errors="replace")
            text = re.sub(r"\"\s*\n\s*[rf]*\"|'\s*\n\s*[rf]*'", "", text)
            found[name] = plain(text.replace("\\", ""))
    return found


def reasons() -> list[tuple[str, re.Pattern[str]]]:
    """(why no test has it, which texts), from tools/unpinned.txt."""
    found, reason = [], ""
    for line in REASONS.read_text().splitlines():
        if line.startswith("  "):
            found.append((reason, re.compile(line.strip())))
        elif line and not line.startswith("#"):
            reason = line.rstrip(":")
    return found


def pinned_by(message: Message, tests: dict[str, str]) -> str:
    """A test's file; else "(reason)", else "none"."""
    piece, whole = message.piece(), message.whole()
    for name, text in tests.items():
        if piece and piece in text:
            return name
    for name, text in tests.items():
        if not piece and whole is not None and whole.search(text):
            return name
    text = plain(message.text)
    return next((f"({reason})" for reason, pattern in reasons()
                 if pattern.search(text)), "none")


def folder(message: Message) -> str:
    """src/decl/parse/x.c:3 is src/decl's."""
    parts = message.place.split(":")[0].split("/")[:-1]
    return "/".join(parts[:1 if parts[0] in ("cli", "ops") else 2])


def count(tests: dict[str, str]) -> None:
    """Errors and notes by folder: pinned, with a reason, neither."""
    table: dict[str, Counter[str]] = {}
    for message in messages(PRODUCT):
        if message.kind in ("error", "note"):
            pin = pinned_by(message, tests)
            kind = "reason" if pin[0] == "(" else \
                "none" if pin == "none" else "test"
            table.setdefault(folder(message), Counter())[kind] += 1
    total: Counter[str] = Counter()
    for name, row in sorted(table.items()):
        total += row
        print(f"{name:20} {row['test']:4} by a test, {row['reason']:3} with a "
              f"reason, {row['none']:4} by none")
    print(f"{'all':20} {total['test']:4} by a test, {total['reason']:3} with a "
          f"reason, {total['none']:4} by none")


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
              for m in messages(PRODUCT)
              if m.kind == "error" and is_one_sided(plain(m.text))]
    found += refused_subjects(wrong)
    for line in found:
        print(line)
    print(f"messages: {len(found)} forms to replace")
    return int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true",
                        help="refuse the forms of tools/words.txt")
    parser.add_argument("--unpinned", action="store_true",
                        help="only texts that no test has")
    parser.add_argument("--count", action="store_true",
                        help="how many have a test, by folder")
    parser.add_argument("--sample", type=int, default=0, metavar="N",
                        help="N errors, notes and help texts by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folders", nargs="*", default=PRODUCT)
    options = parser.parse_args()
    if options.check:
        return check()
    tests = test_texts()
    if options.count:
        count(tests)
        return 0
    counts: dict[str, int] = {}
    chosen = messages(tuple(options.folders))
    if options.sample:
        chosen = random.Random(options.seed).sample(
            [m for m in chosen if m.kind != "text"], options.sample)
    for message in chosen:
        pin = pinned_by(message, tests)
        if options.unpinned and pin != "none":
            continue
        counts[message.kind] = counts.get(message.kind, 0) + 1
        print(f"{message.place}\t{message.kind}\t{pin}\t"
              f"{plain(message.text)}")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())),
          file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

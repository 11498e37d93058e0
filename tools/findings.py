#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/findings.md: for each kind of finding a broken example, what
check prints, and the repair.

    tools/findings.py [--check] [--opgraft PROGRAM] [KIND ...]

tests/findings/KIND.c is the example: its lines under `#ifdef REPAIRED` are the
repair. Both forms are checked; the broken one has to show the kind, the other
one nothing but notes, and not that kind. Each `again:` line of the broken one
is run, and has to print the same finding. With --check nothing is written, and
a page that differs fails.
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "tests" / "findings"
HEADER = ROOT / "include" / "opgraft" / "check.h"
PAGE = ROOT / "docs" / "findings.md"

# Numbers and calls of these are the machine's or chance, and not compared.
BY_CHANCE = {"thread_dependent", "thread_race", "uninitialised", "kept_pointer",
             "not_repeatable", "memory_leak"}
# Told of all calls together: no single call shows them.
OF_ALL_CALLS = {"never_ran", "not_sampled", "static_shapes", "refused_calls",
                "unused_argument", "unused_end", "wrong_order",
                "untrue_expect"}

HEAD = """\
# Findings

What `opgraft check` can find, each kind with a broken example, what check prints of it, and the repair; `tools/findings.py` writes this page from `tests/findings` and `include/opgraft/check.h`. A note is worth knowing and no fault. [What check does](check.md) says how each is looked for.
"""


def kinds() -> dict[str, str]:
    """What is to be done about each, in the order of the header."""
    listed = HEADER.read_text().replace("\\\n", "")
    return {kind: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', fix)
                          ).replace('\\"', '"')
            for kind, fix in re.findall(
                r'X\(\w+,\s*"(\w+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', listed)}


def table(sections: dict[str, str]) -> str:
    """Each kind with what is to be done, findings before notes."""
    fixes = {kind: fix for kind, fix in kinds().items() if kind in sections}
    notes = [k for k in fixes if "\n  note " in sections[k]]
    rows = [f"| [{kind}](#{kind}){' (note)' * (kind in notes)} | {fixes[kind]} |"
            for kind in [*(k for k in fixes if k not in notes), *notes]]
    return "\n".join(["\n| Kind | What to do |", "|---|---|", *rows, ""])


# --- The two forms of an example ---------------------------------------------


def form(source: str, is_repaired: bool) -> str:
    """The lines that the preprocessor would keep, REPAIRED set or not."""
    kept: list[str] = []
    is_kept = True
    for line in source.splitlines(keepends=True):
        if line.startswith(("#ifdef REPAIRED", "#ifndef REPAIRED")):
            is_kept = line.startswith("#ifdef") == is_repaired
        elif line.startswith("#else"):
            is_kept = not is_kept
        elif line.startswith("#endif"):
            is_kept = True
        elif is_kept:
            kept.append(line)
    return "".join(kept)


def example(kind: str) -> str:
    return (EXAMPLES / f"{kind}.c").read_text(encoding="utf-8")


def head_of(source: str) -> str:
    """The sentences behind the licence."""
    lines = []
    for line in source.splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return " ".join(lines)


def repair(source: str) -> str:
    """What the repair changes, with the lines around it."""
    broken, repaired = (form(source, r).splitlines() for r in (False, True))
    lines = list(difflib.unified_diff(broken, repaired, lineterm="", n=14))[2:]
    return "\n".join(" " if line.startswith("@@") else line
                     for line in lines[1:])


# --- What check says of it ---------------------------------------------------


def run_check(program: str, folder: pathlib.Path, words: list[str]) -> str:
    done = subprocess.run([program, "check", *words], cwd=folder,
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"check {shlex.join(words)} ended with "
                         f"{done.returncode}:\n{done.stderr}")
    return done.stdout


def said(program: str, kind: str, is_repaired: bool) -> tuple[str, str]:
    """What check says of that form, and what its `again:` lines do not show."""
    with tempfile.TemporaryDirectory(prefix="findings-") as name:
        folder = pathlib.Path(name)
        (folder / f"{kind}.c").write_text(form(example(kind), is_repaired))
        output = run_check(program, folder, [f"{kind}.c"])
        return output, "" if is_repaired else again_trouble(
            program, folder, kind, output)


def entries(output: str) -> list[str]:
    """Findings and notes, each with its lines."""
    return re.findall(r"^  (?! )(?:.+\n)(?:    .+\n)*", output, re.M)


def kind_of(entry: str) -> str:
    return entry.strip().removeprefix("note ").split(":", 1)[0]


def shown(kind: str, output: str) -> str:
    """The entries of that kind; empty where there is none."""
    return "".join(e for e in entries(output) if kind_of(e) == kind)


def finding_of(kind: str, entry: str) -> str:
    """The entry without its `again:` line, and without what is chance."""
    return comparable(kind, re.sub(r"(?m)^    again: .*\n", "", entry))


def again_trouble(program: str, folder: pathlib.Path, kind: str,
                  output: str) -> str:
    """The first `again:` line that is missing or shows another finding."""
    for entry in entries(output):
        line = re.search(r"(?m)^    again: opgraft check (.*)$", entry)
        if (line is None) != (kind_of(entry) in OF_ALL_CALLS):
            return f"expected again: for all but {OF_ALL_CALLS}:\n{entry}"
        if line is None:
            continue
        now = run_check(program, folder, shlex.split(line[1]))
        wanted = finding_of(kind_of(entry), entry)
        if wanted not in [finding_of(kind_of(e), e) for e in entries(now)]:
            return f"its again: line shows another finding:\n{entry}{now}"
    return ""


def trouble_of(kind: str, broken: str, repaired: str) -> str:
    """What is not as it should be; empty where all is."""
    if not shown(kind, broken):
        return f"the broken example does not show {kind}:\n{broken}"
    wrong = [e for e in entries(repaired)
             if not e.startswith("  note ") or kind_of(e) == kind]
    if wrong:
        return f"of the repaired example check says:\n{''.join(wrong)}"
    return ""


def section(kind: str, output: str) -> str:
    source = example(kind)
    entry = shown(kind, output).rstrip("\n")
    is_note = entry.startswith("  note ")
    return (f"\n## {kind}\n\n{'A note. ' if is_note else ''}{head_of(source)} "
            f"([{kind}.c](../tests/findings/{kind}.c))\n\n"
            f"```\n{entry}\n```\n\n```diff\n{repair(source)}\n```\n")


def comparable(kind: str, text: str) -> str:
    """The section without what is chance."""
    if kind not in BY_CHANCE:
        return text
    text = re.sub(r"(?m)^    (?:call|again): .*\n", "", text)
    return re.sub(r"-?\d[\d.]*(?:e[-+]?\d+)?(?:, ?\d+)*", "#", text)


# --- The page ----------------------------------------------------------------


def sections_of(page: str) -> dict[str, str]:
    parts = re.split(r"(?m)^(?=\n## \w+\n)", page)
    return {part.split("\n", 2)[1].removeprefix("## "): part
            for part in parts[1:]}


def make(program: str, kind: str) -> tuple[str, str]:
    """The kind's section, and what is wrong with its example."""
    broken, not_again = said(program, kind, is_repaired=False)
    repaired, _ = said(program, kind, is_repaired=True)
    return (section(kind, broken),
            trouble_of(kind, broken, repaired) or not_again)


def write(made: dict[str, str]) -> None:
    now = sections_of(PAGE.read_text()) if PAGE.exists() else {}
    new = {**now, **{kind: text for kind, text in made.items()
                     if kind not in now
                     or comparable(kind, now[kind]) != comparable(kind, text)}}
    PAGE.write_text(HEAD + table(new)
                    + "".join(new[k] for k in kinds() if k in new))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--opgraft", default=str(ROOT / "build/bin/opgraft"))
    options = parser.parse_args()
    program = shutil.which(options.opgraft)
    if program is None:
        parser.error(f"{options.opgraft}: there is no such program")
    chosen = options.kinds or list(kinds())
    with ThreadPoolExecutor(options.jobs) as pool:
        made = dict(zip(chosen, pool.map(lambda k: make(program, k), chosen)))
    failed = False
    for kind, (_, trouble) in made.items():
        failed |= bool(trouble)
        if trouble:
            print(f"{kind}: {trouble}")
    if not options.check:
        write({kind: text for kind, (text, _) in made.items()})
        return int(failed)
    now = sections_of(PAGE.read_text())
    if not PAGE.read_text().startswith(HEAD + table(now) + "\n##"):
        failed = True
        print("docs/findings.md: its table differs; run tools/findings.py")
    for kind, (text, _) in made.items():
        if comparable(kind, now.get(kind, "")) != comparable(kind, text):
            failed = True
            print(f"docs/findings.md: {kind} differs; run tools/findings.py")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which test or assertion holds each contract of a header.

    tools/contracts.py           lists contracts, each with what holds it
    tools/contracts.py --check   fails where one has nothing that holds it

A contract is a sentence of a header's comment that says what must or must
never be, how long something stays, or whose it is. tools/contracts.txt names
for each, by words that only this sentence of the header has, a test (its file
and name) or an assertion (its file and words of its line). A line of the table
that fits no sentence, and a test or assertion that is gone, fail too.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from dataclasses import dataclass

import comments

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "contracts.txt"
FOLDERS = ("include", "src", "hosts", "cli")
SIGN = re.compile(r"\b([Mm]ust|[Nn]ever|outlives?|lives until|stays?( there)? until"
                  r"|stays? as it is|valid until|may be gone|belongs to one thread"
                  r"|(is|are) the (caller|plan|graph)'s|the caller's (to|until)"
                  r"|[Tt]he caller owns)\b")
RULER = re.compile(r"-{3,} [^-]+ -{3,} ")
SENTENCE = re.compile(r"(?<=[.;!?])\s+")
TEST = {".c": r"\bTEST\({}\)", ".py": r"\bdef {}\(", ".txt": r"{}",
        ".golden": r"(?m)^{}$"}


@dataclass
class Proof:
    line: int
    header: str
    words: str
    file: str
    name: str


def contracts() -> dict[str, list[str]]:
    """By header, its sentences that are contracts."""
    found: dict[str, list[str]] = {}
    for path in comments.files(FOLDERS):
        if path.suffix != ".h":
            continue
        said = [sentence for _, text in comments.comments(path)
                for sentence in SENTENCE.split(RULER.sub("", text))
                if SIGN.search(sentence)]
        if said:
            found[str(path.relative_to(ROOT))] = said
    return found


def table() -> list[Proof]:
    proofs = []
    header = ""
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            header = line.strip()
            continue
        words, colon, proof = line.strip().rpartition(": ")
        file, space, name = proof.partition(" ")
        if not (header and colon and space):
            raise SystemExit(f"{TABLE.name}:{number}: expected "
                             f"'  WORDS: FILE NAME' below a header's path")
        proofs.append(Proof(number, header, words, file, name))
    return proofs


def holds(proof: Proof) -> bool:
    """Whether the test or the assertion is there."""
    path = ROOT / proof.file
    if not path.is_file():
        return False
    text = path.read_text()
    if proof.file.startswith("tests/"):
        return bool(re.search(TEST[path.suffix].format(re.escape(proof.name)),
                              text))
    return any("assert(" in line and proof.name in line
               for line in text.splitlines())


def problems(found: dict[str, list[str]], proofs: list[Proof]) -> list[str]:
    wrong = []
    for proof in proofs:
        place = f"tools/{TABLE.name}:{proof.line}"
        fits = [said for said in found.get(proof.header, [])
                if proof.words in said]
        if len(fits) != 1:
            wrong.append(f"{place}: '{proof.words}' fits {len(fits)} contracts "
                         f"of {proof.header}, expected 1")
        if not holds(proof):
            wrong.append(f"{place}: {proof.file} has no test or assertion "
                         f"'{proof.name}'")
    for header, sentences in found.items():
        known = [p.words for p in proofs if p.header == header]
        wrong += [f"{header}: nothing holds '{said}'; name a test or an "
                  f"assertion in tools/{TABLE.name}"
                  for said in sentences
                  if not any(words in said for words in known)]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found, proofs = contracts(), table()
    if options.check:
        wrong = problems(found, proofs)
        print("\n".join(wrong + [f"{sum(map(len, found.values()))} contracts, "
                                 f"{len(wrong)} problems"]))
        return 1 if wrong else 0
    for header, sentences in found.items():
        print(header)
        for said in sentences:
            print(f"  {said}")
            for proof in proofs:
                if proof.header == header and proof.words in said:
                    print(f"    {proof.file} {proof.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

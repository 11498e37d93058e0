# SPDX-License-Identifier: Apache-2.0
"""Drives a fuzzer of a reader that is Python: mutates inputs, and wants each to
be read or refused with an error of the reader's own.

    NAME.py [--seconds N] [--seed N] CORPUS_FOLDER
    NAME.py FILE...             runs just these inputs

As driver.c does: the corpus is the folder's files, `dict` has a token a line,
seconds are the processor's, and an input that ends otherwise, or takes
INPUT_SECONDS, is left in ./crash-NAME. What is read is kept and mutated on.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import signal
import sys
import time
import traceback
from typing import Any, Callable

INPUT_SECONDS = 10  # of processor time
KEPT_MAX = 500
NUMBERS = [b"0", b"1", b"-1", b"64", b"255", b"65536", b"2147483648",
           b"9223372036854775807", b"-9223372036854775808",
           b"99999999999999999999", b"1e309"]

# Whether the input was read; raises for an error that is not the reader's own.
Run = Callable[[bytes], bool]
Mutate = Callable[[random.Random, bytes, list[bytes]], bytes]


class Stuck(BaseException):
    """No handler of the code under test may take it for an error of its own."""


def _stuck(*_: Any) -> None:
    raise Stuck(f"the input takes more than {INPUT_SECONDS} s")


def read_corpus(folder: pathlib.Path) -> tuple[list[bytes], list[bytes]]:
    """(inputs, tokens)"""
    files = sorted(p for p in folder.iterdir() if p.name != "dict")
    words = folder / "dict"
    return ([p.read_bytes() for p in files],
            words.read_bytes().splitlines() if words.exists() else [])


def bytes_mutated(draw: random.Random, text: bytes, tokens: list[bytes]
                  ) -> bytes:
    """Up to six changes of bytes, parts, numbers and tokens."""
    for _ in range(1 + draw.randrange(6)):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.randrange(32))
        kind = draw.randrange(6)
        if kind == 0 and text:
            text = text[:at] + bytes([draw.randrange(256)]) + text[at + 1:]
        elif kind == 1:
            text = text[:at] + text[end:]
        elif kind == 2:
            text = text[:at] + text[at:end] * draw.choice((2, 3, 400)) + text[end:]
        elif kind == 3:
            other = draw.randrange(len(text) + 1)
            text = text[:at] + text[other:other + 40] + text[at:]
        elif kind == 4:
            text = text[:at] + draw.choice(NUMBERS) + text[end:]
        elif tokens:
            text = text[:at] + draw.choice(tokens) + text[end:]
    return text[:1 << 16]


class Fuzzer:
    def __init__(self, name: str, run: Run, mutate: Mutate = bytes_mutated
                 ) -> None:
        self.name, self.run, self.mutate = name, run, mutate
        self.inputs = self.accepted = 0
        self.crash = pathlib.Path(f"crash-{name}")

    def one(self, text: bytes) -> bool:
        """Runs an input, which is on disk while it does: native code may end
        the process."""
        self.crash.write_bytes(text)
        self.inputs += 1
        signal.setitimer(signal.ITIMER_PROF, INPUT_SECONDS)
        try:
            is_read = self.run(text)
        except BaseException:
            signal.setitimer(signal.ITIMER_PROF, 0)
            traceback.print_exc()
            print(f"the input is in {self.crash}", flush=True)
            sys.exit(1)
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.crash.unlink()
        self.accepted += is_read
        return is_read

    def fuzz(self, folder: pathlib.Path, seconds: float, seed: int) -> None:
        draw = random.Random(seed)
        kept, tokens = read_corpus(folder)
        for text in kept:
            self.one(text)
        first = len(kept)
        end = time.process_time() + seconds
        while time.process_time() < end:
            text = self.mutate(draw, draw.choice(kept), tokens)
            if not self.one(text):
                continue
            if len(kept) < KEPT_MAX:
                kept.append(text)
            else:
                kept[draw.randrange(first, KEPT_MAX)] = text
        print(f"{self.name}: {self.inputs} inputs, {self.accepted} accepted, "
              f"{len(kept)} kept, seed corpus {folder}")

    def main(self) -> None:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--seconds", type=float, default=10)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("places", nargs="+", type=pathlib.Path)
        options = parser.parse_args()
        signal.signal(signal.SIGPROF, _stuck)
        if options.places[0].is_dir():
            self.fuzz(options.places[0], options.seconds, options.seed)
            return
        for place in options.places:
            self.one(place.read_bytes())
        print(f"{self.name}: {self.inputs} inputs ran")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples and writes docs/gallery.md, which shows what each prints.

    tools/gallery.py [--check] [NAME...]

With --check nothing is written: what the examples print is compared with the
page. Times are not shown, for docs/results has them, measured with care; of
tables of figures only the words are compared.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "gallery.md"
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?%?")
TIME = re.compile(r"\d[\d.]*(?= (?:ns|us|ms|s|tokens/s)\b)")
# What the shell draws tables with, and blanks: widths follow the figures.
FILLING = re.compile(r"[\s─━═│┃┏┓┗┛┡┩┳┻╇╈┬┴┼┤├└┘┌┐|-]+")
BLOCK = re.compile(r"^## (\w+)$.*?^```text\n(.*?)^```$", re.M | re.S)
NOTEBOOK = "first_operator.ipynb"


@dataclass(frozen=True)
class Example:
    name: str  # of its folder
    title: str
    about: str
    words: tuple[str, ...]  # run in its folder; {python}, {tools}
    only_words: bool = False  # figures differ from run to run
    times: str = r"$^"  # what is a time, though no unit stands behind it


LIST = (
    Example("demo", "Five scenes",
            "Of `make demo`: an opaque kernel in a full graph, ragged attention "
            "beside a loop, an operator in place, and a layer of your own "
            "trained in every mode. The fifth is like the next example.",
            ("{python}", "run.py", "opaque", "ragged", "in_place", "linear"),
            only_words=True,
            times=r"\d+(?= -> )|[\d.]+(?= times as fast)"),
    Example("doctor_scenes", "What splits a model",
            "Two scripts whose models break: an opaque kernel, and a loop that "
            "asks a tensor for numbers. `opgraft doctor` names the lines and "
            "proposes fixes; with `--apply` it tries them first.",
            ("{python}", "report.py")),
    Example("ragged_serving", "Requests of any lengths",
            "A small language model serves requests with continuous batches "
            "over a paged cache, eager and compiled.",
            ("{python}", "serve.py", "--smoke")),
    Example("zlib_rows", "A library that everybody has",
            "Two functions of zlib. One is adopted without a line of C, both "
            "become operators over rows by a short file.",
            ("{python}", "run.py"), only_words=True),
    Example("wheel_ops", "A wheel with operators",
            "The package is built, installed in a new environment, and used "
            "there. One wheel serves every Python and PyTorch, and an "
            "environment with JAX or ONNX Runtime alone.",
            ("{python}", "run.py")),
    Example("embed_graph", "A model in a C program",
            "`opgraft.export` writes a model; 90 lines of C open it and call it "
            "for two batch sizes, without Python.",
            ("{python}", "run.py"), only_words=True),
    Example("notebook", "A notebook",
            "The first operator, cell by cell. The file has what each cell "
            "shows; `tools/notebook.py` runs it again and compares.",
            ("{python}", "{tools}/notebook.py", NOTEBOOK)),
)


# --- Runs --------------------------------------------------------------------


def run(example: Example) -> str:
    """What it prints; ends this program where it fails."""
    given = {"python": sys.executable, "tools": str(ROOT / "tools")}
    words = [word.format(**given) for word in example.words]
    # One thread: threads that spin at barriers wait long on a busy machine.
    env = os.environ | {"COLUMNS": "110", "NO_COLOR": "1",
                        "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=EXAMPLES / example.name, env=env, text=True,
                          capture_output=True, timeout=900)
    if done.returncode != 0:
        raise SystemExit(f"{example.name} ended with status {done.returncode}\n"
                         f"{done.stdout}{done.stderr}")
    # Paths of the run are nobody else's.
    said = re.sub(r"/\S*/(?=[\w.]+\.(?:so|c|py)\b)", "", done.stdout)
    return without_times("\n".join(
        line.rstrip() for line in said.splitlines()) + "\n", example.times)


def without_times(text: str, times: str) -> str:
    """Three points stand for each, in columns of the same width."""
    def points(found: re.Match[str]) -> str:
        return "…".ljust(len(found[0]))
    return re.sub(times, points, TIME.sub("…", text))


def fixed(text: str, only_words: bool) -> str:
    """What of a text must be equal in every run."""
    if only_words:
        text = NUMBER.sub("(figure)", text)
    return FILLING.sub(" ", text).strip()


# --- The page ----------------------------------------------------------------


def section(example: Example, said: str) -> list[str]:
    command = " ".join(word.format(python="python", tools="../../tools")
                       for word in example.words)
    return [f"## {example.name}", "",
            f"**{example.title}.** {example.about} "
            f"In [examples/{example.name}](../examples/{example.name}):", "",
            "```text", *[f"$ {command}", *said.splitlines()], "```", ""]


def page(shown: dict[str, str]) -> str:
    out = ["# Gallery", "",
           "Each example runs in CI, and what it prints is compared with this "
           "page. Times are left out: those in docs/results are measured with care. `tools/gallery.py` writes it.",
           ""]
    for example in LIST:
        if example.name in shown:
            out += section(example, shown[example.name])
    return "\n".join(out)


def recorded() -> dict[str, str]:
    """What the page shows of each example, without the command."""
    return {name: text.partition("\n")[2]
            for name, text in BLOCK.findall(PAGE.read_text())}


def check(examples: list[Example]) -> int:
    old, stale = recorded(), 0
    for example in examples:
        begin = time.monotonic()
        now = run(example)
        is_same = (fixed(now, example.only_words)
                   == fixed(old.get(example.name, ""), example.only_words))
        print(f"{example.name}: {'as shown' if is_same else 'DIFFERS'}, "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        if not is_same:
            print(f"it prints\n{now}\nthe page shows\n"
                  f"{old.get(example.name, 'nothing')}")
        stale += not is_same
    print(f"{len(examples) - stale} passed, {stale} failed")
    return int(stale > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    known = {example.name: example for example in LIST}
    for name in options.names:
        if name not in known:
            raise SystemExit(f"{name}: expected one of {', '.join(known)}")
    examples = [known[n] for n in options.names] or list(LIST)
    if options.check:
        return check(examples)
    shown = recorded() if PAGE.exists() else {}
    for example in examples:
        print(example.name, flush=True)
        if example.name == "notebook":
            subprocess.run([sys.executable, ROOT / "tools" / "notebook.py",
                            EXAMPLES / "notebook" / NOTEBOOK, "--write"],
                           check=True)
        shown[example.name] = run(example)
        PAGE.write_text(page(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())

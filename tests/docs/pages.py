# SPDX-License-Identifier: Apache-2.0
"""Runs what stands in the fenced blocks of a page, in order.

A block says by its first line what it is: `c NAME` and `python NAME` are files
to write, `sh` commands that succeed, `sh fails` commands of which the last one
fails, `sh install` commands that the test's environment stands for. A `text`
block behind commands has their output, with … for anything.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.S | re.M)
COMMANDS_TIMEOUT_S = 600


@dataclass
class Block:
    language: str
    word: str  # a file's name, "install", "fails" or ""
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    return [Block(m[1], m[2] or "", m[3])
            for m in BLOCK.finditer(page.read_text())]


def matches(expected: str, found: str) -> bool:
    """Whether output is as the page has it; … stands for any characters."""
    parts = [re.escape(part) for part in expected.strip().split("…")]
    return re.fullmatch(".*?".join(parts), found.strip(), re.S) is not None


def run(commands: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """In a shell that ends at the first failure, with a home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    tools = pathlib.Path(sys.executable).parent
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home),
           "LANG": "C.UTF-8"}
    return subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=env,
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=COMMANDS_TIMEOUT_S)
